/* scale.c - y = factor * x, the factor known when the graph is built. In place: y may lie on x. */
#include "ops/util.h"

/* Any shape, so that it also serves gradients of weights. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (in[0].n_dims == 0 || in[0].dtype != QN_F32)
        return qn_refuse(why, "x is f32");
    out[0] = in[0];
    return true;
}

static void ref(const qn_call *c)
{
    float factor = ((const qn_attr_scale *)c->attr)->factor;
    int64_t n = c->out[0].rows * c->out[0].width;
    /* A constant may stand here too: the gradient that a backward pass starts from. */
    float *constant = c->in[0].weight ? qn_ref_floats_dup(&c->in[0], n) : NULL;
    const float *x = constant ? constant : c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * factor;
    qn_free(constant);
}

/* Linear: the gradient is scaled alike. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    din[0] = QN_ADD(g, &qn_op_scale, qn_node_at(g, self)->attr, dout[0]);
}

const qn_op qn_op_scale = { .name = "scale",
                            .attr_size = sizeof(qn_attr_scale),
                            .min_in = 1,
                            .max_in = 1,
                            .n_out = 1,
                            .in_place = true,
                            .infer = infer,
                            .ref = ref,
                            .grad = grad };
