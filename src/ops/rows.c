/* rows.c - picks rows: y[m] = x[row[m]].
 *
 * x [R, W], row I32 [M] -> [M, W]. Used to keep only the rows whose logits are wanted. */
#include <assert.h>
#include <string.h>

#include "ops/util.h"

/* The picked count is a symbol of its own: the rows whose logits are wanted. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_rows(&in[0]) || !qn_is_ids(&in[1]) || in[1].n_dims != 1)
        return qn_refuse(why, "needs x [R, W] and i32 rows [M]");
    out[0] = qn_shape2(in[1].dim[0], in[0].dim[1], QN_F32);
    return true;
}

/* An index outside the rows would be a bug of whoever made the step. */
static void ref(const qn_call *c)
{
    int64_t width = c->out[0].width;
    const float *x = c->in[0].data;
    const int32_t *row = c->in[1].data;
    float *y = c->out[0].data;
    for (int64_t m = 0; m < c->out[0].rows; m++) {
        assert(row[m] >= 0 && row[m] < c->in[0].rows);
        memcpy(y + m * width, x + row[m] * width, (size_t)width * sizeof *y);
    }
}

/* A row that was picked twice would get both gradients: rows_grad adds. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[0] = QN_ADD(g, &qn_op_rows_grad, NULL, dout[0], n.in[1], n.in[0]);
}

const qn_op qn_op_rows = {
    .name = "rows", .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer, .ref = ref, .grad = grad
};
