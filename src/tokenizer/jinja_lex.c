/* jinja_lex.c - template text to tokens, with trim_blocks and lstrip_blocks on: a newline after a block
 * or comment tag goes, and so does white space before one at the start of its line. `-` and `+`
 * inside the tags override both. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/jinja_ast.h"

#define MAX_BRACKETS 256

typedef struct lexer {
    qn_jrun *r;
    const char *s; /* newlines are all \n, the one that ends the text is gone */
    size_t n, at;
    int line;
    bool line_start; /* the last match ended a line */
    qn_jtokens *out;
    char bracket[MAX_BRACKETS]; /* closing ones expected */
    int n_brackets;
} lexer;

static void lex_fail(lexer *x, const char *why)
{
    qn_jfail(x->r, "line %d: %s", x->line, why);
}

static void add_token(lexer *x, qn_jtok type, qn_jval v)
{
    qn_jtokens *t = x->out;
    if (t->n == t->cap) {
        size_t cap = t->cap ? t->cap * 2 : 256;
        if (!qn_jroom(x->r, cap, sizeof *t->v))
            return;
        qn_jtoken *w = qn_arena_alloc_n(&x->r->arena, cap, sizeof *w);
        if (t->n)
            memcpy(w, t->v, t->n * sizeof *w);
        t->v = w;
        t->cap = cap;
    }
    t->v[t->n++] = (qn_jtoken){ .type = (uint8_t)type, .line = x->line, .v = v };
}

/* Moves to `to`, counting lines. */
static void advance(lexer *x, size_t to)
{
    for (; x->at < to; x->at++)
        x->line += x->s[x->at] == '\n';
    x->line_start = to > 0 && x->s[to - 1] == '\n';
}

static bool starts(const lexer *x, size_t at, const char *z)
{
    size_t n = strlen(z);
    return at + n <= x->n && memcmp(x->s + at, z, n) == 0;
}

static size_t skip_space(const lexer *x, size_t i)
{
    uint32_t cp;
    while (i < x->n) {
        int n = qn_utf8_decode(x->s + i, x->n - i, &cp);
        if (!qn_jis_space(cp))
            break;
        i += (size_t)n;
    }
    return i;
}

/* --- text between tags --- */

/* Where data[from, to) ends once the tag after it has had its say. */
static size_t data_end(const lexer *x, size_t from, size_t to, char sign, bool is_variable)
{
    uint32_t cp;
    if (sign == '-') {
        while (to > from) {
            size_t at = qn_jprev(x->s, to, &cp);
            if (!qn_jis_space(cp))
                break;
            to = at;
        }
        return to;
    }
    if (sign == '+' || is_variable)
        return to;
    size_t line = to;
    while (line > from && x->s[line - 1] != '\n')
        line--;
    if (line == from && !x->line_start) /* the tag is not the first thing on its line */
        return to;
    for (size_t i = line; i < to;) {
        i += (size_t)qn_utf8_decode(x->s + i, to - i, &cp);
        if (!qn_jis_space(cp))
            return to;
    }
    return line;
}

static void add_data(lexer *x, size_t from, size_t to)
{
    if (to > from)
        add_token(x, QN_JT_DATA, qn_jstr_ref(x->r, x->s + from, to - from));
}

static char sign_at(const lexer *x, size_t i)
{
    return i < x->n && (x->s[i] == '-' || x->s[i] == '+') ? x->s[i] : 0;
}

/* The end of a closing tag ("%}" with its sign and what it takes along) at i; 0 when none is there.
 * A variable's end takes no newline, and no plus. */
static size_t close_tag(const lexer *x, size_t i, const char *mark, bool is_variable)
{
    if (i < x->n && x->s[i] == '-' && starts(x, i + 1, mark))
        return skip_space(x, i + 3);
    if (!is_variable && i < x->n && x->s[i] == '+' && starts(x, i + 1, mark))
        return i + 3;
    if (!starts(x, i, mark))
        return 0;
    i += 2;
    return !is_variable && i < x->n && x->s[i] == '\n' ? i + 1 : i;
}

/* "{% raw %}" at i: the end of the tag, or 0. Its newline stays. */
static size_t raw_begin(const lexer *x, size_t i)
{
    i += 2;
    i = skip_space(x, i + (sign_at(x, i) != 0));
    if (!starts(x, i, "raw"))
        return 0;
    i = skip_space(x, i + 3);
    if (starts(x, i, "-%}"))
        return skip_space(x, i + 3);
    return starts(x, i, "%}") ? i + 2 : 0;
}

