/* seq_mean.c - the mean row of each sequence: y[s] = sum of x[r] / number of rows, r in the rows of s.
 *
 * x [n_tok, W] -> [n_seq, W]. Sums are in double, ascending, so a sequence's mean does not depend on what else
 * is in the step. A sequence without rows has the mean zero. Only heads of encoders use it, which are not
 * trained here: it has no gradient. */
#include "ops/util.h"

/* The result has a row a sequence whatever the rows of x are called. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    (void)n;
    if (!qn_is_rows(&in[0]) || in[0].dim[0] != -QN_SYM_TOK)
        return qn_refuse(why, "x is f32 [n_tok, W]");
    out[0] = qn_shape2(-QN_SYM_SEQ, in[0].dim[1], QN_F32);
    return true;
}

static void ref(const qn_call *c)
{
    int64_t width = c->out[0].width;
    const int32_t *start = c->batch->q_start;
    const float *x = c->in[0].data;
    for (int64_t s = 0; s < c->out[0].rows; s++) {
        float *y = (float *)c->out[0].data + s * width;
        int32_t n = start[s + 1] - start[s];
        for (int64_t i = 0; i < width; i++) {
            double sum = 0;
            for (int32_t r = start[s]; r < start[s + 1]; r++)
                sum += x[r * width + i];
            y[i] = n > 0 ? (float)(sum / n) : 0;
        }
    }
}

const qn_op qn_op_seq_mean = {
    .name = "seq_mean", .min_in = 1, .max_in = 1, .n_out = 1, .infer = infer, .ref = ref
};
