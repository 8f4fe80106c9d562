/* clamp_grad.c - dx = dout where lo <= x <= hi, 0 elsewhere. x [R, W], dout [R, W] -> [R, W]. In place: dx may
 * lie on x. */
#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    if (!qn_is_rows(&in[1]) || !qn_shape_eq(&in[0], &in[1]))
        return qn_refuse(why, "x and dout have one shape");
    return qn_op_clamp.infer(n, in, out, why);
}

static void ref(const qn_call *c)
{
    const qn_attr_clamp *a = c->attr;
    const float *x = c->in[0].data, *dy = c->in[1].data;
    float *dx = c->out[0].data;
    for (int64_t i = 0; i < c->out[0].rows * c->out[0].width; i++)
        dx[i] = x[i] >= a->lo && x[i] <= a->hi ? dy[i] : 0;
}

const qn_op qn_op_clamp_grad = { .name = "clamp_grad",
                                 .attr_size = sizeof(qn_attr_clamp),
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .in_place = true,
                                 .infer = infer,
                                 .ref = ref };
