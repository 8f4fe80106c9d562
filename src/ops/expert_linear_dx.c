/* expert_linear_dx.c - the gradient of expert_linear with respect to its rows:
 *
 *   dx[r] = sum over choices k of w[id[r, k]]^T dout[r, k], or each by itself when x has a part a choice.
 * dout [R, k*N], w [E, N, K], ids i32 [R, k], x (only its shape) -> as x. */
#include "ops/util.h"

/* The forward rule with x, w and ids in its order gives the shape of dout. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_node forward = *n;
    forward.n_in = 3;
    qn_shape y, from[3] = { in[3], in[1], in[2] };
    if (!qn_op_expert_linear.infer(&forward, from, &y, why))
        return false;
    if (!qn_shape_eq(&y, &in[0]))
        return qn_refuse(why, "dout is like the result");
    out[0] = in[3];
    return true;
}

/* Choices of one row add up where they share the row; each keeps its part where it does not. */
static void ref(const qn_call *c)
{
    const qn_attr_expert_linear *a = c->attr;
    int64_t N = c->in[0].width / a->top_k, W = c->out[0].width,
            K = a->x_per_slot ? W / a->top_k : W;
    float *buf = qn_alloc_n((size_t)K, sizeof *buf);
    double *sum = qn_alloc_n((size_t)W, sizeof *sum);
    for (int64_t r = 0; r < c->out[0].rows; r++) {
        for (int64_t i = 0; i < W; i++)
            sum[i] = 0;
        for (int64_t kn = 0; kn < a->top_k * N; kn++) {
            int64_t k = kn / N, e = ((const int32_t *)c->in[2].data)[r * a->top_k + k];
            const float *w = qn_ref_row(&c->in[1], e * N + kn % N, K, buf);
            double dy = ((const float *)c->in[0].data)[r * a->top_k * N + kn];
            double *to = sum + (a->x_per_slot ? k * K : 0);
            for (int64_t i = 0; i < K; i++)
                to[i] += dy * w[i];
        }
        for (int64_t i = 0; i < W; i++)
            ((float *)c->out[0].data)[r * W + i] = (float)sum[i];
    }
    qn_free(sum);
    qn_free(buf);
}

const qn_op qn_op_expert_linear_dx = { .name = "expert_linear_dx",
                                       .attr_size = sizeof(qn_attr_expert_linear),
                                       .min_in = 4,
                                       .max_in = 4,
                                       .n_out = 1,
                                       .infer = infer,
                                       .ref = ref };
