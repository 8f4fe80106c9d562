/* formula.c - see formula.h. Besides a range, a tensor may be given by "values", by "sinusoids" (the fixed table
 * of positions: sines in the first half of a row, cosines in the second) or by "alias" (the range with another
 * tensor's name, so that both are equal). */
#include "formats/formula.h"

#include <dirent.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors.h"

#define MAX_DEPTH 4

/* The finaliser of splitmix64: neighbouring counters give unrelated numbers. */
static uint64_t mix64(uint64_t z)
{
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Names give unrelated streams, so that no two tensors of a case are alike by accident. */
static uint64_t fnv1a64(const char *s)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001B3u;
    return h;
}

void qn_formula_fill(const char *name, uint64_t salt, double lo, double hi, float *out, int64_t n)
{
    uint64_t base = fnv1a64(name) ^ mix64(salt);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = mix64(base + ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u) >> 40;
        out[i] = (float)(lo + (hi - lo) * ((double)bits / 16777216.0));
    }
}

/* What one entry of tensors.json becomes, while it is read. */
typedef struct maker {
    qn_arena arena; /* JSON and paths */
    uint64_t salt;
    qn_st_tensor *tensor;
    void **memory;
    size_t n;
    const char *path;
    qn_error *err;
} maker;

/* Cases are written by people: say which tensor is wrong. */
static int refuse(const maker *m, const char *name, const char *why)
{
    return qn_fail(m->err, QN_ERR_FORMAT, "%s: tensor '%.100s': %s", m->path, name, why);
}

static bool find_dtype(const char *name, uint8_t *out)
{
    for (int l = 0; l < QN_N_LAYOUTS; l++) {
        const char *dtype = qn_st_dtype((qn_layout)l);
        if (dtype && strcmp(dtype, name) == 0) {
            *out = (uint8_t)l;
            return true;
        }
    }
    return false;
}

static int read_shape(const maker *m, const qn_json *v, qn_st_tensor *t, int64_t *elems)
{
    const qn_json *shape = qn_json_get(v, "shape");
    if (!qn_json_is(shape, QN_JSON_ARRAY) || shape->n > QN_ST_MAX_DIMS)
        return refuse(m, t->name, "no shape of up to 8 dimensions");
    *elems = 1;
    t->n_dims = (uint8_t)shape->n;
    for (uint32_t i = 0; i < shape->n; i++) {
        t->dim[i] = qn_json_int(&shape->items[i], -1);
        if (t->dim[i] < 0 || __builtin_mul_overflow(*elems, t->dim[i], elems))
            return refuse(m, t->name, "bad shape");
    }
    return qn_layout_bytes((qn_layout)t->layout, *elems, &t->bytes)
               ? QN_OK
               : refuse(m, t->name, "bad shape");
}

/* Stores float v as element i. Integers truncate. */
static void store(uint8_t layout, void *data, int64_t i, double v)
{
    float f = (float)v;
    const qn_layout_info *info = qn_layout_get((qn_layout)layout);
    char *p = (char *)data + (size_t)i * info->block_bytes;
    if (info->encode) {
        info->encode(&f, p, 1);
        return;
    }
    if (layout == QN_F64) {
        memcpy(p, &v, sizeof v);
        return;
    }
    int64_t n = (int64_t)v; /* little-endian: the low bytes are the narrower integer */
    memcpy(p, &n, info->block_bytes);
}

/* Values listed one by one: small tables and integers. */
static int store_values(const maker *m, const qn_json *values, const qn_st_tensor *t, void *data,
                        int64_t n)
{
    if (values->type != QN_JSON_ARRAY || values->n != n)
        return refuse(m, t->name, "values of another count than the shape has");
    for (int64_t i = 0; i < n; i++) {
        const qn_json *v = &values->items[i];
        size_t bytes = qn_layout_get((qn_layout)t->layout)->block_bytes;
        if (v->type == QN_JSON_INT && (t->layout == QN_I64 || t->layout == QN_U64))
            memcpy((char *)data + (size_t)i * bytes, &v->i, bytes); /* exact above 2^53 too */
        else
            store(t->layout, data, i, v->type == QN_JSON_BOOL ? v->b : qn_json_num(v, 0));
    }
    return QN_OK;
}

/* The fixed position table, in double and rounded once. */
static int store_sinusoids(const maker *m, double base, const qn_st_tensor *t, void *data)
{
    if (t->n_dims != 2 || t->dim[1] < 4 || t->dim[1] % 2 != 0)
        return refuse(m, t->name, "sinusoids need rows of an even length");
    int64_t d = t->dim[1], half = d / 2;
    for (int64_t r = 0; r < t->dim[0]; r++)
        for (int64_t i = 0; i < half; i++) {
            double x = (double)r * exp(-(double)i * log(base) / (double)(half - 1));
            store(t->layout, data, r * d + i, sin(x));
            store(t->layout, data, r * d + half + i, cos(x));
        }
    return QN_OK;
}

