/* route.c - chooses experts for each row: ids and weights of the top k, best first.
 *
 *   softmax       score = softmax(logits) over all experts
 *   softmax_topk  score = softmax over the chosen ones only
 *   sigmoid       score = 1 / (1 + exp(-logit))
 *   sparsemix     the k-th choice is the best logit m that is left, weighed by a softmax over those of the left
 *                 ones that are near it: (m - l) / max(|l|, m) <= 2 jitter
 * The choice goes by score + bias (by the logits where there is no bias: the same order without rounding),
 * ties to the lower expert, so that no kernel's rounding of equal scores decides. With n_groups > 0 the experts
 * stand in equal groups, and only the top_groups best ones may be chosen from: a group is worth the sum of its
 * two best for sigmoid scores, its best one for softmax (its two best too if `group_pairs`). The weights are the chosen scores without bias,
 * divided by their sum if `renorm`, times `factor`.
 *
 * logits [R, E], bias [E]? -> ids i32 [R, k], weights [R, k]. */
#include <math.h>

#include "ops/util.h"

/* Counts come from configs. Groups must hold enough experts, or the choice would have to invent some.
 * */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_route *a = n->attr;
    if (!qn_is_rows(&in[0]) || in[0].dim[1] != a->n_experts)
        return qn_refuse(why, "logits are f32 [R, experts]");
    if (n->n_in > 1 && !qn_is_opt_vec(&in[1], a->n_experts))
        return qn_refuse(why, "there is one bias an expert");
    if (a->top_k < 1 || a->top_k > a->n_experts)
        return qn_refuse(why, "top_k is not within the experts");
    if (a->factor == 0)
        return qn_refuse(why, "a factor of 0 would silence the experts");
    if (a->n_groups > 0) {
        if (a->n_experts % a->n_groups || a->top_groups < 1 || a->top_groups > a->n_groups ||
            a->top_groups * (a->n_experts / a->n_groups) < a->top_k)
            return qn_refuse(why, "expert groups do not divide the experts or hold too few");
    }
    out[0] = qn_shape2(in[0].dim[0], a->top_k, QN_I32);
    out[1] = qn_shape2(in[0].dim[0], a->top_k, QN_F32);
    return true;
}

/* Scores of all experts; for softmax over the chosen, the logits themselves. */
static void score_row(const qn_attr_route *a, const float *logit, float *score)
{
    double max = -INFINITY, sum = 0;
    for (int32_t e = 0; e < a->n_experts; e++)
        max = fmax(max, logit[e]);
    for (int32_t e = 0; e < a->n_experts; e++)
        sum += exp(logit[e] - max);
    for (int32_t e = 0; e < a->n_experts; e++) {
        if (a->score == QN_ROUTE_SOFTMAX)
            score[e] = (float)(exp(logit[e] - max) / sum);
        else if (a->score == QN_ROUTE_SIGMOID)
            score[e] = (float)(1 / (1 + exp(-(double)logit[e])));
        else
            score[e] = logit[e];
    }
}

/* Index of the largest of v[0..n); the first of equal ones; values of -inf are out. -1: none left. */
static int32_t best_of(const float *v, int32_t n)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++)
        if (v[i] > -INFINITY && (best < 0 || v[i] > v[best]))
            best = i;
    return best;
}

/* What a group is worth: its best choice, or the sum of its two best. */
static float group_worth(const float *choice, int32_t n, bool two)
{
    float first = -INFINITY, second = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        if (choice[i] > first) {
            second = first;
            first = choice[i];
        } else if (choice[i] > second) {
            second = choice[i];
        }
    }
    return two && n > 1 ? first + second : first;
}

/* Puts -inf on the experts of all but the best groups. worth: [n_groups] work space. */
static void limit_groups(const qn_attr_route *a, float *choice, float *worth)
{
    int32_t size = a->n_experts / a->n_groups;
    for (int32_t g = 0; g < a->n_groups; g++)
        worth[g] =
            group_worth(choice + g * size, size, a->score == QN_ROUTE_SIGMOID || a->group_pairs);
    for (int32_t k = 0; k < a->top_groups; k++) {
        int32_t g = best_of(worth, a->n_groups);
        if (g >= 0)
            worth[g] = -INFINITY; /* marks it as chosen */
    }
    for (int32_t g = 0; g < a->n_groups; g++)
        for (int32_t i = 0; worth[g] > -INFINITY && i < size; i++)
            choice[g * size + i] = -INFINITY;
}

