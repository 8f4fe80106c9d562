/* add_norm.c - fused: s = a + b, y = norm(s). Expands into add and norm.
 *
 * a [R, W], b [R, W], w?, bias? as in norm.c -> s [R, W], y [R, W]. The residual stream and the normed input of
 * the next block in one pass over memory. In place: s may lie on a. */
#include "ops/util.h"

/* The parameters are checked by the rule of norm itself, so that the two can never differ. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    if (!qn_is_rows(&in[0]) || !qn_is_rows(&in[1]) || !qn_shape_eq(&in[0], &in[1]))
        return qn_refuse(why, "a and b are f32 of one shape");
    qn_node norm = *n;
    norm.n_in = (uint8_t)(n->n_in - 1); /* norm(s, w, bias): its inputs start one later */
    if (!qn_op_norm.infer(&norm, in + 1, out, why))
        return false;
    out[1] = out[0];
    return true;
}

static void ref(const qn_call *c)
{
    int64_t width = c->out[0].width;
    qn_norm_params p = qn_norm_params_read(c->attr, &c->in[2], &c->in[3], width);
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *s = c->out[0].data, *y = c->out[1].data;
    for (int64_t r = 0; r < c->out[0].rows; r++) {
        for (int64_t i = r * width; i < (r + 1) * width; i++)
            s[i] = a[i] + b[i];
        qn_norm_row(c->attr, &p, s + r * width, y + r * width, width);
    }
    qn_norm_params_free(&p);
}

/* The sum is a result of its own: it is the residual stream that goes on. */
static void expand(qn_graph *g, const qn_node *n, const qn_val *in, qn_val *out)
{
    out[0] = QN_ADD(g, &qn_op_add, NULL, in[0], in[1]);
    out[1] = QN_ADD(g, &qn_op_norm, n->attr, out[0], in[2], in[3]);
}

const qn_op qn_op_add_norm = { .name = "add_norm",
                               .attr_size = sizeof(qn_attr_norm),
                               .min_in = 2,
                               .max_in = 4,
                               .n_out = 2,
                               .in_place = true,
                               .infer = infer,
                               .ref = ref,
                               .expand = expand };
