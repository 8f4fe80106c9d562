/* splitters.c - see splitters.h. Each function is the pattern beside it, alternative by alternative in
 * the pattern's order; a test holds them equal to PCRE2 on hard text. Text is valid UTF-8. */
#include "tokenizer/splitters.h"

#include <string.h>

#include "tokenizer/unicode.h"

#define CASED (QN_SET(QN_LM) | QN_SET(QN_LO) | QN_SET_M)
#define UPPER (QN_SET(QN_LU) | QN_SET(QN_LT) | CASED)
#define LOWER (QN_SET(QN_LL) | CASED)

/* One decoded character: its flags and where it ends. At the end of the text, len is 0. */
typedef struct ch {
    uint32_t cp, flags;
    size_t end;
} ch;

static uint32_t decode(const unsigned char *p, size_t *len)
{
    if (p[0] < 0xe0) {
        *len = 2;
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if (p[0] < 0xf0) {
        *len = 3;
        return (uint32_t)(p[0] & 0xf) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    }
    *len = 4;
    return (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
           (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

/* Flags of ASCII, spelled out because most text is: category and the space bit. */
static uint32_t ascii_flags(unsigned char c)
{
    if ((c | 32) >= 'a' && (c | 32) <= 'z')
        return c & 32 ? QN_LL : QN_LU;
    if (c == ' ')
        return QN_ZS | QN_UNI_SPACE;
    if (c >= '0' && c <= '9')
        return QN_ND;
    return qn_uni(c);
}

static ch get(const char *s, size_t n, size_t at)
{
    if (at >= n)
        return (ch){ .cp = UINT32_MAX, .flags = 31, .end = at }; /* in no set */
    unsigned char c = (unsigned char)s[at];
    if (c < 0x80)
        return (ch){ c, ascii_flags(c), at + 1 };
    size_t len;
    uint32_t cp = decode((const unsigned char *)s + at, &len);
    return (ch){ cp, qn_uni(cp), at + len };
}

static bool is_space(ch c)
{
    return (c.flags & QN_UNI_SPACE) != 0;
}

static bool is_break(ch c)
{
    return c.cp == '\n' || c.cp == '\r';
}

/* Not a space, letter of `words` or number: what patterns write as [^\s\p{L}\p{N}]. */
static bool is_other(ch c, uint32_t words)
{
    return c.cp != UINT32_MAX && !is_space(c) && !qn_uni_in(c.flags, words | QN_SET_N);
}

static size_t run(const char *s, size_t n, size_t at, uint32_t set)
{
    for (ch c = get(s, n, at); qn_uni_in(c.flags, set); c = get(s, n, at))
        at = c.end;
    return at;
}

/* 's 't 're 've 'm 'll 'd after the apostrophe at `at`. Ignoring case, the long s counts as an s. */
static size_t contraction(const char *s, size_t n, size_t at, bool any_case)
{
    if (at + 1 >= n || s[at] != '\'')
        return at;
    unsigned char a = (unsigned char)s[at + 1], b = at + 2 < n ? (unsigned char)s[at + 2] : 0;
    if (any_case && a == 0xc5 && b == 0xbf)
        return at + 3;
    if (any_case) {
        a |= a < 0x80 ? 32 : 0;
        b |= b < 0x80 ? 32 : 0;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return at + 2;
    bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
    return two ? at + 3 : at;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ - the first alternative only when `breaks`. */
static size_t spaces(const char *s, size_t n, size_t at, bool breaks)
{
    size_t end = at, last = at, after_break = at;
    for (ch c = get(s, n, at); is_space(c); c = get(s, n, end)) {
        last = end;
        end = c.end;
        if (is_break(c))
            after_break = end;
    }
    if (breaks && after_break > at)
        return after_break;
    return end == n || last == at ? end : last; /* leave one space to the word after it */
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t match_gpt2(const qn_splitter *w, const char *s, size_t n, size_t at)
{
    (void)w;
    size_t end = contraction(s, n, at, false);
    if (end > at)
        return end;
    ch c = get(s, n, at);
    size_t from = at;
    if (c.cp == ' ') {
        from = c.end;
        c = get(s, n, from);
    }
    if (qn_uni_in(c.flags, QN_SET_L))
        return run(s, n, from, QN_SET_L);
    if (qn_uni_in(c.flags, QN_SET_N))
        return run(s, n, from, QN_SET_N);
    if (!is_other(c, QN_SET_L))
        return spaces(s, n, at, false);
    for (; is_other(c, QN_SET_L); c = get(s, n, from))
        from = c.end;
    return from;
}

/* \p{N}{1,max} */
static size_t digits(const char *s, size_t n, size_t at, int max)
{
    for (int i = 0; max == 0 || i < max; i++) {
        ch c = get(s, n, at);
        if (!qn_uni_in(c.flags, QN_SET_N))
            break;
        at = c.end;
    }
    return at;
}

/* ` ?[^\s\p{L}\p{N}]+[\r\n/]*` or `at`. */
static size_t punctuation(const qn_splitter *w, const char *s, size_t n, size_t at)
{
    ch c = get(s, n, at);
    size_t end = at;
    if (c.cp == ' ') {
        end = c.end;
        c = get(s, n, end);
    }
    if (!is_other(c, w->letters))
        return at;
    for (; is_other(c, w->letters); c = get(s, n, end))
        end = c.end;
    while (end < n &&
           (s[end] == '\r' || s[end] == '\n' || (w->after_punct && s[end] == w->after_punct)))
        end++;
    return end;
}

/* (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * and its variants: other digit groups, marks as part of words, no contractions. */
static size_t match_words(const qn_splitter *w, const char *s, size_t n, size_t at)
{
    size_t end = w->contractions ? contraction(s, n, at, true) : at;
    if (end > at)
        return end;
    ch c = get(s, n, at);
    if (qn_uni_in(c.flags, w->letters))
        return run(s, n, at, w->letters);
    if (qn_uni_in(c.flags, QN_SET_N))
        return digits(s, n, at, w->max_digits);
    if (!is_break(c)) {
        end = run(s, n, c.end, w->letters);
        if (end > c.end)
            return end;
    }
    end = punctuation(w, s, n, at);
    return end > at ? end : spaces(s, n, at, true);
}

/* [Lu Lt Lm Lo M]*[Ll Lm Lo M]+ or `at`. When no lower case follows the first run, that run gives
 * characters back until the last one it shares with the second set. */
static size_t lower_word(const char *s, size_t n, size_t at)
{
    size_t end = at, shared = at;
    for (ch c = get(s, n, at); qn_uni_in(c.flags, UPPER); c = get(s, n, end)) {
        end = c.end;
        if (qn_uni_in(c.flags, LOWER))
            shared = end;
    }
    size_t lower = run(s, n, end, LOWER);
    return lower > end ? lower : shared;
}

/* [Lu Lt Lm Lo M]+[Ll Lm Lo M]* or `at`. */
static size_t upper_word(const char *s, size_t n, size_t at)
{
    size_t end = run(s, n, at, UPPER);
    return end > at ? run(s, n, end, LOWER) : at;
}

/* Two word alternatives, each with an optional first character that is no letter, digit or line break,
 * and an optional contraction at its end; then digits, punctuation and spaces as above. */
static size_t match_cased(const qn_splitter *w, const char *s, size_t n, size_t at)
{
    ch c = get(s, n, at);
    bool prefix = !is_break(c) && !qn_uni_in(c.flags, QN_SET_L | QN_SET_N);
    size_t end = at;
    if (prefix && (end = lower_word(s, n, c.end)) == c.end)
        end = at;
    if (end == at)
        end = lower_word(s, n, at);
    if (end == at && prefix && (end = upper_word(s, n, c.end)) == c.end)
        end = at;
    if (end == at)
        end = upper_word(s, n, at);
    if (end > at)
        return w->contractions ? contraction(s, n, end, true) : end;
    if (qn_uni_in(c.flags, QN_SET_N))
        return digits(s, n, at, w->max_digits);
    end = punctuation(w, s, n, at);
    return end > at ? end : spaces(s, n, at, true);
}

static bool is_ascii_letter(const char *s, size_t n, size_t at)
{
    return at < n && (s[at] | 32) >= 'a' && (s[at] | 32) <= 'z';
}

/* [!-/:-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * Digits and controls match nothing by themselves. */
static size_t match_punct_first(const qn_splitter *w, const char *s, size_t n, size_t at)
{
    const uint32_t words = QN_SET_L | QN_SET_M, punct = QN_SET_P | QN_SET_S;
    (void)w;
    ch c = get(s, n, at);
    size_t end = c.end;
    if (c.cp < 0x80 && qn_uni_in(c.flags, punct) && is_ascii_letter(s, n, end)) {
        while (is_ascii_letter(s, n, end))
            end++;
        return end;
    }
    if (qn_uni_in(c.flags, words))
        return run(s, n, at, words);
    if (!is_break(c) && !qn_uni_in(c.flags, punct)) {
        end = run(s, n, c.end, words);
        if (end > c.end)
            return end;
    }
    size_t from = c.cp == ' ' ? c.end : at;
    end = run(s, n, from, punct);
    if (end == from)
        return is_space(c) ? spaces(s, n, at, true) : at;
    while (end < n && (s[end] == '\r' || s[end] == '\n'))
        end++;
    return end;
}

#define CONTR "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL  "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORD  "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define PUNCT "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define UP    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOW   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED_WORDS(suffix)                                                                        \
    "[^\\r\\n\\p{L}\\p{N}]?" UP "*" LOW "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UP "+" LOW "*" suffix
#define CASED_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define GPT2       "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"

static const qn_splitter known[] = {
    { GPT2 "|\\s+", match_gpt2, 0, QN_SET_L, true, 0 },
    { CONTR "|" WORD "|\\p{N}{1,3}" PUNCT TAIL, match_words, 3, QN_SET_L, true, 0 },
    { CONTR "|" WORD "|\\p{N}" PUNCT TAIL, match_words, 1, QN_SET_L, true, 0 },
    { CONTR "|" WORD "|\\p{N}+" PUNCT TAIL, match_words, 0, QN_SET_L, true, 0 },
    { WORD "|\\p{N}" PUNCT TAIL, match_words, 1, QN_SET_L, false, 0 },
    { CONTR
      "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL,
      match_words, 1, QN_SET_L | QN_SET_M, true, 0 },
    { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
      "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
      match_words, 3, QN_SET_L, true, 0 },
    { "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
      "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
      match_words, 1, QN_SET_L, true, 0 },
    { CASED_WORDS(CONTR "?") "|\\p{N}{1,3}" CASED_TAIL, match_cased, 3, QN_SET_L, true, '/' },
    { CASED_WORDS("") "|\\p{N}" CASED_TAIL, match_cased, 1, QN_SET_L, false, '/' },
    { "[!\"#$%&'()*+,\\-./"
      ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
      "| ?[\\p{P}\\p{S}]+[\\r\\n]*" TAIL,
      match_punct_first, 0, 0, false, 0 },
};

const qn_splitter *qn_splitter_find(const char *pattern, size_t n)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].pattern) == n && memcmp(known[i].pattern, pattern, n) == 0)
            return &known[i];
    return NULL;
}
