/* gguf.c - the GGUF container: header, metadata, tensor table, split files. See gguf.h.
 *
 * A part is read by a cursor that never passes the end: every read asks first. Counts are compared with the
 * fewest bytes so many items could take, so a small file cannot ask for much memory. All checks are made
 * here, once; gguf_value.c and everything after rely on them. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/gguf_internal.h"
#include "formats/name_index.h"

struct qn_gguf {
    qn_arena arena; /* keys, names, offset tables, the arrays below */
    qn_map *map;
    size_t n_files, total_bytes;
    uint32_t version;
    qn_gguf_value *value;
    qn_gguf_tensor *tensor;
    size_t n_values, n_tensors, cap_tensors;
    qn_name_index keys, names;
};

/* One file while it is read. Functions take `what`, the field, for messages. */
typedef struct cursor {
    qn_gguf *g;
    const uint8_t *start, *p, *end;
    const char *path;
    qn_error *err;
    qn_gguf_value *value;
    size_t n_values;
} cursor;

/* Bytes between the cursor and the end of the file. */
static size_t left(const cursor *c)
{
    return (size_t)(c->end - c->p);
}

/* The one bounds check: everything that moves the cursor has asked here first. `bytes` is as wide as the file
 * can state it, so that a length near 2^64 is compared before it is narrowed. */
static int need(cursor *c, uint64_t bytes, const char *what)
{
    if (bytes <= left(c))
        return QN_OK;
    return qn_fail(c->err, QN_ERR_FORMAT, "%s: %s: cut at byte %zu: needs %llu bytes, %zu are left",
                   c->path, what, (size_t)(c->p - c->start), (unsigned long long)bytes, left(c));
}

/* Little-endian, byte by byte: nothing in the file is aligned. */
static uint64_t take(cursor *c, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | c->p[i];
    c->p += bytes;
    return v;
}

static int read_u32(cursor *c, const char *what, uint32_t *out)
{
    int rc = need(c, 4, what);
    if (rc == QN_OK)
        *out = (uint32_t)take(c, 4);
    return rc;
}

static int read_u64(cursor *c, const char *what, uint64_t *out)
{
    int rc = need(c, 8, what);
    if (rc == QN_OK)
        *out = take(c, 8);
    return rc;
}

/* A key or a tensor's name, copied so that it has a NUL. */
static int read_name(cursor *c, const char *what, const char **out)
{
    uint64_t n = 0;
    int rc = read_u64(c, what, &n);
    if (rc == QN_OK)
        rc = need(c, n, what);
    if (rc != QN_OK)
        return rc;
    if (n == 0 || n > QN_GGUF_MAX_NAME || memchr(c->p, '\0', (size_t)n))
        return qn_fail(c->err, QN_ERR_FORMAT,
                       "%s: %s: a name of %llu bytes or with a NUL is not allowed", c->path, what,
                       (unsigned long long)n);
    *out = qn_arena_strndup(&c->g->arena, (const char *)c->p, (size_t)n);
    c->p += n;
    return QN_OK;
}

static int skip_item(cursor *c, uint32_t type, const char *what, int depth);

/* The items of an array after its header. With `offset`, notes where each begins. */
static int skip_items(cursor *c, uint32_t type, uint64_t n, uint32_t *offset, const char *what,
                      int depth)
{
    int fixed = qn_gguf_type_bytes(type);
    size_t bytes;
    if (fixed) {
        if (!qn_mul_size((size_t)n, (size_t)fixed, &bytes))
            bytes = SIZE_MAX;
        int rc = need(c, bytes, what);
        if (rc == QN_OK)
            c->p += bytes;
        return rc;
    }
    const uint8_t *base = c->p;
    for (uint64_t i = 0; i < n; i++) {
        if (c->p - base > UINT32_MAX)
            return qn_fail(c->err, QN_ERR_LIMIT, "%s: %s: an array larger than 4 GiB", c->path,
                           what);
        if (offset)
            offset[i] = (uint32_t)(c->p - base);
        int rc = skip_item(c, type, what, depth);
        if (rc != QN_OK)
            return rc;
    }
    return QN_OK;
}

