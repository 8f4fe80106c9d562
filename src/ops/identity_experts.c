/* identity_experts.c - takes the choices that are no experts out of a routing: those with ids >= n_experts, whose
 * result is their input itself.
 *
 *   ids'     the expert, or 0 for the others, whose weight is then 0
 *   weights' the experts' weights
 *   share    the sum of the others' weights: what of the input itself is added
 * ids i32 [R, k], weights [R, k] -> ids' i32 [R, k], weights' [R, k], share [R, 1]. */
#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    if (in[0].n_dims != 2 || in[0].dtype != QN_I32 || !qn_is_rows(&in[1]) ||
        !qn_shape_eq(&in[0], &in[1]))
        return qn_refuse(why, "ids are i32 and weights f32, both [R, k]");
    if (((const qn_attr_identity_experts *)n->attr)->n_experts < 1)
        return qn_refuse(why, "there is no expert");
    out[0] = in[0];
    out[1] = in[1];
    out[2] = qn_shape2(in[0].dim[0], 1, QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    int32_t n_experts = ((const qn_attr_identity_experts *)c->attr)->n_experts;
    int64_t k = c->in[0].width;
    for (int64_t r = 0; r < c->in[0].rows; r++) {
        double share = 0;
        for (int64_t i = r * k; i < (r + 1) * k; i++) {
            int32_t id = ((const int32_t *)c->in[0].data)[i];
            float weight = ((const float *)c->in[1].data)[i];
            bool is_expert = id < n_experts;
            ((int32_t *)c->out[0].data)[i] = is_expert ? id : 0;
            ((float *)c->out[1].data)[i] = is_expert ? weight : 0;
            share += is_expert ? 0 : weight;
        }
        ((float *)c->out[2].data)[r] = (float)share;
    }
}

static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    if (dout[1].id || dout[2].id)
        din[1] =
            QN_ADD(g, &qn_op_identity_experts_grad, n.attr, n.in[0], n.in[1], dout[1], dout[2]);
}

const qn_op qn_op_identity_experts = { .name = "identity_experts",
                                       .attr_size = sizeof(qn_attr_identity_experts),
                                       .min_in = 2,
                                       .max_in = 2,
                                       .n_out = 3,
                                       .infer = infer,
                                       .ref = ref,
                                       .grad = grad };
