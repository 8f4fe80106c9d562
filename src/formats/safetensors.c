/* safetensors.c - the header of one file and the gathering of shards. See safetensors.h. */
#include "formats/safetensors.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "formats/name_index.h"

/* The format's own limit, which also bounds the memory the JSON can take. */
#define MAX_HEADER  100000000
#define MAX_TENSORS 1048576
#define MAX_SHARDS  4096

typedef struct shard {
    const char *path, *name; /* name: as the index has it, else NULL */
    qn_map map;              /* {0} for bytes that the caller keeps */
} shard;

struct qn_st {
    qn_arena arena;
    shard *shard;
    size_t n_shards, cap_shards, total_bytes;
    qn_st_tensor *tensor;
    size_t n_tensors, cap_tensors;
    qn_name_index names;
    const qn_json *metadata;
};

static const struct {
    const char *name;
    qn_layout layout;
} dtypes[] = {
    { "F64", QN_F64 },         { "F32", QN_F32 },         { "F16", QN_F16 },
    { "BF16", QN_BF16 },       { "I64", QN_I64 },         { "I32", QN_I32 },
    { "I16", QN_I16 },         { "I8", QN_I8 },           { "U64", QN_U64 },
    { "U32", QN_U32 },         { "U16", QN_U16 },         { "U8", QN_U8 },
    { "BOOL", QN_BOOL },       { "F8_E4M3", QN_F8_E4M3 }, { "F8_E5M2", QN_F8_E5M2 },
    { "F8_E8M0", QN_F8_E8M0 },
};

const char *qn_st_dtype(qn_layout l)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].layout == l)
            return dtypes[i].name;
    return NULL;
}

/* One file while it is read. */
typedef struct reader {
    qn_st *s;
    const char *path;
    const char *data; /* of the tensors */
    size_t data_bytes, file_bytes;
    qn_error *err;
} reader;

/* Messages name the file and the tensor, since a folder may have hundreds of each. */
static int bad_tensor(const reader *r, const char *name, const char *why)
{
    return qn_fail(r->err, QN_ERR_FORMAT, "%s: tensor '%.100s': %s", r->path, name, why);
}

/* A dtype we cannot hold is not an error of the file: the code says so. */
static int read_dtype(const reader *r, const qn_json *v, qn_st_tensor *t)
{
    const qn_json *dtype = qn_json_get(v, "dtype");
    if (!qn_json_is(dtype, QN_JSON_STR))
        return bad_tensor(r, t->name, "no dtype");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (qn_json_eq(dtype, dtypes[i].name)) {
            t->layout = (uint8_t)dtypes[i].layout;
            return QN_OK;
        }
    return qn_fail(r->err, QN_ERR_UNSUPPORTED, "%s: tensor '%.100s': unknown dtype '%.20s'",
                   r->path, t->name, dtype->s);
}

/* The shape, with a bound on the product of any of its dimensions, for those who multiply them later. */
static int read_shape(const reader *r, const qn_json *v, qn_st_tensor *t, int64_t *elems)
{
    const qn_json *shape = qn_json_get(v, "shape");
    if (!qn_json_is(shape, QN_JSON_ARRAY) || shape->n > QN_ST_MAX_DIMS)
        return bad_tensor(r, t->name, "no shape of up to 8 dimensions");
    int64_t bound =
        1; /* the product without zeros, so that no later product of some dimensions overflows */
    *elems = 1;
    t->n_dims = (uint8_t)shape->n;
    for (uint32_t i = 0; i < shape->n; i++) {
        const qn_json *d = &shape->items[i];
        if (!qn_json_is(d, QN_JSON_INT) || d->i < 0)
            return bad_tensor(r, t->name, "a dimension is no whole number");
        if (__builtin_mul_overflow(bound, d->i ? d->i : 1, &bound))
            return bad_tensor(r, t->name, "its dimensions overflow");
        *elems *= d->i;
        t->dim[i] = d->i;
    }
    return QN_OK;
}

/* Where the data lie. The size is computed from shape and dtype first, and the stated range must equal it: then
 * only one number needs to be held against the file. */
