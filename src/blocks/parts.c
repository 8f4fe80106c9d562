/* parts.c - finding weights by name, checking their shapes, and the products every block is made of. */
#include "blocks/parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void qn_scope(qn_build *b, int layer, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(b->scope, sizeof b->scope, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof b->scope)
        qn_graph_fail(b->g, QN_ERR_LIMIT, "scope name is too long: %s", b->scope);
    b->layer = layer;
    qn_graph_scope(b->g, layer, b->scope);
}

const char *qn_part_name(qn_build *b, const char *block, const char *leaf)
{
    const char *dot1 = b->scope[0] && (block[0] || leaf[0]) ? "." : "";
    const char *dot2 = block[0] && leaf[0] ? "." : "";
    return qn_arena_printf(&b->g->arena, "%s%s%s%s%s", b->scope, dot1, block, dot2, leaf);
}

void qn_part_enter(qn_build *b, const char *block, const char *leaf)
{
    qn_graph_scope(b->g, b->layer, qn_part_name(b, block, leaf));
}

const qn_weight *qn_part_find(qn_build *b, const char *name, const char *suffix)
{
    if (qn_failed(b))
        return NULL;
    return qn_checkpoint_weight(b->ck, qn_arena_printf(&b->g->arena, "%s%s", name, suffix));
}

/* "[3, 4]" into buf. */
static const char *shape_text(const int64_t *dim, int n, char *buf, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < n && used < size; i++)
        used +=
            (size_t)snprintf(buf + used, size - used, "%s%lld", i ? ", " : "[", (long long)dim[i]);
    if (used < size)
        snprintf(buf + used, size - used, "]");
    return buf;
}

static bool fits(qn_build *b, const qn_weight *w, const int64_t *dim, int n_dims)
{
    if (w->n_dims == n_dims && memcmp(w->dim, dim, (size_t)n_dims * sizeof *dim) == 0)
        return true;
    char has[96], wants[96];
    qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s is %s, the config makes it %s", w->name,
                  shape_text(w->dim, w->n_dims, has, sizeof has),
                  shape_text(dim, n_dims, wants, sizeof wants));
    return false;
}

bool qn_part_fits(qn_build *b, const qn_weight *w, const char *name, int64_t e, int64_t n,
                  int64_t k)
{
    if (qn_failed(b))
        return false;
    if (!w) {
        qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s.weight is missing", name);
        return false;
    }
    if (e > 0)
        return fits(b, w, (const int64_t[]){ e, n, k }, 3);
    return fits(b, w, (const int64_t[]){ n, k }, 2);
}

bool qn_part_fits_vector(qn_build *b, const qn_weight *w, int64_t n)
{
    return !qn_failed(b) && fits(b, w, &n, 1);
}

/* Elements of a vector lie one after the other in every layout that vectors have. */
static qn_weight slice_vector(const qn_weight *w, int64_t start, int64_t n)
{
    qn_weight s = *w;
    s.dim[0] = n;
    s.data = (const char *)w->data + (size_t)start * qn_layout_get(w->layout)->block_bytes;
    return s;
}

const qn_weight *qn_part_slice(qn_build *b, const qn_weight *w, int64_t start, int64_t n)
{
    if (w->n_dims == 1 && qn_layout_get(w->layout)->block_elems != 1) {
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "tensor %s is quantised and cannot be divided",
                      w->name);
        return w;
    }
    qn_weight s = w->n_dims == 1 ? slice_vector(w, start, n) : qn_weight_slice_rows(w, start, n);
    s.name = qn_arena_printf(&b->g->arena, "%s[%lld:%lld]", w->name, (long long)start,
                             (long long)(start + n));
    return qn_arena_copy(&b->g->arena, &s, sizeof s);
}

const qn_weight *qn_part_stack(qn_build *b, const qn_weight *w, int64_t n)
{
    if (w->n_dims != 2 || n < 1 || w->dim[0] % n != 0 || w->layout == QN_FP8_BLOCK)
        return w;
    qn_weight s = *w;
    s.n_dims = 3;
    s.dim[0] = n;
    s.dim[1] = w->dim[0] / n;
    s.dim[2] = w->dim[1];
    return qn_arena_copy(&b->g->arena, &s, sizeof s);
}