static size_t raw_end(const lexer *x, size_t i)
{
    i += 2;
    i = skip_space(x, i + (sign_at(x, i) != 0));
    return starts(x, i, "endraw") ? close_tag(x, skip_space(x, i + 6), "%}", false) : 0;
}

static void lex_raw(lexer *x)
{
    for (size_t i = x->at; i < x->n; i++) {
        size_t end = starts(x, i, "{%") ? raw_end(x, i) : 0;
        if (!end)
            continue;
        add_data(x, x->at, data_end(x, x->at, i, sign_at(x, i + 2), false));
        advance(x, end);
        return;
    }
    if (x->at < x->n) /* at the very end the reference does not mind */
        lex_fail(x, "Missing end of raw directive");
}

static void lex_comment(lexer *x)
{
    for (size_t i = x->at; i < x->n; i++) {
        size_t end = close_tag(x, i, "#}", false);
        if (end) {
            advance(x, end);
            return;
        }
    }
    if (x->at < x->n)
        lex_fail(x, "Missing end of comment tag");
}

/* --- inside tags --- */

/* The code point (or raw text, for escapes Python does not know) of one escape at p, after the
 * backslash. Gives how many bytes it took. */
static size_t hex_escape(lexer *x, qn_jsb *b, const char *p, size_t n, int digits)
{
    uint32_t cp = 0;
    if (n < (size_t)digits + 1) {
        lex_fail(x, "truncated escape in a string");
        return n;
    }
    for (int i = 1; i <= digits; i++) {
        if (!isxdigit((unsigned char)p[i])) {
            lex_fail(x, "truncated escape in a string");
            return n;
        }
        cp = cp * 16 +
             (uint32_t)(isdigit((unsigned char)p[i]) ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
    }
    if (cp > 0x10FFFF)
        lex_fail(x, "illegal Unicode character in a string");
    qn_jsb_cp(x->r, b, cp);
    return (size_t)digits + 1;
}

static size_t octal_escape(lexer *x, qn_jsb *b, const char *p, size_t n)
{
    uint32_t cp = 0;
    size_t i = 0;
    for (; i < 3 && i < n && p[i] >= '0' && p[i] <= '7'; i++)
        cp = cp * 8 + (uint32_t)(p[i] - '0');
    qn_jsb_cp(x->r, b, cp);
    return i;
}

static size_t escape(lexer *x, qn_jsb *b, const char *p, size_t n)
{
    static const char from[] = "ntrabfv\\'\"", to[] = "\n\t\r\a\b\f\v\\'\"";
    const char *known = *p ? strchr(from, *p) : NULL;
    if (known) {
        qn_jsb_add(x->r, b, to + (known - from), 1);
        return 1;
    }
    if (*p == '\n')
        return 1;
    if (*p == 'x')
        return hex_escape(x, b, p, n, 2);
    if (*p == 'u')
        return hex_escape(x, b, p, n, 4);
    if (*p == 'U')
        return hex_escape(x, b, p, n, 8);
    if (*p >= '0' && *p <= '7')
        return octal_escape(x, b, p, n);
    if (*p == 'N') {
        lex_fail(x, "names of characters in strings are not supported");
        return n;
    }
    qn_jsb_str(x->r, b, "\\");
    if ((unsigned char)*p < 128) {
        qn_jsb_add(x->r, b, p, 1);
        return 1;
    }
    /* The reference turns non-ASCII into escapes first, so the backslash before takes one apart. */
    uint32_t cp;
    size_t len = (size_t)qn_utf8_decode(p, n, &cp);
    qn_jsb_printf(x->r, b, cp < 256 ? "x%02x" : cp < 0x10000 ? "u%04x" : "U%08x", cp);
    return len;
}

static void lex_string(lexer *x)
{
    char quote = x->s[x->at];
    size_t i = x->at + 1;
    while (i < x->n && x->s[i] != quote)
        i += x->s[i] == '\\' ? 2 : 1;
    if (i >= x->n) {
        lex_fail(x, quote == '"' ? "unexpected char '\"'" : "unexpected char \"'\"");
        return;
    }
    const char *p = x->s + x->at + 1, *end = x->s + i;
    qn_jsb b = { 0 };
    while (p < end && qn_jok(x->r)) {
        const char *slash = memchr(p, '\\', (size_t)(end - p));
        qn_jsb_add(x->r, &b, p, (size_t)((slash ? slash : end) - p));
        p = slash ? slash + 1 : end;
        if (slash)
            p += escape(x, &b, p, (size_t)(end - p));
    }
    add_token(x, QN_JT_STRING, qn_jsb_done(x->r, &b));
    advance(x, i + 1);
}

/* Digits with single underscores between them; the end of the run. */
static size_t digit_run(const lexer *x, size_t i)
{
    while (i < x->n && (isdigit((unsigned char)x->s[i]) ||
                        (x->s[i] == '_' && isdigit((unsigned char)x->s[i - 1]) && i + 1 < x->n &&
                         isdigit((unsigned char)x->s[i + 1]))))
        i++;
    return i;
}

/* The end of a float at the current place, or 0. */
static size_t float_end(const lexer *x)
{
    size_t i = digit_run(x, x->at);
    bool fraction = false;
    if (x->at > 0 && x->s[x->at - 1] == '.')
        return 0; /* the 1.2 of a.0.1.2 is two subscripts */
    if (i + 1 < x->n && x->s[i] == '.' && isdigit((unsigned char)x->s[i + 1])) {
        i = digit_run(x, i + 1);
        fraction = true;
    }
    size_t e = i;
    if (e < x->n && (x->s[e] == 'e' || x->s[e] == 'E')) {
        e++;
        e += e < x->n && (x->s[e] == '+' || x->s[e] == '-');
        if (e < x->n && isdigit((unsigned char)x->s[e]))
            return digit_run(x, e);
    }
    return fraction ? i : 0;
}

static size_t int_end(const lexer *x)
{
    const char *s = x->s;
    size_t i = x->at;
    int base = i + 1 < x->n ? tolower((unsigned char)s[i + 1]) : 0;
    if (s[i] == '0' && (base == 'x' || base == 'o' || base == 'b')) {
        size_t k = i + 2;
        for (;;) {
            size_t d = k + (k < x->n && s[k] == '_');
            int c = d < x->n ? tolower((unsigned char)s[d]) : 0;
            bool ok = base == 'b'   ? c == '0' || c == '1'
                      : base == 'o' ? c >= '0' && c <= '7'
                                    : isxdigit(c) != 0;
            if (!ok)
                break;
            k = d + 1;
        }
        if (k > i + 2)
            return k;
    }
    if (s[i] != '0')
        return digit_run(x, i);
    for (i++; i < x->n && (s[i] == '0' || (s[i] == '_' && i + 1 < x->n && s[i + 1] == '0'));)
        i += s[i] == '_' ? 2 : 1;
    return i;
}

static void lex_number(lexer *x)
{
    size_t end = float_end(x);
    bool is_float = end != 0;
    if (!is_float)
        end = int_end(x);
    const qn_jstr text = { .p = x->s + x->at, .n = (uint32_t)(end - x->at) };
    int64_t i = 0;
    double d = 0;
    bool too_large = false;
    if (is_float ? !qn_jparse_float(&text, &d) : !qn_jparse_int(&text, 0, &i, &too_large))
        lex_fail(x, "malformed number");
    if (too_large)
        qn_jlimit(x->r, "line %d: integer too large (more than 64 bits)", x->line);
    add_token(x, is_float ? QN_JT_FLOAT : QN_JT_INT, is_float ? qn_jfloat(d) : qn_jint(i));
    advance(x, end);
}

static void lex_name(lexer *x)
{
    size_t i = x->at;
    uint32_t cp;
    while (i < x->n) {
        int n = qn_utf8_decode(x->s + i, x->n - i, &cp);
        if (!qn_jis_word(cp))
            break;
        i += (size_t)n;
    }
    qn_jval name = qn_jstr_ref(x->r, x->s + x->at, i - x->at);
    if (qn_jok(x->r) && !qn_jis_identifier(name.s))
        lex_fail(x, "Invalid character in identifier");
    add_token(x, QN_JT_NAME, name);
    advance(x, i);
}

static void lex_bracket(lexer *x, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *o = strchr(open, c);
    if (o) {
        if (x->n_brackets == MAX_BRACKETS)
            qn_jlimit(x->r, "line %d: brackets nest deeper than %d levels", x->line, MAX_BRACKETS);
        else
            x->bracket[x->n_brackets++] = close[o - open];
    } else if (strchr(close, c)) {
        char why[48];
        char want = x->n_brackets ? x->bracket[--x->n_brackets] : 0;
        if (want == c)
            return;
        if (want)
            snprintf(why, sizeof why, "unexpected '%c', expected '%c'", c, want);
        else
            snprintf(why, sizeof why, "unexpected '%c'", c);
        lex_fail(x, why);
    }
}

static bool lex_operator(lexer *x)
{
    static const struct {
        char text[3];
        uint8_t type;
    } ops[] = {
        { "//", QN_JT_FLOORDIV }, { "**", QN_JT_POW },      { "==", QN_JT_EQ },
        { "!=", QN_JT_NE },       { ">=", QN_JT_GE },       { "<=", QN_JT_LE },
        { "+", QN_JT_ADD },       { "-", QN_JT_SUB },       { "*", QN_JT_MUL },
        { "/", QN_JT_DIV },       { "%", QN_JT_MOD },       { "~", QN_JT_TILDE },
        { "(", QN_JT_LPAREN },    { ")", QN_JT_RPAREN },    { "[", QN_JT_LBRACKET },
        { "]", QN_JT_RBRACKET },  { "{", QN_JT_LBRACE },    { "}", QN_JT_RBRACE },
        { "<", QN_JT_LT },        { ">", QN_JT_GT },        { "=", QN_JT_ASSIGN },
        { ".", QN_JT_DOT },       { ":", QN_JT_COLON },     { "|", QN_JT_PIPE },
        { ",", QN_JT_COMMA },     { ";", QN_JT_SEMICOLON },
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!starts(x, x->at, ops[i].text))
            continue;
        if (!ops[i].text[1])
            lex_bracket(x, ops[i].text[0]);
        add_token(x, (qn_jtok)ops[i].type, qn_jmissing());
        advance(x, x->at + strlen(ops[i].text));
        return true;
    }
    return false;
}