static int read_range(const reader *r, const qn_json *v, qn_st_tensor *t, int64_t elems)
{
    const qn_json *range = qn_json_get(v, "data_offsets");
    const qn_json *b = qn_json_at(range, 0), *e = qn_json_at(range, 1);
    bool pair = qn_json_is(range, QN_JSON_ARRAY) && range->n == 2;
    if (!pair || !qn_json_is(b, QN_JSON_INT) || !qn_json_is(e, QN_JSON_INT) || b->i < 0 ||
        b->i > e->i)
        return bad_tensor(r, t->name, "data_offsets are no range");
    size_t bytes, begin = (size_t)b->i, end = (size_t)e->i;
    if (!qn_layout_bytes((qn_layout)t->layout, elems, &bytes))
        return bad_tensor(r, t->name, "its size overflows");
    if (end - begin != bytes)
        return qn_fail(r->err, QN_ERR_FORMAT,
                       "%s: tensor '%.100s': shape and dtype need %zu bytes, data_offsets span %zu",
                       r->path, t->name, bytes, end - begin);
    if (end > r->data_bytes) {
        size_t head = r->file_bytes - r->data_bytes;
        return qn_fail(r->err, QN_ERR_FORMAT,
                       "%s: tensor '%.100s' ends at byte %zu, the file has %zu: it is cut", r->path,
                       t->name, end > SIZE_MAX - head ? SIZE_MAX : end + head, r->file_bytes);
    }
    t->data = r->data + begin;
    t->bytes = bytes;
    return QN_OK;
}

/* One member of the header. */
static int read_entry(const reader *r, const qn_json *v)
{
    qn_st *s = r->s;
    qn_st_tensor t = { .name = v->key, .file = (uint32_t)(s->n_shards - 1) };
    if (v->key_len == 0 || strlen(v->key) != v->key_len)
        return bad_tensor(r, v->key, "an empty name or one with a NUL");
    if (!qn_json_is(v, QN_JSON_OBJECT))
        return bad_tensor(r, t.name, "its entry is no object");
    int64_t elems = 0;
    int rc = read_dtype(r, v, &t);
    if (rc == QN_OK)
        rc = read_shape(r, v, &t, &elems);
    if (rc == QN_OK)
        rc = read_range(r, v, &t, elems);
    if (rc != QN_OK)
        return rc;
    if (s->n_tensors >= MAX_TENSORS)
        return qn_fail(r->err, QN_ERR_LIMIT, "%s: more than %d tensors", r->path, MAX_TENSORS);
    QN_GROW(s->tensor, s->n_tensors, s->cap_tensors);
    s->tensor[s->n_tensors++] = t;
    return QN_OK;
}

/* By address, and at one address empty tensors before the one that has bytes there: they overlap nothing. */
static int by_data(const void *a, const void *b)
{
    const qn_st_tensor *x = *(const qn_st_tensor *const *)a, *y = *(const qn_st_tensor *const *)b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty ones first */
}

/* Ranges are checked against each other so that no tensor can be changed through another. Gaps are allowed: they
 * harm nobody, and some writers align. */
static int check_overlap(const reader *r, const qn_st_tensor *t, size_t n)
{
    const qn_st_tensor **sorted = qn_alloc_n(n, sizeof *sorted);
    int rc = QN_OK;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &t[i];
    qsort(sorted, n, sizeof *sorted, by_data);
    for (size_t i = 1; i < n && rc == QN_OK; i++)
        if ((const char *)sorted[i - 1]->data + sorted[i - 1]->bytes >
            (const char *)sorted[i]->data)
            rc = qn_fail(r->err, QN_ERR_FORMAT, "%s: tensor '%.100s' overlaps '%.100s'", r->path,
                         sorted[i]->name, sorted[i - 1]->name);
    qn_free(sorted);
    return rc;
}

/* Reads the bytes of one file as the newest shard. */
static int read_file(qn_st *s, const char *path, const char *data, size_t n, qn_error *err)
{
    if (n < 8)
        return qn_fail(err, QN_ERR_FORMAT,
                       "%s: header: the file has %zu bytes, at least 8 are needed", path, n);
    uint64_t head = 0;
    for (int i = 7; i >= 0; i--)
        head = head << 8 | (uint8_t)data[i];
    if (head > MAX_HEADER || head > n - 8)
        return qn_fail(err, QN_ERR_FORMAT, "%s: header: its length %llu exceeds %s %zu", path,
                       (unsigned long long)head,
                       head > MAX_HEADER ? "the limit" : "the bytes left,",
                       head > MAX_HEADER ? (size_t)MAX_HEADER : n - 8);
    const qn_json *root = qn_json_parse(&s->arena, data + 8, (size_t)head, err);
    if (!root)
        return qn_fail_in(err, QN_ERR_FORMAT, "%s: header", path);
    if (!qn_json_is(root, QN_JSON_OBJECT))
        return qn_fail(err, QN_ERR_FORMAT, "%s: header: no JSON object", path);
    reader r = { .s = s,
                 .path = path,
                 .data = data + 8 + head,
                 .data_bytes = n - 8 - (size_t)head,
                 .file_bytes = n,
                 .err = err };
    size_t first = s->n_tensors;
    s->total_bytes += n;
    int rc = QN_OK;
    for (uint32_t i = 0; i < root->n && rc == QN_OK; i++) {
        const qn_json *v = &root->items[i];
        if (strcmp(v->key, "__metadata__") != 0)
            rc = read_entry(&r, v);
        else if (s->n_shards == 1)
            s->metadata = v;
    }
    if (rc == QN_OK && s->n_tensors > first)
        rc = check_overlap(&r, s->tensor + first, s->n_tensors - first);
    return rc;
}

