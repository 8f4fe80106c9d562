/* join.c - the columns of two values side by side, group by group: with G groups,
 *
 *   y[r, g * (A + B) + j] = a[r, g * A + j] for j < A, b[r, g * B + j - A] after
 * a [R, G*A], b [R, G*B] -> [R, G*(A+B)]. One group puts whole rows side by side; more give every head a part
 * of each. The inverse is split. */
#include <string.h>

#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    int64_t groups = ((const qn_attr_join *)n->attr)->groups;
    if (!qn_is_rows(&in[0]) || !qn_is_rows(&in[1]) || in[0].dim[0] != in[1].dim[0])
        return qn_refuse(why, "a and b are f32 rows of one count");
    if (groups < 1 || in[0].dim[1] % groups || in[1].dim[1] % groups ||
        in[0].dim[1] > INT64_MAX - in[1].dim[1])
        return qn_refuse(why, "a and b are no whole groups");
    out[0] = qn_shape2(in[0].dim[0], in[0].dim[1] + in[1].dim[1], QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    int64_t groups = ((const qn_attr_join *)c->attr)->groups;
    int64_t wa = c->in[0].width / groups, wb = c->in[1].width / groups;
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *y = c->out[0].data;
    for (int64_t g = 0; g < c->out[0].rows * groups; g++) {
        memcpy(y + g * (wa + wb), a + g * wa, (size_t)wa * sizeof *y);
        memcpy(y + g * (wa + wb) + wa, b + g * wb, (size_t)wb * sizeof *y);
    }
}

static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    int64_t groups = ((const qn_attr_join *)n.attr)->groups, start = 0;
    int64_t group = n.shape.dim[1] / groups;
    for (int k = 0; k < 2; k++) {
        int64_t width = qn_shape_of(g, n.in[k]).dim[1] / groups;
        qn_attr_split part = { .start = start, .width = width, .group = group };
        din[k] = QN_ADD(g, &qn_op_split, &part, dout[0]);
        start += width;
    }
}

const qn_op qn_op_join = { .name = "join",
                           .attr_size = sizeof(qn_attr_join),
                           .min_in = 2,
                           .max_in = 2,
                           .n_out = 1,
                           .infer = infer,
                           .ref = ref,
                           .grad = grad };