static void lex_token(lexer *x)
{
    unsigned char c = (unsigned char)x->s[x->at];
    uint32_t cp;
    int n = qn_utf8_decode(x->s + x->at, x->n - x->at, &cp);
    if (isdigit(c))
        lex_number(x);
    else if (qn_jis_word(cp))
        lex_name(x);
    else if (c == '\'' || c == '"')
        lex_string(x);
    else if (!lex_operator(x))
        qn_jfail(x->r, "line %d: unexpected char '%.*s'", x->line, n, x->s + x->at);
}

/* The tokens of one tag up to its end, which counts only outside brackets. */
static void lex_tag(lexer *x, bool is_variable)
{
    const char *mark = is_variable ? "}}" : "%}";
    x->n_brackets = 0;
    while (qn_jtick(x->r, 1)) {
        size_t end = x->n_brackets ? 0 : close_tag(x, x->at, mark, is_variable);
        if (end) {
            add_token(x, is_variable ? QN_JT_VAR_END : QN_JT_BLOCK_END, qn_jmissing());
            advance(x, end);
            return;
        }
        size_t after = skip_space(x, x->at);
        if (after > x->at)
            advance(x, after);
        else if (x->at < x->n)
            lex_token(x);
        else
            return; /* the parser says what is missing */
    }
}

