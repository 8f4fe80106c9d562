/* embed.c - rows of a table by id: y[r] = table[id[r]].
 *
 * ids I32 [R], table [V, W] -> [R, W]. An id outside the table is a bug of whoever made the batch (the engine
 * checks token ids when it takes a request), so the reference asserts. */
#include <assert.h>
#include <string.h>

#include "ops/util.h"

/* The table may be any layout that decodes by rows; ids come from the step and are no weights. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_ids(&in[0]) || in[0].n_dims != 1)
        return qn_refuse(why, "ids are i32 [R]");
    if (!qn_is_mat(&in[1]))
        return qn_refuse(why, "the table is a matrix");
    out[0] = qn_shape2(in[0].dim[0], in[1].dim[1], QN_F32);
    return true;
}

/* A weight row is decoded straight into its place; a table that is a value is copied. */
static void ref(const qn_call *c)
{
    const int32_t *id = c->in[0].data;
    int64_t width = c->out[0].width;
    for (int64_t r = 0; r < c->out[0].rows; r++) {
        float *y = (float *)c->out[0].data + r * width;
        assert(id[r] >= 0 && (!c->in[1].weight || id[r] < qn_weight_rows(c->in[1].weight)));
        const float *row = qn_ref_row(&c->in[1], id[r], width, y);
        if (row != y)
            memcpy(y, row, (size_t)width * sizeof *y);
    }
}

/* Ids have no gradient. Rows of the table that were not looked up get zeros. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[1] = QN_ADD(g, &qn_op_embed_grad, NULL, n.in[0], dout[0], n.in[1]);
}

const qn_op qn_op_embed = {
    .name = "embed", .min_in = 2, .max_in = 2, .n_out = 1, .infer = infer, .ref = ref, .grad = grad
};
