/* expert_sum_grad.c - the gradient of expert_sum:
 *
 *   dx[r, k] = weight[r, k] * dout[r],  dweight[r, k] = dout[r] . x[r, k]
 * x [R, k*W], weights [R, k], dout [R, W] -> dx [R, k*W], dweights [R, k]. */
#include "ops/util.h"

/* The forward rule gives the shape of dout; the results are as the inputs. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_shape y;
    if (!qn_op_expert_sum.infer(n, in, &y, why))
        return false;
    if (!qn_shape_eq(&y, &in[2]))
        return qn_refuse(why, "dout is like the result");
    out[0] = in[0];
    out[1] = in[1];
    return true;
}

static void ref(const qn_call *c)
{
    int32_t top_k = ((const qn_attr_expert_sum *)c->attr)->top_k;
    int64_t width = c->in[2].width;
    for (int64_t i = 0; i < c->in[0].rows * top_k; i++) {
        const float *x = (const float *)c->in[0].data + i * width;
        const float *dy = (const float *)c->in[2].data + i / top_k * width;
        float weight = ((const float *)c->in[1].data)[i];
        float *dx = (float *)c->out[0].data + i * width;
        ((float *)c->out[1].data)[i] = (float)qn_ref_dot(dy, x, width);
        for (int64_t j = 0; j < width; j++)
            dx[j] = weight * dy[j];
    }
}

const qn_op qn_op_expert_sum_grad = { .name = "expert_sum_grad",
                                      .attr_size = sizeof(qn_attr_expert_sum),
                                      .min_in = 3,
                                      .max_in = 3,
                                      .n_out = 2,
                                      .infer = infer,
                                      .ref = ref };