/* The pointer is good until the next shard is added. */
static shard *add_shard(qn_st *s, const char *path)
{
    QN_GROW(s->shard, s->n_shards, s->cap_shards);
    s->shard[s->n_shards] = (shard){ .path = qn_arena_strdup(&s->arena, path) };
    return &s->shard[s->n_shards++];
}

/* Maps and reads one file. It counts as a shard even when that fails, so that the close unmaps it. */
static int open_shard(qn_st *s, const char *path, qn_error *err)
{
    shard *f = add_shard(s, path);
    int rc = qn_map_open(&f->map, f->path, err);
    return rc == QN_OK ? read_file(s, f->path, f->map.data, f->map.size, err) : rc;
}

/* The look-up table over all shards; a name may be in one of them only. */
static int index_names(qn_st *s, const char *path, qn_error *err)
{
    const char **names = qn_alloc_n(s->n_tensors, sizeof *names);
    for (size_t i = 0; i < s->n_tensors; i++)
        names[i] = s->tensor[i].name;
    const char *twice = qn_name_index_build(&s->names, names, s->n_tensors);
    qn_free(names);
    return twice ? qn_fail(err, QN_ERR_FORMAT, "%s: tensor '%.100s' occurs twice", path, twice)
                 : QN_OK;
}

/* The folder that links may lead into: the model's own, or, in a hub cache (<repo>/snapshots/<revision>, whose
 * files are links to <repo>/blobs), the whole repository's. false when the folder has no real path. */
static bool link_root(const char *dir, char root[PATH_MAX])
{
    if (!realpath(dir, root))
        return false;
    char *last = strrchr(root, '/');
    if (last && last != root) {
        *last = '\0';
        char *up = strrchr(root, '/');
        if (up && up != root && strcmp(up, "/snapshots") == 0)
            *up = '\0';
        else
            *last = '/';
    }
    return true;
}

/* Opens the shard that an index names, which must lie inside the folder, links followed. NOT_FOUND, without a
 * message, when it is absent. */
static int open_named_shard(qn_st *s, const char *dir, const char *name, qn_error *err)
{
    char root[PATH_MAX], real[PATH_MAX];
    const char *path = qn_path_join(&s->arena, dir, name);
    if (!link_root(dir, root) || !realpath(path, real))
        return QN_ERR_NOT_FOUND;
    size_t n = strlen(root);
    if (strncmp(real, root, n) != 0 || (real[n] != '/' && strcmp(root, "/") != 0))
        return qn_fail(err, QN_ERR_FORMAT, "%s: a link that leaves the folder", path);
    int rc = open_shard(s, path, err);
    s->shard[s->n_shards - 1].name = name;
    return rc;
}

/* What an index calls total_size: data without headers. */
static size_t tensor_bytes(const qn_st *s)
{
    size_t sum = 0;
    for (size_t i = 0; i < s->n_tensors; i++)
        sum += s->tensor[i].bytes;
    return sum;
}

/* A shard is absent: says how many bytes the index promises and how many the other shards hold. */
static int missing_shard(qn_st *s, const char *dir, const char *name, const qn_json *index,
                         qn_error *err)
{
    int64_t total = qn_json_int(qn_json_path(index, "metadata.total_size"), -1);
    if (total < 0)
        return qn_fail(err, QN_ERR_NOT_FOUND, "%s: shard '%s' is missing", dir, name);
    return qn_fail(
        err, QN_ERR_NOT_FOUND,
        "%s: shard '%s' is missing: %lld bytes of tensors expected, %zu found in the other shards",
        dir, name, (long long)total, tensor_bytes(s));
}

/* Every tensor of the index must be in the shard it says. One that no index knows is named and kept: it counts
 * as any other and must be used or ignored. */
