/* rx_translate.c - from the pattern languages of tokenizer files to PCRE2's.
 *
 * What differs: \s, \w and \b mean Unicode's sets there and slightly others in PCRE2; classes nest and
 * intersect there ([\p{L}&&[^\p{Han}]]); \h is a hexadecimal digit; an option m lets the dot see line
 * breaks; {n,m}+ repeats; long property names exist. Everything else passes through unchanged. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tokenizer/regex.h"

#define SPACE                                                                                      \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"             \
    "\\x{202f}\\x{205f}\\x{3000}"
#define NOT_SPACE                                                                                  \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{"     \
    "1fff}"                                                                                        \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{"   \
    "10ffff}"
/* Inside brackets a word's characters are letters, marks, digits and connectors; by itself \w also takes
 * the Latin-1 superscripts and fractions. */
#define WORD_CLASS                                                                                 \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}"                                         \
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define WORD        WORD_CLASS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define MAX_NESTING 16

typedef struct reader {
    const char *p, *end;
    qn_rx_dialect dialect;
    int depth;
    qn_error *err;
} reader;

static int bad(reader *r, const char *why)
{
    return qn_fail(r->err, QN_ERR_FORMAT, "pattern: %s", why);
}

/* A script's name: these files mean the characters of that script alone, while PCRE2 would add those that
 * are merely used with it. */
static bool is_script(const char *s, size_t n)
{
    static const char names[] =
        " han hiragana katakana latin cyrillic greek arabic hebrew thai lao khmer "
        "myanmar hangul devanagari bengali tamil telugu kannada malayalam gujarati "
        "gurmukhi sinhala tibetan georgian armenian ethiopic mongolian common "
        "inherited bopomofo oriya syriac thaana cherokee ";
    char word[32];
    if (n + 3 > sizeof word)
        return false;
    snprintf(word, sizeof word, " %.*s ", (int)n, s);
    return strcasestr(names, word) != NULL;
}

/* \p{...} with the long names that PCRE2 lacks. The backslash and p are consumed. */
static int property(reader *r, char letter, qn_buf *out)
{
    static const char *const name[][2] = {
        { "letter", "L" },
        { "mark", "M" },
        { "number", "N" },
        { "punctuation", "P" },
        { "punct", "P" },
        { "symbol", "S" },
        { "separator", "Z" },
        { "other", "C" },
        { "upper", "Uppercase" },
        { "lower", "Lowercase" },
        { "digit", "Nd" },
        { "space", "White_Space" },
        { "cntrl", "Cc" },
        { "uppercase_letter", "Lu" },
        { "lowercase_letter", "Ll" },
        { "alnum", "Xan" },
    };
    qn_buf_printf(out, "\\%c", letter);
    if (r->p >= r->end || *r->p != '{')
        return QN_OK;
    const char *close = memchr(r->p, '}', (size_t)(r->end - r->p));
    if (!close)
        return bad(r, "\\p{ without }");
    const char *from = r->p + 1;
    bool not = from < close && *from == '^';
    from += not ;
    size_t n = (size_t)(close - from);
    const char *text = from;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        if (strlen(name[i][0]) == n && strncasecmp(name[i][0], from, n) == 0) {
            text = name[i][1];
            n = strlen(text);
            break;
        }
    }
    qn_buf_str(out, not ? "{^" : "{");
    if (is_script(text, n))
        qn_buf_str(out, "sc:");
    qn_buf_add(out, text, n);
    qn_buf_char(out, '}');
    r->p = close + 1;
    return QN_OK;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

/* The escape after a backslash. In a class, sets are written as ranges so that they can stand there;
 * `*apart` gets a class that cannot be spelled inside one. */
