/* add.c - y = a + b; b may be one row that is added to every row of a.
 *
 * a [R, W], b [R, W] or [W] -> [R, W]; or two equal shapes of any kind (gradients of weights are added up
 * with it). In place: y may lie on a. */
#include "ops/util.h"

/* Equal shapes of any rank come from gradients of weights; the broadcast form is for biases. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (in[0].n_dims == 0 || in[0].dtype != QN_F32)
        return qn_refuse(why, "a is f32");
    bool same = qn_shape_eq(&in[0], &in[1]) && in[1].dtype == QN_F32;
    if (!same && !(in[0].n_dims == 2 && qn_is_vec(&in[1], in[0].dim[1])))
        return qn_refuse(why, "b is like a, or one row of it");
    out[0] = in[0];
    return true;
}

/* A vector is told from rows by its size: a value [R, W] has as many rows as the result. */
static void ref(const qn_call *c)
{
    int64_t rows = c->out[0].rows, width = c->out[0].width;
    bool same =
        qn_shape_width(&c->node->shape) == c->in[1].width && c->in[1].rows == rows && c->in[1].data;
    const float *a = c->in[0].data;
    float *y = c->out[0].data;
    float *row = same ? NULL : qn_ref_floats_dup(&c->in[1], width);
    for (int64_t r = 0; r < rows; r++) {
        const float *b = same ? (const float *)c->in[1].data + r * width : row;
        for (int64_t i = 0; i < width; i++)
            y[r * width + i] = a[r * width + i] + b[i];
    }
    qn_free(row);
}

/* Addition passes its gradient on to both sides; what was added to every row collects all of them. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    qn_shape a = qn_shape_of(g, n.in[0]), b = qn_shape_of(g, n.in[1]);
    din[0] = dout[0];
    din[1] = qn_shape_eq(&a, &b) ? dout[0] : QN_ADD(g, &qn_op_sum_rows, NULL, dout[0]);
}

const qn_op qn_op_add = { .name = "add",
                          .min_in = 2,
                          .max_in = 2,
                          .n_out = 1,
                          .in_place = true,
                          .infer = infer,
                          .ref = ref,
                          .grad = grad };
