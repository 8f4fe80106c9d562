/* mul.c - y = a * b, element by element; b may be one row for all rows of a, or one factor for each row.
 *
 * a [R, W], b [R, W], [W] or [R, 1] -> [R, W]. The one row [W] is a weight, which is how a call tells it from a
 * column. In place: y may lie on a. */
#include "ops/util.h"

/* A column [R, 1] is a gate of whole rows (a shared expert), a row [W] a factor of each column. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "a is f32 [R, W]");
    bool value = in[1].n_dims == 2 && in[1].dtype == QN_F32 && in[1].dim[0] == in[0].dim[0] &&
                 (in[1].dim[1] == in[0].dim[1] || in[1].dim[1] == 1);
    if (!value && !qn_is_vec(&in[1], in[0].dim[1]))
        return qn_refuse(why, "b is like a, one row of it, or one column");
    out[0] = in[0];
    return true;
}

/* The factors of row r: `step` 0 means one factor for the whole row. */
static void mul_row(const float *a, const float *b, int64_t step, float *y, int64_t width)
{
    for (int64_t i = 0; i < width; i++)
        y[i] = a[i] * b[i * step];
}

static void ref(const qn_call *c)
{
    int64_t rows = c->out[0].rows, width = c->out[0].width;
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *y = c->out[0].data;
    float *row = c->in[1].weight ? qn_ref_floats_dup(&c->in[1], width) : NULL;
    int64_t b_width = row ? 0 : c->in[1].width; /* 0: every row has the same factors */
    for (int64_t r = 0; r < rows; r++)
        mul_row(a + r * width, row ? row : b + r * b_width, row || b_width == width, y + r * width,
                width);
    qn_free(row);
}

/* Sums each row of x into one number: a product with a row of ones. */
static qn_val row_sums(qn_graph *g, qn_val x)
{
    int64_t width = qn_shape_of(g, x).dim[1];
    return QN_ADD(g, &qn_op_linear, NULL, x, qn_graph_ones(g, 1, width));
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
        din[1] = row_sums(g, db);
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
