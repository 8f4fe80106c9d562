/* clamp.c - y = min(max(x, lo), hi); an infinite bound is none. In place: y may lie on x. */
#include <math.h>

#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_clamp *a = n->attr;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, W]");
    if (!(a->lo <= a->hi)) /* no number at all included */
        return qn_refuse(why, "the bounds are in no order");
    out[0] = in[0];
    return true;
}

static void ref(const qn_call *c)
{
    const qn_attr_clamp *a = c->attr;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < c->out[0].rows * c->out[0].width; i++)
        y[i] = x[i] < a->lo ? a->lo : x[i] > a->hi ? a->hi : x[i];
}

static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[0] = QN_ADD(g, &qn_op_clamp_grad, n.attr, n.in[0], dout[0]);
}

const qn_op qn_op_clamp = { .name = "clamp",
                            .attr_size = sizeof(qn_attr_clamp),
                            .min_in = 1,
                            .max_in = 1,
                            .n_out = 1,
                            .in_place = true,
                            .infer = infer,
                            .ref = ref,
                            .grad = grad };
