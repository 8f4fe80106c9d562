/* pretokenize.c - the pre-tokenizer steps: each cuts every piece into smaller ones, and some rewrite the
 * text on the way (spaces to U+2581, bytes to their alphabet).
 *
 * A cut is described as the reference does it: a list of stretches, each a match or what lies between, to
 * which a behaviour is applied. Empty pieces vanish. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"
#include "tokenizer/unicode.h"

/* Where a step puts its pieces. */
typedef struct cutter {
    qn_scratch *x;
    const char *text; /* what the input spans index */
    qn_span *out;
    size_t n, cap;
    qn_behavior behavior;
    bool invert;
    /* The piece at hand, while its stretches come in. */
    bool last_match, held;
    qn_span hold; /* a stretch that may still grow: see stretch() */
    bool hold_match;
} cutter;

static void put(cutter *c, size_t start, size_t n)
{
    if (n == 0)
        return;
    if (c->n == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 256;
        c->out = qn_realloc_n(c->out, c->cap, sizeof *c->out);
    }
    c->out[c->n++] = (qn_span){ start, n };
}

static void release(cutter *c)
{
    if (c->held)
        put(c, c->hold.start, c->hold.n);
    c->held = false;
}

static void hold(cutter *c, size_t start, size_t n, bool match)
{
    release(c);
    c->held = true;
    c->hold = (qn_span){ start, n };
    c->hold_match = match;
}

/* The next stretch of the piece at hand. Merging with the previous one joins a match to the stretch before
 * it unless that was a match too; merging with the next one does the same from the other end, so a match
 * is held until it is known what follows. */
static void stretch(cutter *c, size_t start, size_t n, bool match)
{
    match = match != c->invert;
    switch (c->behavior) {
    case QN_REMOVED:
        if (!match)
            put(c, start, n);
        break;
    case QN_ISOLATED:
        put(c, start, n);
        break;
    case QN_CONTIGUOUS:
        if (c->held && c->last_match == match)
            c->hold.n += n;
        else
            hold(c, start, n, match);
        break;
    case QN_WITH_PREVIOUS:
        if (c->held && match && !c->last_match)
            c->hold.n += n;
        else
            hold(c, start, n, match);
        break;
    case QN_WITH_NEXT:
        if (c->held && c->hold_match && !match) {
            c->hold.n += n;
            c->hold_match = false;
        } else {
            hold(c, start, n, match);
        }
        break;
    }
    c->last_match = match;
}

static void begin_piece(cutter *c)
{
    c->held = false;
    c->last_match = false;
}

static void cut_regex(cutter *c, const qn_regex *re, qn_span p)
{
    qn_rx_search q = { .text = c->text + p.start, .n = p.n };
    size_t done = 0;
    bool any = false;
    uint32_t cp;
    while (q.from <= p.n) {
        int rc = qn_regex_next(re, &c->x->rx, &q);
        c->x->failed = c->x->failed || rc < 0;
        if (rc <= 0)
            break;
        if (q.s == q.e && any &&
            q.s == done) { /* an empty match right after a match: look further on */
            q.from = q.s + 1;
            if (q.s < p.n)
                q.from = q.s + (size_t)qn_utf8_decode(q.text + q.s, p.n - q.s, &cp);
            continue;
        }
        if (q.s > done)
            stretch(c, p.start + done, q.s - done, false);
        stretch(c, p.start + q.s, q.e - q.s, true);
        q.from = done = q.e;
        any = true;
    }
    if (done < p.n)
        stretch(c, p.start + done, p.n - done, false);
    release(c);
}

/* Cuts where a property of characters changes or holds: each character that `is` so is a match alone. */
typedef bool is_fn(uint32_t cp, const qn_pre *step);

static void cut_chars(cutter *c, is_fn *is, const qn_pre *step, qn_span p)
{
    const char *s = c->text + p.start;
    size_t done = 0;
    for (size_t at = 0, len; at < p.n; at += len) {
        uint32_t cp;
        len = (size_t)qn_utf8_decode(s + at, p.n - at, &cp);
        if (!is(cp, step))
            continue;
        if (at > done)
            stretch(c, p.start + done, at - done, false);
        stretch(c, p.start + at, len, true);
        done = at + len;
    }
    if (done < p.n)
        stretch(c, p.start + done, p.n - done, false);
    release(c);
}

static bool is_space(uint32_t cp, const qn_pre *step)
{
    (void)step;
    return qn_uni_is_space(cp);
}

static bool is_punct(uint32_t cp, const qn_pre *step)
{
    (void)step;
    return (qn_uni(cp) & QN_UNI_PUNCT) != 0;
}