static int escape(reader *r, bool in_class, qn_buf *out, qn_buf *apart)
{
    if (r->p >= r->end)
        return bad(r, "ends in a backslash");
    char c = *r->p++;
    const char *set = c == 's'   ? SPACE
                      : c == 'S' ? NOT_SPACE
                      : c == 'w' ? (in_class ? WORD_CLASS : WORD)
                      : c == 'h' ? "0-9a-fA-F"
                                 : NULL;
    if (set) {
        qn_buf_printf(out, in_class ? "%s" : "[%s]", set);
    } else if (c == 'W' || c == 'H') {
        qn_buf *to = in_class ? apart : out;
        qn_buf_printf(to, "%s[^%s]", in_class ? "|" : "",
                      c != 'W'   ? "0-9a-fA-F"
                      : in_class ? WORD_CLASS
                                 : WORD);
    } else if (!in_class && (c == 'b' || c == 'B')) {
        const char *a = c == 'b' ? "!" : "=", *b = c == 'b' ? "=" : "!";
        qn_buf_printf(out, "(?:(?<=[" WORD "])(?%s[" WORD "])|(?<![" WORD "])(?%s[" WORD "]))", a,
                      b);
    } else if (c == 'p' || c == 'P') {
        return property(r, c, out);
    } else if (c == 'u' && r->end - r->p >= 4 && is_hex(r->p[0]) && is_hex(r->p[1]) &&
               is_hex(r->p[2]) && is_hex(r->p[3])) {
        qn_buf_printf(out, "\\x{%.4s}", r->p);
        r->p += 4;
    } else {
        qn_buf_char(out, '\\');
        qn_buf_char(out, c);
    }
    return QN_OK;
}

/* [:name:] or [:^name:] within a class; "[:" is next but for the bracket. The names mean Unicode's sets,
 * where PCRE2 keeps some of them narrower. */
static int posix_set(reader *r, qn_buf *set, qn_buf *apart)
{
    static const char *const known[][2] = {
        { "alpha", "\\p{Alphabetic}" },
        { "alnum", "\\p{Alphabetic}\\p{Nd}" },
        { "upper", "\\p{Uppercase}" },
        { "lower", "\\p{Lowercase}" },
        { "punct", "\\p{P}\\p{S}" },
        { "digit", "\\p{Nd}" },
        { "cntrl", "\\p{Cc}" },
        { "space", SPACE },
        { "blank", "\\t\\p{Zs}" },
        { "word", WORD_CLASS },
        { "xdigit", "0-9a-fA-F" },
        { "ascii", "\\x{0}-\\x{7f}" },
        { "graph", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}" },
        { "print", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}\\p{Zs}" },
    };
    const char *close = memmem(r->p, (size_t)(r->end - r->p), ":]", 2);
    if (!close)
        return bad(r, "[: without :]");
    const char *from = r->p + 1;
    bool not = from < close && *from == '^';
    from += not ;
    r->p = close + 2;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strlen(known[i][0]) != (size_t)(close - from) ||
            strncasecmp(known[i][0], from, strlen(known[i][0])) != 0)
            continue;
        if (not )
            qn_buf_printf(apart, "|[^%s]", known[i][1]);
        else
            qn_buf_str(set, known[i][1]);
        return QN_OK;
    }
    return bad(r, "unknown name in [: :]");
}

static int class_body(reader *r, qn_buf *out);

/* One operand of && (or the whole class): plain members go to `set`, what cannot stand in a class to
 * `apart`, each led by a bar. Stops before && or the closing bracket. */
static int class_operand(reader *r, bool first, qn_buf *set, qn_buf *apart)
{
    for (bool any = !first; r->p < r->end; any = true) {
        if (*r->p == ']' && any)
            return QN_OK;
        if (*r->p == '&' && r->end - r->p > 1 && r->p[1] == '&')
            return QN_OK;
        int rc = QN_OK;
        char c = *r->p++;
        if (c == '\\') {
            rc = escape(r, true, set, apart);
        } else if (c == '[' && r->p < r->end && *r->p == ':') {
            rc = posix_set(r, set, apart);
        } else if (c == '[') {
            qn_buf_char(apart, '|');
            rc = class_body(r, apart);
        } else if (c == ']') {
            qn_buf_str(set, "\\]");
        } else {
            qn_buf_char(set, c);
        }
        if (rc != QN_OK)
            return rc;
    }
    return bad(r, "[ without ]");
}

static void put_operand(qn_buf *out, const qn_buf *set, const qn_buf *apart)
{
    if (apart->len == 0) {
        qn_buf_printf(out, "[%s]", qn_buf_cstr(set));
        return;
    }
    if (set->len)
        qn_buf_printf(out, "(?:[%s]%s)", qn_buf_cstr(set), qn_buf_cstr(apart));
    else
        qn_buf_printf(out, "(?:%s)", qn_buf_cstr(apart) + 1);
}

/* A class whose opening bracket is consumed. Without nesting it stays a class; otherwise unions become
 * alternatives, intersections look-aheads, and a negation a negative look-ahead before any character. */
