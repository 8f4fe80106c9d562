/* position_scale.c - rows grow slowly with their position, so that queries stay sharp over long contexts:
 *
 *   y[r] = x[r] * (1 + beta * log(1 + floor((pos[r] + shift) / period)))
 * pos is the step's first axis of positions. In place: y may lie on x. */
#include <math.h>

#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_position_scale *a = n->attr;
    if (!qn_is_rows(&in[0]) || in[0].dim[0] != -QN_SYM_TOK)
        return qn_refuse(why, "x is f32, a row for each token");
    if (!(a->period > 0) || !isfinite(a->beta) || !isfinite(a->period) || !(a->shift >= 0))
        return qn_refuse(why, "beta, period or shift is out of range");
    out[0] = in[0];
    return true;
}

static void ref(const qn_call *c)
{
    const qn_attr_position_scale *a = c->attr;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t r = 0; r < c->out[0].rows; r++) {
        double steps = floor(((double)c->batch->pos[r] + a->shift) / a->period);
        float factor = (float)(1 + a->beta * log1p(fmax(steps, 0)));
        for (int64_t i = r * c->out[0].width; i < (r + 1) * c->out[0].width; i++)
            y[i] = x[i] * factor;
    }
}

static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    din[0] = QN_ADD(g, &qn_op_position_scale, qn_node_at(g, self)->attr, dout[0]);
}

const qn_op qn_op_position_scale = { .name = "position_scale",
                                     .attr_size = sizeof(qn_attr_position_scale),
                                     .min_in = 1,
                                     .max_in = 1,
                                     .n_out = 1,
                                     .in_place = true,
                                     .infer = infer,
                                     .ref = ref,
                                     .grad = grad };
