/* normal_forms.c - NFC, NFD, NFKC and NFKD with utf8proc's data.
 *
 * Text is taken in blocks that begin at an ASCII character (always a starter that composes with nothing
 * before it), so plain text is copied and only the rest is decomposed. Combining marks are put in order by
 * a stable merge sort of our own: the library's exchanges neighbours, which a long hostile run of marks
 * turns into quadratic time. */
#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"
#include "tokenizer/unicode.h"

static int ccc(int32_t cp)
{
    return utf8proc_get_property(cp)->combining_class;
}

/* Sorts v[0..n) by combining class, keeping the order of equals; tmp has room for n. */
static void sort_marks(int32_t *v, size_t n, int32_t *tmp)
{
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = ccc(v[i - 1]) <= ccc(v[i]);
    if (sorted)
        return;
    size_t half = n / 2, a = 0, b = half, k = 0;
    sort_marks(v, half, tmp);
    sort_marks(v + half, n - half, tmp);
    while (a < half || b < n)
        tmp[k++] = b == n || (a < half && ccc(v[a]) <= ccc(v[b])) ? v[a++] : v[b++];
    memcpy(v, tmp, n * sizeof *v);
}

static void order(int32_t *v, size_t n, int32_t *tmp)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && ccc(v[end]) > 0)
            end++;
        if (end - i > 1)
            sort_marks(v + i, end - i, tmp);
        i = end > i ? end : i + 1;
    }
}

static void reserve(qn_scratch *x, size_t n)
{
    if (n <= x->cap_cps)
        return;
    x->cap_cps = n + n / 2 + 256;
    x->cps = qn_realloc_n(x->cps, x->cap_cps, sizeof *x->cps);
}

/* Decomposes s into x->cps; returns the count. U+11938 is younger than the tables files were made with. */
static size_t decompose(qn_scratch *x, bool compat, const char *s, size_t n)
{
    size_t count = 0;
    for (size_t at = 0; at < n;) {
        uint32_t cp;
        at += (size_t)qn_utf8_decode(s + at, n - at, &cp);
        reserve(x, count + 32);
        int bound;
        bool keep = cp == 0x11938 || (compat && qn_uni_keep_compat(cp));
        utf8proc_ssize_t got =
            keep ? 0
                 : utf8proc_decompose_char((utf8proc_int32_t)cp, x->cps + count, 32,
                                           UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0),
                                           &bound);
        if (got <= 0 || got > 32) {
            x->cps[count] = (int32_t)cp;
            got = 1;
        }
        count += (size_t)got;
    }
    return count;
}

static void put_block(qn_scratch *x, qn_norm_op op, const char *s, size_t n, qn_buf *out)
{
    bool compat = op == QN_NORM_NFKC || op == QN_NORM_NFKD;
    size_t count = decompose(x, compat, s, n);
    reserve(x, 2 * count);
    order(x->cps, count, x->cps + count);
    if (op == QN_NORM_NFC || op == QN_NORM_NFKC)
        count = (size_t)utf8proc_normalize_utf32(x->cps, (utf8proc_ssize_t)count,
                                                 UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (size_t i = 0; i < count; i++) {
        char u[4];
        qn_buf_add(out, u, (size_t)qn_utf8_encode((uint32_t)x->cps[i], u));
    }
}

/* Whether a block certainly is in form C already: letters below U+0300, kana-free Han and Hangul syllables,
 * which change only together with what follows them. */
static bool is_c(const char *s, size_t n)
{
    for (size_t at = 0; at < n;) {
        uint32_t cp;
        at += (size_t)qn_utf8_decode(s + at, n - at, &cp);
        bool safe = cp < 0x300 || (cp >= 0x4e00 && cp <= 0x9fff) ||
                    (cp >= 0xac00 && cp <= 0xd7a3) || (cp >= 0x400 && cp <= 0x482) ||
                    (cp >= 0x3000 && cp <= 0x3029) || (cp >= 0xff01 && cp <= 0xff5e) ||
                    (cp >= 0x1f300 && cp <= 0x1faff);
        if (!safe)
            return false;
    }
    return true;
}

bool qn_norm_form(qn_scratch *x, qn_norm_op op, qn_tok_text in, qn_buf *out, size_t *zero)
{
    size_t at = 0, done = 0;
    *zero = in.zero;
    while (at < in.n) {
        while (at < in.n && (unsigned char)in.p[at] < 0x80)
            at++;
        size_t from = at > done ? at - 1 : at; /* the ASCII character that marks may attach to */
        while (at < in.n && (unsigned char)in.p[at] >= 0x80)
            at++;
        if (at == from || (op == QN_NORM_NFC && is_c(in.p + from, at - from)))
            continue;
        qn_buf_add(out, in.p + done, from - done);
        size_t before = out->len;
        put_block(x, op, in.p + from, at - from, out);
        if (from == 0 && in.zero > 0) { /* what the first character alone became */
            uint32_t cp;
            size_t lead = out->len > before ? (size_t)qn_utf8_decode(out->data, out->len, &cp) : 0;
            *zero = lead;
        }
        done = at;
    }
    if (done == 0)
        return false;
    qn_buf_add(out, in.p + done, in.n - done);
    return true;
}