const qn_weight *qn_part_row(qn_build *b, const qn_weight *w)
{
    qn_weight v = *w;
    v.n_dims = 1;
    v.dim[0] = w->dim[1];
    return qn_arena_copy(&b->g->arena, &v, sizeof v);
}

const qn_weight *qn_part_join(qn_build *b, const char *prefix, int n, int64_t each)
{
    qn_weight joined = { .name = prefix, .layout = QN_F32, .n_dims = 1, .global_scale = 1 };
    joined.dim[0] = n * each;
    float *data = qn_arena_alloc_n(&b->g->arena, (size_t)joined.dim[0], sizeof *data);
    for (int i = 0; i < n; i++) {
        const char *name = qn_arena_printf(&b->g->arena, "%s.%d", prefix, i);
        const qn_weight *w = qn_part_find(b, name, ".weight");
        if (!w)
            qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s.weight is missing", name);
        if (!w || !qn_part_fits_vector(b, w, each))
            return NULL;
        qn_weight_decode_row(w, 0, data + i * each);
    }
    joined.data = data;
    return qn_arena_copy(&b->g->arena, &joined, sizeof joined);
}

static qn_val product(qn_build *b, qn_val x, const qn_weight *w, const qn_weight *bias)
{
    qn_val bias_val = bias ? qn_graph_weight(b->g, bias) : (qn_val){ 0 };
    return QN_ADD(b->g, &qn_op_linear, NULL, x, qn_graph_weight(b->g, w), bias_val);
}

/* What of w the product takes: rows that stand together are looked at where they are. */
static const qn_weight *rows_of(qn_build *b, const qn_weight *w, const qn_part_rows *r)
{
    if (r->runs <= 1)
        return qn_part_slice(b, w, r->start, r->n_out);
    qn_error err = { 0 };
    const qn_row_runs runs = { .runs = r->runs, .start = r->start, .n = r->n_out / r->runs };
    const qn_weight *picked = qn_checkpoint_picked(b->ck, w, runs, &err);
    if (!picked)
        qn_graph_fail(b->g, err.code, "%s", err.msg);
    return picked;
}

/* The matrix [n, k] of one stored [k, n]. */
static const qn_weight *turned(qn_build *b, const qn_weight *w, int64_t n, int64_t k)
{
    if (!fits(b, w, (const int64_t[]){ k, n }, 2))
        return NULL;
    qn_error err = { 0 };
    w = qn_checkpoint_transposed(b->ck, w, &err);
    if (!w)
        qn_graph_fail(b->g, err.code, "%s", err.msg);
    return w;
}

qn_val qn_part_linear_rows(qn_build *b, const char *block, const char *leaf, qn_val x,
                           qn_part_rows rows)
{
    if (qn_failed(b))
        return (qn_val){ 0 };
    const char *name = qn_part_name(b, block, leaf);
    const qn_weight *w = qn_part_find(b, name, ".weight");
    const qn_weight *bias = qn_part_find(b, name, ".bias");
    qn_shape in = qn_shape_of(b->g, x);
    if (w && rows.inputs_first)
        w = turned(b, w, rows.total, qn_shape_width(&in));
    if (!qn_part_fits(b, w, name, 0, rows.total, qn_shape_width(&in)) ||
        (bias && !qn_part_fits_vector(b, bias, rows.total)))
        return (qn_val){ 0 };
    if (rows.n_out != rows.total) {
        w = rows_of(b, w, &rows);
        bias = bias ? rows_of(b, bias, &rows) : NULL;
    }
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, block, leaf);
    return product(b, x, w, bias);
}

qn_val qn_part_linear(qn_build *b, const char *block, const char *leaf, qn_val x, int64_t n_out,
                      bool *has_bias)
{
    qn_val y =
        qn_part_linear_rows(b, block, leaf, x, (qn_part_rows){ .total = n_out, .n_out = n_out });
    if (has_bias)
        *has_bias =
            !qn_failed(b) && qn_node_at(b->g, y)->n_in > 2 && qn_node_at(b->g, y)->in[2].id != 0;
    return y;
}

