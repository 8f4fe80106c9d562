/* expert_linear.c - products with the experts each row chose: y[r, k] = w[id[r, k]] x (+ bias[id[r, k]]).
 *
 * x [R, K], or [R, k*K] when every choice has its own input; w [E, N, K]; ids i32 [R, k]; bias [E, N]?
 * -> [R, k*N], choices side by side in rank order. */
#include <assert.h>

#include "ops/util.h"

/* The stack must be one weight: experts that lie apart are gathered when the checkpoint is read. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_expert_linear *a = n->attr;
    if (!qn_is_rows(&in[0]) || !qn_is_stack(&in[1]))
        return qn_refuse(why, "needs x [R, K] and w [E, N, K]");
    if (in[2].n_dims != 2 || in[2].dtype != QN_I32 || in[2].dim[0] != in[0].dim[0] ||
        in[2].dim[1] != a->top_k || a->top_k < 1)
        return qn_refuse(why, "ids are i32 [R, top_k]");
    int64_t inputs = a->x_per_slot ? a->top_k : 1;
    if (in[0].dim[1] % inputs || in[0].dim[1] / inputs != in[1].dim[2])
        return qn_refuse(why, "x and w differ in K");
    if (n->n_in > 3 && in[3].n_dims &&
        !(qn_is_mat(&in[3]) && in[3].dim[0] == in[1].dim[0] && in[3].dim[1] == in[1].dim[1]))
        return qn_refuse(why, "the bias is [E, N]");
    out[0] = qn_shape2(in[0].dim[0], a->top_k * in[1].dim[1], QN_F32);
    return true;
}

/* Every choice of every row by itself: fast kernels group rows by expert and must get the same. */
static void ref(const qn_call *c)
{
    const qn_attr_expert_linear *a = c->attr;
    int64_t N = c->out[0].width / a->top_k, K = c->in[0].width / (a->x_per_slot ? a->top_k : 1);
    float *buf = qn_alloc_n((size_t)(K + N), sizeof *buf), *bias_buf = buf + K;
    for (int64_t i = 0; i < c->out[0].rows * a->top_k; i++) {
        int32_t e = ((const int32_t *)c->in[2].data)[i];
        assert(e >= 0 && (!c->in[1].weight || e < c->in[1].weight->dim[0]));
        const float *x = (const float *)c->in[0].data + (a->x_per_slot ? i : i / a->top_k) * K;
        const float *bias = qn_absent(&c->in[3]) ? NULL : qn_ref_row(&c->in[3], e, N, bias_buf);
        float *y = (float *)c->out[0].data + i * N;
        for (int64_t n = 0; n < N; n++) {
            float sum = (float)qn_ref_dot(x, qn_ref_row(&c->in[1], e * N + n, K, buf), K);
            y[n] = bias ? sum + bias[n] : sum;
        }
    }
    qn_free(buf);
}

static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[0] = QN_ADD(g, &qn_op_expert_linear_dx, n.attr, dout[0], n.in[1], n.in[2], n.in[0]);
    din[1] = QN_ADD(g, &qn_op_expert_linear_dw, n.attr, dout[0], n.in[0], n.in[2], n.in[1]);
    if (n.in[3].id) /* adding rows of dout to the rows of the bias that were used */
        din[3] = QN_ADD(g, &qn_op_embed_grad, NULL, n.in[2], dout[0], n.in[3]);
}

const qn_op qn_op_expert_linear = { .name = "expert_linear",
                                    .attr_size = sizeof(qn_attr_expert_linear),
                                    .min_in = 3,
                                    .max_in = 4,
                                    .n_out = 1,
                                    .infer = infer,
                                    .ref = ref,
                                    .grad = grad };
