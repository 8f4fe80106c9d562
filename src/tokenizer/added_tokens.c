/* added_tokens.c - tokens that are cut out of the text before anything else sees it.
 *
 * Two sets: those matched in the text as it came, and those matched after normalization (their own text is
 * normalized too). Matching is leftmost-longest; a token may ask to stand as a word of its own, or to
 * swallow the white space beside it. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"
#include "tokenizer/unicode.h"

#define MAX_ADDED_BYTES 4096 /* matching costs text length times this at worst */

int qn_added_put(qn_tokenizer *t, const qn_added *a, qn_error *err)
{
    if (a->n > MAX_ADDED_BYTES)
        return qn_fail(err, QN_ERR_LIMIT, "added token %d is longer than %d bytes", a->id,
                       MAX_ADDED_BYTES);
    QN_GROW(t->added, t->n_added, t->cap_added);
    qn_added *to = &t->added[t->n_added++];
    *to = *a;
    to->s = qn_arena_strndup(&t->arena, a->s, a->n);
    return QN_OK;
}

static void build(qn_tokenizer *t, qn_matcher *m, bool normalized, bool normalize)
{
    qn_trie_key *key = qn_alloc_n(t->n_added + 1, sizeof *key);
    qn_scratch *x = qn_scratch_open();
    size_t n = 0;
    for (size_t i = 0; i < t->n_added; i++) {
        const qn_added *a = &t->added[i];
        if (a->normalized != normalized || a->n == 0)
            continue;
        qn_tok_text text = { a->s, a->n, 0 };
        if (normalized && normalize)
            text = qn_normalize(t, x, text);
        if (text.n == 0) {
            t->added_of[a->id] = (qn_piece){ "", 0, 0 };
            m->any = true;
            if (!m->empty)
                m->empty = a;
            continue;
        }
        const char *s = qn_arena_strndup(&t->arena, text.p, text.n);
        t->added_of[a->id] = (qn_piece){ s, (uint32_t)text.n, 0 }; /* decoding shows what matches */
        /* Of equal texts the first one added counts; the trie keeps the highest value. */
        key[n++] = (qn_trie_key){ s, (uint32_t)text.n, (int32_t)(t->n_added - 1 - i) };
        m->first[(unsigned char)s[0]] = true;
        m->any = true;
    }
    qn_trie_build(&m->trie, key, n);
    qn_scratch_close(x);
    qn_free(key);
}

void qn_added_build(qn_tokenizer *t, bool normalize)
{
    build(t, &t->raw, false, normalize);
    build(t, &t->normed, true, normalize);
}

/* The character that ends before s[at], or starts there: part of a word? */
static bool word_before(qn_tok_str s, size_t at)
{
    size_t from = at;
    uint32_t cp;
    if (at == 0)
        return false;
    do
        from--;
    while (from > 0 && ((unsigned char)s.s[from] & 0xc0) == 0x80);
    qn_utf8_decode(s.s + from, at - from, &cp);
    return (qn_uni(cp) & QN_UNI_WORD) != 0;
}

static bool word_after(qn_tok_str s, size_t at)
{
    uint32_t cp;
    if (at >= s.n)
        return false;
    qn_utf8_decode(s.s + at, s.n - at, &cp);
    return (qn_uni(cp) & QN_UNI_WORD) != 0;
}

static size_t spaces_before(qn_tok_str s, size_t at, size_t least)
{
    while (at > least) {
        size_t from = at;
        uint32_t cp;
        do
            from--;
        while (from > least && ((unsigned char)s.s[from] & 0xc0) == 0x80);
        qn_utf8_decode(s.s + from, at - from, &cp);
        if (!qn_uni_is_space(cp))
            break;
        at = from;
    }
    return at;
}

static size_t spaces_after(qn_tok_str s, size_t at)
{
    while (at < s.n) {
        uint32_t cp;
        size_t len = (size_t)qn_utf8_decode(s.s + at, s.n - at, &cp);
        if (!qn_uni_is_space(cp))
            break;
        at += len;
    }
    return at;
}

/* The token at c->at and its length. A token without text matches between any two characters where no
 * other one does, but not right behind a match. */
static const qn_added *match(const qn_tokenizer *t, const qn_cutter *c, size_t *len)
{
    const qn_matcher *m = c->m;
    const char *s = c->s.s + c->at;
    size_t left = c->s.n - c->at;
    int32_t value = 0;
    *len = left && m->first[(unsigned char)*s] ? qn_trie_longest(&m->trie, s, left, &value) : 0;
    if (*len)
        return &t->added[t->n_added - 1 - (size_t)value];
    bool inside = left && ((unsigned char)*s & 0xc0) == 0x80;
    bool behind = c->at == c->last_end && c->at > 0;
    return inside || behind ? NULL : m->empty;
}

/* Moves the ends of a match over the white space the token asks for. The token before may have swallowed
 * the beginning of this one: one that strips to its left then begins where that ended, and vanishes when
 * nothing is left of it. One that does not strip stays whole, and the text goes on at its end, even if
 * that is inside the other. */
static void place(qn_cutter *c, const qn_added *a, size_t start, size_t end)
{
    if (a->lstrip)
        start = start < c->done ? c->done : spaces_before(c->s, start, c->done);
    c->end = a->rstrip ? spaces_after(c->s, end) : end;
    c->start = start;
    c->id = start < c->end ? a->id : -1;
}

bool qn_added_next(const qn_tokenizer *t, qn_cutter *c)
{
    c->done = c->end;
    if (!c->m->any)
        return false;
    while (c->at < c->s.n || (c->m->empty && c->at == c->s.n)) {
        size_t start = c->at, len;
        const qn_added *a = match(t, c, &len);
        c->at += len ? len : 1; /* a match that is turned down is passed over all the same */
        if (!a)
            continue;
        size_t end = start + len;
        c->last_end = end;
        bool joined = a->single_word && (word_before(c->s, start) || word_after(c->s, end));
        if ((a->special && !c->parse) || joined)
            continue;
        place(c, a, start, end);
        return true;
    }
    return false;
}
