/* embed_grad.c - adds rows into a table: dtable[id[i]] += dout[i].
 *
 * ids i32 [R] with dout [R, W], or ids [R, k] with dout [R, k*W]; table [V, W] (only its shape) -> [V, W].
 * Rows are added in ascending order: a sum of floats needs one. */
#include <assert.h>
#include <string.h>

#include "ops/util.h"

/* With k ids a row this is also the gradient of a bias that rows of experts share. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_ids(&in[0]) || !qn_is_rows(&in[1]) || !qn_is_mat(&in[2]))
        return qn_refuse(why, "needs ids, rows and a table");
    int64_t k = in[0].n_dims == 2 ? in[0].dim[1] : 1;
    if (in[0].dim[0] != in[1].dim[0] || in[1].dim[1] != k * in[2].dim[1])
        return qn_refuse(why, "there is one row of the table's width an id");
    out[0] = qn_shape2(in[2].dim[0], in[2].dim[1], QN_F32);
    return true;
}

/* Cleared first: most rows of a vocabulary are not in a batch. */
static void ref(const qn_call *c)
{
    int64_t width = c->out[0].width, n = c->in[1].rows * c->in[1].width / width;
    const int32_t *id = c->in[0].data;
    const float *dy = c->in[1].data;
    float *dt = c->out[0].data;
    memset(dt, 0, (size_t)(c->out[0].rows * width) * sizeof *dt);
    for (int64_t r = 0; r < n; r++) {
        assert(id[r] >= 0 && id[r] < c->out[0].rows);
        for (int64_t i = 0; i < width; i++)
            dt[id[r] * width + i] += dy[r * width + i];
    }
}

const qn_op qn_op_embed_grad = {
    .name = "embed_grad", .min_in = 3, .max_in = 3, .n_out = 1, .infer = infer, .ref = ref
};
