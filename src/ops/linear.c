/* linear.c - the matrix product: y[r, n] = sum_k x[r, k] * w[n, k] (+ bias[n]).
 *
 * x [R, K], w [N, K] of any layout, bias [N]? -> [R, N]. w lies as checkpoints have it, one output a row, so
 * that a row of w is one dot product. The sum is ascending in k, in double; the bias is added to the rounded
 * sum, as the reference implementations do. */
#include "ops/util.h"

/* K must agree; N and the layout of w are free. A bias goes with the outputs. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    if (!qn_is_rows(&in[0]) || !qn_is_mat(&in[1]))
        return qn_refuse(why, "needs x [R, K] and w [N, K]");
    if (in[0].dim[1] != in[1].dim[1])
        return qn_refuse(why, "x and w differ in K");
    if (n->n_in > 2 && !qn_is_opt_vec(&in[2], in[1].dim[0]))
        return qn_refuse(why, "the bias is [N]");
    out[0] = qn_shape2(in[0].dim[0], in[1].dim[0], QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    int64_t rows = c->in[0].rows, K = c->in[0].width, N = c->out[0].width;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    float *buf = qn_alloc_n((size_t)K, sizeof *buf);
    float *bias = qn_ref_floats_dup(&c->in[2], N);
    /* Outputs outside, rows inside: each row of a packed weight is decoded once. */
    for (int64_t n = 0; n < N; n++) {
        const float *w = qn_ref_row(&c->in[1], n, K, buf);
        for (int64_t r = 0; r < rows; r++) {
            float sum = (float)qn_ref_dot(x + r * K, w, K);
            y[r * N + n] = bias ? sum + bias[n] : sum;
        }
    }
    qn_free(bias);
    qn_free(buf);
}

/* dx = dout w, dw = dout^T x. The bias was added to every row, so its gradient is the sum of them. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[0] = QN_ADD(g, &qn_op_linear_dx, NULL, dout[0], n.in[1]);
    din[1] = QN_ADD(g, &qn_op_linear_dw, NULL, dout[0], n.in[0]);
    if (n.in[2].id)
        din[2] = QN_ADD(g, &qn_op_sum_rows, NULL, dout[0]);
}

const qn_op qn_op_linear = {
    .name = "linear", .min_in = 2, .max_in = 3, .n_out = 1, .infer = infer, .ref = ref, .grad = grad
};
