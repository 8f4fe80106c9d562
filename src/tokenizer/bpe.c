/* bpe.c - byte pair encoding, for every family of files that uses it.
 *
 * A word becomes symbols (characters, or bytes), and as long as some neighbouring pair has a rule, the one
 * of lowest rank, leftmost first, is joined. Words of ordinary length keep their symbols in an array and
 * scan it; longer ones use a linked list and a heap, so that a megabyte without a break costs n log n.
 * Models that merge by the score of the result (sentencepiece, rank files) are brought into the same form
 * when they are loaded: each way to split a piece in two pieces is a rule with the rank of the whole. */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"

#define NONE       UINT32_MAX /* a symbol that is no piece, and the rank of a pair without a rule */
#define SHORT_WORD 40         /* symbols; beyond, the heap is faster than scanning */
#define MAX_JOINED 1024       /* bytes of a piece that is split in all ways */

typedef struct rule {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank, made;
} rule;

struct qn_bpe {
    rule *slot;
    size_t n_slots, n_rules;
    qn_bpe_options opt;
    uint32_t unk;
    uint32_t byte_id[2][2][256]; /* [not first][last] symbols of raw bytes */
    uint32_t ascii[128];         /* symbols of characters, where no prefix or suffix applies */
    uint32_t fallback[256];
    qn_vocab raw; /* whole words as bytes, for ignore_merges */
    bool cut_at_space;
};

typedef struct sym {
    uint32_t id, start;
    uint32_t rank, made; /* of this symbol and the next one */
} sym;

typedef struct todo {
    uint64_t key; /* rank << 32 | position */
    uint32_t made;
} todo;

static size_t home(const qn_bpe *b, uint64_t pair)
{
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    return (h ^ h >> 32) & (b->n_slots - 1);
}

qn_bpe *qn_bpe_open(size_t n_pairs)
{
    qn_bpe *b = qn_alloc(sizeof *b);
    b->n_slots = 64;
    while (b->n_slots < 2 * n_pairs)
        b->n_slots *= 2;
    b->slot = qn_alloc_n(b->n_slots, sizeof *b->slot);
    memset(b->slot, 0xff, b->n_slots * sizeof *b->slot);
    return b;
}

static rule *find_slot(const qn_bpe *b, uint64_t pair)
{
    size_t i = home(b, pair);
    while (b->slot[i].pair != pair && b->slot[i].pair != UINT64_MAX)
        i = (i + 1) & (b->n_slots - 1);
    return &b->slot[i];
}

static void grow(qn_bpe *b)
{
    rule *old = b->slot;
    size_t n = b->n_slots;
    b->n_slots *= 2;
    b->slot = qn_alloc_n(b->n_slots, sizeof *b->slot);
    memset(b->slot, 0xff, b->n_slots * sizeof *b->slot);
    for (size_t i = 0; i < n; i++)
        if (old[i].pair != UINT64_MAX)
            *find_slot(b, old[i].pair) = old[i];
    qn_free(old);
}

void qn_bpe_prefetch(const qn_bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    __builtin_prefetch(&b->slot[home(b, pair)], 1);
}

void qn_bpe_pair(qn_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t made)
{
    if (2 * (b->n_rules + 1) > b->n_slots)
        grow(b);
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    rule *r = find_slot(b, pair);
    b->n_rules += r->pair == UINT64_MAX;
    *r = (rule){ pair, rank, (uint32_t)made };
}

void qn_bpe_pairs_by_result(qn_bpe *b, const qn_vocab *v, const uint32_t *rank,
                            const uint8_t *usable)
{
    for (size_t id = 0; id < v->n_ids; id++) {
        const qn_piece *p = &v->piece[id];
        if (!p->s || !usable[id] || p->n < 2 || p->n > MAX_JOINED)
            continue;
        for (uint32_t k = 1; k < p->n; k++) {
            int32_t left = qn_vocab_find(v, p->s, k);
            if (left < 0 || !usable[left])
                continue;
            int32_t right = qn_vocab_find(v, p->s + k, p->n - k);
            if (right >= 0 && usable[right])
                qn_bpe_pair(b, left, right, rank[id], (int32_t)id);
        }
    }
}

static void look_up(const qn_bpe *b, sym *s, uint32_t next)
{
    s->rank = NONE;
    if (s->id == NONE || next == NONE)
        return;
    const rule *r = find_slot(b, (uint64_t)s->id << 32 | next);
    if (r->pair != UINT64_MAX) {
        s->rank = r->rank;
        s->made = r->made;
    }
}

