/* split.c - a run of columns: y[r, j] = x[r, start + j], j < width.
 *
 * x [R, W] -> [R, width]. Takes apart products that a checkpoint stores as one (fused q, k and v). */
#include <string.h>

#include "ops/util.h"

/* The comparison is written so that a start near the largest integer cannot wrap. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_split *a = n->attr;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, W]");
    if (a->start < 0 || a->width <= 0 || a->start > in[0].dim[1] ||
        a->width > in[0].dim[1] - a->start)
        return qn_refuse(why, "the columns lie outside x");
    out[0] = qn_shape2(in[0].dim[0], a->width, QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    const qn_attr_split *a = c->attr;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t r = 0; r < c->out[0].rows; r++)
        memcpy(y + r * a->width, x + r * c->in[0].width + a->start, (size_t)a->width * sizeof *y);
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
