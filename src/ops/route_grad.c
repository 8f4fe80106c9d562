/* route_grad.c - the gradient of the routing weights with respect to the logits; the choice has none.
 *
 * With chosen scores s_k, weights w_k = factor * s_k (/ sum_j s_j if renorm), and g = dweights:
 *   first through factor and renorm:  ds_k = factor * g_k,  or  (factor * g_k - sum_j g_j w_j) / sum_j s_j
 *   then through the scores:
 *     softmax       dlogit_e = s_e * ([e chosen] ds_e - sum_k s_k ds_k)      over all experts
 *     softmax_topk  dlogit_k = s_k * (ds_k - sum_j s_j ds_j)                 over the chosen
 *     sigmoid       dlogit_k = s_k (1 - s_k) ds_k
 *     sparsemix     for each choice, as a softmax over those that counted for it
 * logits [R, E], ids i32 [R, k], weights [R, k], dweights [R, k] -> [R, E]. */
#include <math.h>
#include <string.h>

#include "ops/util.h"

/* ids and weights are the forward results, checked against what the logits would give. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_node forward = *n;
    forward.n_in = 1;
    qn_shape made[2];
    if (!qn_op_route.infer(&forward, in, made, why))
        return false;
    if (!qn_shape_eq(&made[0], &in[1]) || !qn_shape_eq(&made[1], &in[2]) ||
        !qn_shape_eq(&made[1], &in[3]))
        return qn_refuse(why, "ids and weights are those of the logits");
    out[0] = in[0];
    return true;
}

/* Scores of all experts (softmax over the chosen: of those only, 0 elsewhere). */
static void score_row(const qn_attr_route *a, const float *logit, const int32_t *id, double *score)
{
    double max = -INFINITY, sum = 0;
    for (int32_t e = 0; e < a->n_experts; e++)
        score[e] = a->score == QN_ROUTE_SOFTMAX_TOPK ? -INFINITY : logit[e];
    for (int32_t k = 0; k < a->top_k; k++)
        score[id[k]] = logit[id[k]];
    if (a->score == QN_ROUTE_SIGMOID) {
        for (int32_t e = 0; e < a->n_experts; e++)
            score[e] = 1 / (1 + exp(-score[e]));
        return;
    }
    for (int32_t e = 0; e < a->n_experts; e++)
        max = fmax(max, score[e]);
    for (int32_t e = 0; e < a->n_experts; e++)
        sum += score[e] = exp(score[e] - max);
    for (int32_t e = 0; e < a->n_experts; e++)
        score[e] /= sum;
}

/* d loss / d score of the chosen experts into ds [E], 0 elsewhere. */
static void through_weights(const qn_attr_route *a, const double *score, const int32_t *id,
                            const float *dw, double *ds)
{
    double sum = 0, mean = 0;
    memset(ds, 0, (size_t)a->n_experts * sizeof *ds);
    for (int32_t k = 0; k < a->top_k; k++) {
        sum += score[id[k]];
        mean += score[id[k]] * dw[k];
    }
    bool renorm = a->renorm && a->score != QN_ROUTE_SOFTMAX_TOPK; /* those sum to one already */
    for (int32_t k = 0; k < a->top_k; k++)
        ds[id[k]] = a->factor * (renorm ? (dw[k] - mean / sum) / sum : dw[k]);
}

/* Choice k of a sparsemix: adds its slope to dlogit. taken: [E], 1 for the choices before it. */
static void in_turn(const qn_attr_route *a, const float *logit, int32_t id, double dweight,
                    double *taken, double *dlogit)
{
    double sum = 0, dw = dweight * a->factor;
    for (int32_t e = 0; e < a->n_experts; e++)
        if (taken[e] == 0 && qn_route_is_near(a, logit[id], logit[e]))
            sum += exp((double)logit[e] - logit[id]);
    for (int32_t e = 0; e < a->n_experts; e++)
        if (taken[e] == 0 && qn_route_is_near(a, logit[id], logit[e]))
            dlogit[e] += dw / sum * ((e == id) - exp((double)logit[e] - logit[id]) / sum);
    taken[id] = 1;
}

static void sparsemix_row(const qn_call *c, int64_t r, double *taken, double *dlogit)
{
    const qn_attr_route *a = c->attr;
    memset(taken, 0, (size_t)a->n_experts * sizeof *taken);
    memset(dlogit, 0, (size_t)a->n_experts * sizeof *dlogit);
    for (int64_t k = r * a->top_k; k < (r + 1) * a->top_k; k++)
        in_turn(a, (const float *)c->in[0].data + r * a->n_experts,
                ((const int32_t *)c->in[1].data)[k], ((const float *)c->in[3].data)[k], taken,
                dlogit);
    for (int32_t e = 0; e < a->n_experts; e++)
        ((float *)c->out[0].data)[r * a->n_experts + e] = (float)dlogit[e];
}

static void ref(const qn_call *c)
{
    const qn_attr_route *a = c->attr;
    int32_t E = a->n_experts;
    double *score = qn_alloc_n((size_t)E * 2, sizeof *score), *ds = score + E;
    for (int64_t r = 0; r < c->out[0].rows; r++) {
        const int32_t *id = (const int32_t *)c->in[1].data + r * a->top_k;
        float *dx = (float *)c->out[0].data + r * E;
        double dot = 0;
        if (a->score == QN_ROUTE_SPARSEMIX) {
            sparsemix_row(c, r, score, ds);
            continue;
        }
        score_row(a, (const float *)c->in[0].data + r * E, id, score);
        through_weights(a, score, id, (const float *)c->in[3].data + r * a->top_k, ds);
        for (int32_t e = 0; e < E; e++)
            dot += score[e] * ds[e];
        for (int32_t e = 0; e < E; e++)
            dx[e] = (float)(score[e] *
                            (a->score == QN_ROUTE_SIGMOID ? ds[e] * (1 - score[e]) : ds[e] - dot));
    }
    qn_free(score);
}

const qn_op qn_op_route_grad = { .name = "route_grad",
                                 .attr_size = sizeof(qn_attr_route),
                                 .min_in = 4,
                                 .max_in = 4,
                                 .n_out = 1,
                                 .infer = infer,
                                 .ref = ref };