/* Type and count of an array. The count is held against the bytes left here, before anyone allocates by it. */
static int read_array_head(cursor *c, const char *what, uint32_t *type, uint64_t *n)
{
    int rc = read_u32(c, what, type);
    if (rc == QN_OK)
        rc = read_u64(c, what, n);
    if (rc != QN_OK)
        return rc;
    if (*type >= QN_GGUF_N_TYPES)
        return qn_fail(c->err, QN_ERR_FORMAT, "%s: %s: unknown item type %u", c->path, what, *type);
    /* The fewest bytes an item can take: an empty string 8, an empty array 12. */
    int fixed = qn_gguf_type_bytes(*type);
    uint64_t least = fixed ? (uint64_t)fixed : *type == QN_GGUF_STR ? 8 : 12;
    if (*n > left(c) / least)
        return qn_fail(c->err, QN_ERR_FORMAT,
                       "%s: %s: an array of %llu items does not fit into %zu bytes", c->path, what,
                       (unsigned long long)*n, left(c));
    return QN_OK;
}

/* Passes over one value without looking inside, which checks that all of it is there. Nesting costs stack, so
 * it is limited. */
static int skip_item(cursor *c, uint32_t type, const char *what, int depth)
{
    uint64_t n = 0;
    uint32_t elem;
    int rc;
    if (type == QN_GGUF_ARRAY) {
        if (depth >= QN_GGUF_MAX_DEPTH)
            return qn_fail(c->err, QN_ERR_LIMIT, "%s: %s: arrays nested more than %d deep", c->path,
                           what, QN_GGUF_MAX_DEPTH);
        rc = read_array_head(c, what, &elem, &n);
        return rc == QN_OK ? skip_items(c, elem, n, NULL, what, depth + 1) : rc;
    }
    if (type == QN_GGUF_STR)
        rc = read_u64(c, what, &n);
    else
        n = (uint64_t)qn_gguf_type_bytes(type), rc = QN_OK;
    if (rc == QN_OK)
        rc = need(c, n, what);
    if (rc == QN_OK)
        c->p += n;
    return rc;
}

/* One metadata entry: key, type, value. Arrays of strings or arrays get a table of offsets, so that later access
 * to item i is one step and not a walk. */
static int read_value(cursor *c, size_t index, qn_gguf_value *v)
{
    char what[64];
    uint32_t type, elem;
    snprintf(what, sizeof what, "metadata key %zu", index);
    int rc = read_name(c, what, &v->key);
    if (rc != QN_OK)
        return rc;
    char field[100];
    snprintf(field, sizeof field, "key '%.80s'", v->key);
    rc = read_u32(c, field, &type);
    if (rc != QN_OK)
        return rc;
    if (type >= QN_GGUF_N_TYPES)
        return qn_fail(c->err, QN_ERR_FORMAT, "%s: %s: unknown value type %u", c->path, field,
                       type);
    v->type = (uint8_t)type;
    v->data = c->p;
    if (type != QN_GGUF_ARRAY)
        return skip_item(c, type, field, 0);
    rc = read_array_head(c, field, &elem, &v->n);
    if (rc != QN_OK)
        return rc;
    v->elem_type = (uint8_t)elem;
    v->data = c->p;
    uint32_t *offset = NULL;
    if (!qn_gguf_type_bytes(elem)) /* at most half of the bytes that the items take */
        v->offset = offset = qn_arena_alloc_n(&c->g->arena, (size_t)v->n, sizeof *offset);
    return skip_items(c, elem, v->n, offset, field, 1);
}

/* Dimensions come fastest first; they are turned round here, and nowhere else. */
static int read_dims(cursor *c, const char *field, qn_gguf_tensor *t)
{
    uint32_t n_dims;
    int rc = read_u32(c, field, &n_dims);
    if (rc != QN_OK)
        return rc;
    if (n_dims < 1 || n_dims > 4)
        return qn_fail(c->err, QN_ERR_FORMAT, "%s: %s: %u dimensions, 1 to 4 are allowed", c->path,
                       field, n_dims);
    t->n_dims = (uint8_t)n_dims;
    for (int i = (int)n_dims - 1; i >= 0; i--) {
        uint64_t d = 0;
        rc = read_u64(c, field, &d);
        if (rc != QN_OK)
            return rc;
        if (d > INT64_MAX)
            return qn_fail(c->err, QN_ERR_FORMAT, "%s: %s: a dimension of %llu", c->path, field,
                           (unsigned long long)d);
        t->dim[i] = (int64_t)d;
    }
    return QN_OK;
}

