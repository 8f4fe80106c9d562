/* split_grad.c - the gradient of split: dout in its columns, 0 in the others.
 *
 * dout [R, W / group * width], x [R, W] (only its shape) -> [R, W]. */
#include <string.h>

#include "ops/util.h"

/* The forward rule gives the shape that dout must have. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_shape part;
    if (!qn_op_split.infer(n, in + 1, &part, why))
        return false;
    if (!qn_shape_eq(&part, &in[0]))
        return qn_refuse(why, "dout is like the columns");
    out[0] = in[1];
    return true;
}

static void ref(const qn_call *c)
{
    const qn_attr_split *a = c->attr;
    qn_columns k = qn_split_columns(a, c->out[0].width);
    int64_t n = c->out[0].rows * c->out[0].width;
    const float *dy = c->in[0].data;
    float *dx = c->out[0].data;
    memset(dx, 0, (size_t)n * sizeof *dx);
    for (int64_t g = 0; g < n / k.group; g++)
        for (int64_t j = 0; j < a->width; j++)
            dx[g * k.group + a->start + j * k.step] = dy[g * a->width + j];
}

const qn_op qn_op_split_grad = { .name = "split_grad",
                                 .attr_size = sizeof(qn_attr_split),
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .infer = infer,
                                 .ref = ref };