static int check_index(const qn_st *s, const char *dir, const qn_json *map, qn_error *err)
{
    bool *listed = qn_alloc_n(s->n_tensors, sizeof *listed);
    int rc = QN_OK;
    for (uint32_t i = 0; i < map->n && rc == QN_OK; i++) {
        int64_t at = qn_name_index_find(&s->names, map->items[i].key);
        if (at < 0 || strcmp(s->shard[s->tensor[at].file].name, map->items[i].s) != 0)
            rc = qn_fail(err, QN_ERR_FORMAT,
                         "%s: tensor '%.100s' is not in '%.100s', where the index has it", dir,
                         map->items[i].key, map->items[i].s);
        else
            listed[at] = true;
    }
    for (size_t i = 0; i < s->n_tensors && rc == QN_OK; i++)
        if (!listed[i]) {
            qn_log(QN_LOG_WARN, "%s: tensor '%.100s' is not in the index",
                   s->shard[s->tensor[i].file].path, s->tensor[i].name);
            break;
        }
    qn_free(listed);
    return rc;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files of a weight_map, sorted, so that the order of loading does not depend on the map's. Free it. */
static const char **shard_names(const qn_json *map, const char *path, qn_error *err)
{
    const char **file = qn_alloc_n(map->n, sizeof *file);
    for (uint32_t i = 0; i < map->n; i++) {
        const qn_json *v = &map->items[i];
        if (!qn_json_is(v, QN_JSON_STR) || !qn_is_safe_name(v->s, v->n)) {
            qn_fail(
                err, QN_ERR_FORMAT,
                "%s: weight_map: the shard of '%.60s' has a name that leaves the folder: '%.60s'",
                path, v->key, qn_json_str(v, "(no string)"));
            qn_free(file);
            return NULL;
        }
        file[i] = v->s;
    }
    qsort(file, map->n, sizeof *file, by_text);
    return file;
}

/* Opens every shard there is before it says which is missing, so that the byte counts are whole. */
static int open_index(qn_st *s, const char *dir, const char *path, qn_error *err)
{
    const qn_json *index = qn_json_parse_file(&s->arena, path, err);
    if (!index)
        return QN_ERR_FORMAT;
    const qn_json *map = qn_json_get(index, "weight_map");
    if (!qn_json_is(map, QN_JSON_OBJECT) || map->n == 0)
        return qn_fail(err, QN_ERR_FORMAT, "%s: weight_map: no object with entries", path);
    const char **file = shard_names(map, path, err), *missing = NULL;
    if (!file)
        return QN_ERR_FORMAT;
    int rc = QN_OK;
    for (uint32_t i = 0; i < map->n && rc == QN_OK; i++) {
        if (i && strcmp(file[i], file[i - 1]) == 0)
            continue;
        if (s->n_shards >= MAX_SHARDS) {
            rc = qn_fail(err, QN_ERR_LIMIT, "%s: more than %d shards", path, MAX_SHARDS);
            break;
        }
        rc = open_named_shard(s, dir, file[i], err);
        if (rc == QN_ERR_NOT_FOUND) {
            missing = missing ? missing : file[i];
            rc = QN_OK;
        }
    }
    if (rc == QN_OK && missing)
        rc = missing_shard(s, dir, missing, index, err);
    if (rc == QN_OK)
        rc = index_names(s, dir, err);
    if (rc == QN_OK)
        rc = check_index(s, dir, map, err);
    qn_free(file);
    return rc;
}

/* Hidden files are half-made downloads of other programs. */
static bool is_shard_name(const char *name, const char *prefix)
{
    return name[0] != '.' && qn_starts_with(name, prefix) && qn_ends_with(name, ".safetensors");
}

/* Names in `dir` that begin with `prefix` and end in .safetensors, sorted; *n of them, in s's arena. */
static const char **list_shards(qn_st *s, const char *dir, const char *prefix, size_t *n)
{
    const char **name = NULL;
    size_t cap = 0;
    *n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) && *n < MAX_SHARDS;)
        if (is_shard_name(e->d_name, prefix)) {
            QN_GROW(name, *n, cap);
            name[(*n)++] = qn_arena_strdup(&s->arena, e->d_name);
        }
    if (d)
        closedir(d);
    if (*n)
        qsort(name, *n, sizeof *name, by_text);
    return name;
}