/* One entry of the tensor table; data is left as the offset that the file states. */
static int read_tensor(cursor *c, size_t index, qn_gguf_tensor *t, uint64_t *offset)
{
    char field[128];
    snprintf(field, sizeof field, "tensor %zu", index);
    int rc = read_name(c, field, &t->name);
    if (rc != QN_OK)
        return rc;
    snprintf(field, sizeof field, "tensor '%.100s'", t->name);
    uint32_t id = 0;
    rc = read_dims(c, field, t);
    if (rc == QN_OK)
        rc = read_u32(c, field, &id);
    if (rc == QN_OK)
        rc = read_u64(c, field, offset);
    if (rc != QN_OK)
        return rc;
    qn_layout layout;
    rc = qn_gguf_layout(id, &layout, field, c->err);
    if (rc != QN_OK)
        return qn_fail_in(c->err, rc, "%s", c->path);
    t->layout = (uint8_t)layout;
    /* The bound leaves zeros out, so that no later product of some dimensions overflows. */
    int64_t elems = 1, bound = 1;
    for (int i = 0; i < t->n_dims; i++) {
        if (__builtin_mul_overflow(bound, t->dim[i] ? t->dim[i] : 1, &bound))
            return qn_fail(c->err, QN_ERR_FORMAT, "%s: %s: its dimensions overflow", c->path,
                           field);
        elems *= t->dim[i];
    }
    const qn_layout_info *info = qn_layout_get(layout);
    if (t->dim[t->n_dims - 1] % info->block_elems != 0)
        return qn_fail(c->err, QN_ERR_FORMAT, "%s: %s: rows of %lld are no whole %s blocks of %d",
                       c->path, field, (long long)t->dim[t->n_dims - 1], info->name,
                       info->block_elems);
    if (!qn_layout_bytes(layout, elems, &t->bytes))
        return qn_fail(c->err, QN_ERR_FORMAT, "%s: %s: its size overflows", c->path, field);
    return QN_OK;
}

/* By address, and at one address empty tensors before the one that has bytes there: they overlap nothing. */
static int by_data(const void *a, const void *b)
{
    const qn_gguf_tensor *x = *(const qn_gguf_tensor *const *)a,
                         *y = *(const qn_gguf_tensor *const *)b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes; /* empty ones first */
}

/* Two tensors on the same bytes would be two names for one thing, which no writer makes: a sign of a forged or
 * broken table. Sorting keeps this from being quadratic in a count that the file chooses. */
static int check_overlap(cursor *c, qn_gguf_tensor *t, size_t n)
{
    const qn_gguf_tensor **sorted = qn_alloc_n(n, sizeof *sorted);
    int rc = QN_OK;
    for (size_t i = 0; i < n; i++)
        sorted[i] = &t[i];
    qsort(sorted, n, sizeof *sorted, by_data);
    for (size_t i = 1; i < n && rc == QN_OK; i++)
        if ((const char *)sorted[i - 1]->data + sorted[i - 1]->bytes >
            (const char *)sorted[i]->data)
            rc = qn_fail(c->err, QN_ERR_FORMAT, "%s: tensor '%.100s' overlaps '%.100s'", c->path,
                         sorted[i]->name, sorted[i - 1]->name);
    qn_free(sorted);
    return rc;
}

/* A key of this part. There are few, and this runs before the index over them exists. */
static int64_t part_int(const cursor *c, const char *key, int64_t fallback)
{
    int64_t v;
    for (size_t i = 0; i < c->n_values; i++)
        if (strcmp(c->value[i].key, key) == 0 && qn_gguf_value_int(&c->value[i], &v))
            return v;
    return fallback;
}

