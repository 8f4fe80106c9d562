/* source.c - ops that compute nothing: weights, inputs of the step, and further results of other ops.
 *
 * They exist so that every value of a graph is a node with a name and a shape. Backends give their values a
 * pointer instead of a place in a plan, so none has a reference. */
#include "ops/util.h"

static bool weight_infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)in;
    const qn_weight *w = ((const qn_attr_weight *)n->attr)->weight;
    if (w->n_dims < 1 || w->n_dims > 4)
        return qn_refuse(why, "a weight has one to four dimensions");
    out[0] = (qn_shape){ .n_dims = w->n_dims, .dtype = w->layout };
    for (int i = 0; i < w->n_dims; i++) {
        if (w->dim[i] <= 0)
            return qn_refuse(why, "a weight has an empty dimension");
        out[0].dim[i] = w->dim[i];
    }
    return true;
}

static bool input_infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)in;
    out[0] = ((const qn_attr_input *)n->attr)->shape;
    if (out[0].n_dims < 1 || (out[0].dtype != QN_F32 && out[0].dtype != QN_I32))
        return qn_refuse(why, "an input is f32 or i32 and has a dimension");
    for (int i = 1; i < out[0].n_dims; i++)
        if (out[0].dim[i] < 0)
            return qn_refuse(why, "only the first dimension of an input may be a symbol");
    return true;
}

const qn_op qn_op_weight = {
    .name = "weight", .attr_size = sizeof(qn_attr_weight), .n_out = 1, .infer = weight_infer
};

const qn_op qn_op_input = {
    .name = "input", .attr_size = sizeof(qn_attr_input), .n_out = 1, .infer = input_infer
};

/* The graph gives it its shape, which the op before it inferred. */
const qn_op qn_op_result = { .name = "result" };
