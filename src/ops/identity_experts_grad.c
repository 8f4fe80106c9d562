/* identity_experts_grad.c - the slope of a routing's weights: an expert's is that of its own weight, the others'
 * is that of the share they add to.
 *
 * ids i32 [R, k], weights [R, k] (only its shape), dweights [R, k]?, dshare [R, 1]? -> [R, k]. */
#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_shape y[3];
    if (!qn_op_identity_experts.infer(n, in, y, why))
        return false;
    if ((in[2].n_dims && !qn_shape_eq(&in[2], &y[1])) ||
        (n->n_in > 3 && in[3].n_dims && !qn_shape_eq(&in[3], &y[2])))
        return qn_refuse(why, "slopes are like the results");
    out[0] = in[1];
    return true;
}

static void ref(const qn_call *c)
{
    int32_t n_experts = ((const qn_attr_identity_experts *)c->attr)->n_experts;
    const float *dweight = c->in[2].data, *dshare = c->in[3].data;
    for (int64_t i = 0; i < c->out[0].rows * c->out[0].width; i++) {
        bool is_expert = ((const int32_t *)c->in[0].data)[i] < n_experts;
        float own = dweight ? dweight[i] : 0, rest = dshare ? dshare[i / c->out[0].width] : 0;
        ((float *)c->out[0].data)[i] = is_expert ? own : rest;
    }
}

const qn_op qn_op_identity_experts_grad = { .name = "identity_experts_grad",
                                            .attr_size = sizeof(qn_attr_identity_experts),
                                            .min_in = 3,
                                            .max_in = 4,
                                            .n_out = 1,
                                            .infer = infer,
                                            .ref = ref };
