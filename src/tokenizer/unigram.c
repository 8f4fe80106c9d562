/* unigram.c - Unigram: the cut of a word into pieces with the highest sum of scores (Viterbi).
 *
 * A character no piece covers costs the lowest score less ten, and runs of unknown characters become one.
 * tokenizer.json models add scores in double precision and look the chosen texts up again; sentencepiece
 * adds in single precision and favours user-defined pieces. Both are kept, since ties depend on them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"

#define UNK_PENALTY 10.0

typedef struct unigram {
    qn_trie trie;
    double *score; /* [n_ids] */
    uint8_t *user; /* [n_ids] spm: a user-defined piece */
    double unk_score, max_score;
    int32_t unk;
    uint32_t fallback[256];
    bool byte_fallback, spm;
} unigram;

static void reserve(qn_scratch *x, size_t n)
{
    if (n <= x->cap_best)
        return;
    x->cap_best = n + n / 2 + 64;
    x->best = qn_realloc_n(x->best, x->cap_best, sizeof *x->best);
    x->from = qn_realloc_n(x->from, x->cap_best, sizeof *x->from);
}

static void offer(const unigram *u, qn_scratch *x, size_t from, size_t to, double score)
{
    double sum = x->best[from] + score;
    if (u->spm)
        sum = (float)sum;
    if (x->from[to] == UINT32_MAX || sum > x->best[to]) {
        x->best[to] = sum;
        x->from[to] = (uint32_t)from;
    }
}

/* Fills x->from with the best way to reach each byte. */
static bool search(const unigram *u, qn_scratch *x, const char *s, size_t n)
{
    reserve(x, n + 1);
    memset(x->from, 0xff, (n + 1) * sizeof *x->from);
    x->best[0] = 0;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t cp, node = 0;
        len = (size_t)qn_utf8_decode(s + at, n - at, &cp);
        bool single = false;
        for (size_t i = at; i < n; i++) {
            node = qn_trie_step(&u->trie, node, (unsigned char)s[i]);
            if (!node)
                break;
            int32_t id = u->trie.node[node].value;
            if (id < 0)
                continue;
            double score = u->score[id];
            if (u->spm && u->user[id])
                score = (double)(i + 1 - at) * u->max_score - 0.1;
            offer(u, x, at, i + 1, score);
            single = single || i + 1 - at == len;
        }
        if (!single) {
            if (u->unk < 0)
                return false;
            offer(u, x, at, at + len, u->unk_score);
        }
    }
    return true;
}

/* The ids of one chosen stretch: a piece, the bytes of something unknown, or the unknown id. */
static void put(const qn_tokenizer *t, const unigram *u, qn_tok_str w, qn_ids *out)
{
    int32_t id = qn_vocab_find(&t->vocab, w.s, w.n);
    bool usable = id >= 0 && (!u->spm || u->user[id] != 2);
    if (usable) {
        qn_ids_add(out, id);
        return;
    }
    bool all = u->byte_fallback;
    for (size_t i = 0; i < w.n && all; i++)
        all = u->fallback[(unsigned char)w.s[i]] != UINT32_MAX;
    if (!all) {
        qn_ids_add(out, u->unk);
        return;
    }
    for (size_t i = 0; i < w.n; i++)
        qn_ids_add(out, (int32_t)u->fallback[(unsigned char)w.s[i]]);
}

/* Whether the stretch was reached as an unknown character: no piece of that text exists. */
static bool is_unknown(const qn_tokenizer *t, const unigram *u, const char *s, size_t n)
{
    int32_t id = qn_vocab_find(&t->vocab, s, n);
    return id < 0 || id == u->unk || (u->spm && u->user[id] == 2);
}

static int encode(const qn_tokenizer *t, qn_scratch *x, const char *s, size_t n, qn_ids *out)
{
    const unigram *u = t->model.data;
    if (n >= UINT32_MAX)
        return QN_ERR_LIMIT;
    if (!search(u, x, s, n))
        return QN_ERR_FORMAT;
    /* Walk back, turning the links round, so that the ids come out in order. */
    size_t at = n;
    uint32_t next = UINT32_MAX;
    while (true) {
        uint32_t from = x->from[at];
        x->from[at] = next;
        next = (uint32_t)at;
        if (at == 0)
            break;
        at = from;
    }
    for (at = 0; at < n;) {
        size_t end = x->from[at];
        if (is_unknown(t, u, s + at, end - at))
            while (end < n && is_unknown(t, u, s + end, x->from[end] - end))
                end = x->from[end];
        put(t, u, (qn_tok_str){ s + at, end - at }, out);
        at = end;
    }
    return QN_OK;
}

static void close_unigram(void *data)
{
    unigram *u = data;
    if (!u)
        return;
    qn_trie_free(&u->trie);
    qn_free(u->score);
    qn_free(u->user);
    qn_free(u);
}

void qn_unigram_attach(qn_tokenizer *t, const qn_unigram_options *o)
{
    unigram *u = qn_alloc(sizeof *u);
    size_t n = t->vocab.n_ids, n_keys = 0;
    t->model = (qn_model){ "Unigram", encode, close_unigram, u, true };
    u->score = qn_alloc_n(n, sizeof *u->score);
    u->user = qn_alloc(n);
    u->unk = o->unk;
    u->byte_fallback = o->byte_fallback;
    u->spm = o->spm;
    qn_trie_key *key = qn_alloc_n(n, sizeof *key);
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const qn_piece *p = &t->vocab.piece[i];
        if (!p->s)
            continue;
        u->score[i] = o->score[i];
        bool usable = !o->spm || o->kind[i] == QN_TOKEN_NORMAL || o->kind[i] == QN_TOKEN_USER;
        u->user[i] = !usable ? 2 : o->spm && o->kind[i] == QN_TOKEN_USER;
        if (!o->spm || o->kind[i] == QN_TOKEN_NORMAL) {
            least = fmin(least, o->score[i]);
            most = fmax(most, o->score[i]);
        }
        if (usable && p->n > 0)
            key[n_keys++] = (qn_trie_key){ p->s, p->n, (int32_t)i };
    }
    u->unk_score = o->spm ? (float)((float)least - (float)UNK_PENALTY) : least - UNK_PENALTY;
    u->max_score = most;
    qn_trie_build(&u->trie, key, n_keys);
    qn_free(key);
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        u->fallback[i] = (uint32_t)qn_vocab_find(&t->vocab, name, 6);
    }
}