void qn_part_check_bias(qn_build *b, const char *key, const char *part, bool has_bias)
{
    if (qn_failed(b) || qn_config_bool(b->c, key, has_bias) == has_bias)
        return;
    qn_graph_fail(b->g, QN_ERR_FORMAT, "config: %s is %s, but tensor %s.bias is %s", key,
                  has_bias ? "false" : "true", part, has_bias ? "there" : "missing");
}

void qn_part_use_act(qn_build *b, qn_act act)
{
    if (act == QN_ACT_UNKNOWN)
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "config: hidden_act \"%s\" is not supported",
                      b->c->hidden_act ? b->c->hidden_act : "");
    if (act != b->c->act)
        return;
    qn_config_used(b->c, "hidden_act");
    qn_config_used(b->c, "hidden_activation");
    qn_config_used(b->c, "activation_function");
}

qn_val qn_part_norm(qn_build *b, const char *block, const char *leaf, qn_val x,
                    const qn_attr_norm *attr)
{
    if (qn_failed(b))
        return (qn_val){ 0 };
    const char *name = qn_part_name(b, block, leaf);
    const qn_weight *w = qn_part_find(b, name, ".weight");
    const qn_weight *bias = attr->center ? qn_part_find(b, name, ".bias") : NULL;
    qn_shape in = qn_shape_of(b->g, x);
    int64_t n = attr->group ? attr->group : qn_shape_width(&in);
    if (!w && !attr->center)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s.weight is missing", name);
    if (qn_failed(b) || (w && !qn_part_fits_vector(b, w, n)) ||
        (bias && !qn_part_fits_vector(b, bias, n)))
        return (qn_val){ 0 };
    qn_part_enter(b, block, leaf);
    return QN_ADD(b->g, &qn_op_norm, attr, x, w ? qn_graph_weight(b->g, w) : (qn_val){ 0 },
                  bias ? qn_graph_weight(b->g, bias) : (qn_val){ 0 });
}

float qn_part_norm_offset(const qn_build *b)
{
    /* Whoever writes GGUF adds the 1, for every family of this kind. */
    return strcmp(qn_checkpoint_format(b->ck), "gguf") == 0 ? 0 : 1;
}

bool qn_stores_inputs_first(qn_build *b, const char *name, int64_t n_out, int64_t n_in)
{
    const qn_weight *w = qn_part_find(b, qn_part_name(b, name, ""), ".weight");
    return w && w->n_dims == 2 && n_out != n_in && w->dim[0] == n_in && w->dim[1] == n_out;
}

void qn_ignore_part(qn_build *b, const char *leaf)
{
    qn_checkpoint_ignore(b->ck, qn_part_name(b, leaf, ""));
}

bool qn_has_tensor(qn_build *b, const char *name)
{
    return qn_checkpoint_weight(b->ck, name) != NULL;
}

void qn_ignore(qn_build *b, const char *prefix)
{
    for (size_t i = 0; i < qn_checkpoint_count(b->ck); i++) {
        const char *name = qn_checkpoint_at(b->ck, i)->name;
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            qn_checkpoint_ignore(b->ck, name);
    }
}

void qn_ignore_prediction_layers(qn_build *b)
{
    int64_t n = qn_config_int(b->c, "num_nextn_predict_layers", 0);
    for (int i = 0; i < n && i < QN_MAX_LAYERS; i++)
        qn_ignore(b, qn_arena_printf(&b->g->arena, "model.layers.%d.", b->c->n_layers + i));
}

void qn_require(qn_build *b, const char *key, const char *value)
{
    const char *is = qn_config_str(b->c, key, value);
    if (strcmp(is, value) != 0)
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "config: %s \"%s\" is not supported, only \"%s\"",
                      key, is, value);
}

void qn_unsupported(qn_build *b, const char *what)
{
    qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "config: %s is not supported", what);
}
