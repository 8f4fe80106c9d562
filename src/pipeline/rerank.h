/* rerank.h - scores of passages below the public calls. */
#ifndef QN_PIPELINE_RERANK_H
#define QN_PIPELINE_RERANK_H

#include "pipeline/texts.h"

/* A judge answers with one of two tokens; tests of models without a tokenizer give them. */
void qn_reranker_set_words(struct qn_reranker *r, int32_t no, int32_t yes);

/* Scores of p[0..n). raw (may be NULL) gets what the model gave: [n] of a classifier, [n][2] (no, yes) of a judge. */
int qn_reranker_run(struct qn_reranker *r, const qn_passage *p, size_t n, float *score, float *raw,
                    qn_error *err);
bool qn_reranker_is_judge(const struct qn_reranker *r);

#endif
