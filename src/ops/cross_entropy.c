/* cross_entropy.c - the loss of next-token prediction, averaged over the rows that have a label.
 *
 *   logp[v] = logits[v] - log(sum_u exp(logits[u]))
 *   loss(r) = (1 - e) * -logp[label[r]] + e * mean_v(-logp[v])         e: label smoothing
 *   loss    = sum of loss(r) over rows with label[r] >= 0, divided by their number; 0 when there are none
 * logits [R, V], label i32 [R] -> [1]. Sums are in double. */
#include <assert.h>
#include <math.h>

#include "ops/util.h"

/* One label a row of logits; which rows have logits is the step's matter. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_cross_entropy *a = n->attr;
    if (!qn_is_rows(&in[0]) || !qn_is_ids(&in[1]) || in[1].n_dims != 1 ||
        in[1].dim[0] != in[0].dim[0])
        return qn_refuse(why, "needs logits [R, V] and i32 labels [R]");
    if (!(a->smoothing >= 0 && a->smoothing < 1))
        return qn_refuse(why, "smoothing lies in [0, 1)");
    out[0] = qn_shape1(1, QN_F32);
    return true;
}

double qn_log_sum_exp(const float *x, int64_t n)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        max = fmax(max, x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - max);
    return max + log(sum);
}

int64_t qn_count_labels(const int32_t *label, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += label[i] >= 0;
    return count;
}

static double row_loss(const float *x, int64_t n, int32_t label, double smoothing)
{
    assert(label < n); /* the trainer checks its data */
    double lse = qn_log_sum_exp(x, n), mean = 0;
    for (int64_t i = 0; smoothing > 0 && i < n; i++)
        mean += lse - x[i];
    return (1 - smoothing) * (lse - x[label]) + smoothing * mean / (double)n;
}

static void ref(const qn_call *c)
{
    const qn_attr_cross_entropy *a = c->attr;
    const int32_t *label = c->in[1].data;
    int64_t rows = c->in[0].rows, V = c->in[0].width;
    double sum = 0;
    for (int64_t r = 0; r < rows; r++)
        if (label[r] >= 0)
            sum += row_loss((const float *)c->in[0].data + r * V, V, label[r], a->smoothing);
    int64_t count = qn_count_labels(label, rows);
    *(float *)c->out[0].data = count ? (float)(sum / (double)count) : 0;
}

/* Labels have no gradient. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[0] = QN_ADD(g, &qn_op_cross_entropy_grad, n.attr, n.in[0], n.in[1], dout[0]);
}

const qn_op qn_op_cross_entropy = { .name = "cross_entropy",
                                    .attr_size = sizeof(qn_attr_cross_entropy),
                                    .min_in = 2,
                                    .max_in = 2,
                                    .n_out = 1,
                                    .infer = infer,
                                    .ref = ref,
                                    .grad = grad };
