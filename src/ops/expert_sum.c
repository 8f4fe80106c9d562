/* expert_sum.c - joins what the experts made: y[r] = sum_k weight[r, k] * x[r, k], in rank order.
 *
 * x [R, k*W], weights [R, k] -> [R, W]. The sum is in f32 from rank 0 upwards: a fixed order is what makes a
 * row's value independent of the rows beside it. */
#include "ops/util.h"

/* Weights are values here, since the router makes them for every row. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_expert_sum *a = n->attr;
    if (!qn_is_rows(&in[0]) || !qn_is_rows(&in[1]) || in[0].dim[0] != in[1].dim[0])
        return qn_refuse(why, "needs f32 rows and their weights");
    if (a->top_k < 1 || in[1].dim[1] != a->top_k || in[0].dim[1] % a->top_k)
        return qn_refuse(why, "there is one weight a choice");
    out[0] = qn_shape2(in[0].dim[0], in[0].dim[1] / a->top_k, QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    int32_t top_k = ((const qn_attr_expert_sum *)c->attr)->top_k;
    int64_t width = c->out[0].width;
    for (int64_t r = 0; r < c->out[0].rows; r++) {
        const float *x = (const float *)c->in[0].data + r * top_k * width;
        const float *weight = (const float *)c->in[1].data + r * top_k;
        float *y = (float *)c->out[0].data + r * width;
        for (int64_t i = 0; i < width; i++) {
            float sum = 0;
            for (int32_t k = 0; k < top_k; k++)
                sum += weight[k] * x[k * width + i];
            y[i] = sum;
        }
    }
}

/* One op for both: each needs dout once. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[0] = QN_ADD(g, &qn_op_expert_sum_grad, n.attr, n.in[0], n.in[1], dout[0]);
    din[1] = qn_out(din[0], 1);
}

const qn_op qn_op_expert_sum = { .name = "expert_sum",
                                 .attr_size = sizeof(qn_attr_expert_sum),
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .infer = infer,
                                 .ref = ref,
                                 .grad = grad };
