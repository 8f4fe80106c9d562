/* sampler.c - see sampler.h. A vocabulary of 150 000 is never sorted as a whole unless the cuts keep most of it:
 * top-k selects with a heap of k, top-p sorts only as far down as its mass needs. Sums are in double, so the
 * kept set does not hang on the order of addition. */
#include "engine/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void qn_sampler_init(qn_sampler *s, int32_t n_vocab)
{
    size_t n = (size_t)n_vocab;
    *s = (qn_sampler){ .n_vocab = n_vocab,
                       .logits = qn_alloc_n(n, sizeof *s->logits),
                       .seen = qn_alloc_n(n, sizeof *s->seen),
                       .candidate = qn_alloc_n(n, sizeof *s->candidate) };
}

void qn_sampler_free(qn_sampler *s)
{
    qn_free(s->logits);
    qn_free(s->seen);
    qn_free(s->candidate);
    *s = (qn_sampler){ 0 };
}

int32_t qn_argmax(const float *logits, int32_t n)
{
    int32_t best = 0;
    float max = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        if (logits[i] > max) { /* false for NaN */
            max = logits[i];
            best = i;
        }
    }
    return best;
}

/* ---- the random stream ---- */

/* SplitMix64: a bijection of the counter, so draw n needs no draw before it. */
double qn_sampler_draw(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* ---- penalty ---- */

/* Each token of the window is penalised once, however often it occurred. Returns the logits to go on with. */
static const float *penalise(qn_sampler *s, const float *logits, qn_history h,
                             const qn_sampling *opt)
{
    float penalty = opt->repetition_penalty;
    if (penalty == 1 || penalty <= 0 || h.n == 0)
        return logits;
    size_t window = (size_t)opt->repetition_window;
    size_t first = opt->repetition_window > 0 && window < h.n ? h.n - window : 0;
    memcpy(s->logits, logits, (size_t)s->n_vocab * sizeof *logits);
    for (size_t i = first; i < h.n; i++) {
        int32_t id = h.id[i];
        if (id < 0 || id >= s->n_vocab || s->seen[id])
            continue;
        s->seen[id] = 1;
        s->logits[id] = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty;
    }
    for (size_t i = first; i < h.n; i++)
        if (h.id[i] >= 0 && h.id[i] < s->n_vocab)
            s->seen[h.id[i]] = 0;
    return s->logits;
}

/* ---- choosing candidates ---- */

/* Orders by logit, larger first, then by id, lower first. */
static bool before(const qn_candidate *a, const qn_candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static int compare(const void *a, const void *b)
{
    return before(a, b) ? -1 : 1; /* ids differ, so there are no equals */
}

/* Restores a heap whose top is the candidate that would leave first. */
static void sift_down(qn_candidate *heap, int32_t n)
{
    int32_t i = 0;
    for (;;) {
        int32_t worst = i, left = 2 * i + 1;
        for (int32_t child = left; child < left + 2 && child < n; child++)
            if (before(&heap[worst], &heap[child]))
                worst = child;
        if (worst == i)
            return;
        qn_candidate t = heap[i];
        heap[i] = heap[worst];
        heap[worst] = t;
        i = worst;
    }
}

static void sift_up(qn_candidate *heap, int32_t i)
{
    while (i > 0 && before(&heap[(i - 1) / 2], &heap[i])) {
        qn_candidate t = heap[i];
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = t;
        i = (i - 1) / 2;
    }
}

/* The k largest logits, unsorted. One pass; most tokens fail against the heap's top at once. */
static int32_t select_k(qn_sampler *s, const float *logits, int32_t k)
{
    qn_candidate *heap = s->candidate;
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_vocab; i++) {
        qn_candidate c = { .logit = logits[i], .id = i };
        if (isnan(c.logit))
            continue;
        if (n < k) {
            heap[n] = c;
            sift_up(heap, n++);
        } else if (before(&c, &heap[0])) {
            heap[0] = c;
            sift_down(heap, n);
        }
    }
    return n;
}

/* All tokens with a logit of at least `floor`, in the order of ids. */
static int32_t select_floor(qn_sampler *s, const float *logits, float floor)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_vocab; i++)
        if (logits[i] >= floor)
            s->candidate[n++] = (qn_candidate){ .logit = logits[i], .id = i };
    return n;
}

/* Mass of the candidates relative to that of the best one, exp((logit - max) / t); sets each one's p to it. */
static double weigh(qn_candidate *c, int32_t n, float max, float t)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        c[i].p = exp((double)(c[i].logit - max) / t);
        sum += c[i].p;
    }
    return sum;
}

static double mass_of_all(const float *logits, int32_t n, float max, float t)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        if (!isnan(logits[i]))
            sum += exp((double)(logits[i] - max) / t);
    return sum;
}

/* How many of the sorted, weighed candidates hold top_p of `mass` (the one that crosses it included). */
static int32_t cut_top_p(const qn_candidate *c, int32_t n, double top_p, double mass)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += c[i].p;
        if (sum >= top_p * mass)
            return i + 1;
    }
    return n;
}

