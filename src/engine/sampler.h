/* sampler.h - from logits to a token: penalty, temperature, top-k, top-p, min-p, a draw; and log-probabilities.
 *
 * Each sequence draws from its own stream, a function of its seed and of how many tokens it has drawn, so
 * neither company nor a recomputation after preemption changes its text. The work arrays are shared by all
 * sequences of an engine. */
#ifndef QN_ENGINE_SAMPLER_H
#define QN_ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "quern.h"

/* A token that may be chosen, and how likely. */
typedef struct qn_candidate {
    float logit; /* after the penalty */
    int32_t id;
    double p; /* among all candidates they sum to 1 */
} qn_candidate;

/* Work space for one vocabulary. */
typedef struct qn_sampler {
    int32_t n_vocab;
    float *logits;           /* [n_vocab] a copy that penalties may change */
    uint8_t *seen;           /* [n_vocab] marks of the penalty's window; zero between calls */
    qn_candidate *candidate; /* [n_vocab] */
} qn_sampler;

void qn_sampler_init(qn_sampler *s, int32_t n_vocab);
void qn_sampler_free(qn_sampler *s);

/* What the sequence has said and read so far, for the penalty. */
typedef struct qn_history {
    const int32_t *id; /* oldest first */
    size_t n;
} qn_history;

/* Fills s->candidate with every token that the options leave possible and returns how many (>= 1): sorted, most
 * likely first, when a cut is on; in the order of ids when none is. logits [n_vocab]; NaN counts as impossible. */
int32_t qn_sampler_candidates(qn_sampler *s, const float *logits, qn_history h,
                              const qn_sampling *opt);

/* Draw number `index` of the stream `seed`, in [0, 1). */
double qn_sampler_draw(uint64_t seed, uint64_t index);

/* The token that draw `u` chooses. */
int32_t qn_sampler_pick(qn_sampler *s, const float *logits, qn_history h, const qn_sampling *opt,
                        double u);

/* The lowest id among the largest logits. */
int32_t qn_argmax(const float *logits, int32_t n);

/* Log-softmax of the raw logits at `id` alone, and of the n_top largest too (ties: lower id first). */
double qn_logprob_of(const float *logits, int32_t n_vocab, int32_t id);
void qn_logprobs(const float *logits, int32_t n_vocab, int32_t id, int n_top, qn_token_probs *out);

#endif
