/* jinja_text.c - Unicode text as Python's str sees it: case, classes, stripping, searching, padding.
 * utf8proc gives the character data; what Python adds (one letter becoming several, the final sigma)
 * is here. Method and filter signatures are in jinja_methods.c and the filter files. */
#include <ctype.h>
#include <stdlib.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "tokenizer/jinja_value.h"

/* --- characters --- */

bool qn_jis_space(uint32_t cp)
{
    if (cp < 128)
        return cp == ' ' || (cp >= 9 && cp <= 13) || (cp >= 28 && cp <= 31);
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static int category(uint32_t cp)
{
    return cp <= 0x10FFFF ? (int)utf8proc_category((utf8proc_int32_t)cp) : UTF8PROC_CATEGORY_CN;
}

static bool is_alpha(uint32_t cp)
{
    int c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t cp)
{
    return cp < 128 ? cp - '0' < 10 : category(cp) == UTF8PROC_CATEGORY_ND;
}

/* Digits that are not decimal: superscripts, subscripts, circled ones and the like. */
static bool is_digit(uint32_t cp)
{
    static const uint32_t range[][2] = {
        { 0xB2, 0xB3 },     { 0xB9, 0xB9 },     { 0x2070, 0x2070 },   { 0x2074, 0x2079 },
        { 0x2080, 0x2089 }, { 0x2460, 0x2468 }, { 0x2474, 0x247C },   { 0x2488, 0x2490 },
        { 0x24EA, 0x24EA }, { 0x24F5, 0x24FD }, { 0x24FF, 0x24FF },   { 0x2776, 0x277E },
        { 0x2780, 0x2788 }, { 0x278A, 0x2792 }, { 0x1F100, 0x1F10A },
    };
    if (is_decimal(cp))
        return true;
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (cp >= range[i][0] && cp <= range[i][1])
            return true;
    return false;
}

static bool is_numeric(uint32_t cp)
{
    int c = category(cp);
    return is_digit(cp) || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool qn_jis_word(uint32_t cp)
{
    if (cp < 128)
        return isalnum((int)cp) || cp == '_';
    return is_alpha(cp) || is_numeric(cp);
}

bool qn_jis_printable(uint32_t cp)
{
    if (cp < 127)
        return cp >= 32;
    int c = category(cp);
    return c != UTF8PROC_CATEGORY_CN && c < UTF8PROC_CATEGORY_ZS;
}

static bool is_upper(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LU || (cp >= 0x2160 && cp <= 0x216F) ||
           (cp >= 0x24B6 && cp <= 0x24CF);
}

static bool is_lower(uint32_t cp)
{
    return category(cp) == UTF8PROC_CATEGORY_LL || cp == 0xAA || cp == 0xBA ||
           (cp >= 0x2B0 && cp <= 0x2B8) || (cp >= 0x2170 && cp <= 0x217F) ||
           (cp >= 0x24D0 && cp <= 0x24E9);
}

static bool is_cased(uint32_t cp)
{
    return is_upper(cp) || is_lower(cp) || category(cp) == UTF8PROC_CATEGORY_LT;
}

size_t qn_jprev(const char *p, size_t at, uint32_t *cp)
{
    size_t i = at - 1;
    while (i > 0 && ((unsigned char)p[i] & 0xC0) == 0x80)
        i--;
    qn_utf8_decode(p + i, at - i, cp);
    return i;
}

/* --- case --- */

/* Letters whose upper (title) case is several characters; a title of 0 means a single one. */
typedef struct special_case {
    uint16_t cp, upper[3], title[3];
} special_case;

static const special_case specials[] = {
#include "tokenizer/jinja_case.inc"
};

static const special_case *special_of(uint32_t cp)
{
    size_t lo = 0, hi = sizeof specials / sizeof *specials;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (specials[mid].cp == cp)
            return &specials[mid];
        if (specials[mid].cp < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static void put_upper(qn_jrun *r, qn_jsb *b, uint32_t cp)
{
    const special_case *s = cp < 128 ? NULL : special_of(cp);
    for (int i = 0; s && i < 3 && s->upper[i]; i++)
        qn_jsb_cp(r, b, s->upper[i]);
    if (!s)
        qn_jsb_cp(r, b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp));
}

static void put_title(qn_jrun *r, qn_jsb *b, uint32_t cp)
{
    const special_case *s = cp < 128 ? NULL : special_of(cp);
    for (int i = 0; s && i < 3 && s->title[i]; i++)
        qn_jsb_cp(r, b, s->title[i]);
    if (!s || !s->title[0])
        qn_jsb_cp(r, b, (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp));
}

static bool is_case_ignorable(uint32_t cp)
{
    int c = category(cp);
    return cp == '\'' || cp == '.' || cp == ':' || cp == '^' || cp == '`' || cp == 0xB7 ||
           cp == 0x2019 || c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME ||
           c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK;
}

/* A capital sigma that ends a word becomes the final form. */
static bool is_final_sigma(const qn_jstr *s, size_t at, size_t after)
{
    uint32_t cp = 0;
    size_t i = at;
    do {
        if (i == 0)
            return false;
        i = qn_jprev(s->p, i, &cp);
    } while (is_case_ignorable(cp));
    if (!is_cased(cp))
        return false;
    for (i = after; i < s->n;) {
        i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (!is_case_ignorable(cp))
            return !is_cased(cp);
    }
    return true;
}

static void put_lower(qn_jrun *r, qn_jsb *b, const qn_jstr *s, size_t at, size_t after, uint32_t cp)
{
    if (cp == 0x130) /* I with dot above */
        qn_jsb_add(r, b, "i\xCC\x87", 3);
    else if (cp == 0x3A3 && is_final_sigma(s, at, after))
        qn_jsb_cp(r, b, 0x3C2);
    else
        qn_jsb_cp(r, b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

typedef enum case_mode { UPPER, LOWER, CAPITALIZE, TITLE, SWAP, FOLD } case_mode;

static qn_jval map_case(qn_jrun *r, const qn_jstr *s, case_mode mode)
{
    qn_jsb b = { 0 };
    bool in_word = false;
    for (size_t i = 0; i < s->n && qn_jok(r);) {
        uint32_t cp;
        size_t next = i + (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        bool first = mode == CAPITALIZE ? i == 0 : mode == TITLE && !in_word;
        if (mode == FOLD && special_of(cp)) { /* the folds of these are their capitals in small */
            const special_case *sp = special_of(cp);
            for (int k = 0; k < 3 && sp->upper[k]; k++)
                qn_jsb_cp(r, &b, (uint32_t)utf8proc_tolower(sp->upper[k]));
        } else if (mode == FOLD && (cp == 0x3A3 || cp == 0x3C2)) { /* no final sigma */
            qn_jsb_cp(r, &b, 0x3C3);
        } else if (mode == UPPER || (mode == SWAP && is_lower(cp))) {
            put_upper(r, &b, cp);
        } else if (first) {
            put_title(r, &b, cp);
        } else if (mode == SWAP && !is_upper(cp)) {
            qn_jsb_cp(r, &b, cp);
        } else {
            put_lower(r, &b, s, i, next, cp);
        }
        in_word = is_cased(cp);
        i = next;
    }
    return qn_jstr_like(r, s, qn_jsb_done(r, &b));
}

qn_jval qn_jupper(qn_jrun *r, const qn_jstr *s)
{
    return map_case(r, s, UPPER);
}

qn_jval qn_jlower(qn_jrun *r, const qn_jstr *s)
{
    return map_case(r, s, LOWER);
}

qn_jval qn_jcapitalize(qn_jrun *r, const qn_jstr *s)
{
    return map_case(r, s, CAPITALIZE);
}

qn_jval qn_jtitle(qn_jrun *r, const qn_jstr *s)
{
    return map_case(r, s, TITLE);
}

qn_jval qn_jswapcase(qn_jrun *r, const qn_jstr *s)
{
    return map_case(r, s, SWAP);
}

qn_jval qn_jcasefold(qn_jrun *r, const qn_jstr *s)
{
    return map_case(r, s, FOLD);
}

/* --- classes of whole strings --- */

static bool in_class(uint32_t cp, qn_jclass c)
{
    switch (c) {
    case QN_JC_ALPHA:
        return is_alpha(cp);
    case QN_JC_DIGIT:
        return is_digit(cp);
    case QN_JC_DECIMAL:
        return is_decimal(cp);
    case QN_JC_NUMERIC:
        return is_numeric(cp);
    case QN_JC_ALNUM:
        return is_alpha(cp) || is_numeric(cp);
    case QN_JC_SPACE:
        return qn_jis_space(cp);
    case QN_JC_PRINTABLE:
        return qn_jis_printable(cp);
    default:
        return cp < 128;
    }
}

bool qn_jis_class(const qn_jstr *s, qn_jclass c)
{
    if (s->n == 0) /* Python calls the empty string printable and ASCII, and nothing else */
        return c == QN_JC_PRINTABLE || c == QN_JC_ASCII;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (!in_class(cp, c))
            return false;
    }
    return true;
}

bool qn_jis_cased(const qn_jstr *s, bool upper)
{
    bool any = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (!is_cased(cp))
            continue;
        if (upper ? !is_upper(cp) : !is_lower(cp))
            return false;
        any = true;
    }
    return any;
}

bool qn_jis_title(const qn_jstr *s)
{
    bool any = false, in_word = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (is_cased(cp) && is_lower(cp) != in_word)
            return false;
        in_word = is_cased(cp);
        any = any || in_word;
    }
    return any;
}

bool qn_jis_identifier(const qn_jstr *s)
{
    if (s->n == 0 || isdigit((unsigned char)s->p[0]))
        return false;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        int c = category(cp);
        if (!qn_jis_word(cp) && c != UTF8PROC_CATEGORY_MN && c != UTF8PROC_CATEGORY_MC)
            return false;
    }
    return true;
}

/* --- stripping, searching, padding --- */

static bool has_char(const qn_jstr *chars, const char *p, size_t n, uint32_t cp)
{
    return chars ? qn_jfind(chars->p, chars->n, p, n) != NULL : qn_jis_space(cp);
}

qn_jval qn_jstrip(qn_jrun *r, const qn_jstr *s, const qn_jstr *chars, int sides)
{
    size_t from = 0, to = s->n;
    uint32_t cp;
    while ((sides & QN_JSTRIP_LEFT) && from < to && qn_jtick(r, chars ? chars->n / 64 : 0)) {
        size_t n = (size_t)qn_utf8_decode(s->p + from, to - from, &cp);
        if (!has_char(chars, s->p + from, n, cp))
            break;
        from += n;
    }
    while ((sides & QN_JSTRIP_RIGHT) && to > from && qn_jtick(r, chars ? chars->n / 64 : 0)) {
        size_t at = qn_jprev(s->p, to, &cp);
        if (!has_char(chars, s->p + at, to - at, cp))
            break;
        to = at;
    }
    return from == 0 && to == s->n ? (qn_jval){ .type = QN_J_STR, .s = s }
                                   : qn_jstr_cut(r, s, from, to);
}

const char *qn_jfind(const char *p, size_t n, const char *q, size_t m)
{
    return m == 0 ? p : memmem(p, n, q, m);
}

static qn_jval replace_between(qn_jrun *r, const qn_jstr *s, const qn_jstr *b, int64_t max)
{
    qn_jsb out = { 0 };
    size_t i = 0;
    for (; max != 0 && qn_jtick(r, 1); max--) { /* before every character, and at the end */
        qn_jsb_s(r, &out, b);
        if (i >= s->n)
            break;
        uint32_t cp;
        size_t n = (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        qn_jsb_add(r, &out, s->p + i, n);
        i += n;
    }
    qn_jsb_add(r, &out, s->p + i, s->n - i);
    return qn_jsb_done(r, &out);
}

qn_jval qn_jreplace(qn_jrun *r, const qn_jstr *s, const qn_jstr *a, const qn_jstr *b, int64_t max)
{
    if (a->n == 0)
        return replace_between(r, s, b, max);
    qn_jsb out = { 0 };
    const char *p = s->p, *end = s->p + s->n, *hit;
    while (max-- != 0 && qn_jtick(r, 1) && (hit = qn_jfind(p, (size_t)(end - p), a->p, a->n))) {
        qn_jsb_add(r, &out, p, (size_t)(hit - p));
        qn_jsb_s(r, &out, b);
        p = hit + a->n;
    }
    if (p == s->p)
        return (qn_jval){ .type = QN_J_STR, .s = s };
    qn_jsb_add(r, &out, p, (size_t)(end - p));
    return qn_jsb_done(r, &out);
}

/* align: -1 text to the left, 1 to the right, 0 centred as str.center does it. */
qn_jval qn_jpad(qn_jrun *r, const qn_jstr *s, int64_t width, uint32_t fill, int align)
{
    int64_t pad = width > (int64_t)s->chars ? width - (int64_t)s->chars : 0;
    int64_t left = align < 0 ? 0 : align > 0 ? pad : pad / 2 + (pad & width & 1);
    if (pad == 0)
        return (qn_jval){ .type = QN_J_STR, .s = s };
    qn_jsb b = { 0 };
    qn_jsb_fill(r, &b, fill, left);
    qn_jsb_s(r, &b, s);
    qn_jsb_fill(r, &b, fill, pad - left);
    return qn_jstr_like(r, s, qn_jsb_done(r, &b));
}

static bool is_line_end(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 28 && cp <= 30) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

qn_jval qn_jsplitlines(qn_jrun *r, const qn_jstr *s, bool keep)
{
    qn_jval list = qn_jlist_new(r, QN_J_LIST);
    size_t line = 0, i = 0;
    while (i < s->n && qn_jok(r)) {
        uint32_t cp;
        size_t at = i;
        i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (!is_line_end(cp))
            continue;
        if (cp == '\r' && i < s->n && s->p[i] == '\n')
            i++;
        qn_jlist_add(r, list.l, qn_jstr_cut(r, s, line, keep ? i : at));
        line = i;
        qn_jtick(r, 1);
    }
    if (line < s->n)
        qn_jlist_add(r, list.l, qn_jstr_cut(r, s, line, s->n));
    return list;
}

qn_jval qn_jescape(qn_jrun *r, qn_jval v)
{
    if (v.type == QN_J_STR && v.s->markup)
        return v;
    qn_jval s = qn_jto_str(r, v);
    qn_jsb b = { 0 };
    size_t done = 0;
    for (size_t i = 0; s.type == QN_J_STR && i < s.s->n; i++) {
        const char *to = NULL;
        switch (s.s->p[i]) {
        case '&':
            to = "&amp;";
            break;
        case '<':
            to = "&lt;";
            break;
        case '>':
            to = "&gt;";
            break;
        case '\'':
            to = "&#39;";
            break;
        case '"':
            to = "&#34;";
            break;
        default:
            continue;
        }
        qn_jsb_add(r, &b, s.s->p + done, i - done);
        qn_jsb_str(r, &b, to);
        done = i + 1;
    }
    if (done == 0)
        return qn_jmarkup(r, s);
    qn_jsb_add(r, &b, s.s->p + done, s.s->n - done);
    return qn_jmarkup(r, qn_jsb_done(r, &b));
}

/* --- numbers in text --- */

/* Copies the text without outer space into out[cap]; false when it does not fit or is not ASCII. */
static bool number_text(const qn_jstr *s, char *out, size_t cap)
{
    size_t from = 0, to = s->n;
    uint32_t cp;
    while (from < to && (qn_utf8_decode(s->p + from, to - from, &cp), qn_jis_space(cp)))
        from += (size_t)qn_utf8_decode(s->p + from, to - from, &cp);
    while (to > from) {
        size_t at = qn_jprev(s->p, to, &cp);
        if (!qn_jis_space(cp))
            break;
        to = at;
    }
    if (to - from >= cap)
        return false;
    for (size_t i = from; i < to; i++)
        if (s->p[i] <= 0) /* NUL or not ASCII */
            return false;
    memcpy(out, s->p + from, to - from);
    out[to - from] = 0;
    return to > from;
}

static int digit_of(char c)
{
    return isdigit((unsigned char)c)   ? c - '0'
           : isalpha((unsigned char)c) ? tolower(c) - 'a' + 10
                                       : 99;
}

static int prefix_base(const char *p)
{
    if (p[0] != '0')
        return 0;
    int c = tolower((unsigned char)p[1]);
    return c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
}

bool qn_jparse_int(const qn_jstr *s, int base, int64_t *out, bool *too_large)
{
    char text[128], *p = text;
    *too_large = false;
    if ((base != 0 && (base < 2 || base > 36)) || !number_text(s, text, sizeof text))
        return false;
    bool minus = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    int prefix = prefix_base(p);
    bool zero_only = base == 0 && !prefix && *p == '0'; /* 0, 00 but not 07 */
    if (prefix && (base == 0 || base == prefix)) {
        base = prefix;
        p += 2;
        if (*p == '_')
            p++;
    }
    if (base == 0)
        base = 10;
    int64_t x = 0;
    const char *first = p;
    for (bool after_digit = false; *p; p++) {
        if (*p == '_' && after_digit && digit_of(p[1]) < base) {
            after_digit = false;
            continue;
        }
        int d = digit_of(*p);
        if (d >= base || (zero_only && d != 0))
            return false;
        after_digit = true;
        if (__builtin_mul_overflow(x, (int64_t)base, &x) ||
            __builtin_sub_overflow(x, (int64_t)d, &x))
            *too_large = true; /* counted downwards so that INT64_MIN fits */
    }
    if (p == first || p[-1] == '_')
        return false;
    *too_large = *too_large || (!minus && x == INT64_MIN);
    *out = minus || *too_large ? x : -x;
    return true;
}

bool qn_jparse_float(const qn_jstr *s, double *out)
{
    char text[512], clean[512];
    size_t n = 0;
    if (!number_text(s, text, sizeof text))
        return false;
    for (const char *p = text; *p; p++) {
        if (*p == '_') {
            if (p == text || !isdigit((unsigned char)p[-1]) || !isdigit((unsigned char)p[1]))
                return false;
            continue;
        }
        if (*p == 'x' || *p == 'X' || *p == '(' || *p == 'p' || *p == 'P')
            return false; /* strtod would take hexadecimal and nan(...) */
        clean[n++] = *p;
    }
    clean[n] = 0;
    char *end;
    *out = strtod(clean, &end);
    return *end == 0 && end != clean;
}