static bool is_digit(uint32_t cp, const qn_pre *step)
{
    (void)step;
    return qn_uni_in(qn_uni(cp), QN_SET_N);
}

static bool is_delimiter(uint32_t cp, const qn_pre *step)
{
    uint32_t mine;
    qn_utf8_decode(step->text, step->n_text, &mine);
    return cp == mine;
}

/* Runs of equal class: 0 space (dropped), 1 word, 2 other. */
static void cut_words(cutter *c, qn_span p)
{
    const char *s = c->text + p.start;
    size_t from = 0;
    int last = 0;
    for (size_t at = 0, len; at < p.n; at += len) {
        uint32_t cp;
        len = (size_t)qn_utf8_decode(s + at, p.n - at, &cp);
        uint32_t flags = qn_uni(cp);
        int kind = flags & QN_UNI_WORD ? 1 : flags & QN_UNI_SPACE ? 0 : 2;
        if (kind != last) {
            if (last)
                put(c, p.start + from, at - from);
            from = at;
            last = kind;
        }
    }
    if (last)
        put(c, p.start + from, p.n - from);
}

/* A border where the script changes; characters of any script join what is before them. Those at the very
 * beginning belong to no piece and are dropped, as the reference does. */
static void cut_scripts(cutter *c, qn_span p)
{
    const char *s = c->text + p.start;
    size_t from = 0;
    int last = -1;
    for (size_t at = 0, len; at < p.n; at += len) {
        uint32_t cp;
        len = (size_t)qn_utf8_decode(s + at, p.n - at, &cp);
        int script = qn_uni_script(cp);
        if (script == QN_UNI_ANY_SCRIPT || script == last)
            continue;
        if (last >= 0)
            put(c, p.start + from, at - from);
        from = at;
        last = script;
    }
    if (last >= 0)
        put(c, p.start + from, p.n - from);
}

static void cut_length(cutter *c, size_t chars, qn_span p)
{
    const char *s = c->text + p.start;
    size_t from = 0, count = 0;
    for (size_t at = 0, len; at < p.n; at += len) {
        uint32_t cp;
        len = (size_t)qn_utf8_decode(s + at, p.n - at, &cp);
        if (count++ == chars) {
            put(c, p.start + from, at - from);
            from = at;
            count = 1;
        }
    }
    put(c, p.start + from, p.n - from);
}

/* A run of digits in threes counted from its right end, as numbers are written; other text between runs is
 * left whole. */
static void cut_triples(cutter *c, qn_span p)
{
    const char *s = c->text + p.start;
    for (size_t at = 0; at < p.n;) {
        size_t from = at, digits = 0;
        uint32_t cp;
        bool digit = false;
        while (at < p.n) {
            size_t len = (size_t)qn_utf8_decode(s + at, p.n - at, &cp);
            bool is = (qn_uni(cp) & 31) == QN_ND;
            if (at > from && is != digit)
                break;
            digit = is;
            digits += is;
            at += len;
        }
        size_t first = digits % 3 ? digits % 3 : 3;
        for (size_t k = from, count = 0; digits && k < at; count++) {
            if (count == first) {
                put(c, p.start + from, k - from);
                from = k;
                count = 0;
                first = 3;
            }
            k += (size_t)qn_utf8_decode(s + k, at - k, &cp);
        }
        put(c, p.start + from, at - from);
    }
}

/* Rewrites p into `to` with U+2581 (or another mark) for spaces and, where asked, one in front. */
static qn_span metaspace(const qn_pre *step, const char *s, qn_span p, bool first, qn_buf *to)
{
    size_t start = to->len;
    bool marked = (p.n >= step->n_text && memcmp(s + p.start, step->text, step->n_text) == 0) ||
                  (p.n > 0 && s[p.start] == ' ');
    bool prepend =
        step->prepend == QN_PREPEND_ALWAYS || (step->prepend == QN_PREPEND_FIRST && first);
    if (prepend && !marked)
        qn_buf_add(to, step->text, step->n_text);
    for (size_t i = 0; i < p.n;) {
        size_t run = i;
        while (run < p.n && s[p.start + run] != ' ')
            run++;
        qn_buf_add(to, s + p.start + i, run - i);
        if (run < p.n)
            qn_buf_add(to, step->text, step->n_text);
        i = run + 1;
    }
    return (qn_span){ start, to->len - start };
}

/* The state of the whole chain: pieces and the text they index. */
typedef struct chain {
    qn_scratch *x;
    const char *text;
    size_t zero;
    int next_buf, now;
} chain;

static qn_buf *fresh_text(chain *k, size_t about)
{
    qn_buf *b = &k->x->pre[k->next_buf];
    qn_buf_clear(b);
    qn_buf_reserve(b, about);
    return b;
}

