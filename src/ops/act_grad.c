/* act_grad.c - dx = act'(x) * dout. x [R, W], dout [R, W] -> [R, W]. In place: dx may lie on x.
 *
 * Where an activation has a corner (relu at 0) the slope is the one from the left. */
#include "ops/util.h"

/* The forward rule, for a dout of the same shape. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    if (!qn_is_rows(&in[1]) || !qn_shape_eq(&in[0], &in[1]))
        return qn_refuse(why, "x and dout have one shape");
    return qn_op_act.infer(n, in, out, why);
}

static void ref(const qn_call *c)
{
    qn_act act = (qn_act)((const qn_attr_act *)c->attr)->act;
    const float *x = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data;
    for (int64_t i = 0; i < c->out[0].rows * c->out[0].width; i++)
        dx[i] = (float)(qn_act_slope(act, x[i]) * dy[i]);
}

const qn_op qn_op_act_grad = { .name = "act_grad",
                               .attr_size = sizeof(qn_attr_act),
                               .min_in = 2,
                               .max_in = 2,
                               .n_out = 1,
                               .in_place = true,
                               .infer = infer,
                               .ref = ref };
