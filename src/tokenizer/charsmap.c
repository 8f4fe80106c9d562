/* charsmap.c - sentencepiece's precompiled normalisation: a double-array trie over the bytes of the text and
 * the replacements it points to, and the two ways programs apply it.
 *
 * A unit packs a label (bits 0-7 and 31), a leaf flag (8) and an offset (10-30, times 256 when bit 9 is
 * set); the unit behind a leaf holds, in 31 bits, where the replacement begins. Every index is checked:
 * the map comes from a file. */
#include <string.h>

#include <utf8proc.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"

int qn_charsmap_init(qn_charsmap *m, qn_arena *a, const void *blob, size_t n, qn_error *err)
{
    const unsigned char *p = blob;
    if (n < 4)
        return qn_fail(err, QN_ERR_FORMAT, "precompiled_charsmap is cut: %zu bytes", n);
    uint32_t trie_bytes = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    if (trie_bytes > n - 4 || trie_bytes % 4 != 0 || trie_bytes == 0)
        return qn_fail(err, QN_ERR_FORMAT, "precompiled_charsmap: trie of %u bytes in %zu",
                       trie_bytes, n);
    m->unit = qn_arena_copy(a, p + 4, trie_bytes);
    m->n_units = trie_bytes / 4;
    m->n_text = n - 4 - trie_bytes;
    m->text = qn_arena_strndup(a, (const char *)p + 4 + trie_bytes, m->n_text);
    return QN_OK;
}

static uint32_t offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

size_t qn_charsmap_find(const qn_charsmap *m, const char *s, size_t n, bool shortest,
                        qn_tok_str *to)
{
    size_t best = 0, at = offset(m->unit[0]);
    for (size_t i = 0; i < n && s[i]; i++) {
        unsigned char c = (unsigned char)s[i];
        at ^= c;
        if (at >= m->n_units || (m->unit[at] & 0x800000ffu) != c)
            break;
        uint32_t unit = m->unit[at];
        at ^= offset(unit);
        if (!(unit & 0x100) || at >= m->n_units)
            continue;
        uint32_t from = m->unit[at] & 0x7fffffffu;
        if (from > m->n_text)
            continue;
        *to = (qn_tok_str){ m->text + from, strnlen(m->text + from, m->n_text - from) };
        best = i + 1;
        if (shortest)
            break;
    }
    return best;
}

/* The length of the grapheme cluster at s. */
static size_t grapheme(const char *s, size_t n)
{
    uint32_t a, b;
    utf8proc_int32_t state = 0;
    size_t len = (size_t)qn_utf8_decode(s, n, &a);
    while (len < n) {
        size_t more = (size_t)qn_utf8_decode(s + len, n - len, &b);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)a, (utf8proc_int32_t)b, &state))
            break;
        len += more;
        a = b;
    }
    return len;
}

/* As tokenizer.json files mean it: clusters under six bytes are looked up whole, by their shortest mapped
 * prefix; otherwise each character is. What replaces the first character that leaves anything counts as
 * coming from the beginning: the reference forgets characters that vanish before it. */
bool qn_norm_charsmap(const qn_norm *step, qn_tok_text in, qn_buf *out, size_t *zero)
{
    qn_tok_str to;
    size_t cluster_end = 0;
    *zero = 0;
    for (size_t at = 0, len; at < in.n; at += len) {
        const char *s = in.p + at;
        uint32_t cp;
        bool simple = (unsigned char)*s < 0x80 && *s != '\r' &&
                      (at + 1 == in.n || (unsigned char)s[1] < 0x80);
        bool first = in.zero > 0 && (at < in.zero || out->len == 0), whole = false;
        if (at >= cluster_end) {
            len = simple ? 1 : grapheme(s, in.n - at);
            cluster_end = at + len;
            whole = len < 6 && qn_charsmap_find(&step->map, s, len, true, &to);
        }
        if (!whole) { /* inside a longer cluster, or one that is not mapped: character by character */
            len = (size_t)qn_utf8_decode(s, in.n - at, &cp);
            if (!qn_charsmap_find(&step->map, s, len, true, &to))
                to = (qn_tok_str){ s, len };
        }
        qn_buf_add(out, to.s, to.n);
        *zero = first ? out->len : *zero;
    }
    return true;
}

/* One unit of sentencepiece's normalisation at s: how many bytes it takes, and what it becomes. */
static size_t spm_prefix(const qn_norm *step, const char *s, size_t n, qn_tok_str *to)
{
    int32_t id;
    uint32_t cp;
    size_t len = step->keep ? qn_trie_longest(step->keep, s, n, &id) : 0;
    if (len == 0 && step->map.unit && (len = qn_charsmap_find(&step->map, s, n, false, to)))
        return len;
    if (len == 0)
        len = (size_t)qn_utf8_decode(s, n, &cp);
    *to = (qn_tok_str){ s, len };
    return len;
}

static void put_spaced(const qn_norm *step, qn_tok_str w, qn_buf *out)
{
    for (size_t i = 0; i < w.n; i++) {
        if (w.s[i] == ' ' && step->escape)
            qn_buf_str(out, QN_TOK_SPACE);
        else
            qn_buf_char(out, w.s[i]);
    }
}

static void put_space(const qn_norm *step, qn_buf *out)
{
    put_spaced(step, (qn_tok_str){ " ", 1 }, out);
}

/* sentencepiece's own normaliser: the map, spaces squeezed and trimmed, one space added in front (or at
 * the end), spaces written as U+2581. Text that is only spaces vanishes when they are squeezed. */
bool qn_norm_spm(const qn_norm *step, qn_tok_text in, qn_buf *out)
{
    qn_tok_str to;
    size_t at = 0, len;
    if (step->squeeze)
        for (; at < in.n; at += len) {
            len = spm_prefix(step, in.p + at, in.n - at, &to);
            if (to.n != 1 || *to.s != ' ')
                break;
        }
    if (at == in.n)
        return true;
    if (step->dummy_prefix && !step->suffixed)
        put_space(step, out);
    bool after_space = step->squeeze;
    for (; at < in.n; at += len) {
        len = spm_prefix(step, in.p + at, in.n - at, &to);
        while (after_space && to.n && *to.s == ' ')
            to.s++, to.n--;
        if (to.n) {
            put_spaced(step, to, out);
            after_space = to.s[to.n - 1] == ' ';
        }
        after_space = after_space && step->squeeze;
    }
    const char *space = step->escape ? QN_TOK_SPACE : " ";
    size_t n_space = strlen(space);
    while (step->squeeze && out->len >= n_space &&
           memcmp(out->data + out->len - n_space, space, n_space) == 0)
        out->len -= n_space;
    if (step->dummy_prefix && step->suffixed)
        put_space(step, out);
    return true;
}
