/* runner.h - the lower half of the engine: turns a ragged list of rows into one step on the backend.
 *
 * It knows the model's graph, the plans and the cache; it does not know requests, sampling or time. The
 * engine, the parity runner and the benchmarks all feed it. One thread at a time. */
#ifndef QN_ENGINE_RUNNER_H
#define QN_ENGINE_RUNNER_H

#include "cache/kv.h"
#include "engine/model.h"

typedef struct qn_runner qn_runner;

/* The next rows of one sequence. Their entries follow seq->len and are added to it by the step. */
typedef struct qn_rows {
    qn_kv_seq *seq;
    const int32_t *token; /* [n_tok] */
    int32_t n_tok;
    int32_t first_out; /* rows [first_out, n_tok) want logits: 0 = all, n_tok = none */
    int32_t rope_len;  /* the length that length-dependent positions go by; fixed for a sequence */
} qn_rows;

/* opt->exact is taken from the model's backend options by the caller. The model must outlive the runner. */
int qn_runner_open(qn_runner **out, qn_model *m, const qn_kv_options *opt, qn_error *err);
void qn_runner_close(qn_runner *r); /* NULL is fine; release sequences first */

qn_kv_cache *qn_runner_cache(qn_runner *r);
int32_t qn_runner_vocab(const qn_runner *r); /* width of the logits */

/* Runs one step over rows[0..n). A sequence may occur once. *logits is [rows that wanted them][n_vocab] in the
 * order of the rows, good until the next step. Fails without having changed any sequence: QN_ERR_LIMIT when
 * pages are short (reserve first to know), QN_ERR_ARGUMENT for a token id outside the vocabulary. */
int qn_runner_step(qn_runner *r, const qn_rows *rows, int32_t n, const float **logits,
                   qn_error *err);

#endif
