/* head_linear_dw.c - the gradient of head_linear with respect to its weight: for row n of head h's block
 *
 *   dW_h[n] = sum over rows r of dout_h[r, n] x_h[r], or x_h[r, n] dout_h[r] when transposed
 * and 0 in the rows that the product does not use. x, dout, w (only its shape) -> as w, f32. */
#include <string.h>

#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_shape y, forward[2] = { in[0], in[2] };
    if (!qn_op_head_linear.infer(n, forward, &y, why))
        return false;
    if (!qn_shape_eq(&y, &in[1]))
        return qn_refuse(why, "dout is like the result");
    out[0] = in[2];
    out[0].dtype = QN_F32;
    return true;
}

static void ref(const qn_call *c)
{
    const qn_attr_head_linear *a = c->attr;
    /* The side with one number for each row of the block, and the one with K. */
    const qn_tensor *few = a->transposed ? &c->in[0] : &c->in[1];
    const qn_tensor *many = a->transposed ? &c->in[1] : &c->in[0];
    float *dw = c->out[0].data;
    qn_head_block b = qn_head_block_of(a, &c->in[2], 0);
    double *sum = qn_alloc_n((size_t)b.k, sizeof *sum);
    memset(dw, 0, (size_t)(c->out[0].rows * c->out[0].width) * sizeof *dw);
    for (int64_t i = 0; i < a->n_heads * b.n; i++) {
        int32_t h = (int32_t)(i / b.n);
        memset(sum, 0, (size_t)b.k * sizeof *sum);
        for (int64_t r = 0; r < few->rows; r++) {
            double by = ((const float *)few->data)[r * few->width + i];
            const float *row = (const float *)many->data + r * many->width + h * b.k;
            for (int64_t j = 0; j < b.k; j++)
                sum[j] += by * row[j];
        }
        float *to = dw + (qn_head_block_of(a, &c->in[2], h).row + i % b.n) * b.k;
        for (int64_t j = 0; j < b.k; j++)
            to[j] = (float)sum[j];
    }
    qn_free(sum);
}

const qn_op qn_op_head_linear_dw = { .name = "head_linear_dw",
                                     .attr_size = sizeof(qn_attr_head_linear),
                                     .min_in = 3,
                                     .max_in = 3,
                                     .n_out = 1,
                                     .infer = infer,
                                     .ref = ref };