/* The formula proper. */
static int store_range(const maker *m, const qn_json *v, const qn_st_tensor *t, void *data,
                       int64_t n)
{
    const qn_json *lo = qn_json_get(v, "lo"), *hi = qn_json_get(v, "hi");
    if (!qn_json_is_number(lo) || !qn_json_is_number(hi))
        return refuse(m, t->name, "neither a range nor values");
    const char *name = qn_json_str(qn_json_get(v, "alias"), t->name);
    float *x = qn_try_alloc((size_t)n * sizeof *x);
    if (!x)
        return qn_fail(m->err, QN_ERR_MEMORY, "%s: tensor '%.100s': no memory", m->path, t->name);
    qn_formula_fill(name, m->salt, qn_json_num(lo, 0), qn_json_num(hi, 0), x, n);
    for (int64_t i = 0; i < n; i++)
        store(t->layout, data, i, (double)x[i]);
    qn_free(x);
    return QN_OK;
}

/* One entry of the list: its memory is the maker's. */
static int make_tensor(maker *m, const qn_json *v)
{
    qn_st_tensor *t = &m->tensor[m->n];
    t->name = qn_json_str(qn_json_get(v, "name"), "");
    int64_t n = 0;
    if (!find_dtype(qn_json_str(qn_json_get(v, "dtype"), ""), &t->layout))
        return refuse(m, t->name, "unknown dtype");
    int rc = read_shape(m, v, t, &n);
    if (rc != QN_OK)
        return rc;
    void *data = qn_try_alloc(t->bytes);
    if (!data)
        return qn_fail(m->err, QN_ERR_MEMORY, "%s: tensor '%.100s': no memory", m->path, t->name);
    t->data = m->memory[m->n++] = data;
    const qn_json *values = qn_json_get(v, "values"), *sinusoids = qn_json_get(v, "sinusoids");
    if (values)
        return store_values(m, values, t, data, n);
    if (sinusoids)
        return store_sinusoids(m, qn_json_num(sinusoids, 10000), t, data);
    return store_range(m, v, t, data, n);
}

/* tensors.json to model.safetensors. */
static int write_tensors(const char *json_path, const char *out_path, qn_error *err)
{
    maker m = { .path = json_path, .err = err };
    const qn_json *root = qn_json_parse_file(&m.arena, json_path, err);
    const qn_json *list = qn_json_get(root, "tensors");
    int rc = QN_OK;
    if (!root)
        rc = QN_ERR_FORMAT;
    else if (!qn_json_is(list, QN_JSON_ARRAY))
        rc = qn_fail(err, QN_ERR_FORMAT, "%s: no list of tensors", json_path);
    m.salt = (uint64_t)qn_json_int(qn_json_get(root, "salt"), 0);
    if (rc == QN_OK) {
        m.tensor = qn_alloc_n(list->n, sizeof *m.tensor);
        m.memory = qn_alloc_n(list->n, sizeof *m.memory);
    }
    for (uint32_t i = 0; rc == QN_OK && i < list->n; i++)
        rc = make_tensor(&m, &list->items[i]);
    if (rc == QN_OK)
        rc = qn_st_write(out_path, m.tensor, m.n, err);
    for (size_t i = 0; i < m.n; i++)
        qn_free(m.memory[i]);
    qn_free(m.memory);
    qn_free(m.tensor);
    qn_arena_free(&m.arena);
    return rc;
}

static int copy_file(const char *from, const char *to, qn_error *err)
{
    qn_map map;
    int rc = qn_map_open(&map, from, err);
    if (rc != QN_OK)
        return rc;
    rc = qn_write_file(to, map.data, map.size, err);
    qn_map_close(&map);
    return rc;
}

/* What the reference computed is no part of the checkpoint. */
static bool is_result(const char *name)
{
    static const char *const names[] = { "case.json", "inputs.safetensors",
                                         "expected.safetensors" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static int write_folder(const char *from, const char *to, int depth, qn_error *err);

static int write_entry(qn_arena *a, const char *from, const char *to, const char *name, int depth,
                       qn_error *err)
{
    const char *src = qn_path_join(a, from, name);
    if (qn_is_dir(src))
        return write_folder(src, qn_path_join(a, to, name), depth + 1, err);
    if (strcmp(name, "tensors.json") == 0)
        return write_tensors(src, qn_path_join(a, to, "model.safetensors"), err);
    return is_result(name) ? QN_OK : copy_file(src, qn_path_join(a, to, name), err);
}

/* A folder and those below it. The depth is limited because links may make circles. */
static int write_folder(const char *from, const char *to, int depth, qn_error *err)
{
    if (depth > MAX_DEPTH)
        return qn_fail(err, QN_ERR_LIMIT, "%s: folders nested too deeply", from);
    int rc = qn_make_dirs(to, err);
    if (rc != QN_OK)
        return rc;
    DIR *d = opendir(from);
    if (!d)
        return qn_fail(err, QN_ERR_NOT_FOUND, "%s: no such folder", from);
    qn_arena a = { 0 };
    for (struct dirent *e; rc == QN_OK && (e = readdir(d));)
        if (e->d_name[0] != '.')
            rc = write_entry(&a, from, to, e->d_name, depth, err);
    closedir(d);
    qn_arena_free(&a);
    return rc;
}

int qn_formula_write_checkpoint(const char *case_dir, const char *out_dir, qn_error *err)
{
    return write_folder(case_dir, out_dir, 0, err);
}