static void sort(qn_candidate *c, int32_t n)
{
    qsort(c, (size_t)n, sizeof *c, compare);
}

/* Top-p without top-k: takes tokens within a growing distance of the best until they hold the mass. */
static int32_t select_p(qn_sampler *s, const float *logits, float max, const qn_sampling *opt)
{
    float t = opt->temperature;
    double mass = mass_of_all(logits, s->n_vocab, max, t);
    for (float reach = 4;; reach *= 2) {
        /* Past 64 nothing has weight in double's sum, so all that is left may come at once. */
        int32_t n = select_floor(s, logits, reach > 64 ? -INFINITY : max - reach * t);
        if (weigh(s->candidate, n, max, t) < opt->top_p * mass && reach <= 64)
            continue;
        sort(s->candidate, n);
        return cut_top_p(s->candidate, n, opt->top_p, mass);
    }
}

static int32_t cut_min_p(const qn_candidate *c, int32_t n, float min_p)
{
    while (n > 1 && c[n - 1].p < (double)min_p * c[0].p)
        n--;
    return n;
}

/* A lone certain token: temperature 0, or logits without any number to go by. */
static int32_t only(qn_sampler *s, int32_t id, float logit)
{
    s->candidate[0] = (qn_candidate){ .logit = logit, .id = id, .p = 1 };
    return 1;
}

int32_t qn_sampler_candidates(qn_sampler *s, const float *logits, qn_history h,
                              const qn_sampling *opt)
{
    logits = penalise(s, logits, h, opt);
    int32_t best = qn_argmax(logits, s->n_vocab);
    float max = logits[best], t = opt->temperature;
    if (t <= 0 || !isfinite(max))
        return only(s, best, max);
    bool top_k = opt->top_k > 0 && opt->top_k < s->n_vocab;
    bool top_p = opt->top_p > 0 && opt->top_p < 1;
    bool min_p = opt->min_p > 0;
    int32_t n;
    if (top_k) {
        n = select_k(s, logits, opt->top_k);
        sort(s->candidate, n);
        double mass = weigh(s->candidate, n, max, t);
        if (top_p)
            n = cut_top_p(s->candidate, n, opt->top_p, mass);
    } else if (top_p) {
        n = select_p(s, logits, max, opt);
    } else {
        /* min_p alone needs no masses: p >= min_p * p_max is a distance in logits. A hair more is taken,
         * and the exact rule applied below. */
        float floor = min_p ? max + t * logf(opt->min_p) : -INFINITY;
        n = select_floor(s, logits, floor - 1e-3f * t);
        weigh(s->candidate, n, max, t);
        if (min_p)
            sort(s->candidate, n);
    }
    if (min_p)
        n = cut_min_p(s->candidate, n, opt->min_p);
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += s->candidate[i].p;
    for (int32_t i = 0; i < n; i++)
        s->candidate[i].p /= sum;
    return n;
}

int32_t qn_sampler_pick(qn_sampler *s, const float *logits, qn_history h, const qn_sampling *opt,
                        double u)
{
    int32_t n = qn_sampler_candidates(s, logits, h, opt);
    double sum = 0;
    for (int32_t i = 0; i < n; i++) {
        sum += s->candidate[i].p;
        if (u < sum)
            return s->candidate[i].id;
    }
    /* Rounding may leave the sum a hair under 1: the last one that is possible at all. */
    while (n > 1 && s->candidate[n - 1].p == 0)
        n--;
    return s->candidate[n - 1].id;
}

/* ---- log-probabilities ---- */

static double log_sum_exp(const float *logits, int32_t n)
{
    float max = logits[qn_argmax(logits, n)];
    return max + log(mass_of_all(logits, n, max, 1));
}

double qn_logprob_of(const float *logits, int32_t n_vocab, int32_t id)
{
    return logits[id] - log_sum_exp(logits, n_vocab);
}

void qn_logprobs(const float *logits, int32_t n_vocab, int32_t id, int n_top, qn_token_probs *out)
{
    double norm = log_sum_exp(logits, n_vocab);
    *out = (qn_token_probs){ .chosen = { id, (float)(logits[id] - norm) } };
    int max_top = (int)(sizeof out->top / sizeof *out->top);
    n_top = n_top < max_top ? n_top : max_top;
    for (int32_t i = 0; i < n_vocab && n_top > 0; i++) {
        /* Insertion into a short sorted list; ids ascend, so a tie goes behind. */
        if (isnan(logits[i]) || (out->n_top == n_top && !(logits[i] > out->top[n_top - 1].logprob)))
            continue;
        int at = out->n_top < n_top ? out->n_top++ : n_top - 1;
        for (; at > 0 && logits[i] > out->top[at - 1].logprob; at--)
            out->top[at] = out->top[at - 1];
        out->top[at] = (qn_logprob){ i, logits[i] };
    }
    for (int i = 0; i < out->n_top; i++)
        out->top[i].logprob = (float)(out->top[i].logprob - norm);
}
