/* expert_linear_dw.c - the gradient of expert_linear with respect to the experts' weights:
 *
 *   dw[e] = sum over choices (r, k) with id[r, k] = e of dout[r, k] x^T, rows ascending.
 * dout [R, k*N], x, ids i32 [R, k], w [E, N, K] (only its shape) -> f32 [E, N, K]. */
#include <assert.h>
#include <string.h>

#include "ops/util.h"

/* The forward rule with x, w and ids in its order; dw is f32 whatever the layout is. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_node forward = *n;
    forward.n_in = 3;
    qn_shape y, from[3] = { in[1], in[3], in[2] };
    if (!qn_op_expert_linear.infer(&forward, from, &y, why))
        return false;
    if (!qn_shape_eq(&y, &in[0]))
        return qn_refuse(why, "dout is like the result");
    out[0] = in[3];
    out[0].dtype = QN_F32;
    return true;
}

/* Rows add in order. An expert that nobody chose gets zeros. */
static void ref(const qn_call *c)
{
    const qn_attr_expert_linear *a = c->attr;
    int64_t N = c->in[0].width / a->top_k, K = c->in[1].width / (a->x_per_slot ? a->top_k : 1);
    float *dw = c->out[0].data;
    memset(dw, 0, (size_t)(c->out[0].rows * c->out[0].width) * sizeof *dw);
    for (int64_t i = 0; i < c->in[0].rows * a->top_k; i++) {
        int64_t e = ((const int32_t *)c->in[2].data)[i];
        assert(e >= 0 && e < c->out[0].rows);
        const float *x = (const float *)c->in[1].data + (a->x_per_slot ? i : i / a->top_k) * K;
        const float *dy = (const float *)c->in[0].data + i * N;
        for (int64_t nk = 0; nk < N * K; nk++)
            dw[e * N * K + nk] += dy[nk / K] * x[nk % K];
    }
}

const qn_op qn_op_expert_linear_dw = { .name = "expert_linear_dw",
                                       .attr_size = sizeof(qn_attr_expert_linear),
                                       .min_in = 4,
                                       .max_in = 4,
                                       .n_out = 1,
                                       .infer = infer,
                                       .ref = ref };
