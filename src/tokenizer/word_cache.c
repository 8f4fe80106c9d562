/* word_cache.c - words seen before and their ids, in bounded memory: a table of fixed size over one pool
 * that is simply emptied when it is full. Text repeats its words, so a refill is cheap. */
#include <string.h>

#include "base/mem.h"
#include "tokenizer/internal.h"

#define N_SLOTS    32768u /* a power of two */
#define POOL_WORDS (1u << 20)
#define MAX_IDS    1024u
#define MAX_BYTES  128u /* longer words are rare and not kept */

typedef struct slot {
    uint32_t tag; /* upper half of the hash */
    uint16_t n_bytes, n_ids;
    uint32_t at; /* in the pool: the ids, then the bytes; 0 marks an empty slot */
} slot;

struct qn_word_cache {
    slot *slot;
    uint32_t *pool;
    size_t used;
};

qn_word_cache *qn_word_cache_open(void)
{
    qn_word_cache *c = qn_alloc(sizeof *c);
    c->slot = qn_alloc_n(N_SLOTS, sizeof *c->slot);
    c->pool = qn_alloc_n(POOL_WORDS, sizeof *c->pool);
    c->used = 1;
    return c;
}

void qn_word_cache_close(qn_word_cache *c)
{
    if (!c)
        return;
    qn_free(c->slot);
    qn_free(c->pool);
    qn_free(c);
}

static slot *find(const qn_word_cache *c, uint64_t hash)
{
    return &c->slot[hash & (N_SLOTS - 1)];
}

bool qn_word_cache_get(const qn_word_cache *c, uint64_t hash, const char *s, size_t n, qn_ids *out)
{
    const slot *k = find(c, hash);
    if (!k->at || k->tag != hash >> 32 || k->n_bytes != n)
        return false;
    const uint32_t *ids = c->pool + k->at;
    if (memcmp(ids + k->n_ids, s, n) != 0)
        return false;
    for (uint32_t i = 0; i < k->n_ids; i++)
        qn_ids_add(out, (int32_t)ids[i]);
    return true;
}

/* A newer word takes the place of an older one with the same slot. */
void qn_word_cache_put(qn_word_cache *c, uint64_t hash, qn_tok_str word, const qn_ids *out,
                       size_t from)
{
    size_t n = out->n - from;
    size_t words = n + (word.n + 3) / 4;
    if (word.n > MAX_BYTES || n > MAX_IDS)
        return;
    if (c->used + words > POOL_WORDS) {
        memset(c->slot, 0, N_SLOTS * sizeof *c->slot);
        c->used = 1;
    }
    slot *k = find(c, hash);
    *k = (slot){ (uint32_t)(hash >> 32), (uint16_t)word.n, (uint16_t)n, (uint32_t)c->used };
    uint32_t *to = c->pool + c->used;
    if (n)
        memcpy(to, out->v + from, n * sizeof *to);
    memcpy(to + n, word.s, word.n);
    c->used += words;
}