static int class_body(reader *r, qn_buf *out)
{
    if (++r->depth > MAX_NESTING)
        return bad(r, "classes nest too deeply");
    bool negated = r->p < r->end && *r->p == '^';
    r->p += negated;
    qn_buf set = { 0 }, apart = { 0 }, all = { 0 };
    int rc = QN_OK, operands = 0;
    bool plain = false;
    for (bool more = true; more && rc == QN_OK; operands++) {
        qn_buf_clear(&set);
        qn_buf_clear(&apart);
        rc = class_operand(r, operands == 0, &set, &apart);
        more = rc == QN_OK && *r->p == '&';
        r->p += rc != QN_OK ? 0 : more ? 2 : 1;
        plain = operands == 0 && !more && apart.len == 0;
        if (more)
            qn_buf_str(&all, "(?=");
        put_operand(&all, &set, &apart);
        if (more)
            qn_buf_char(&all, ')');
    }
    if (rc == QN_OK && plain)
        qn_buf_printf(out, negated ? "[^%s]" : "[%s]", qn_buf_cstr(&set));
    else if (rc == QN_OK)
        qn_buf_printf(out, negated ? "(?:(?!%s)(?s:.))" : "(?:%s)", qn_buf_cstr(&all));
    qn_buf_free(&set);
    qn_buf_free(&apart);
    qn_buf_free(&all);
    r->depth--;
    return rc;
}

/* After "(?": the option letters, where Ruby's m is PCRE2's s. */
static void options(reader *r, qn_buf *out)
{
    const char *p = r->p;
    while (p < r->end && ((*p >= 'a' && *p <= 'z') || *p == '-'))
        p++;
    if (p == r->end || (*p != ':' && *p != ')'))
        return;
    for (; r->p < p; r->p++)
        qn_buf_char(out, *r->p == 'm' && r->dialect == QN_RX_RUBY ? 's' : *r->p);
}

/* In Ruby's language a + after {n,m} repeats the whole, elsewhere it makes it possessive. The braces are
 * copied; a plus after them becomes {1,} of a group only when that differs, which \p{N}{1,3}+ shows. */
static void braces(reader *r, qn_buf *out, size_t atom)
{
    const char *close = memchr(r->p, '}', (size_t)(r->end - r->p));
    bool counted = close && close > r->p;
    for (const char *q = r->p; counted && q < close; q++)
        counted = (*q >= '0' && *q <= '9') || *q == ',';
    qn_buf_char(out, '{');
    if (!counted)
        return;
    qn_buf_add(out, r->p, (size_t)(close + 1 - r->p));
    r->p = close + 1;
    if (r->dialect != QN_RX_RUBY || r->p >= r->end || *r->p != '+')
        return;
    qn_buf group = { 0 };
    qn_buf_printf(&group, "(?:%s)", qn_buf_cstr(out) + atom);
    out->len = atom;
    qn_buf_add(out, group.data, group.len);
    qn_buf_free(&group);
}

/* `text` is a \N{...}-free byte string; a NUL inside would end the buffer's text early for printf. */
int qn_rx_translate(const char *p, size_t n, qn_rx_dialect dialect, qn_buf *out, qn_error *err)
{
    reader r = { .p = p, .end = p + n, .dialect = dialect, .err = err };
    size_t open[256], n_open = 0, atom = 0; /* where the last atom and the open groups begin */
    if (memchr(p, '\0', n))
        return bad(&r, "holds a NUL");
    int rc = QN_OK;
    while (rc == QN_OK && r.p < r.end) {
        char c = *r.p++;
        size_t from = out->len;
        if (c == '{') {
            braces(&r, out, atom);
            continue;
        }
        if (c == '\\') {
            rc = escape(&r, false, out, NULL);
        } else if (c == '[') {
            rc = class_body(&r, out);
        } else if (c == '(') {
            if (n_open == sizeof open / sizeof *open)
                return bad(&r, "groups nest too deeply");
            open[n_open++] = from;
            qn_buf_char(out, c);
            if (r.p < r.end && *r.p == '?') {
                qn_buf_char(out, *r.p++);
                options(&r, out);
            }
        } else {
            qn_buf_char(out, c);
            /* A character of several bytes is one atom. */
            while (((unsigned char)c & 0xc0) == 0xc0 && r.p < r.end &&
                   ((unsigned char)*r.p & 0xc0) == 0x80)
                qn_buf_char(out, *r.p++);
        }
        atom = c == ')' && n_open > 0 ? open[--n_open] : from;
    }
    return rc;
}
