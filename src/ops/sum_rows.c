/* sum_rows.c - the sum over all rows: y[w] = sum_r x[r, w], in double. The gradient of what every row adds or
 * multiplies alike (biases). x [R, W] -> [W]. */
#include "ops/util.h"

/* The row count, a symbol, goes; what is left has a fixed size. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, W]");
    out[0] = qn_shape1(in[0].dim[1], QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    int64_t width = c->in[0].width;
    const float *x = c->in[0].data;
    for (int64_t i = 0; i < width; i++) {
        double sum = 0;
        for (int64_t r = 0; r < c->in[0].rows; r++)
            sum += x[r * width + i];
        ((float *)c->out[0].data)[i] = (float)sum;
    }
}

/* Every row gets dout: a row added to zeros of x's shape. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    qn_val x = qn_node_at(g, self)->in[0];
    qn_val zeros = QN_ADD(g, &qn_op_scale, &(qn_attr_scale){ 0 }, x);
    din[0] = QN_ADD(g, &qn_op_add, NULL, zeros, dout[0]);
}

const qn_op qn_op_sum_rows = { .name = "sum_rows",
                               .min_in = 1,
                               .max_in = 1,
                               .n_out = 1,
                               .infer = infer,
                               .ref = ref,
                               .grad = grad };
