/* key_select.c - chooses for each row the keys it will attend to: a small attention without values.
 *
 *   s_j = sum over heads h of weight_h * max(scale * (q_h . k_j), 0)
 * over the indices j <= see[r] of the row's sequence; the top_k largest are chosen, ties going to the lower index.
 * q [R, H*D], k [R, D], weights [R, H] -> i32 [R, top_k]: the chosen indices, ascending, then -1.
 *
 * The keys are kept in a cache slot of their own, without values; all are read as it holds them, so the choice does
 * not depend on how a prompt was cut. A row that sees no more than top_k keys chooses them all. There is no
 * gradient: the choice is piecewise constant. */
#include <math.h>

#include "ops/kv_store.h"
#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_key_select *a = n->attr;
    for (int i = 0; i < 3; i++)
        if (!qn_is_rows(&in[i]) || in[i].dim[0] != in[0].dim[0])
            return qn_refuse(why, "q, k and weights are f32 rows of one count");
    if (a->n_heads < 1 || a->dim < 1 || in[0].dim[1] != (int64_t)a->n_heads * a->dim ||
        in[1].dim[1] != a->dim || in[2].dim[1] != a->n_heads)
        return qn_refuse(why, "widths are not heads times the size of a key");
    if (a->top_k < 1 || a->kv_group < 0 || a->kv_group >= QN_MAX_KV_GROUPS)
        return qn_refuse(why, "top_k or cache group out of range");
    out[0] = qn_shape2(in[0].dim[0], a->top_k, QN_I32);
    return true;
}

static double score(const qn_call *c, int64_t r, const float *key)
{
    const qn_attr_key_select *a = c->attr;
    const float *q = (const float *)c->in[0].data + r * c->in[0].width;
    const float *weight = (const float *)c->in[2].data + r * a->n_heads;
    double sum = 0;
    for (int32_t h = 0; h < a->n_heads; h++)
        sum += weight[h] * fmax(a->scale * qn_ref_dot(q + (int64_t)h * a->dim, key, a->dim), 0);
    return sum;
}

/* The smallest of the top_k best scores, and how many equal to it are among them: `work` is used up. */
static double threshold(double *work, int64_t n, int64_t top_k, int64_t *n_equal)
{
    int64_t lo = 0, hi = n - 1, k = top_k - 1;
    while (lo < hi) { /* quickselect, largest first */
        double pivot = work[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;
        while (i <= j) {
            while (work[i] > pivot)
                i++;
            while (work[j] < pivot)
                j--;
            if (i <= j) {
                double t = work[i];
                work[i++] = work[j];
                work[j--] = t;
            }
        }
        if (k <= j)
            hi = j;
        else if (k >= i)
            lo = i;
        else
            break;
    }
    *n_equal = 0;
    for (int64_t i = 0; i < top_k; i++)
        *n_equal += work[i] == work[k];
    return work[k];
}

/* Writes the chosen of n scores, ascending. NaN scores are never chosen. */
static void choose(const double *s, double *work, int64_t n, int32_t top_k, int32_t *id)
{
    double least = -INFINITY;
    int64_t n_equal = top_k, used = 0;
    if (n > top_k) {
        for (int64_t j = 0; j < n; j++)
            work[j] = isnan(s[j]) ? -INFINITY : s[j];
        least = threshold(work, n, top_k, &n_equal);
    }
    for (int64_t j = 0; j < n && used < top_k; j++)
        if (n <= top_k || s[j] > least || (s[j] == least && n_equal-- > 0))
            id[used++] = (int32_t)j;
    for (; used < top_k; used++)
        id[used] = -1;
}

static void ref(const qn_call *c)
{
    const qn_attr_key_select *a = c->attr;
    qn_kv_store keys = qn_kv_store_of(c, a->kv_group, a->kv_slot, QN_KV_KEYS);
    keys.dim = a->dim;
    if (c->state)
        qn_kv_store_rows(c, &keys, &c->in[1], 1);
    int64_t longest = 1;
    for (int64_t r = 0; r < c->in[0].rows; r++)
        longest = c->batch->see[r] >= longest ? c->batch->see[r] + 1 : longest;
    double *s = qn_alloc_n((size_t)longest * 2, sizeof *s), *work = s + longest;
    float *buf = qn_alloc_n((size_t)a->dim, sizeof *buf);
    for (int64_t r = 0; r < c->in[0].rows; r++) {
        int32_t n = c->batch->see[r] + 1;
        for (int32_t j = 0; j < n && n > a->top_k; j++)
            s[j] = score(c, r, qn_kv_entry(c, &keys, c->batch->seq[r], j, 0, buf));
        choose(s, work, n, a->top_k, (int32_t *)c->out[0].data + r * a->top_k);
    }
    qn_free(buf);
    qn_free(s);
}

const qn_op qn_op_key_select = { .name = "key_select",
                                 .attr_size = sizeof(qn_attr_key_select),
                                 .min_in = 3,
                                 .max_in = 3,
                                 .n_out = 1,
                                 .infer = infer,
                                 .ref = ref };