static void use_text(chain *k, size_t zero)
{
    k->text = qn_buf_cstr(&k->x->pre[k->next_buf]);
    k->zero = zero;
    k->next_buf = !k->next_buf;
}

/* A rewriting step: every piece goes through `metaspace` or gets a space in front. */
static void rewrite(chain *k, const qn_pre *step)
{
    qn_span *v = k->x->span[k->now];
    size_t n = k->x->n_span[k->now], total = 0, zero = 0;
    for (size_t i = 0; i < n; i++)
        total += v[i].n + 8;
    qn_buf *to = fresh_text(k, total);
    for (size_t i = 0; i < n; i++) {
        qn_span p = v[i];
        bool first = p.start < k->zero;
        if (step->op == QN_PRE_METASPACE) {
            v[i] = metaspace(step, k->text, p, first, to);
        } else {
            size_t start = to->len;
            if (k->text[p.start] != ' ')
                qn_buf_char(to, ' ');
            qn_buf_add(to, k->text + p.start, p.n);
            v[i] = (qn_span){ start, to->len - start };
        }
        /* What was put in front of a first character counts as coming from it. */
        if (first)
            zero = v[i].start + v[i].n - p.n + (k->zero - p.start < p.n ? k->zero - p.start : p.n);
    }
    use_text(k, zero);
}

static void map_bytes(chain *k)
{
    qn_span *v = k->x->span[k->now];
    size_t n = k->x->n_span[k->now], total = 0;
    for (size_t i = 0; i < n; i++)
        total += 2 * v[i].n;
    qn_buf *to = fresh_text(k, total);
    for (size_t i = 0; i < n; i++) {
        size_t start = to->len;
        qn_byte_level_map(k->text + v[i].start, v[i].n, to);
        v[i] = (qn_span){ start, to->len - start };
    }
    use_text(k, 0);
}

static void cut_piece(cutter *c, const qn_pre *step, qn_span p)
{
    begin_piece(c);
    switch (step->op) {
    case QN_PRE_SPLIT:
    case QN_PRE_BYTE_LEVEL:
        cut_regex(c, step->re, p);
        break;
    case QN_PRE_SPACES:
        cut_chars(c, is_space, step, p);
        break;
    case QN_PRE_PUNCT:
        cut_chars(c, is_punct, step, p);
        break;
    case QN_PRE_DIGITS:
        cut_chars(c, is_digit, step, p);
        break;
    case QN_PRE_CHAR:
    case QN_PRE_METASPACE:
        cut_chars(c, is_delimiter, step, p);
        break;
    case QN_PRE_WORDS:
        cut_words(c, p);
        break;
    case QN_PRE_SCRIPTS:
        cut_scripts(c, p);
        break;
    case QN_PRE_LENGTH:
        cut_length(c, step->length, p);
        break;
    case QN_PRE_DIGIT_TRIPLES:
        cut_triples(c, p);
        break;
    case QN_PRE_BERT: /* made of two steps when it is loaded */
        break;
    }
}

static void cut_all(chain *k, const qn_pre *step)
{
    qn_scratch *x = k->x;
    int to = !k->now;
    cutter c = { .x = x,
                 .text = k->text,
                 .out = x->span[to],
                 .cap = x->cap_span[to],
                 .behavior = step->behavior,
                 .invert = step->invert };
    for (size_t i = 0; i < x->n_span[k->now]; i++)
        cut_piece(&c, step, x->span[k->now][i]);
    x->span[to] = c.out;
    x->cap_span[to] = c.cap;
    x->n_span[to] = c.n;
    k->now = to;
}

int qn_pretokenize(const qn_tokenizer *t, qn_scratch *x, qn_tok_text in, const char **text)
{
    chain k = { .x = x, .text = in.p, .zero = in.zero };
    cutter c = { .out = x->span[0], .cap = x->cap_span[0] };
    put(&c, 0, in.n);
    x->span[0] = c.out;
    x->cap_span[0] = c.cap;
    x->n_span[0] = c.n;
    for (size_t i = 0; i < t->n_pre; i++) {
        const qn_pre *step = &t->pre[i];
        if (step->op == QN_PRE_METASPACE || (step->op == QN_PRE_BYTE_LEVEL && step->prefix_space))
            rewrite(&k, step);
        if (step->op == QN_PRE_BYTE_LEVEL ? step->use_regex
                                          : step->op != QN_PRE_METASPACE || step->split)
            cut_all(&k, step);
        if (step->op == QN_PRE_BYTE_LEVEL && !step->deferred)
            map_bytes(&k);
    }
    *text = k.text;
    return k.now;
}
