/* texts.h - from texts to the tokens of whole passages: cut to length first, framed by the tokenizer then. */
#ifndef QN_PIPELINE_TEXTS_H
#define QN_PIPELINE_TEXTS_H

#include "engine/encoder.h"
#include "tokenizer/tokenizer.h"

/* A growing list of passages that owns their ids. */
typedef struct qn_texts {
    qn_passage *v; /* good until the next text is added */
    size_t n, cap;
} qn_texts; /* {0} is an empty one */

void qn_texts_free(qn_texts *t);

/* Adds a text; with its frame it has at most `limit` tokens, the rest is cut off. */
int qn_texts_add(qn_texts *t, const qn_tokenizer *tok, const char *text, int32_t limit,
                 qn_error *err);
/* Adds a pair in one passage. Of two long texts the longer is cut first. */
int qn_texts_add_pair(qn_texts *t, const qn_tokenizer *tok, const char *a, const char *b,
                      int32_t limit, qn_error *err);
/* Adds ids, which are copied; segment may be NULL. */
void qn_texts_add_ids(qn_texts *t, const int32_t *id, const int32_t *segment, int32_t n);

/* The next group to run in one step from passage `from` on: how many, always at least one. */
size_t qn_texts_group(const qn_passage *p, size_t n, size_t from);

#endif
