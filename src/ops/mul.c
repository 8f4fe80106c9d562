/* mul.c - y = a * b, element by element; b may be one row for all rows of a, or one factor for each of G equal
 * runs of columns (the heads, or the whole row) of each row.
 *
 * a [R, W], b [R, W], [W] or [R, G] -> [R, W]. The one row [W] is a weight, which is how a call tells it from
 * values. In place: y may lie on a. */
#include "ops/util.h"

/* A column [R, 1] is a gate of whole rows (a shared expert), a row [W] a factor of each column. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "a is f32 [R, W]");
    bool value = in[1].n_dims == 2 && in[1].dtype == QN_F32 && in[1].dim[0] == in[0].dim[0] &&
                 in[1].dim[1] > 0 && in[0].dim[1] % in[1].dim[1] == 0;
    if (!value && !qn_is_vec(&in[1], in[0].dim[1]))
        return qn_refuse(why, "b is like a, one row of it, or has a column for each run of a's");
    out[0] = in[0];
    return true;
}

static void ref(const qn_call *c)
{
    int64_t rows = c->out[0].rows, width = c->out[0].width;
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *y = c->out[0].data;
    float *row = c->in[1].weight ? qn_ref_floats_dup(&c->in[1], width) : NULL;
    int64_t run = row ? 1 : width / c->in[1].width;
    for (int64_t i = 0; i < rows * width; i++)
        y[i] = a[i] * (row ? row[i % width] : b[i / run]);
    qn_free(row);
}

/* Sums each of n runs of columns of x into one number: a product with ones. */
static qn_val run_sums(qn_graph *g, qn_val x, int64_t n)
{
    int64_t width = qn_shape_of(g, x).dim[1];
    qn_attr_head_linear attr = { .n_heads = (int32_t)n };
    return QN_ADD(g, &qn_op_head_linear, &attr, x, qn_graph_ones(g, n, width / n));
}

/* Each side gets dout times the other, summed over what it was spread over. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    qn_shape b = qn_shape_of(g, n.in[1]);
    din[0] = QN_ADD(g, &qn_op_mul, NULL, dout[0], n.in[1]);
    qn_val db = QN_ADD(g, &qn_op_mul, NULL, dout[0], n.in[0]);
    if (b.n_dims == 1)
        din[1] = QN_ADD(g, &qn_op_sum_rows, NULL, db);
    else if (b.dim[1] != n.shape.dim[1])
        din[1] = run_sums(g, db, b.dim[1]);
    else
        din[1] = db;
}

const qn_op qn_op_mul = { .name = "mul",
                          .min_in = 2,
                          .max_in = 2,
                          .n_out = 1,
                          .in_place = true,
                          .infer = infer,
                          .ref = ref,
                          .grad = grad };