/* Joins in s[0..n) until no rule applies; returns the symbols left. */
static size_t merge_short(const qn_bpe *b, sym *s, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        look_up(b, &s[i], s[i + 1].id);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (s[i].rank < s[best].rank)
                best = i;
        if (s[best].rank == NONE)
            break;
        s[best].id = s[best].made;
        memmove(s + best + 1, s + best + 2, (n - best - 2) * sizeof *s);
        n--;
        if (best + 1 < n)
            look_up(b, &s[best], s[best + 1].id);
        if (best > 0)
            look_up(b, &s[best - 1], s[best].id);
    }
    return n;
}

static void heap_push(qn_bpe_scratch *x, todo t)
{
    if (x->n_heap == x->cap_heap) {
        x->cap_heap = x->cap_heap ? x->cap_heap * 2 : 1024;
        x->heap = qn_realloc_n(x->heap, x->cap_heap, sizeof(todo));
    }
    todo *h = x->heap;
    size_t i = x->n_heap++;
    for (; i > 0 && h[(i - 1) / 2].key > t.key; i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = t;
}

static todo heap_pop(qn_bpe_scratch *x)
{
    todo *h = x->heap, top = h[0], last = h[--x->n_heap];
    size_t i = 0;
    for (size_t c = 1; c < x->n_heap; c = 2 * i + 1) {
        c += c + 1 < x->n_heap && h[c + 1].key < h[c].key;
        if (h[c].key >= last.key)
            break;
        h[i] = h[c];
        i = c;
    }
    h[i] = last;
    return top;
}

static void heap_pair(const qn_bpe *b, qn_bpe_scratch *x, sym *s, uint32_t at, uint32_t next)
{
    look_up(b, &s[at], s[next].id);
    if (s[at].rank != NONE)
        heap_push(x, (todo){ (uint64_t)s[at].rank << 32 | at, s[at].made });
}

/* The same with a list through x->next and x->prev. An entry of the heap may be out of date: it holds only
 * if the pair now at its position makes the same piece. */
static size_t merge_long(const qn_bpe *b, qn_bpe_scratch *x, sym *s, size_t n)
{
    x->n_heap = 0;
    for (size_t i = 0; i < n; i++) {
        x->prev[i] = (uint32_t)(i - 1);
        x->next[i] = i + 1 < n ? (uint32_t)(i + 1) : NONE;
        if (i + 1 < n)
            heap_pair(b, x, s, (uint32_t)i, (uint32_t)(i + 1));
    }
    while (x->n_heap > 0) {
        todo t = heap_pop(x);
        uint32_t at = (uint32_t)t.key, next = x->next[at];
        if (next == NONE || x->prev[at] == at) /* joined away: see below */
            continue;
        const rule *r = find_slot(b, (uint64_t)s[at].id << 32 | s[next].id);
        if (s[at].id == NONE || r->pair == UINT64_MAX || r->made != t.made)
            continue;
        s[at].id = t.made;
        x->prev[next] = next; /* no other symbol precedes itself */
        x->next[at] = x->next[next];
        if (x->next[at] != NONE) {
            x->prev[x->next[at]] = at;
            heap_pair(b, x, s, at, x->next[at]);
        }
        if (at > 0)
            heap_pair(b, x, s, x->prev[at], at);
    }
    size_t left = 0;
    for (uint32_t i = 0; i != NONE; i = x->next[i])
        s[left++] = s[i];
    return left;
}

static sym *reserve(qn_bpe_scratch *x, size_t n)
{
    if (n > x->cap) {
        x->cap = n + n / 2 + 64;
        x->sym = qn_realloc_n(x->sym, x->cap, sizeof(sym));
        x->next = qn_realloc_n(x->next, x->cap, sizeof *x->next);
        x->prev = qn_realloc_n(x->prev, x->cap, sizeof *x->prev);
    }
    return x->sym;
}

/* The symbol of the character (or byte) at s[at..at + len), with what its place in the word asks for;
 * *text is what was looked up. */
static uint32_t symbol(const qn_tokenizer *t, const qn_bpe *b, qn_buf *word, qn_tok_str w,
                       qn_tok_str *text)
{
    bool first = text->s == w.s, last = text->s + text->n == w.s + w.n;
    if (b->opt.raw_bytes)
        return b->byte_id[!first][last][(unsigned char)*text->s];
    bool plain = (first || !b->opt.prefix) && (!last || !b->opt.suffix);
    if (plain && (unsigned char)*text->s < 128)
        return b->ascii[(unsigned char)*text->s];
    if (!plain) {
        qn_buf_clear(word);
        if (!first && b->opt.prefix)
            qn_buf_str(word, b->opt.prefix);
        qn_buf_add(word, text->s, text->n);
        if (last && b->opt.suffix)
            qn_buf_str(word, b->opt.suffix);
        *text = (qn_tok_str){ word->data, word->len };
    }
    return (uint32_t)qn_vocab_find(&t->vocab, text->s, text->n);
}

/* Byte pieces in place of a character the vocabulary lacks; false when one of them is missing too. With a
 * suffix or prefix the reference falls back for their bytes as well; `text` is what it looked up. */
static bool fall_back(const qn_bpe *b, sym *s, size_t *n, qn_tok_str text, size_t start)
{
    for (size_t i = 0; i < text.n; i++)
        if (b->fallback[(unsigned char)text.s[i]] == NONE)
            return false;
    for (size_t i = 0; i < text.n; i++)
        s[(*n)++] = (sym){ .id = b->fallback[(unsigned char)text.s[i]], .start = (uint32_t)start };
    return true;
}

/* Unknown characters. A pending unknown is written before the next known symbol, and byte pieces do not
 * count as one: they overtake it. That is what files were made with. */
static size_t split(const qn_tokenizer *t, const qn_bpe *b, qn_scratch *x, const char *s, size_t n)
{
    size_t affixes =
        (b->opt.prefix ? strlen(b->opt.prefix) : 0) + (b->opt.suffix ? strlen(b->opt.suffix) : 0);
    sym *v = reserve(&x->bpe, n + (affixes ? n * affixes : 0) + 1);
    size_t n_sym = 0;
    bool pending = false;
    for (size_t at = 0, len; at < n; at += len) {
        uint32_t cp;
        len = b->opt.raw_bytes || b->opt.plain_bytes ? 1
                                                     : (size_t)qn_utf8_decode(s + at, n - at, &cp);
        qn_tok_str text = { s + at, len };
        uint32_t id = symbol(t, b, &x->word, (qn_tok_str){ s, n }, &text);
        if (id != NONE || b->opt.spm) {
            if (pending)
                v[n_sym++] = (sym){ .id = b->unk };
            pending = false;
            v[n_sym++] = (sym){ .id = id, .start = (uint32_t)at };
            continue;
        }
        if (b->opt.byte_fallback && fall_back(b, v, &n_sym, text, at))
            continue;
        if (b->unk == NONE)
            continue;
        if (pending && !b->opt.fuse_unk)
            v[n_sym++] = (sym){ .id = b->unk };
        pending = true;
    }
    if (pending)
        v[n_sym++] = (sym){ .id = b->unk };
    return n_sym;
}

/* sentencepiece decides about unknown symbols at the very end: bytes where there are any, else one unknown
 * id for a run of them. */
static void put_unknown(const qn_bpe *b, const char *s, size_t n, size_t start, qn_ids *out)
{
    uint32_t cp;
    int len = qn_utf8_decode(s + start, n - start, &cp);
    bool all = b->opt.byte_fallback;
    for (int i = 0; i < len && all; i++)
        all = b->fallback[(unsigned char)s[start + (size_t)i]] != NONE;
    for (int i = 0; i < len && all; i++)
        qn_ids_add(out, (int32_t)b->fallback[(unsigned char)s[start + (size_t)i]]);
    bool again = out->n > 0 && out->v[out->n - 1] == (int32_t)b->unk && start > 0;
    if (!all && b->unk != NONE && !again)
        qn_ids_add(out, (int32_t)b->unk);
}

static void encode_word(const qn_tokenizer *t, const qn_bpe *b, qn_scratch *x, qn_tok_str w,
                        qn_ids *out)
{
    size_t n = split(t, b, x, w.s, w.n);
    sym *v = x->bpe.sym;
    if (n > 1)
        n = n <= SHORT_WORD ? merge_short(b, v, n) : merge_long(b, &x->bpe, v, n);
    for (size_t i = 0; i < n; i++) {
        if (v[i].id == NONE)
            put_unknown(b, w.s, w.n, v[i].start, out);
        else
            qn_ids_add(out, (int32_t)v[i].id);
    }
}

/* Where the word that starts at `at` ends: before the next space mark that follows something else. */
static size_t next_cut(const char *s, size_t n, size_t at)
{
    bool other = false;
    while (at < n) {
        bool mark = n - at >= 3 && memcmp(s + at, QN_TOK_SPACE, 3) == 0;
        if (mark && other)
            break;
        other = other || !mark;
        at += mark ? 3 : 1;
    }
    return at;
}

static int encode(const qn_tokenizer *t, qn_scratch *x, const char *s, size_t n, qn_ids *out)
{
    const qn_bpe *b = t->model.data;
    if (n > UINT32_MAX - 2)
        return QN_ERR_LIMIT;
    if (b->opt.ignore_merges) {
        int32_t id = qn_vocab_find(b->raw.slot ? &b->raw : &t->vocab, s, n);
        if (id >= 0) {
            qn_ids_add(out, id);
            return QN_OK;
        }
    }
    if (!b->cut_at_space) {
        encode_word(t, b, x, (qn_tok_str){ s, n }, out);
        return QN_OK;
    }
    for (size_t at = 0; at < n;) {
        size_t end = next_cut(s, n, at), before = out->n;
        qn_tok_str w = { s + at, end - at };
        uint64_t hash = qn_hash_bytes(w.s, w.n);
        if (!qn_word_cache_get(x->cache, hash, w.s, w.n, out)) {
            encode_word(t, b, x, w, out);
            qn_word_cache_put(x->cache, hash, w, out, before);
        }
        at = end;
    }
    return QN_OK;
}

static void close_bpe(void *data)
{
    qn_bpe *b = data;
    if (!b)
        return;
    qn_vocab_free(&b->raw);
    qn_free(b->slot);
    qn_free((void *)b->opt.prefix);
    qn_free((void *)b->opt.suffix);
    qn_free(b);
}

static uint32_t affixed(const qn_tokenizer *t, const qn_bpe *b, int byte, bool prefix, bool suffix)
{
    qn_buf w = { 0 };
    char c = (char)byte;
    if (prefix && b->opt.prefix)
        qn_buf_str(&w, b->opt.prefix);
    if (b->opt.raw_bytes)
        qn_byte_level_map(&c, 1, &w);
    else
        qn_buf_add(&w, &c, 1);
    if (suffix && b->opt.suffix)
        qn_buf_str(&w, b->opt.suffix);
    uint32_t id = (uint32_t)qn_vocab_find(&t->vocab, w.data, w.len);
    qn_buf_free(&w);
    return id;
}

/* The pieces as the bytes they stand for, so that a word need not be spelled in the alphabet to be found. */
static int index_raw(const qn_tokenizer *t, qn_bpe *b, qn_error *err)
{
    qn_vocab_init(&b->raw, t->vocab.n_pieces);
    qn_buf w = { 0 };
    int rc = QN_OK;
    for (size_t id = 0; id < t->vocab.n_ids && rc == QN_OK; id++) {
        const qn_piece *p = &t->vocab.piece[id];
        if (!p->s || qn_vocab_find(&t->vocab, p->s, p->n) != (int32_t)id)
            continue;
        qn_buf_clear(&w);
        size_t at = 0;
        for (uint32_t cp; at < p->n;) {
            at += (size_t)qn_utf8_decode(p->s + at, p->n - at, &cp);
            int byte = qn_byte_level_unmap(cp);
            if (byte < 0)
                break;
            qn_buf_char(&w, (char)byte);
        }
        if (at == p->n && qn_utf8_valid(p->s, p->n) == p->n && w.len)
            rc = qn_vocab_put(&b->raw, w.data, w.len, (int64_t)id, err);
    }
    qn_buf_free(&w);
    return rc;
}

/* Whether words can be cut before a space mark: no rule makes a piece with one after something else, and
 * the mark is a symbol of its own, so nothing reaches across. */
static bool can_cut(const qn_tokenizer *t, const qn_bpe *b)
{
    if (b->opt.raw_bytes || b->opt.plain_bytes || b->opt.prefix || b->opt.suffix)
        return false;
    if (qn_vocab_find(&t->vocab, QN_TOK_SPACE, 3) < 0)
        return false;
    /* First which pieces are made, then those in their order: texts lie side by side. */
    uint8_t *made = qn_alloc(t->vocab.n_ids);
    for (size_t i = 0; i < b->n_slots; i++)
        if (b->slot[i].pair != UINT64_MAX)
            made[b->slot[i].made] = 1;
    bool can = true;
    for (size_t i = 0; i < t->vocab.n_ids && can; i++) {
        const qn_piece *p = &t->vocab.piece[i];
        can = !made[i] || next_cut(p->s, p->n, 0) == p->n;
    }
    qn_free(made);
    return can;
}

int qn_bpe_attach(qn_tokenizer *t, qn_bpe *b, const qn_bpe_options *o, qn_error *err)
{
    t->model = (qn_model){ "BPE", encode, close_bpe, b, true };
    b->opt = *o;
    b->opt.prefix = o->prefix && *o->prefix ? qn_strdup(o->prefix) : NULL;
    b->opt.suffix = o->suffix && *o->suffix ? qn_strdup(o->suffix) : NULL;
    b->unk = o->unk ? (uint32_t)qn_vocab_find(&t->vocab, o->unk, strlen(o->unk)) : NONE;
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        b->fallback[i] = (uint32_t)qn_vocab_find(&t->vocab, name, 6);
        for (int k = 0; k < 4; k++)
            b->byte_id[k >> 1][k & 1][i] = affixed(t, b, i, k >> 1, k & 1);
        if (i < 128)
            b->ascii[i] = b->opt.raw_bytes ? NONE : affixed(t, b, i, false, false);
    }
    if (b->opt.plain_bytes)
        b->opt.raw_bytes = true; /* from here on both are symbols of one byte */
    b->cut_at_space = can_cut(t, b);
    return o->ignore_merges && o->raw_bytes ? index_raw(t, b, err) : QN_OK;
}
