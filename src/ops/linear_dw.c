/* linear_dw.c - the gradient of a product with respect to its weight: dw[n, k] = sum_r dout[r, n] * x[r, k].
 *
 * dout [R, N], x [R, K] -> f32 [N, K], rows added in ascending order, in double. */
#include "ops/util.h"

/* Both sides are values: the gradient is f32 whatever the layout of the weight is. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_rows(&in[0]) || !qn_is_rows(&in[1]) || in[0].dim[0] != in[1].dim[0])
        return qn_refuse(why, "needs dout [R, N] and x [R, K]");
    out[0] = qn_shape2(in[0].dim[1], in[1].dim[1], QN_F32);
    return true;
}

/* One row of dw at a time, so the sums in double take one row of memory. */
static void ref(const qn_call *c)
{
    int64_t rows = c->in[0].rows, N = c->in[0].width, K = c->in[1].width;
    const float *dy = c->in[0].data, *x = c->in[1].data;
    float *dw = c->out[0].data;
    double *sum = qn_alloc_n((size_t)K, sizeof *sum);
    for (int64_t n = 0; n < N; n++) {
        for (int64_t k = 0; k < K; k++)
            sum[k] = 0;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < K; k++)
                sum[k] += (double)dy[r * N + n] * x[r * K + k];
        for (int64_t k = 0; k < K; k++)
            dw[n * K + k] = (float)sum[k];
    }
    qn_free(sum);
}

const qn_op qn_op_linear_dw = {
    .name = "linear_dw", .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer, .ref = ref
};