/* Text up to the next opening mark, and what that mark opens. */
static void lex_data(lexer *x)
{
    size_t i = x->at;
    while (i < x->n &&
           !(x->s[i] == '{' && i + 1 < x->n && strchr("{%#", x->s[i + 1]) && x->s[i + 1]))
        i++;
    if (i >= x->n) {
        add_data(x, x->at, x->n);
        advance(x, x->n);
        return;
    }
    char kind = x->s[i + 1], sign = sign_at(x, i + 2);
    size_t raw = kind == '%' ? raw_begin(x, i) : 0;
    add_data(x, x->at, data_end(x, x->at, i, sign, kind == '{'));
    advance(x, raw ? raw : i + 2 + (sign != 0));
    if (raw) {
        lex_raw(x);
    } else if (kind == '#') {
        lex_comment(x);
    } else {
        add_token(x, kind == '{' ? QN_JT_VAR_BEGIN : QN_JT_BLOCK_BEGIN, qn_jmissing());
        lex_tag(x, kind == '{');
    }
}

/* All newlines as \n; one at the very end goes. */
static const char *normalize(qn_jrun *r, const char *src, size_t *n)
{
    char *s = qn_arena_alloc(&r->arena, *n + 1);
    size_t k = 0;
    for (size_t i = 0; i < *n; i++) {
        if (src[i] == '\r') {
            s[k++] = '\n';
            i += i + 1 < *n && src[i + 1] == '\n';
        } else {
            s[k++] = src[i];
        }
    }
    *n = k - (k > 0 && s[k - 1] == '\n');
    return s;
}

void qn_jlex(qn_jrun *r, const char *src, size_t n, qn_jtokens *out)
{
    lexer x = { .r = r, .line = 1, .line_start = true, .out = out };
    if (!qn_jroom(r, n, 8))
        return;
    x.s = normalize(r, src, &n);
    x.n = n;
    while (x.at < x.n && qn_jok(r))
        lex_data(&x);
    add_token(&x, QN_JT_EOF, qn_jmissing());
}
