/* vocab.c - see vocab.h. */
#include "tokenizer/vocab.h"

#include <string.h>

/* Multiply and fold, eight bytes a step. Quality matters more than the exact function: nothing stores it. */
uint64_t qn_hash_bytes(const char *s, size_t n)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    uint64_t h = n * k, w;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * k;
        h ^= h >> 32;
    }
    w = 0;
    if (n >= 4) {
        uint32_t lo, hi;
        memcpy(&lo, s, 4);
        memcpy(&hi, s + n - 4, 4);
        w = (uint64_t)hi << 32 | lo;
    } else if (n > 0) {
        w = (uint64_t)(unsigned char)s[0] | (uint64_t)(unsigned char)s[n / 2] << 8 |
            (uint64_t)(unsigned char)s[n - 1] << 16;
    }
    h = (h ^ w) * k;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

void qn_vocab_init(qn_vocab *v, size_t expected)
{
    *v = (qn_vocab){ .expected = expected, .n_slots = 64 };
    while (v->n_slots < expected * 2)
        v->n_slots *= 2;
    v->slot = qn_alloc_n(v->n_slots, sizeof *v->slot);
}

void qn_vocab_free(qn_vocab *v)
{
    qn_free(v->slot);
    qn_free(v->piece);
    qn_arena_free(&v->arena);
    *v = (qn_vocab){ 0 };
}

static bool holds(const qn_vocab *v, uint64_t slot, uint64_t hash, const char *s, size_t n)
{
    if (slot >> 32 != hash >> 32)
        return false;
    const qn_piece *p = &v->piece[(uint32_t)slot - 1];
    return p->n == n && memcmp(p->s, s, n) == 0;
}

/* The slot where s is, or the empty one where it belongs. */
static size_t find_slot(const qn_vocab *v, uint64_t hash, const char *s, size_t n)
{
    size_t i = hash & (v->n_slots - 1);
    while (v->slot[i] && !holds(v, v->slot[i], hash, s, n))
        i = (i + 1) & (v->n_slots - 1);
    return i;
}

int32_t qn_vocab_find(const qn_vocab *v, const char *s, size_t n)
{
    size_t i = find_slot(v, qn_hash_bytes(s, n), s, n);
    return v->slot[i] ? (int32_t)((uint32_t)v->slot[i] - 1) : -1;
}

void qn_vocab_find_batch(const qn_vocab *v, const qn_vocab_key *key, size_t count, int32_t *id)
{
    uint64_t hash[QN_VOCAB_BATCH];
    for (size_t i = 0; i < count; i++) {
        hash[i] = qn_hash_bytes(key[i].s, key[i].n);
        __builtin_prefetch(&v->slot[hash[i] & (v->n_slots - 1)]);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t slot = v->slot[hash[i] & (v->n_slots - 1)];
        if (slot)
            __builtin_prefetch(&v->piece[(uint32_t)slot - 1]);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t slot = v->slot[hash[i] & (v->n_slots - 1)];
        if (slot)
            __builtin_prefetch(v->piece[(uint32_t)slot - 1].s);
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = find_slot(v, hash[i], key[i].s, key[i].n);
        id[i] = v->slot[at] ? (int32_t)((uint32_t)v->slot[at] - 1) : -1;
    }
}

static void grow_slots(qn_vocab *v)
{
    uint64_t *old = v->slot;
    size_t n_old = v->n_slots;
    v->n_slots *= 2;
    v->slot = qn_alloc_n(v->n_slots, sizeof *v->slot);
    for (size_t i = 0; i < n_old; i++) {
        if (!old[i])
            continue;
        const qn_piece *p = &v->piece[(uint32_t)old[i] - 1];
        v->slot[find_slot(v, qn_hash_bytes(p->s, p->n), p->s, p->n)] = old[i];
    }
    qn_free(old);
}

int qn_vocab_put_id(qn_vocab *v, const char *s, size_t n, int64_t id, qn_error *err)
{
    size_t limit = 4 * (v->expected > v->n_pieces ? v->expected : v->n_pieces) + 100000;
    if (id < 0 || (uint64_t)id >= limit || id >= INT32_MAX)
        return qn_fail(err, QN_ERR_FORMAT, "token id %lld is out of range for this vocabulary",
                       (long long)id);
    if (n > UINT16_MAX)
        return qn_fail(err, QN_ERR_FORMAT, "token %lld is longer than 65535 bytes", (long long)id);
    if ((size_t)id >= v->cap_ids) {
        size_t cap = v->cap_ids ? v->cap_ids : v->expected + 16;
        while (cap <= (size_t)id)
            cap *= 2;
        v->piece = qn_realloc_n(v->piece, cap, sizeof *v->piece);
        memset(v->piece + v->cap_ids, 0, (cap - v->cap_ids) * sizeof *v->piece);
        v->cap_ids = cap;
    }
    if ((size_t)id >= v->n_ids)
        v->n_ids = (size_t)id + 1;
    qn_piece *p = &v->piece[id];
    p->s = qn_arena_strndup(&v->arena, s, n);
    p->n = (uint32_t)n;
    return QN_OK;
}

int qn_vocab_put(qn_vocab *v, const char *s, size_t n, int64_t id, qn_error *err)
{
    if ((v->n_pieces + 1) * 2 > v->n_slots)
        grow_slots(v);
    uint64_t hash = qn_hash_bytes(s, n);
    size_t i = find_slot(v, hash, s, n);
    bool fresh = v->slot[i] == 0;
    int rc = qn_vocab_put_id(v, s, n, id, err);
    if (rc != QN_OK)
        return rc;
    v->slot[i] = hash >> 32 << 32 | (uint32_t)(id + 1);
    v->n_pieces += fresh;
    return QN_OK;
}
