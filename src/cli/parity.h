/* parity.h - what the parity runner's files share. A case is a tiny checkpoint or a GGUF file, a prompt, and what
 * the reference computed; see the kit's README. Developer's tool: it looks inside the library on purpose. */
#ifndef QN_CLI_PARITY_H
#define QN_CLI_PARITY_H

#include "engine/runner.h"
#include "formats/safetensors.h"

typedef struct qn_ints {
    int32_t *v;
    int32_t n;
} qn_ints;

typedef struct qn_parity_case {
    qn_arena arena;
    char name[128];    /* "llama/a" */
    const char *model; /* path that the loader gets */
    bool made_model;   /* it is a temporary folder of ours */
    qn_ints prompt, greedy;
    const qn_json *margins; /* reference's top-1 minus top-2 at each greedy step */
    double logits_std;
    double logits_spread; /* of a GGUF case: largest minus smallest */
    double bf16_over_std; /* 0 = not said */
    bool is_gguf, has_router;
    bool whole;                  /* texts come whole: an embedder's or a reranker's case */
    const char *inputs;          /* of such a case, the file of its texts */
    int32_t token_no, token_yes; /* a judge's two words; -1 = not said */
    qn_st *expected;
} qn_parity_case;

typedef struct qn_parity_options {
    bool exact;
    int n_threads;
} qn_parity_options;

typedef enum qn_parity_verdict { QN_PARITY_PASS, QN_PARITY_FAIL, QN_PARITY_SKIP } qn_parity_verdict;

typedef struct qn_parity_result {
    qn_parity_verdict verdict;
    bool compared;  /* the numbers below were computed */
    double max_err; /* largest logit error over the logits' standard deviation */
    int n_greedy, n_total;
    double cosine; /* of an embedder's case, the smallest; 0 elsewhere */
    char why[400];
} qn_parity_result;

/* Fails (or skips) the case with a reason; the first one counts. */
void qn_parity_say(qn_parity_result *r, qn_parity_verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Opens a case folder or a .gguf file; makes the checkpoint. False with r filled when it cannot be run. */
bool qn_parity_open(qn_parity_case *c, const char *path, qn_parity_result *r);
void qn_parity_close(qn_parity_case *c); /* removes what it made */

/* ---- parity_feed.c: the same rows in every way an engine may feed them ---- */

/* Logits of every prompt row, [prompt.n][n_vocab], fed in one piece. NULL with r filled on failure; the
 * caller's (qn_free). */
float *qn_parity_prefill(qn_runner *run, const qn_parity_case *c, qn_parity_result *r);
/* Feeds in chunks, token by token, and in company; fails the case where a bit differs from `whole`. */
void qn_parity_ways(qn_runner *run, const qn_parity_case *c, const float *whole,
                    qn_parity_result *r);
/* Follows the reference's greedy tokens from the cache: [greedy.n + 1][n_vocab], row 0 after the prompt; the
 * rows must equal those of one long prompt. */
float *qn_parity_decode(qn_runner *run, const qn_parity_case *c, qn_parity_result *r);

/* ---- parity_whole.c ---- */

/* Runs and judges a case of whole texts. */
void qn_parity_whole(const qn_parity_case *c, qn_model *m, bool exact, qn_parity_result *r);

/* ---- parity_compare.c ---- */

/* Compares the rows with what the reference computed. */
void qn_parity_compare(const qn_parity_case *c, const float *logits, int32_t n_vocab, bool exact,
                       qn_parity_result *r);
void qn_parity_greedy(const qn_parity_case *c, const float *rows, int32_t n_vocab, bool exact,
                      qn_parity_result *r);

#endif
