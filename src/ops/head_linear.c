/* head_linear.c - a product for each head: its part of x by a block of rows that is its own.
 *
 * w has P rows of K numbers for each head, as [H*P, K] or [H, P, K]; head h uses rows [start, start + n) of its
 * block, W_h [n, K]:
 *   y_h = x_h W_h^T    x [R, H*K] -> [R, H*n]
 *   y_h = x_h W_h      x [R, H*n] -> [R, H*K]    transposed
 * So a checkpoint that stores the two matrices of latent attention as one (kv_b_proj) is read where it lies, in
 * whichever direction, and so is one that stores them apart. Sums ascend, in double. */
#include "ops/util.h"

/* Rows that w has for each head; 0 when they do not come out even. */
static int64_t block_rows(const qn_attr_head_linear *a, const qn_shape *w)
{
    int64_t rows = w->n_dims == 3 ? w->dim[0] * w->dim[1] : w->dim[0];
    if (a->n_heads < 1 || rows % a->n_heads || (w->n_dims == 3 && w->dim[0] != a->n_heads))
        return 0;
    return rows / a->n_heads;
}

qn_head_block qn_head_block_of(const qn_attr_head_linear *a, const qn_tensor *w, int32_t head)
{
    int64_t k = w->weight ? qn_weight_cols(w->weight) : w->width;
    int64_t all = w->weight ? qn_weight_rows(w->weight) : w->rows;
    int64_t p = all / a->n_heads;
    return (qn_head_block){ .row = head * p + a->start, .n = a->n ? a->n : p, .k = k };
}

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_head_linear *a = n->attr;
    if (!qn_is_rows(&in[0]) || !(qn_is_mat(&in[1]) || qn_is_stack(&in[1])))
        return qn_refuse(why, "needs x [R, W] and w [H*P, K] or [H, P, K]");
    int64_t p = block_rows(a, &in[1]), rows = a->n ? a->n : p, k = in[1].dim[in[1].n_dims - 1];
    if (p == 0)
        return qn_refuse(why, "the rows of w are no equal blocks for the heads");
    if (a->start < 0 || rows < 1 || a->start >= p || rows > p - a->start)
        return qn_refuse(why, "the rows lie outside a head's block");
    if (in[0].dim[1] % a->n_heads || in[0].dim[1] / a->n_heads != (a->transposed ? rows : k))
        return qn_refuse(why, "x and w differ in what is summed");
    out[0] = qn_shape2(in[0].dim[0], a->n_heads * (a->transposed ? k : rows), QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    const qn_attr_head_linear *a = c->attr;
    int64_t rows = c->in[0].rows, wx = c->in[0].width, wy = c->out[0].width;
    qn_head_block b = qn_head_block_of(a, &c->in[1], 0);
    float *buf = qn_alloc_n((size_t)b.k, sizeof *buf);
    double *sum = qn_alloc_n((size_t)b.k, sizeof *sum);
    for (int64_t i = 0; i < rows * a->n_heads; i++) {
        int32_t h = (int32_t)(i % a->n_heads);
        b = qn_head_block_of(a, &c->in[1], h);
        const float *x = (const float *)c->in[0].data + i / a->n_heads * wx + wx / a->n_heads * h;
        float *y = (float *)c->out[0].data + i / a->n_heads * wy + wy / a->n_heads * h;
        for (int64_t j = 0; j < b.k; j++)
            sum[j] = 0;
        for (int64_t n = 0; n < b.n; n++) {
            const float *w = qn_ref_row(&c->in[1], b.row + n, b.k, buf);
            if (!a->transposed)
                y[n] = (float)qn_ref_dot(x, w, b.k);
            for (int64_t j = 0; a->transposed && j < b.k; j++)
                sum[j] += (double)x[n] * w[j];
        }
        for (int64_t j = 0; a->transposed && j < b.k; j++)
            y[j] = (float)sum[j];
    }
    qn_free(sum);
    qn_free(buf);
}

static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    qn_attr_head_linear back = *(const qn_attr_head_linear *)n.attr;
    back.transposed = !back.transposed;
    din[0] = QN_ADD(g, &qn_op_head_linear, &back, dout[0], n.in[1]);
    din[1] = QN_ADD(g, &qn_op_head_linear_dw, n.attr, n.in[0], dout[0], n.in[1]);
}

const qn_op qn_op_head_linear = { .name = "head_linear",
                                  .attr_size = sizeof(qn_attr_head_linear),
                                  .min_in = 2,
                                  .max_in = 2,
                                  .n_out = 1,
                                  .infer = infer,
                                  .ref = ref,
                                  .grad = grad };
