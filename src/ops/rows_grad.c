/* rows_grad.c - the gradient of rows: dx[row[m]] += dout[m], 0 in rows that were not picked.
 *
 * dout [M, W], row i32 [M], x [R, W] (only its shape) -> [R, W]. */
#include <assert.h>
#include <string.h>

#include "ops/util.h"

/* The forward rule gives the shape that dout must have. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_shape picked, from[2] = { in[2], in[1] };
    if (!qn_op_rows.infer(n, from, &picked, why))
        return false;
    if (!qn_shape_eq(&picked, &in[0]))
        return qn_refuse(why, "dout is like the picked rows");
    out[0] = in[2];
    return true;
}

/* Adding instead of copying: an index may occur twice. */
static void ref(const qn_call *c)
{
    int64_t width = c->out[0].width;
    const float *dy = c->in[0].data;
    const int32_t *row = c->in[1].data;
    float *dx = c->out[0].data;
    memset(dx, 0, (size_t)(c->out[0].rows * width) * sizeof *dx);
    for (int64_t m = 0; m < c->in[0].rows; m++) {
        assert(row[m] >= 0 && row[m] < c->out[0].rows);
        for (int64_t i = 0; i < width; i++)
            dx[row[m] * width + i] += dy[m * width + i];
    }
}

const qn_op qn_op_rows_grad = {
    .name = "rows_grad", .min_in = 3, .max_in = 3, .n_out = 1, .infer = infer, .ref = ref
};
