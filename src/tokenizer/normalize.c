/* normalize.c - the normalizer steps, each from text to text. A step that changes nothing says so, and the
 * text stays where it is. Normal forms are in normal_forms.c, maps in charsmap.c. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"
#include "tokenizer/unicode.h"

/* How one character changes: writes it (or nothing) to out. */
typedef void char_fn(const qn_norm *step, uint32_t cp, const char *s, size_t n, qn_buf *out);

static void put_lower(qn_buf *out, uint32_t cp, const char *s, size_t n)
{
    char c[4];
    uint32_t low = qn_uni_to_lower(cp);
    if (cp == 0x130) /* the one letter whose lower case is two characters */
        qn_buf_str(out, "i\xcc\x87");
    else if (low == cp)
        qn_buf_add(out, s, n);
    else
        qn_buf_add(out, c, (size_t)qn_utf8_encode(low, c));
}

static void lowercase(const qn_norm *step, uint32_t cp, const char *s, size_t n, qn_buf *out)
{
    (void)step;
    put_lower(out, cp, s, n);
}

static void strip_accents(const qn_norm *step, uint32_t cp, const char *s, size_t n, qn_buf *out)
{
    (void)step;
    if (!(qn_uni(cp) & QN_UNI_MARK))
        qn_buf_add(out, s, n);
}

static void strip_mn(const qn_norm *step, uint32_t cp, const char *s, size_t n, qn_buf *out)
{
    (void)step;
    if (!(qn_uni(cp) & QN_UNI_MN))
        qn_buf_add(out, s, n);
}

/* The clean-up of the NMT rules: some controls go, odd spaces become plain ones. */
static void nmt(const qn_norm *step, uint32_t cp, const char *s, size_t n, qn_buf *out)
{
    (void)step;
    bool drop = (cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f ||
                cp == 0x8f || cp == 0x9f;
    bool space = cp == 9 || cp == 0xa || cp == 0xc || cp == 0xd || cp == 0x1680 ||
                 (cp >= 0x200b && cp <= 0x200f) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
                 cp == 0xfeff || cp == 0xfffd;
    if (space)
        qn_buf_char(out, ' ');
    else if (!drop)
        qn_buf_add(out, s, n);
}

static void bert_clean(const qn_norm *step, uint32_t cp, const char *s, size_t n, qn_buf *out)
{
    bool plain = cp == '\t' || cp == '\n' || cp == '\r';
    uint32_t flags = qn_uni(cp);
    (void)step;
    if (cp == 0 || cp == 0xfffd || (!plain && (flags & QN_UNI_CTL)))
        return;
    if (flags & QN_UNI_SPACE)
        qn_buf_char(out, ' ');
    else
        qn_buf_add(out, s, n);
}

static void bert_cjk(const qn_norm *step, uint32_t cp, const char *s, size_t n, qn_buf *out)
{
    (void)step;
    bool apart = qn_uni_is_cjk(cp);
    if (apart)
        qn_buf_char(out, ' ');
    qn_buf_add(out, s, n);
    if (apart)
        qn_buf_char(out, ' ');
}

static bool each_char(const qn_norm *step, char_fn *fn, qn_tok_text in, qn_buf *out, size_t *zero)
{
    *zero = 0;
    for (size_t at = 0; at < in.n;) {
        uint32_t cp;
        size_t len = (size_t)qn_utf8_decode(in.p + at, in.n - at, &cp);
        fn(step, cp, in.p + at, len, out);
        at += len;
        if (at <= in.zero)
            *zero = out->len;
    }
    return true;
}

static bool strip(const qn_norm *step, qn_tok_text in, qn_buf *out, size_t *zero)
{
    size_t from = 0, to = in.n;
    uint32_t cp;
    while (step->left && from < in.n) {
        size_t len = (size_t)qn_utf8_decode(in.p + from, in.n - from, &cp);
        if (!qn_uni_is_space(cp))
            break;
        from += len;
    }
    while (step->right && to > from) {
        size_t last = to - 1;
        while (last > from && ((unsigned char)in.p[last] & 0xc0) == 0x80)
            last--;
        qn_utf8_decode(in.p + last, to - last, &cp);
        if (!qn_uni_is_space(cp))
            break;
        to = last;
    }
    if (from == 0 && to == in.n)
        return false;
    qn_buf_add(out, in.p + from, to - from);
    *zero = from < in.zero ? in.zero - from : 0;
    return true;
}

/* One character on from `at`, or past the end. */
static size_t step_over(const char *s, size_t n, size_t at)
{
    uint32_t cp;
    return at < n ? at + (size_t)qn_utf8_decode(s + at, n - at, &cp) : n + 1;
}

static bool replace(const qn_norm *step, qn_scratch *x, qn_tok_text in, qn_buf *out, size_t *zero)
{
    qn_rx_search q = { .text = in.p, .n = in.n };
    size_t done = 0;
    bool changed = false;
    while (q.from <= in.n) {
        int rc = qn_regex_next(step->re, &x->rx, &q);
        x->failed = x->failed || rc < 0;
        if (rc <= 0)
            break;
        q.from = q.e;
        if (q.s ==
            q.e) { /* empty matches move on by a character, and do not follow a match directly */
            q.from = step_over(in.p, in.n, q.e);
            if (changed && q.s == done)
                continue;
        }
        qn_buf_add(out, in.p + done, q.s - done);
        qn_buf_add(out, step->text, step->n_text);
        if (q.s < in.zero)
            *zero = q.e <= in.zero ? out->len : out->len - step->n_text;
        done = q.e;
        changed = true;
    }
    if (!changed)
        return false;
    if (done < in.zero)
        *zero = out->len + (in.zero - done);
    qn_buf_add(out, in.p + done, in.n - done);
    return true;
}

void qn_byte_level_map(const char *s, size_t n, qn_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        char u[4];
        uint32_t cp = c;
        /* Bytes that print stand for themselves; the others follow U+0100 in order. */
        if (c <= 0x20)
            cp = 0x100 + c;
        else if (c >= 0x7f && c <= 0xa0)
            cp = 0x121 + (c - 0x7fu);
        else if (c == 0xad)
            cp = 0x143;
        qn_buf_add(out, u, (size_t)qn_utf8_encode(cp, u));
    }
}

