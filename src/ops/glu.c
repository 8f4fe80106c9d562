/* glu.c - fused: y = act(gate) * up. Expands into act and mul. In place: y may lie on gate.
 *
 * gate [R, W], up [R, W] -> [R, W]. The activation is rounded to f32 before the product, as in the expansion. */
#include "ops/util.h"

/* Gate and up come from products of one width, or the model would not multiply them. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_act *a = n->attr;
    if (!qn_is_rows(&in[0]) || !qn_is_rows(&in[1]) || !qn_shape_eq(&in[0], &in[1]))
        return qn_refuse(why, "gate and up are f32 of one shape");
    if (a->act < QN_ACT_NONE || a->act > QN_ACT_SOFTPLUS)
        return qn_refuse(why, "no such activation");
    out[0] = in[0];
    return true;
}

static void ref(const qn_call *c)
{
    qn_act act = (qn_act)((const qn_attr_act *)c->attr)->act;
    const float *gate = c->in[0].data, *up = c->in[1].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < c->out[0].rows * c->out[0].width; i++)
        y[i] = (float)qn_act_value(act, gate[i]) * up[i];
}

static void expand(qn_graph *g, const qn_node *n, const qn_val *in, qn_val *out)
{
    qn_val a = QN_ADD(g, &qn_op_act, n->attr, in[0]);
    out[0] = QN_ADD(g, &qn_op_mul, NULL, a, in[1]);
}

const qn_op qn_op_glu = { .name = "glu",
                          .attr_size = sizeof(qn_attr_act),
                          .min_in = 2,
                          .max_in = 2,
                          .n_out = 1,
                          .in_place = true,
                          .infer = infer,
                          .ref = ref,
                          .expand = expand };
