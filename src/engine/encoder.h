/* encoder.h - runs texts that come whole: a step takes any number of them and needs no cache.
 *
 * It is to embeddings and scores what the runner is to generation. Every row of a text is in one step, so rows may
 * see both ways, and a causal model works as well. One thread at a time, and not while an engine runs on the same
 * model: they share the backend's memory. */
#ifndef QN_ENGINE_ENCODER_H
#define QN_ENGINE_ENCODER_H

#include "engine/model.h"

typedef struct qn_encoder qn_encoder;

/* What is wanted of each text. */
typedef enum qn_encoder_want {
    QN_ENCODER_HIDDEN, /* what the body computes for every token: [n_tok][d_model] */
    QN_ENCODER_SCORE,  /* the outputs of a classifier: [n_texts][n_labels] */
    QN_ENCODER_LOGITS  /* of the token after each text: [n_texts][n_vocab] */
} qn_encoder_want;

/* One whole text. */
typedef struct qn_passage {
    const int32_t *id;      /* [n] */
    const int32_t *segment; /* [n] which text of a pair each token is of; NULL = all of the first */
    int32_t n;              /* at least 1 */
    int32_t n_prompt;       /* the first of them are a prompt: of no matter here, but to pooling */
} qn_passage;

/* QN_ERR_UNSUPPORTED when the model's graph does not have it. The model must outlive the encoder. */
int qn_encoder_open(qn_encoder **out, qn_model *m, qn_encoder_want want, qn_error *err);
void qn_encoder_close(qn_encoder *e); /* NULL is fine */

bool qn_encoder_has(const qn_model *m, qn_encoder_want want);
int32_t qn_encoder_width(const qn_encoder *e); /* of a row */
int32_t qn_encoder_limit(const qn_encoder *e); /* most tokens of one text */

/* Runs text[0..n) in one step. *rows are the wanted rows in the order of the texts, good until the next step; they
 * are the same bits whatever the texts run with. QN_ERR_LIMIT for a text that is too long, QN_ERR_ARGUMENT for
 * an empty one or an id the model does not have. */
int qn_encoder_step(qn_encoder *e, const qn_passage *text, int32_t n, const float **rows,
                    qn_error *err);

#endif
