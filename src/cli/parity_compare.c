/* parity_compare.c - holds computed logits against the reference's, with the tolerances of the design page. */
#include <math.h>
#include <string.h>

#include "cli/parity.h"

/* Largest error allowed, over the standard deviation of the logits. GGUF cases state theirs over the spread, and
 * allow for activations in 8 bits. */
static double bound_of(const qn_parity_case *c, bool exact)
{
    double spread = c->is_gguf ? c->logits_spread / c->logits_std : 0;
    if (exact)
        return c->is_gguf ? 1e-4 * spread : 1e-3;
    return fmax(fmax(5e-2, 2 * c->bf16_over_std), 3e-2 * spread);
}

/* Element i of a float32 golden; files do not align them. */
static float golden(const qn_st_tensor *t, size_t i)
{
    float x;
    memcpy(&x, (const char *)t->data + i * sizeof x, sizeof x);
    return x;
}

static int32_t argmax(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* How far the largest is above the second. */
static double margin(const float *x, int32_t n)
{
    int32_t best = argmax(x, n);
    double second = -INFINITY;
    for (int32_t i = 0; i < n; i++)
        if (i != best && x[i] > second)
            second = x[i];
    return x[best] - second;
}

static double log_sum_exp(const float *x, int32_t n)
{
    double top = x[argmax(x, n)], sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

/* The last rows of the prompt, as many as the tensor has. */
static void compare_logits(const qn_parity_case *c, const qn_st_tensor *t, const float *logits,
                           int32_t n_vocab, qn_parity_result *r)
{
    if (t->layout != QN_F32 || t->n_dims != 2 || t->dim[1] != n_vocab || t->dim[0] > c->prompt.n) {
        qn_parity_say(r, QN_PARITY_FAIL, "%d logits a row, the reference has others", n_vocab);
        return;
    }
    const float *rows = logits + (c->prompt.n - t->dim[0]) * n_vocab;
    for (size_t i = 0; i < (size_t)(t->dim[0] * n_vocab); i++) {
        double e = fabs((double)rows[i] - golden(t, i)) / c->logits_std;
        if (!(e <= r->max_err)) /* a NaN is the largest error there is */
            r->max_err = isnan(e) ? INFINITY : e;
    }
    r->compared = true;
}

/* The likeliest token of every prompt row, where one leads by more than errors may move it. */
static void compare_argmax(const qn_parity_case *c, const float *logits, int32_t n_vocab,
                           double bound, qn_parity_result *r)
{
    const qn_st_tensor *t = qn_st_find(c->expected, "argmax");
    size_t size = t && t->layout == QN_I64 ? 8 : 4;
    if (!t || t->bytes / size != (size_t)c->prompt.n)
        return;
    for (int32_t i = 0; i < c->prompt.n; i++) {
        const float *row = logits + (size_t)i * (size_t)n_vocab;
        int32_t want;
        memcpy(&want, (const char *)t->data + (size_t)i * size, sizeof want);
        if (argmax(row, n_vocab) != want && margin(row, n_vocab) > 2 * bound * c->logits_std)
            qn_parity_say(r, QN_PARITY_FAIL, "row %d prefers token %d, the reference %d", i,
                          argmax(row, n_vocab), want);
    }
}

static void compare_sums(const qn_parity_case *c, const float *logits, int32_t n_vocab,
                         double bound, qn_parity_result *r)
{
    const qn_st_tensor *t = qn_st_find(c->expected, "logsumexp");
    if (!t || t->layout != QN_F32 || t->bytes / sizeof(float) != (size_t)c->prompt.n)
        return;
    for (int32_t i = 0; i < c->prompt.n; i++) {
        double got = log_sum_exp(logits + (size_t)i * (size_t)n_vocab, n_vocab);
        double e = fabs(got - golden(t, (size_t)i)) / c->logits_std;
        if (!(e < bound))
            qn_parity_say(r, QN_PARITY_FAIL, "row %d: logsumexp %.6g, the reference has %.6g", i,
                          got, golden(t, (size_t)i));
    }
}

void qn_parity_compare(const qn_parity_case *c, const float *logits, int32_t n_vocab, bool exact,
                       qn_parity_result *r)
{
    double bound = bound_of(c, exact);
    if (!exact && c->has_router && c->bf16_over_std == 0) {
        qn_parity_say(r, QN_PARITY_SKIP, "a router without a bf16 bound is judged in f32 only");
        return;
    }
    compare_logits(c, qn_st_find(c->expected, "logits_last8"), logits, n_vocab, r);
    const qn_st_tensor *second = qn_st_find(c->expected, "logits_chunk2");
    if (second) /* what a second chunk must give; that it does, the ways of feeding show */
        compare_logits(c, second, logits, n_vocab, r);
    if (!r->compared)
        return;
    if (!(r->max_err < bound))
        qn_parity_say(r, QN_PARITY_FAIL, "the bound is %.3g", bound);
    compare_argmax(c, logits, n_vocab, bound, r);
    compare_sums(c, logits, n_vocab, bound, r);
}

void qn_parity_greedy(const qn_parity_case *c, const float *rows, int32_t n_vocab, bool exact,
                      qn_parity_result *r)
{
    double bound = bound_of(c, exact) * c->logits_std;
    r->n_total = c->greedy.n;
    for (int32_t i = 0; i < c->greedy.n; i++) {
        int32_t got = argmax(rows + (size_t)i * (size_t)n_vocab, n_vocab);
        double lead = qn_json_num(qn_json_at(c->margins, (size_t)i), INFINITY);
        if (got == c->greedy.v[i])
            r->n_greedy++;
        else if (lead > bound)
            qn_parity_say(r, QN_PARITY_FAIL, "greedy token %d is %d, the reference has %d", i, got,
                          c->greedy.v[i]);
    }
}
