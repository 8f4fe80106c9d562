/* split.c - a choice of columns, the same from each run of `group` columns:
 *
 *   y[r, g * width + j] = x[r, g * group + start + j * step], j < width
 * x [R, W] -> [R, W / group * width]; group 0 is the whole row, step 0 is 1. Takes apart products that a
 * checkpoint stores as one: fused q, k and v, parts of every head, gate and up in turns. */
#include "ops/util.h"

qn_columns qn_split_columns(const qn_attr_split *a, int64_t width)
{
    return (qn_columns){ .group = a->group ? a->group : width, .step = a->step ? a->step : 1 };
}

/* The comparisons are written so that a start near the largest integer cannot wrap. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_split *a = n->attr;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, W]");
    qn_columns c = qn_split_columns(a, in[0].dim[1]);
    if (c.group < 0 || c.step < 0 || in[0].dim[1] % c.group)
        return qn_refuse(why, "groups of columns do not fill x");
    if (a->start < 0 || a->width <= 0 || a->start >= c.group ||
        (a->width - 1) > (c.group - 1 - a->start) / c.step)
        return qn_refuse(why, "the columns lie outside x");
    out[0] = qn_shape2(in[0].dim[0], in[0].dim[1] / c.group * a->width, QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    const qn_attr_split *a = c->attr;
    qn_columns k = qn_split_columns(a, c->in[0].width);
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    /* Groups follow each other within rows and from row to row. */
    for (int64_t g = 0; g < c->in[0].rows * c->in[0].width / k.group; g++)
        for (int64_t j = 0; j < a->width; j++)
            y[g * a->width + j] = x[g * k.group + a->start + j * k.step];
}

/* x is given for its shape alone. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[0] = QN_ADD(g, &qn_op_split_grad, n.attr, dout[0], n.in[0]);
}

const qn_op qn_op_split = { .name = "split",
                            .attr_size = sizeof(qn_attr_split),
                            .min_in = 1,
                            .max_in = 1,
                            .n_out = 1,
                            .infer = infer,
                            .ref = ref,
                            .grad = grad };