/* Turns offsets into pointers. The data section begins at the next aligned byte after the table. */
static int place_tensors(cursor *c, qn_gguf_tensor *t, size_t n, const uint64_t *offset)
{
    int64_t align = part_int(c, "general.alignment", QN_GGUF_ALIGN);
    if (align <= 0 || (align & (align - 1)) != 0 || align > 1 << 20)
        return qn_fail(c->err, QN_ERR_FORMAT,
                       "%s: key 'general.alignment': %lld is no power of two up to 2^20", c->path,
                       (long long)align);
    size_t size = (size_t)(c->end - c->start), head = (size_t)(c->p - c->start);
    size_t base = (head + (size_t)align - 1) & ~((size_t)align - 1);
    for (size_t i = 0; i < n; i++) {
        size_t begin, end;
        if (offset[i] % (uint64_t)align != 0)
            return qn_fail(c->err, QN_ERR_FORMAT,
                           "%s: tensor '%.100s': offset %llu is not a multiple of %lld", c->path,
                           t[i].name, (unsigned long long)offset[i], (long long)align);
        if (!qn_add_size(base, (size_t)offset[i], &begin) || !qn_add_size(begin, t[i].bytes, &end))
            begin = end = SIZE_MAX;
        if (end > size || begin > size)
            return qn_fail(c->err, QN_ERR_FORMAT,
                           "%s: tensor '%.100s' ends at byte %zu, the file has %zu", c->path,
                           t[i].name, end, size);
        t[i].data = c->start + begin;
    }
    return check_overlap(c, t, n);
}

/* Magic, version and the two counts. A big-endian file shows as a version whose low half is zero. */
static int read_header(cursor *c, uint64_t *n_tensors, uint64_t *n_values)
{
    if (left(c) < 8 || memcmp(c->p, "GGUF", 4) != 0)
        return qn_fail(c->err, QN_ERR_FORMAT, "%s: not a GGUF file", c->path);
    c->p += 4;
    uint32_t version = (uint32_t)take(c, 4);
    if (version != 2 && version != 3)
        return qn_fail(
            c->err, QN_ERR_UNSUPPORTED, "%s: %s%u; versions 2 and 3 can be read", c->path,
            version && (version & 0xffff) == 0 ? "a big-endian file, version " : "GGUF version ",
            version && (version & 0xffff) == 0 ? __builtin_bswap32(version) : version);
    c->g->version = version;
    int rc = read_u64(c, "tensor count", n_tensors);
    if (rc == QN_OK)
        rc = read_u64(c, "metadata count", n_values);
    if (rc != QN_OK)
        return rc;
    /* A tensor's entry takes at least 33 bytes, a key at least 14. */
    if (*n_tensors > QN_GGUF_MAX_TENSORS || *n_tensors > left(c) / 33)
        return qn_fail(c->err, QN_ERR_FORMAT, "%s: tensor count %llu does not fit into %zu bytes",
                       c->path, (unsigned long long)*n_tensors, left(c));
    if (*n_values > QN_GGUF_MAX_KEYS || *n_values > left(c) / 14)
        return qn_fail(c->err, QN_ERR_FORMAT, "%s: metadata count %llu does not fit into %zu bytes",
                       c->path, (unsigned long long)*n_values, left(c));
    return QN_OK;
}

/* One whole file: its values into c->value, its tensors behind those of the files before it. */
static int read_part(cursor *c)
{
    qn_gguf *g = c->g;
    uint64_t n_tensors = 0, n_values = 0;
    int rc = read_header(c, &n_tensors, &n_values);
    if (rc != QN_OK)
        return rc;
    c->value = qn_arena_alloc_n(&g->arena, (size_t)n_values, sizeof *c->value);
    for (uint64_t i = 0; i < n_values && rc == QN_OK; i++) {
        rc = read_value(c, (size_t)i, &c->value[i]);
        c->n_values += rc == QN_OK;
    }
    if (rc != QN_OK)
        return rc;
    size_t total = g->n_tensors + (size_t)n_tensors;
    if (total > QN_GGUF_MAX_TENSORS)
        return qn_fail(c->err, QN_ERR_LIMIT, "%s: more than %d tensors", c->path,
                       QN_GGUF_MAX_TENSORS);
    g->tensor = qn_realloc_n(g->tensor, total ? total : 1, sizeof *g->tensor);
    qn_gguf_tensor *t = g->tensor + g->n_tensors;
    memset(t, 0, (size_t)n_tensors * sizeof *t);
    uint64_t *offset = qn_alloc_n((size_t)n_tensors, sizeof *offset);
    for (uint64_t i = 0; i < n_tensors && rc == QN_OK; i++)
        rc = read_tensor(c, (size_t)i, &t[i], &offset[i]);
    if (rc == QN_OK)
        rc = place_tensors(c, t, (size_t)n_tensors, offset);
    if (rc == QN_OK)
        g->n_tensors = total;
    qn_free(offset);
    return rc;
}

