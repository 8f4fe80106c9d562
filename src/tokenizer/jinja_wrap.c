/* jinja_wrap.c - the wordwrap filter: Python's textwrap with the options the filter sets (white space
 * kept inside lines, dropped at their ends). */
#include "base/utf8.h"
#include "tokenizer/jinja_filters.h"

typedef struct wrapper {
    qn_jrun *r;
    const qn_jstr *line;
    size_t at; /* where the next chunk starts */
    int64_t width;
    bool break_long, break_hyphens;
} wrapper;

static uint32_t char_at(const qn_jstr *s, size_t i)
{
    uint32_t cp = 0;
    if (i < s->n)
        qn_utf8_decode(s->p + i, s->n - i, &cp);
    return cp;
}

static bool is_gap(uint32_t cp)
{
    return cp == ' ' || (cp >= 9 && cp <= 13);
}

static bool is_letter(uint32_t cp)
{
    return cp != '_' && cp != '-' && !(cp >= '0' && cp <= '9') && qn_jis_word(cp);
}

static bool is_word_mark(uint32_t cp)
{
    return qn_jis_word(cp) || (cp && cp < 128 && strchr("!\"'&.,?", (int)cp));
}

/* May the word break after the hyphen at `i` (chunk from `from`)? Two letters before it, or a letter,
 * a hyphen and a word character; after it two letters, perhaps with a hyphen between. */
static bool hyphen_breaks(const qn_jstr *s, size_t from, size_t i)
{
    uint32_t one = 0, two = 0, three = 0;
    size_t k = i;
    (void)from;
    if (k > 0)
        k = qn_jprev(s->p, k, &one);
    if (k > 0)
        k = qn_jprev(s->p, k, &two);
    if (k > 0)
        qn_jprev(s->p, k, &three);
    bool before =
        (is_letter(one) && is_letter(two)) || (is_word_mark(one) && two == '-' && is_letter(three));
    uint32_t next = char_at(s, i + 1), cp;
    if (!before || !is_letter(next))
        return false;
    size_t j = i + 1 + (size_t)qn_utf8_decode(s->p + i + 1, s->n - i - 1, &cp);
    if (char_at(s, j) == '-')
        j++;
    return is_letter(char_at(s, j));
}

static size_t dashes(const qn_jstr *s, size_t i)
{
    size_t n = 0;
    while (i + n < s->n && s->p[i + n] == '-')
        n++;
    return n;
}

/* The end of the chunk that starts at w->at: white space, a dash between words, or (part of) a word. */
static size_t chunk_end(const wrapper *w)
{
    const qn_jstr *s = w->line;
    size_t i = w->at;
    uint32_t cp = char_at(s, i), before = 0;
    if (is_gap(cp)) {
        while (i < s->n && is_gap((unsigned char)s->p[i]))
            i++;
        return i;
    }
    if (w->at > 0)
        qn_jprev(s->p, w->at, &before);
    size_t n = dashes(s, i);
    if (w->break_hyphens && n >= 2 && is_word_mark(before) && qn_jis_word(char_at(s, i + n)))
        return i + n;
    while (i < s->n) {
        i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (i >= s->n || is_gap((unsigned char)s->p[i]))
            return i;
        if (!w->break_hyphens)
            continue;
        if (cp == '-' && hyphen_breaks(s, w->at, i - 1))
            return i;
        n = dashes(s, i);
        if (n >= 2 && is_word_mark(cp) && qn_jis_word(char_at(s, i + n)))
            return i;
    }
    return i;
}

/* Where to cut a chunk that fits no line: after `room` characters, or after a hyphen among them. */
static size_t long_cut(const wrapper *w, size_t end, int64_t room)
{
    const qn_jstr *s = w->line;
    size_t i = w->at, hyphen = 0;
    bool solid = false; /* something that is not a hyphen came before */
    for (; room > 0 && i < end; room--) {
        uint32_t cp;
        size_t n = (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        i += n;
        if (cp == '-' && solid && i < end)
            hyphen = i;
        solid = solid || cp != '-';
    }
    return w->break_hyphens && hyphen ? hyphen : i;
}

/* Takes one line of at most w->width from the chunks left; false at the end. */
static bool take_line(wrapper *w, bool first, qn_jval *out)
{
    const qn_jstr *s = w->line;
    if (!first && w->at < s->n && is_gap((unsigned char)s->p[w->at]))
        w->at = chunk_end(w);
    size_t from = w->at;
    int64_t used = 0;
    bool keep_gap = false;
    while (w->at < s->n && qn_jtick(w->r, 1)) {
        size_t end = chunk_end(w);
        int64_t n = (int64_t)qn_jcount_chars(s->p + w->at, end - w->at);
        if (used + n <= w->width) {
            used += n;
            w->at = end;
            continue;
        }
        if (n > w->width && w->break_long) {
            /* Python adds what fits of the word, be it nothing, and drops the space of the last chunk. */
            keep_gap = used == w->width;
            w->at = keep_gap ? w->at : long_cut(w, end, w->width - used);
        } else if (n > w->width && used == 0) {
            w->at = end;
        }
        break;
    }
    size_t to = w->at;
    while (!keep_gap && to > from && is_gap((unsigned char)s->p[to - 1]))
        to--;
    *out = qn_jstr_ref(w->r, s->p + from, to - from);
    return w->at > from || w->at < s->n;
}

QN_JFILTER(qn_jf_wordwrap)
{
    (void)raw;
    if (self.type != QN_J_STR)
        return self.type == QN_J_UNDEF ? qn_jundef_fail(r, self)
                                       : qn_jfail(r, "wordwrap needs a string");
    wrapper w = { .r = r,
                  .width = qn_jarg_int(r, a[0], 79),
                  .break_long = qn_jarg_bool(a[1], true),
                  .break_hyphens = qn_jarg_bool(a[3], true) };
    const qn_jstr *join =
        a[2].type == QN_J_NONE ? qn_jstr_z(r, "\n").s : qn_jarg_str(r, a[2], "\n");
    qn_jval lines = qn_jsplitlines(r, self.s, false), piece;
    qn_jsb b = { 0 };
    if (qn_jok(r) && w.width <= 0)
        return qn_jfail(r, "invalid width %lld (must be > 0)", (long long)w.width);
    for (size_t i = 0; i < lines.l->n && qn_jtick(r, 1); i++) {
        w.line = lines.l->v[i].s;
        w.at = 0;
        if (i)
            qn_jsb_s(r, &b, join);
        for (bool first = true; qn_jok(r) && take_line(&w, first, &piece);) {
            if (piece.s->n == 0) /* only white space: no line of its own */
                continue;
            if (!first)
                qn_jsb_s(r, &b, join);
            qn_jsb_s(r, &b, piece.s);
            first = false;
        }
    }
    return qn_jsb_done(r, &b);
}
