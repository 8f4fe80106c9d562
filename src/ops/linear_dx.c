/* linear_dx.c - the gradient of a product with respect to its rows: dx[r, k] = sum_n dout[r, n] * w[n, k].
 *
 * dout [R, N], w [N, K] of any layout (frozen quantised weights pass gradients too) -> [R, K]. */
#include "ops/util.h"

/* w is read as the forward product reads it; its layout need not have a gradient of its own. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_rows(&in[0]) || !qn_is_mat(&in[1]) || in[0].dim[1] != in[1].dim[0])
        return qn_refuse(why, "needs dout [R, N] and w [N, K]");
    out[0] = qn_shape2(in[0].dim[0], in[1].dim[1], QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    int64_t rows = c->in[0].rows, N = c->in[0].width, K = c->out[0].width;
    const float *dy = c->in[0].data;
    float *dx = c->out[0].data;
    float *buf = qn_alloc_n((size_t)K, sizeof *buf);
    double *sum = qn_alloc_n((size_t)(rows * K), sizeof *sum);
    for (int64_t n = 0; n < N; n++) { /* each row of w is decoded once */
        const float *w = qn_ref_row(&c->in[1], n, K, buf);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < K; k++)
                sum[r * K + k] += (double)dy[r * N + n] * w[k];
    }
    for (int64_t i = 0; i < rows * K; i++)
        dx[i] = (float)sum[i];
    qn_free(sum);
    qn_free(buf);
}

const qn_op qn_op_linear_dx = {
    .name = "linear_dx", .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer, .ref = ref
};