/* Builds both look-up tables and refuses duplicates, which would make the answer depend on the search. */
static int index_names(qn_gguf *g, const char *path, qn_error *err)
{
    size_t n = g->n_values > g->n_tensors ? g->n_values : g->n_tensors;
    const char **names = qn_alloc_n(n, sizeof *names);
    for (size_t i = 0; i < g->n_values; i++)
        names[i] = g->value[i].key;
    int rc = QN_OK;
    const char *twice = qn_name_index_build(&g->keys, names, g->n_values);
    if (twice)
        rc = qn_fail(err, QN_ERR_FORMAT, "%s: key '%.100s' occurs twice", path, twice);
    for (size_t i = 0; i < g->n_tensors; i++)
        names[i] = g->tensor[i].name;
    twice = qn_name_index_build(&g->names, names, g->n_tensors);
    if (twice && rc == QN_OK)
        rc = qn_fail(err, QN_ERR_FORMAT, "%s: tensor '%.100s' occurs twice", path, twice);
    qn_free(names);
    return rc;
}

static cursor cursor_of(qn_gguf *g, const void *data, size_t n, const char *path, qn_error *err)
{
    g->n_files++;
    g->total_bytes += n;
    return (cursor){
        .g = g, .start = data, .p = data, .end = (const uint8_t *)data + n, .path = path, .err = err
    };
}

int qn_gguf_parse(qn_gguf **out, const void *data, size_t n, const char *name, qn_error *err)
{
    *out = NULL;
    qn_gguf *g = qn_alloc(sizeof *g);
    cursor c = cursor_of(g, data, n, name, err);
    int rc = read_part(&c);
    g->value = c.value;
    g->n_values = c.n_values;
    if (rc == QN_OK && part_int(&c, "split.count", 1) > 1)
        rc = qn_fail(err, QN_ERR_UNSUPPORTED,
                     "%s: key 'split.count': one part of several cannot stand alone", name);
    if (rc == QN_OK)
        rc = index_names(g, name, err);
    if (rc != QN_OK) {
        qn_gguf_close(g);
        return rc;
    }
    *out = g;
    return QN_OK;
}

/* "dir/x-00001-of-00003.gguf" -> the same with part `no` (from 1); NULL when `path` is not named so. */
static char *part_path(qn_arena *a, const char *path, int no, int count)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "-00001-of-%05d.gguf", count);
    if (!qn_ends_with(path, suffix))
        return NULL;
    int stem = (int)(strlen(path) - strlen(suffix));
    return qn_arena_printf(a, "%.*s-%05d-of-%05d.gguf", stem, path, no, count);
}

/* Maps and reads part `no` (from 0). It must say itself which part it is: files are renamed more easily than
 * rewritten. */
static int open_part(qn_gguf *g, const char *path, int no, int count, qn_error *err)
{
    qn_map *map = &g->map[no];
    int rc = qn_map_open(map, path, err);
    if (rc != QN_OK)
        return no == 0 ? rc : qn_fail_in(err, rc, "part %d of %d is missing", no + 1, count);
    cursor c = cursor_of(g, map->data, map->size, path, err);
    rc = read_part(&c);
    if (no == 0) {
        g->value = c.value;
        g->n_values = c.n_values;
    }
    if (rc == QN_OK &&
        (part_int(&c, "split.no", 0) != no || (no && part_int(&c, "split.count", 1) != count)))
        rc = qn_fail(err, QN_ERR_FORMAT, "%s: it is part %lld of %lld; part %d of %d was expected",
                     path, (long long)part_int(&c, "split.no", 0) + 1,
                     (long long)part_int(&c, "split.count", 1), no + 1, count);
    return rc;
}