/* The k best by `choice`, which is used up. Where nothing is left to compare (NaN logits) the lowest experts
 * follow, so that ids are valid whatever the numbers are. */
static void choose(const qn_attr_route *a, float *choice, int32_t *id)
{
    for (int32_t k = 0; k < a->top_k; k++) {
        int32_t e = best_of(choice, a->n_experts);
        for (int32_t i = 0; e < 0 && i < a->n_experts; i++)
            if (!isinf(choice[i]))
                e = i;
        id[k] = e < 0 ? k : e;
        choice[id[k]] = -INFINITY;
    }
}

/* Scores of the chosen experts into their weights. */
static void weigh(const qn_attr_route *a, const float *score, const int32_t *id, float *weight)
{
    double max = -INFINITY, sum = 0;
    for (int32_t k = 0; k < a->top_k; k++)
        max = fmax(max, score[id[k]]);
    bool softmax = a->score == QN_ROUTE_SOFTMAX_TOPK;
    for (int32_t k = 0; k < a->top_k; k++)
        sum += softmax ? exp(score[id[k]] - max) : score[id[k]];
    for (int32_t k = 0; k < a->top_k; k++) {
        double w = softmax ? exp(score[id[k]] - max) / sum : score[id[k]];
        if (a->renorm && !softmax)
            w /= sum;
        weight[k] = (float)(w * a->factor);
    }
}

bool qn_route_is_near(const qn_attr_route *a, float max, float logit)
{
    return !((max - logit) / fmaxf(fabsf(logit), max) > 2 * a->jitter);
}

/* Weights of choices made one after the other, each among what the ones before left. `left` is used up. */
static void weigh_in_turn(const qn_attr_route *a, float *left, const int32_t *id, float *weight)
{
    for (int32_t k = 0; k < a->top_k; k++) {
        float max = left[id[k]];
        double sum = 0;
        for (int32_t e = 0; e < a->n_experts; e++)
            if (left[e] > -INFINITY && qn_route_is_near(a, max, left[e]))
                sum += exp((double)left[e] - max);
        weight[k] = (float)(a->factor / sum);
        left[id[k]] = -INFINITY;
    }
}

static void ref(const qn_call *c)
{
    const qn_attr_route *a = c->attr;
    int32_t E = a->n_experts;
    float *bias = qn_ref_floats_dup(&c->in[1], E);
    float *score = qn_alloc_n((size_t)E * 3, sizeof *score);
    float *choice = score + E, *worth = choice + E;
    for (int64_t r = 0; r < c->out[0].rows; r++) {
        const float *logit = (const float *)c->in[0].data + r * E;
        int32_t *id = (int32_t *)c->out[0].data + r * a->top_k;
        score_row(a, logit, score);
        for (int32_t e = 0; e < E; e++)
            choice[e] = bias ? score[e] + bias[e] : logit[e];
        if (a->n_groups > 0)
            limit_groups(a, choice, worth);
        choose(a, choice, id);
        float *weight = (float *)c->out[1].data + r * a->top_k;
        if (a->score == QN_ROUTE_SPARSEMIX)
            weigh_in_turn(a, score, id, weight);
        else
            weigh(a, score, id, weight);
    }
    qn_free(score);
    qn_free(bias);
}

static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    if (dout[1].id) /* the choice itself is piecewise constant */
        din[0] = QN_ADD(g, &qn_op_route_grad, n.attr, n.in[0], self, qn_out(self, 1), dout[1]);
}

const qn_op qn_op_route = { .name = "route",
                            .attr_size = sizeof(qn_attr_route),
                            .min_in = 1,
                            .max_in = 2,
                            .n_out = 2,
                            .infer = infer,
                            .ref = ref,
                            .grad = grad };