int qn_byte_level_unmap(uint32_t cp)
{
    if (cp >= 0x100 && cp <= 0x120)
        return (int)cp - 0x100;
    if (cp >= 0x121 && cp <= 0x142)
        return (int)cp - 0x121 + 0x7f;
    if (cp == 0x143)
        return 0xad;
    bool self = (cp > 0x20 && cp < 0x7f) || (cp > 0xa0 && cp <= 0xff && cp != 0xad);
    return self ? (int)cp : -1;
}

/* Two buffers take turns as input and output. */
typedef struct chain {
    qn_scratch *x;
    qn_tok_text now;
    int next;
} chain;

static qn_buf *begin(chain *c)
{
    qn_buf *out = &c->x->norm[c->next];
    qn_buf_clear(out);
    qn_buf_reserve(out, c->now.n);
    return out;
}

static void commit(chain *c, bool changed, size_t zero)
{
    if (!changed)
        return;
    const qn_buf *out = &c->x->norm[c->next];
    c->now = (qn_tok_text){ qn_buf_cstr(out), out->len, zero < out->len ? zero : out->len };
    c->next = !c->next;
}

static void run_chars(chain *c, const qn_norm *step, char_fn *fn)
{
    size_t zero = 0;
    qn_buf *out = begin(c);
    bool changed = each_char(step, fn, c->now, out, &zero);
    commit(c, changed, zero);
}

static void run_form(chain *c, qn_norm_op op)
{
    size_t zero = 0;
    qn_buf *out = begin(c);
    bool changed = qn_norm_form(c->x, op, c->now, out, &zero);
    commit(c, changed, zero);
}

static void run_bert(chain *c, const qn_norm *step)
{
    if (step->clean)
        run_chars(c, step, bert_clean);
    if (step->cjk)
        run_chars(c, step, bert_cjk);
    if (step->accents) {
        run_form(c, QN_NORM_NFD);
        run_chars(c, step, strip_mn);
    }
    if (step->lower)
        run_chars(c, step, lowercase);
}

static void run_other(chain *c, const qn_norm *step)
{
    size_t zero = c->now.zero;
    bool changed = true;
    qn_buf *out = begin(c);
    switch (step->op) {
    case QN_NORM_STRIP:
        changed = strip(step, c->now, out, &zero);
        break;
    case QN_NORM_REPLACE:
        changed = replace(step, c->x, c->now, out, &zero);
        break;
    case QN_NORM_PREPEND:
        changed = c->now.n > 0;
        qn_buf_add(out, step->text, step->n_text);
        qn_buf_add(out, c->now.p, c->now.n);
        zero = zero ? zero + step->n_text : 0;
        break;
    case QN_NORM_CHARSMAP:
        qn_norm_charsmap(step, c->now, out, &zero);
        break;
    case QN_NORM_BYTE_LEVEL:
        qn_byte_level_map(c->now.p, c->now.zero, out);
        zero = out->len;
        qn_byte_level_map(c->now.p + c->now.zero, c->now.n - c->now.zero, out);
        break;
    default:
        qn_norm_spm(step, c->now, out);
        break;
    }
    commit(c, changed, zero);
}

qn_tok_text qn_normalize(const qn_tokenizer *t, qn_scratch *x, qn_tok_text in)
{
    chain c = { .x = x, .now = in };
    for (size_t i = 0; i < t->n_norm; i++) {
        const qn_norm *step = &t->norm[i];
        switch (step->op) {
        case QN_NORM_NFC:
        case QN_NORM_NFD:
        case QN_NORM_NFKC:
        case QN_NORM_NFKD:
            run_form(&c, step->op);
            break;
        case QN_NORM_LOWERCASE:
            run_chars(&c, step, lowercase);
            break;
        case QN_NORM_STRIP_ACCENTS:
            run_chars(&c, step, strip_accents);
            break;
        case QN_NORM_NMT:
            run_chars(&c, step, nmt);
            break;
        case QN_NORM_BERT:
            run_bert(&c, step);
            break;
        default:
            run_other(&c, step);
            break;
        }
    }
    return c.now;
}
