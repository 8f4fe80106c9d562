/* vocab.h - the pieces of a tokenizer: id -> text and kind, text -> id.
 *
 * Built once, then read-only and safe to share. Texts are copied in. Ids may have holes (text NULL),
 * but not more than a small multiple of the number of pieces, so a short file cannot ask for much. */
#ifndef QN_TOKENIZER_VOCAB_H
#define QN_TOKENIZER_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

typedef struct qn_piece {
    const char *s; /* NULL: no such id */
    uint32_t n;
    uint8_t kind; /* qn_token_kind */
} qn_piece;

typedef struct qn_vocab {
    qn_arena arena;
    qn_piece *piece; /* [n_ids] */
    size_t n_ids, cap_ids;
    size_t n_pieces; /* distinct texts */
    uint64_t *slot;  /* hash tag << 32 | id + 1, open addressing */
    size_t n_slots;  /* a power of two */
    size_t expected; /* pieces announced, for the bound on ids */
} qn_vocab;

uint64_t qn_hash_bytes(const char *s, size_t n);

void qn_vocab_init(qn_vocab *v, size_t expected); /* room for `expected` pieces, more is fine */
void qn_vocab_free(qn_vocab *v);

/* Adds text s with `id`, or moves it there when present. Refuses ids far beyond the number expected. */
int qn_vocab_put(qn_vocab *v, const char *s, size_t n, int64_t id, qn_error *err);

/* Only the id -> text half: a second piece of the same text keeps the first one's lookup. */
int qn_vocab_put_id(qn_vocab *v, const char *s, size_t n, int64_t id, qn_error *err);

int32_t qn_vocab_find(const qn_vocab *v, const char *s, size_t n); /* -1: absent */

/* Many look-ups at once: id[i] of s[i], up to QN_VOCAB_BATCH of them. The table is far larger than the
 * processor's caches, so waiting for all memory at once is several times faster than one by one. */
#define QN_VOCAB_BATCH 48
typedef struct qn_vocab_key {
    const char *s;
    size_t n;
} qn_vocab_key;
void qn_vocab_find_batch(const qn_vocab *v, const qn_vocab_key *key, size_t count, int32_t *id);

#endif
