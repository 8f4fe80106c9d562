/* wordpiece.c - the models that look words up: WordPiece (the longest piece first, the rest marked as a
 * continuation), its GGUF form with marked word starts, and WordLevel (whole words only). */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"

typedef struct wordpiece {
    qn_trie trie;
    uint32_t inside; /* the node reached by the continuation prefix; 0 when there is none */
    size_t max_chars;
    int32_t unk;
    bool dead_inside, phantom;
} wordpiece;

/* Longest key below `node` that is a prefix of s: its length, or 0. */
static size_t longest_from(const qn_trie *t, uint32_t node, const char *s, size_t n, int32_t *id)
{
    size_t best = 0;
    for (size_t i = 0; i < n; i++) {
        node = qn_trie_step(t, node, (unsigned char)s[i]);
        if (!node)
            break;
        if (t->node[node].value >= 0) {
            best = i + 1;
            *id = t->node[node].value;
        }
    }
    return best;
}

static int unknown(const wordpiece *w, qn_ids *out)
{
    if (w->unk < 0)
        return QN_ERR_FORMAT;
    qn_ids_add(out, w->unk);
    return QN_OK;
}

static int encode(const qn_tokenizer *t, qn_scratch *x, const char *s, size_t n, qn_ids *out)
{
    (void)x;
    const wordpiece *w = t->model.data;
    size_t chars = 0, before = out->n;
    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)s[i] & 0xc0) != 0x80;
    if (chars > w->max_chars)
        return unknown(w, out);
    for (size_t at = 0; at < n;) {
        int32_t id = -1;
        bool lost = at > 0 && w->dead_inside;
        size_t len = lost ? 0 : longest_from(&w->trie, at ? w->inside : 0, s + at, n - at, &id);
        if (len == 0) {
            out->n = before;
            return unknown(w, out);
        }
        qn_ids_add(out, id);
        at += len;
    }
    return QN_OK;
}

/* The word with U+2581 before it, cut greedily; pieces inside a word carry no mark. */
static int encode_phantom(const qn_tokenizer *t, qn_scratch *x, const char *s, size_t n,
                          qn_ids *out)
{
    const wordpiece *w = t->model.data;
    size_t before = out->n;
    qn_buf_clear(&x->word);
    qn_buf_str(&x->word, QN_TOK_SPACE);
    qn_buf_add(&x->word, s, n);
    for (size_t at = 0; at < x->word.len;) {
        int32_t id = -1;
        size_t len = longest_from(&w->trie, 0, x->word.data + at, x->word.len - at, &id);
        if (len == 0) {
            out->n = before;
            return unknown(w, out);
        }
        qn_ids_add(out, id);
        at += len;
    }
    return QN_OK;
}

static int encode_word(const qn_tokenizer *t, qn_scratch *x, const char *s, size_t n, qn_ids *out)
{
    (void)x;
    int32_t id = qn_vocab_find(&t->vocab, s, n);
    if (id < 0)
        return unknown(t->model.data, out);
    qn_ids_add(out, id);
    return QN_OK;
}

static void close_wordpiece(void *data)
{
    wordpiece *w = data;
    if (!w)
        return;
    qn_trie_free(&w->trie);
    qn_free(w);
}

static wordpiece *attach(qn_tokenizer *t, const char *name, int32_t unk)
{
    wordpiece *w = qn_alloc(sizeof *w);
    w->unk = unk;
    w->max_chars = SIZE_MAX;
    t->model = (qn_model){ name, encode, close_wordpiece, w, true };
    return w;
}

static void build_trie(const qn_tokenizer *t, wordpiece *w)
{
    qn_trie_key *key = qn_alloc_n(t->vocab.n_ids, sizeof *key);
    size_t n = 0;
    for (size_t i = 0; i < t->vocab.n_ids; i++) {
        const qn_piece *p = &t->vocab.piece[i];
        if (p->s && p->n)
            key[n++] = (qn_trie_key){ p->s, p->n, (int32_t)i };
    }
    qn_trie_build(&w->trie, key, n);
    qn_free(key);
}

void qn_wordpiece_attach(qn_tokenizer *t, const char *prefix, size_t max_chars, int32_t unk)
{
    wordpiece *w = attach(t, "WordPiece", unk);
    w->max_chars = max_chars;
    build_trie(t, w);
    for (const char *p = prefix; *p && !w->dead_inside; p++) {
        w->inside = qn_trie_step(&w->trie, w->inside, (unsigned char)*p);
        w->dead_inside = w->inside == 0; /* no piece continues a word */
    }
}

void qn_phantom_attach(qn_tokenizer *t, int32_t unk)
{
    wordpiece *w = attach(t, "WordPiece", unk);
    w->phantom = true;
    t->model.encode = encode_phantom;
    build_trie(t, w);
}

void qn_wordlevel_attach(qn_tokenizer *t, int32_t unk)
{
    attach(t, "WordLevel", unk);
    t->model.encode = encode_word;
}
