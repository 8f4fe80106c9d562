/* recurrent.c - what recurrent blocks share: convolutions, columns, and numbers derived from stored ones.
 *
 * States are noted in the graph as they are met; nothing here knows of sequences or slots. */
#include <math.h>

#include "blocks/parts.h"

float *qn_part_fresh(qn_build *b, const char *name, qn_part_shape shape, const qn_weight **out)
{
    bool matrix = shape.rows > 0;
    qn_weight w = { .name = name, .layout = QN_F32, .global_scale = 1 };
    w.n_dims = matrix ? 2 : 1;
    w.dim[0] = matrix ? shape.rows : shape.cols;
    w.dim[1] = matrix ? shape.cols : 0;
    int64_t n = matrix ? shape.rows * shape.cols : shape.cols;
    float *data = qn_arena_alloc_n(&b->g->arena, (size_t)n, sizeof *data);
    w.data = data;
    *out = qn_arena_copy(&b->g->arena, &w, sizeof w);
    return data;
}

qn_val qn_part_numbers(qn_build *b, const char *block, const char *leaf, qn_part_shape shape,
                       float (*f)(float))
{
    const char *name = qn_part_name(b, block, leaf);
    const qn_weight *w = qn_part_find(b, name, ""), *out;
    int64_t n = shape.rows > 0 ? shape.rows * shape.cols : shape.cols;
    if (!qn_failed(b) && !w)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s is missing", name);
    else if (!qn_failed(b) && qn_weight_elems(w) != n)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s has %lld numbers, the config makes it %lld",
                      name, (long long)qn_weight_elems(w), (long long)n);
    if (qn_failed(b))
        return (qn_val){ 0 };
    float *data = qn_part_fresh(b, name, shape, &out);
    int64_t cols = qn_weight_cols(w);
    for (int64_t r = 0; r * cols < n; r++)
        qn_weight_decode_row(w, r, data + r * cols);
    for (int64_t i = 0; f && i < n; i++)
        data[i] = f(data[i]);
    return qn_graph_weight(b->g, out);
}

float qn_part_minus_exp(float x)
{
    return -expf(x);
}

qn_val qn_part_spread(qn_build *b, const char *block, const char *leaf, int64_t n, int64_t times,
                      float (*f)(float))
{
    const qn_weight *out;
    qn_val v = qn_part_numbers(b, block, leaf, (qn_part_shape){ 0, n }, f);
    if (qn_failed(b))
        return v;
    const float *from = ((const qn_attr_weight *)qn_node_at(b->g, v)->attr)->weight->data;
    float *to =
        qn_part_fresh(b, qn_part_name(b, block, leaf), (qn_part_shape){ 0, n * times }, &out);
    for (int64_t i = 0; i < n * times; i++)
        to[i] = from[i / times];
    return qn_graph_weight(b->g, out);
}

qn_val qn_part_split_groups(qn_build *b, qn_val x, int64_t start, int64_t width, int64_t group)
{
    qn_attr_split attr = { .start = start, .width = width, .group = group };
    return QN_ADD(b->g, &qn_op_split, &attr, x);
}

qn_val qn_part_split(qn_build *b, qn_val x, int64_t start, int64_t width)
{
    return qn_part_split_groups(b, x, start, width, 0);
}

/* The taps [C, K] of a stored convolution. NULL after an error. */
static const qn_weight *conv_taps(qn_build *b, const char *name, int64_t channels, int kernel)
{
    const qn_weight *w = qn_part_find(b, name, ".weight");
    if (w && w->n_dims == 3 && (w->dim[1] == 1 || w->dim[2] == 1) && w->layout < QN_N_LAYOUTS &&
        qn_layout_get(w->layout)->block_elems == 1) {
        qn_weight taps = *w;
        taps.n_dims = 2;
        taps.dim[1] = w->dim[1] * w->dim[2];
        w = qn_arena_copy(&b->g->arena, &taps, sizeof taps);
    }
    return qn_part_fits(b, w, name, 0, channels, kernel) ? w : NULL;
}

qn_val qn_part_conv_rows(qn_build *b, const char *block, const char *leaf, qn_val x,
                         const qn_part_conv_of *of)
{
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_shape in = qn_shape_of(b->g, x);
    int64_t width = qn_shape_width(&in), total = of->total ? of->total : width;
    const char *name = qn_part_name(b, block, leaf);
    if (of->kernel < 2)
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "config: a convolution over %d tokens", of->kernel);
    const qn_weight *w = conv_taps(b, name, total, of->kernel);
    const qn_weight *bias = qn_part_find(b, name, ".bias");
    if (!w || (bias && !qn_part_fits_vector(b, bias, total)))
        return (qn_val){ 0 };
    if (total != width) {
        w = qn_part_slice(b, w, of->start, width);
        bias = bias ? qn_part_slice(b, bias, of->start, width) : NULL;
    }
    qn_part_enter(b, block, leaf);
    qn_attr_conv attr = { .state = qn_graph_state(b->g, (of->kernel - 1) * width),
                          .kernel = of->kernel };
    qn_val y = QN_ADD(b->g, &qn_op_conv, &attr, x, qn_graph_weight(b->g, w),
                      bias ? qn_graph_weight(b->g, bias) : (qn_val){ 0 });
    if (of->act == QN_ACT_NONE)
        return y;
    return QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)of->act }, y);
}

qn_val qn_part_conv(qn_build *b, const char *block, const char *leaf, qn_val x, int kernel,
                    qn_act act)
{
    return qn_part_conv_rows(b, block, leaf, x, &(qn_part_conv_of){ .kernel = kernel, .act = act });
}

void qn_part_expect_bias(qn_build *b, const char *block, const char *leaf, bool expected)
{
    const char *name = qn_part_name(b, block, leaf);
    bool has = qn_part_find(b, name, ".bias") != NULL;
    if (!qn_failed(b) && has != expected)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s.bias is %s, the config says otherwise", name,
                      has ? "there" : "missing");
}