/* Names that number themselves ("model-00002-of-00005.safetensors") tell when one of them is absent. */
static int check_numbering(const char *dir, const char *const *name, size_t n, qn_error *err)
{
    int no, count = 0;
    for (size_t i = 0; i < n; i++) {
        const char *dash = strstr(name[i], "-of-");
        if (!dash || dash - name[i] < 6 || sscanf(dash - 6, "-%5d-of-%5d.", &no, &count) != 2)
            return QN_OK;
        if (no != (int)i + 1)
            return qn_fail(err, QN_ERR_NOT_FOUND,
                           "%s: shard %zu of %d is missing: '%s' follows %zu of them", dir, i + 1,
                           count, name[i], i);
    }
    if ((size_t)count > n)
        return qn_fail(err, QN_ERR_NOT_FOUND, "%s: shard %zu of %d is missing", dir, n + 1, count);
    return QN_OK;
}

/* No index: everything called model*, or a single file of any name (adapters and old exports are called so). */
static int open_listed(qn_st *s, const char *dir, qn_error *err)
{
    size_t n;
    const char **name = list_shards(s, dir, "model", &n);
    if (n == 0) {
        qn_free(name);
        name = list_shards(s, dir, "", &n);
    }
    int rc = QN_OK;
    if (n == 0)
        rc = qn_fail(err, QN_ERR_NOT_FOUND, "%s: no .safetensors file", dir);
    else if (!qn_starts_with(name[0], "model") && n > 1)
        rc = qn_fail(err, QN_ERR_FORMAT, "%s: several .safetensors files and no index: '%s', '%s'",
                     dir, name[0], name[1]);
    else
        rc = check_numbering(dir, name, n, err);
    for (size_t i = 0; i < n && rc == QN_OK; i++)
        rc = open_shard(s, qn_path_join(&s->arena, dir, name[i]), err);
    qn_free(name);
    return rc == QN_OK ? index_names(s, dir, err) : rc;
}

/* An index decides when there is one, as it does for the published loaders. */
static int open_path(qn_st *s, const char *path, qn_error *err)
{
    if (!qn_is_dir(path)) {
        int rc = open_shard(s, path, err);
        return rc == QN_OK ? index_names(s, path, err) : rc;
    }
    const char *index = qn_path_join(&s->arena, path, "model.safetensors.index.json");
    const char *single = qn_path_join(&s->arena, path, "model.safetensors");
    if (qn_is_file(index))
        return open_index(s, path, index, err);
    if (qn_is_file(single))
        return open_path(s, single, err);
    return open_listed(s, path, err);
}

int qn_st_open(qn_st **out, const char *path, qn_error *err)
{
    *out = NULL;
    qn_st *s = qn_alloc(sizeof *s);
    int rc = open_path(s, path, err);
    if (rc != QN_OK) {
        qn_st_close(s);
        return rc;
    }
    *out = s;
    return QN_OK;
}

int qn_st_parse(qn_st **out, const void *data, size_t n, const char *name, qn_error *err)
{
    *out = NULL;
    qn_st *s = qn_alloc(sizeof *s);
    const char *path = add_shard(s, name)->path;
    int rc = read_file(s, path, data, n, err);
    if (rc == QN_OK)
        rc = index_names(s, path, err);
    if (rc != QN_OK) {
        qn_st_close(s);
        return rc;
    }
    *out = s;
    return QN_OK;
}

void qn_st_close(qn_st *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_shards; i++)
        if (s->shard[i].map.data)
            qn_map_close(&s->shard[i].map);
    qn_name_index_free(&s->names);
    qn_free(s->shard);
    qn_free(s->tensor);
    qn_arena_free(&s->arena);
    qn_free(s);
}

size_t qn_st_count(const qn_st *s)
{
    return s->n_tensors;
}

const qn_st_tensor *qn_st_at(const qn_st *s, size_t i)
{
    return i < s->n_tensors ? &s->tensor[i] : NULL;
}

const qn_st_tensor *qn_st_find(const qn_st *s, const char *name)
{
    int64_t i = qn_name_index_find(&s->names, name);
    return i < 0 ? NULL : &s->tensor[i];
}

size_t qn_st_n_files(const qn_st *s)
{
    return s->n_shards;
}

const char *qn_st_file(const qn_st *s, size_t i)
{
    return i < s->n_shards ? s->shard[i].path : NULL;
}

size_t qn_st_bytes(const qn_st *s)
{
    return s->total_bytes;
}

const char *qn_st_metadata(const qn_st *s, const char *key)
{
    return qn_json_str(qn_json_get(s->metadata, key), NULL);
}
