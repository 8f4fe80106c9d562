/* cross_entropy_grad.c - the gradient of cross_entropy with respect to the logits:
 *
 *   dlogits[r, v] = dloss / count * (softmax(logits[r])[v] - (1 - e) [v = label[r]] - e / V)
 * and 0 in rows without a label. logits [R, V], label i32 [R], dloss [1] -> [R, V]. */
#include <math.h>
#include <string.h>

#include "ops/util.h"

/* The forward rule, and a seed: the loss may be a part of a larger one. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_shape loss;
    if (!qn_op_cross_entropy.infer(n, in, &loss, why))
        return false;
    if (!qn_is_vec(&in[2], 1))
        return qn_refuse(why, "the gradient of a loss is one number");
    out[0] = in[0];
    return true;
}

/* softmax is computed from the log-sum-exp, as the loss is, so that both round alike. */
static void ref(const qn_call *c)
{
    const double e = ((const qn_attr_cross_entropy *)c->attr)->smoothing;
    const int32_t *label = c->in[1].data;
    int64_t rows = c->in[0].rows, V = c->in[0].width, count = qn_count_labels(label, rows);
    float seed_buf, seed = *qn_ref_row(&c->in[2], 0, 1, &seed_buf);
    for (int64_t r = 0; r < rows; r++) {
        const float *x = (const float *)c->in[0].data + r * V;
        float *dx = (float *)c->out[0].data + r * V;
        memset(dx, 0, (size_t)V * sizeof *dx);
        if (label[r] < 0)
            continue;
        double lse = qn_log_sum_exp(x, V), f = seed / (double)count;
        for (int64_t v = 0; v < V; v++)
            dx[v] = (float)(f * (exp(x[v] - lse) - (v == label[r]) * (1 - e) - e / (double)V));
    }
}

const qn_op qn_op_cross_entropy_grad = { .name = "cross_entropy_grad",
                                         .attr_size = sizeof(qn_attr_cross_entropy),
                                         .min_in = 3,
                                         .max_in = 3,
                                         .n_out = 1,
                                         .infer = infer,
                                         .ref = ref };