/* The other parts, when the first one says that there are any. Their paths are made from the path the user gave,
 * never from text in the file. */
static int open_rest(qn_gguf *g, const char *path, qn_error *err)
{
    int64_t count = -1;
    for (size_t i = 0; i < g->n_values; i++)
        if (strcmp(g->value[i].key, "split.count") == 0)
            qn_gguf_value_int(&g->value[i], &count);
    if (count <= 1)
        return QN_OK;
    if (count > 99999 || !part_path(&g->arena, path, 1, (int)count))
        return qn_fail(
            err, QN_ERR_FORMAT,
            "%s: key 'split.count' is %lld, but the file is not named -00001-of-%05lld.gguf", path,
            (long long)count, (long long)count);
    g->map = qn_realloc_n(g->map, (size_t)count, sizeof *g->map);
    memset(g->map + 1, 0, (size_t)(count - 1) * sizeof *g->map);
    int rc = QN_OK;
    for (int no = 1; no < count && rc == QN_OK; no++)
        rc = open_part(g, part_path(&g->arena, path, no + 1, (int)count), no, (int)count, err);
    return rc;
}

/* Parts that belong to different conversions agree in everything but this count. */
static int check_split_total(const qn_gguf *g, const char *path, qn_error *err)
{
    int64_t expected = qn_gguf_int(g, "split.tensors.count", (int64_t)g->n_tensors);
    if (g->n_files < 2 || expected == (int64_t)g->n_tensors)
        return QN_OK;
    return qn_fail(err, QN_ERR_FORMAT,
                   "%s: key 'split.tensors.count' says %lld tensors, the parts have %zu", path,
                   (long long)expected, g->n_tensors);
}

int qn_gguf_open(qn_gguf **out, const char *path, qn_error *err)
{
    *out = NULL;
    qn_gguf *g = qn_alloc(sizeof *g);
    g->map = qn_alloc(sizeof *g->map);
    int rc = open_part(g, path, 0, 1, err);
    if (rc == QN_OK)
        rc = open_rest(g, path, err);
    if (rc == QN_OK)
        rc = index_names(g, path, err);
    if (rc == QN_OK)
        rc = check_split_total(g, path, err);
    if (rc != QN_OK) {
        qn_gguf_close(g);
        return rc;
    }
    *out = g;
    return QN_OK;
}

void qn_gguf_close(qn_gguf *g)
{
    if (!g)
        return;
    for (size_t i = 0; g->map && i < g->n_files; i++)
        qn_map_close(&g->map[i]);
    qn_name_index_free(&g->keys);
    qn_name_index_free(&g->names);
    qn_free(g->map);
    qn_free(g->tensor);
    qn_arena_free(&g->arena);
    qn_free(g);
}

uint32_t qn_gguf_version(const qn_gguf *g)
{
    return g->version;
}

size_t qn_gguf_n_files(const qn_gguf *g)
{
    return g->n_files;
}

size_t qn_gguf_bytes(const qn_gguf *g)
{
    return g->total_bytes;
}

size_t qn_gguf_n_tensors(const qn_gguf *g)
{
    return g->n_tensors;
}

const qn_gguf_tensor *qn_gguf_tensor_at(const qn_gguf *g, size_t i)
{
    return i < g->n_tensors ? &g->tensor[i] : NULL;
}

const qn_gguf_tensor *qn_gguf_tensor_find(const qn_gguf *g, const char *name)
{
    int64_t i = qn_name_index_find(&g->names, name);
    return i < 0 ? NULL : &g->tensor[i];
}

size_t qn_gguf_n_values(const qn_gguf *g)
{
    return g->n_values;
}

const qn_gguf_value *qn_gguf_value_at(const qn_gguf *g, size_t i)
{
    return i < g->n_values ? &g->value[i] : NULL;
}

const qn_gguf_value *qn_gguf_get(const qn_gguf *g, const char *key)
{
    int64_t i = qn_name_index_find(&g->keys, key);
    return i < 0 ? NULL : &g->value[i];
}
