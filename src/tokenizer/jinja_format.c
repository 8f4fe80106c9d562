/* jinja_format.c - Python's two ways of formatting: "%s" % x here, "{}".format(x) with its small
 * language of fills, signs, widths and types below it. Both end in the same number printers. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/jinja_value.h"

#define MAX_PRECISION 400 /* more digits than any double has */

typedef struct spec {
    uint32_t fill; /* 0: not given */
    char align;    /* < > ^ = or 0 */
    char sign;     /* + - space or 0 */
    bool alt, zero, left;
    int64_t width, precision; /* precision -1: not given */
    char group;               /* , _ or 0 */
    char type;                /* 0: not given */
} spec;

/* --- pieces of numbers --- */

static void digits_of(uint64_t x, unsigned base, bool capitals, char out[72])
{
    char tmp[72];
    int n = 0;
    do
        tmp[n++] = (capitals ? "0123456789ABCDEF" : "0123456789abcdef")[x % base];
    while ((x /= base) != 0);
    for (int i = 0; i < n; i++)
        out[i] = tmp[n - 1 - i];
    out[n] = 0;
}

/* Puts separators into the whole part of `digits`, led by zeros up to min_width characters. */
static void put_grouped(qn_jrun *r, qn_jsb *b, const char *digits, char sep, int every,
                        int64_t min_width)
{
    int64_t whole = (int64_t)strspn(digits, "0123456789abcdefABCDEF"), n = whole;
    if (strchr(digits, '.') || strchr(digits, 'e'))
        whole = n = (int64_t)strspn(digits, "0123456789");
    int64_t rest = (int64_t)strlen(digits) - whole;
    while (n + (sep ? (n - 1) / every : 0) + rest < min_width && qn_jtick(r, 1))
        n++;
    for (int64_t i = n; i > 0 && qn_jok(r); i--) {
        qn_jsb_add(r, b, i > whole ? "0" : digits + whole - i, 1);
        if (sep && i > 1 && (i - 1) % every == 0)
            qn_jsb_add(r, b, &sep, 1);
    }
    qn_jsb_str(r, b, digits + whole);
}

/* |d| in the given style, into out (at least MAX_PRECISION + 330 bytes). */
static void float_text(double d, char type, int precision, bool alt, char *out, size_t cap)
{
    char fmt[16];
    d = fabs(d);
    if (isnan(d) || isinf(d)) {
        strcpy(out, isnan(d) ? "nan" : "inf");
        for (char *p = out; isupper((unsigned char)type) && *p; p++)
            *p = (char)toupper((unsigned char)*p);
        return;
    }
    snprintf(fmt, sizeof fmt, "%%%s.*%c", alt ? "#" : "", type);
    snprintf(out, cap, fmt, precision, d);
}

static void strip_zeros(char *s)
{
    char *dot = strchr(s, '.');
    char *end = s + strlen(s);
    while (dot && end > dot + 1 && end[-1] == '0')
        *--end = 0;
    if (dot && end == dot + 1)
        *dot = 0;
}

/* A float with a precision and no type: like 'g', but it keeps a digit after the point. */
static void general_text(double d, int precision, char *out, size_t cap)
{
    char e[MAX_PRECISION + 40];
    int p = precision > 0 ? precision : 1;
    snprintf(e, sizeof e, "%.*e", p - 1, fabs(d));
    char *exp_at = strchr(e, 'e');
    int exp = exp_at ? atoi(exp_at + 1) : 0;
    if (!exp_at || (exp >= -4 && exp + 1 <= p - 1)) {
        float_text(d, 'f', exp_at ? p - 1 - exp : 0, false, out, cap);
        if (exp_at)
            strip_zeros(out);
        if (exp_at && !strchr(out, '.'))
            strcat(out, ".0");
        return;
    }
    char tail[16];
    snprintf(tail, sizeof tail, "%s", exp_at);
    *exp_at = 0;
    strip_zeros(e);
    snprintf(out, cap, "%s%s", e, tail);
}

static const char *sign_text(bool negative, char sign)
{
    return negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

/* Pads body (of `chars` code points) on the side the alignment says. */
static void put_padded(qn_jrun *r, qn_jsb *b, qn_jval body, const spec *f, char align)
{
    int64_t pad = f->width - (int64_t)body.s->chars;
    int64_t before = pad <= 0 || align == '<' ? 0 : align == '^' ? pad / 2 : pad;
    uint32_t fill = f->fill ? f->fill : ' ';
    qn_jsb_fill(r, b, fill, before);
    qn_jsb_s(r, b, body.s);
    qn_jsb_fill(r, b, fill, pad - before);
}

/* A number made of a sign, a prefix like 0x, and digits; zeros may stand between prefix and digits. */
static void put_number(qn_jrun *r, qn_jsb *b, const spec *f, const char *sign, const char *prefix,
                       const char *digits)
{
    qn_jsb n = { 0 };
    int every = f->type && strchr("boxX", f->type) ? 4 : 3;
    bool zeros = (f->zero && !f->align) || (f->align == '=' && f->fill == '0');
    int64_t lead = (int64_t)(strlen(sign) + strlen(prefix));
    if (f->align == '=' && !zeros) { /* some other fill between the sign and the digits */
        qn_jsb_str(r, b, sign);
        qn_jsb_str(r, b, prefix);
        put_grouped(r, &n, digits, f->group, every, 0);
        spec inner = *f;
        inner.width = f->width - lead;
        qn_jval v = qn_jsb_done(r, &n);
        if (v.type == QN_J_STR)
            put_padded(r, b, v, &inner, '>');
        return;
    }
    qn_jsb_str(r, &n, sign);
    qn_jsb_str(r, &n, prefix);
    put_grouped(r, &n, digits, f->group, every, zeros ? f->width - lead : 0);
    qn_jval v = qn_jsb_done(r, &n);
    if (v.type == QN_J_STR)
        put_padded(r, b, v, f, f->align && f->align != '=' ? f->align : '>');
}

static void put_int(qn_jrun *r, qn_jsb *b, int64_t i, const spec *f)
{
    char digits[72], wide[MAX_PRECISION + 80];
    uint64_t x = i < 0 ? (uint64_t)0 - (uint64_t)i : (uint64_t)i;
    char t = f->type;
    unsigned base = t == 'x' || t == 'X' ? 16 : t == 'o' ? 8 : t == 'b' ? 2 : 10;
    const char *prefix = !f->alt    ? ""
                         : t == 'x' ? "0x"
                         : t == 'X' ? "0X"
                         : t == 'o' ? "0o"
                         : t == 'b' ? "0b"
                                    : "";
    digits_of(x, base, t == 'X', digits);
    int n = (int)strlen(digits), zeros = f->precision > n ? (int)f->precision - n : 0;
    memset(wide, '0', (size_t)zeros);
    strcpy(wide + zeros, digits);
    put_number(r, b, f, sign_text(i < 0, f->sign), prefix, wide);
}

static void put_float(qn_jrun *r, qn_jsb *b, double d, const spec *f)
{
    char text[MAX_PRECISION + 400];
    bool percent = f->type == '%';
    int precision = f->precision < 0 ? 6 : (int)f->precision;
    if (percent)
        d *= 100;
    if (f->type == 0 && f->precision < 0) {
        char plain[40];
        qn_jfloat_repr(fabs(d), plain);
        strcpy(text, plain);
    } else if (f->type == 0) {
        general_text(d, precision, text, sizeof text);
    } else {
        char t = percent ? 'f' : f->type == 'n' ? 'g' : f->type;
        float_text(d, t, precision, f->alt, text, sizeof text - 1);
        strcat(text, percent ? "%" : "");
    }
    bool plain = isnan(d) || isinf(d);
    spec quiet = *f;
    quiet.zero = f->zero && !(plain && f->left);
    put_number(r, b, &quiet, sign_text(signbit(d) && !isnan(d), f->sign), "", text);
}

/* --- "..." % args --- */

typedef struct percent {
    qn_jrun *r;
    const char *p, *end;
    qn_jval args;
    size_t used;
    bool markup;
} percent;

static qn_jval next_arg(percent *q)
{
    if (q->args.type != QN_J_TUPLE && q->used++ == 0)
        return q->args;
    if (q->args.type == QN_J_TUPLE && q->used < q->args.l->n)
        return q->args.l->v[q->used++];
    return qn_jfail(q->r, "not enough arguments for format string");
}

/* "(name)" after the percent sign: looks it up in the mapping. */
static bool named_arg(percent *q, qn_jval *out)
{
    if (q->p >= q->end || *q->p != '(')
        return false;
    const char *from = ++q->p;
    for (int level = 1; q->p < q->end && level > 0; q->p++)
        level += (*q->p == '(') - (*q->p == ')');
    *out = qn_jnone();
    qn_jval key = qn_jstr_ref(q->r, from, (size_t)(q->p - 1 - from));
    if (q->args.type != QN_J_DICT)
        qn_jfail(q->r, "format requires a mapping");
    else if (!qn_jdict_get(q->r, q->args.m, key, out))
        qn_jfail(q->r, "%s", qn_jshort(q->r, key));
    return true;
}

static int64_t percent_number(percent *q, int64_t absent)
{
    if (q->p < q->end && *q->p == '*') {
        q->p++;
        return qn_jarg_int(q->r, next_arg(q), 0);
    }
    if (q->p >= q->end || !isdigit((unsigned char)*q->p))
        return absent;
    int64_t n = 0;
    for (; q->p < q->end && isdigit((unsigned char)*q->p); q->p++)
        n = n < INT32_MAX ? n * 10 + (*q->p - '0') : n;
    return n;
}

static void percent_spec(percent *q, spec *f)
{
    *f = (spec){ .precision = -1 };
    for (; q->p < q->end; q->p++) {
        if (*q->p == '-')
            f->left = true;
        else if (*q->p == '+')
            f->sign = '+';
        else if (*q->p == ' ')
            f->sign = f->sign ? f->sign : ' ';
        else if (*q->p == '#')
            f->alt = true;
        else if (*q->p == '0')
            f->zero = true;
        else
            break;
    }
    f->width = percent_number(q, 0);
    if (f->width < 0) {
        f->left = true;
        f->width = -f->width;
    }
    if (q->p < q->end && *q->p == '.') {
        q->p++;
        f->precision = percent_number(q, 0);
    }
    while (q->p < q->end && strchr("lLh", *q->p) && *q->p)
        q->p++;
    if (f->left) {
        f->align = '<';
        f->zero = false;
    }
}

static void percent_text(percent *q, qn_jsb *b, qn_jval v, spec *f)
{
    qn_jrun *r = q->r;
    qn_jsb t = { 0 };
    if (f->type == 's')
        qn_jput_str(r, &t, q->markup ? qn_jescape(r, v) : v);
    else
        qn_jput_repr(r, &t, v);
    qn_jval s = qn_jsb_done(r, &t);
    if (s.type == QN_J_STR && f->precision >= 0)
        s = qn_jstr_cut(r, s.s, 0, qn_jstr_at(s.s, (size_t)f->precision));
    if (s.type == QN_J_STR)
        put_padded(r, b, s, f, f->left ? '<' : '>');
}

static void percent_int(percent *q, qn_jsb *b, qn_jval v, spec *f)
{
    qn_jrun *r = q->r;
    bool decimal = strchr("diu", f->type) != NULL;
    if (v.type == QN_J_FLOAT && decimal && isfinite(v.d) && fabs(v.d) < 9e18)
        v = qn_jint((int64_t)v.d);
    if (!qn_jis_int(v)) {
        qn_jfail(r, "%%%c format: %s is required, not %s", f->type,
                 decimal ? "a real number" : "an integer", qn_jtype_name(v));
        return;
    }
    if (decimal)
        f->type = 'd';
    put_int(r, b, qn_jas_int(v), f);
}

static void percent_char(percent *q, qn_jsb *b, qn_jval v, const spec *f)
{
    qn_jsb t = { 0 };
    if (qn_jis_int(v) && qn_jas_int(v) >= 0 && qn_jas_int(v) < 0x110000)
        qn_jsb_cp(q->r, &t, (uint32_t)qn_jas_int(v));
    else if (v.type == QN_J_STR && v.s->chars == 1)
        qn_jsb_s(q->r, &t, v.s);
    else
        qn_jfail(q->r, "%%c requires int or char");
    qn_jval s = qn_jsb_done(q->r, &t);
    if (s.type == QN_J_STR)
        put_padded(q->r, b, s, f, f->left ? '<' : '>');
}

static void percent_one(percent *q, qn_jsb *b)
{
    qn_jrun *r = q->r;
    qn_jval v;
    spec f;
    bool named = named_arg(q, &v);
    percent_spec(q, &f);
    if (q->p >= q->end) {
        qn_jfail(r, "incomplete format");
        return;
    }
    f.type = *q->p++;
    if (f.type == '%') {
        qn_jsb_str(r, b, "%");
        return;
    }
    if (f.precision > MAX_PRECISION && f.type != 's') {
        qn_jlimit(r, "precision too big");
        return;
    }
    if (!named)
        v = next_arg(q);
    if (!qn_jok(r))
        return;
    if (strchr("sra", f.type)) {
        percent_text(q, b, v, &f);
    } else if (strchr("diuoxX", f.type)) {
        percent_int(q, b, v, &f);
    } else if (strchr("eEfFgG", f.type) && qn_jis_number(v)) {
        put_float(r, b, qn_jas_float(v), &f);
    } else if (strchr("eEfFgG", f.type)) {
        qn_jfail(r, "must be real number, not %s", qn_jtype_name(v));
    } else if (f.type == 'c') {
        percent_char(q, b, v, &f);
    } else {
        qn_jfail(r, "unsupported format character '%c'",
                 isprint((unsigned char)f.type) ? f.type : '?');
    }
}

qn_jval qn_jpercent(qn_jrun *r, const qn_jstr *format, qn_jval args)
{
    percent q = {
        .r = r, .p = format->p, .end = format->p + format->n, .args = args, .markup = format->markup
    };
    qn_jsb b = { 0 };
    while (q.p < q.end && qn_jtick(r, 1)) {
        const char *mark = memchr(q.p, '%', (size_t)(q.end - q.p));
        qn_jsb_add(r, &b, q.p, (size_t)((mark ? mark : q.end) - q.p));
        if (!mark)
            break;
        q.p = mark + 1;
        percent_one(&q, &b);
    }
    bool mapping = args.type == QN_J_DICT || args.type == QN_J_LIST || args.type == QN_J_UNDEF;
    size_t given = args.type == QN_J_TUPLE ? args.l->n : !mapping;
    if (qn_jok(r) && q.used < given)
        return qn_jfail(r, "not all arguments converted during string formatting");
    return qn_jstr_like(r, format, qn_jsb_done(r, &b));
}

/* --- "...".format(args) --- */

static bool is_align(uint32_t c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static int64_t spec_number(const qn_jstr *s, size_t *i, int64_t absent)
{
    int64_t n = 0;
    if (*i >= s->n || !isdigit((unsigned char)s->p[*i]))
        return absent;
    for (; *i < s->n && isdigit((unsigned char)s->p[*i]); ++*i)
        n = n < INT32_MAX ? n * 10 + (s->p[*i] - '0') : n;
    return n;
}

static bool spec_skip(const qn_jstr *s, size_t *i, const char *any, char *out)
{
    if (*i >= s->n || !s->p[*i] || !strchr(any, s->p[*i]))
        return false;
    *out = s->p[(*i)++];
    return true;
}

static void parse_spec(qn_jrun *r, const qn_jstr *s, spec *f)
{
    *f = (spec){ .precision = -1 };
    size_t i = 0;
    uint32_t first = 0;
    char c;
    if (s->n) {
        int n = qn_utf8_decode(s->p, s->n, &first);
        if ((size_t)n < s->n && is_align((unsigned char)s->p[n])) {
            f->fill = first;
            f->align = s->p[n];
            i = (size_t)n + 1;
        } else if (is_align(first)) {
            f->align = s->p[0];
            i = 1;
        }
    }
    spec_skip(s, &i, "+- ", &f->sign);
    f->alt = spec_skip(s, &i, "#", &c);
    if (spec_skip(s, &i, "0", &c))
        f->zero = true;
    f->width = spec_number(s, &i, 0);
    spec_skip(s, &i, ",_", &f->group);
    if (spec_skip(s, &i, ".", &c)) {
        f->precision = spec_number(s, &i, -1);
        if (f->precision < 0)
            qn_jfail(r, "Format specifier missing precision");
    }
    if (i < s->n)
        f->type = s->p[i++];
    if (i < s->n)
        qn_jfail(r, "Invalid format specifier");
}

static void format_str(qn_jrun *r, qn_jsb *b, const qn_jstr *s, spec *f)
{
    if ((f->type && f->type != 's') || f->sign || f->alt || f->align == '=' || f->group) {
        qn_jfail(r, "Unknown format code or option for object of type 'str'");
        return;
    }
    if (f->zero && !f->fill)
        f->fill = '0';
    size_t n = f->precision < 0 ? s->n : qn_jstr_at(s, (size_t)f->precision);
    put_padded(r, b, qn_jstr_cut(r, s, 0, n), f, f->align ? f->align : '<');
}

static void format_number(qn_jrun *r, qn_jsb *b, qn_jval v, spec *f)
{
    bool as_float = v.type == QN_J_FLOAT || (f->type && strchr("eEfFgG%", f->type));
    if (f->zero && !f->fill && f->align)
        f->fill = '0';
    if (f->precision > MAX_PRECISION) {
        qn_jlimit(r, "precision too big");
    } else if (as_float && (!f->type || strchr("eEfFgGn%", f->type))) {
        put_float(r, b, qn_jas_float(v), f);
    } else if (!as_float && f->type == 'c') {
        percent q = { .r = r };
        f->left = f->align != '>';
        percent_char(&q, b, v, f);
    } else if (!as_float && (!f->type || strchr("dnboxX", f->type))) {
        if (f->precision >= 0)
            qn_jfail(r, "Precision not allowed in integer format specifier");
        else
            put_int(r, b, qn_jas_int(v), f);
    } else {
        qn_jfail(r, "Unknown format code '%c' for object of type '%s'", f->type, qn_jtype_name(v));
    }
}

static void format_field(qn_jrun *r, qn_jsb *b, qn_jval v, const qn_jstr *text)
{
    spec f;
    if (text->n == 0) {
        qn_jput_str(r, b, v);
        return;
    }
    parse_spec(r, text, &f);
    if (!qn_jok(r))
        return;
    if (v.type == QN_J_STR)
        format_str(r, b, v.s, &f);
    else if (qn_jis_number(v))
        format_number(r, b, v, &f);
    else
        qn_jfail(r, "unsupported format string passed to %s.__format__", qn_jtype_name(v));
}

typedef struct formatter {
    qn_jrun *r;
    const qn_jargs *args;
    int64_t next; /* automatic numbering */
    bool manual;
} formatter;

static qn_jval positional(formatter *q, int64_t i)
{
    if (i < 0 || (size_t)i >= q->args->n)
        return qn_jfail(q->r, "Replacement index %lld out of range for positional args tuple",
                        (long long)i);
    return q->args->v[i];
}

/* The value of "0.name[key]" and the like. */
static qn_jval field_value(formatter *q, const char *p, size_t n)
{
    qn_jrun *r = q->r;
    size_t i = 0, digits = 0;
    while (i < n && p[i] != '.' && p[i] != '[')
        digits += isdigit((unsigned char)p[i++]) != 0;
    qn_jval v = qn_jnone();
    if (i == 0 || digits == i) {
        if ((i == 0 && q->manual) || (i && q->next > 0))
            return qn_jfail(r, "cannot switch between manual and automatic field numbering");
        q->manual = i > 0;
        v = positional(q, i == 0 ? q->next++ : i > 9 ? INT64_MAX : (int64_t)strtoll(p, NULL, 10));
    } else if (!q->args->kw || !qn_jdict_get(r, q->args->kw, qn_jstr_ref(r, p, i), &v)) {
        return qn_jfail(r, "%s", qn_jshort(r, qn_jstr_ref(r, p, i)));
    }
    while (i < n && qn_jok(r)) {
        bool attr = p[i++] == '.';
        size_t from = i;
        while (i < n && (attr ? p[i] != '.' && p[i] != '[' : p[i] != ']'))
            i++;
        qn_jval key = qn_jstr_ref(r, p + from, i - from);
        int64_t index;
        bool too_large;
        if (attr)
            v = qn_jgetattr(r, v, key);
        else if (qn_jis_class(key.s, QN_JC_DIGIT) && qn_jparse_int(key.s, 10, &index, &too_large))
            v = qn_jgetitem(r, v, qn_jint(index));
        else
            v = qn_jgetitem(r, v, key);
        i += !attr;
    }
    return v;
}

static void format_text(formatter *q, qn_jsb *b, const char *p, size_t n, int depth);

/* "{name!r:spec}" without its braces. */
static void replacement(formatter *q, qn_jsb *b, const char *p, size_t n, int depth)
{
    qn_jrun *r = q->r;
    size_t name = 0, bracket = 0;
    for (; name < n && (bracket || (p[name] != '!' && p[name] != ':')); name++)
        bracket = p[name] == '[' ? 1 : p[name] == ']' ? 0 : bracket;
    qn_jval v = field_value(q, p, name);
    size_t i = name;
    char conversion = 0;
    if (i + 1 < n && p[i] == '!') {
        conversion = p[i + 1];
        i += 2;
    }
    if (i < n && p[i] != ':') {
        qn_jfail(r, "expected ':' after conversion specifier");
        return;
    }
    qn_jsb text = { 0 };
    if (i < n)
        format_text(q, &text, p + i + 1, n - i - 1, depth + 1);
    if (conversion == 's') {
        v = qn_jto_str(r, v);
    } else if (conversion == 'r' || conversion == 'a') {
        qn_jsb repr = { 0 };
        qn_jput_repr(r, &repr, v);
        v = qn_jsb_done(r, &repr);
    } else if (conversion) {
        qn_jfail(r, "Unknown conversion specifier");
    }
    qn_jval s = qn_jsb_done(r, &text);
    if (qn_jok(r))
        format_field(r, b, v, s.s);
}

/* Length of the field at p (after its opening brace) up to the closing brace; n when it has none. */
static size_t field_end(const char *p, size_t n)
{
    int level = 1;
    for (size_t i = 0; i < n; i++) {
        level += (p[i] == '{') - (p[i] == '}');
        if (level == 0)
            return i;
    }
    return n;
}

static void format_text(formatter *q, qn_jsb *b, const char *p, size_t n, int depth)
{
    qn_jrun *r = q->r;
    if (depth > 2) {
        qn_jfail(r, "Max string recursion exceeded");
        return;
    }
    for (size_t i = 0; i < n && qn_jtick(r, 1);) {
        size_t plain = i;
        while (plain < n && p[plain] != '{' && p[plain] != '}')
            plain++;
        qn_jsb_add(r, b, p + i, plain - i);
        i = plain;
        if (i >= n)
            return;
        if (i + 1 < n && p[i + 1] == p[i]) { /* a doubled brace is one */
            qn_jsb_add(r, b, p + i, 1);
            i += 2;
            continue;
        }
        size_t len = p[i] == '{' ? field_end(p + i + 1, n - i - 1) : n;
        if (p[i] == '}' || i + 1 + len >= n) {
            qn_jfail(r, "Single '%c' encountered in format string", p[i]);
            return;
        }
        replacement(q, b, p + i + 1, len, depth);
        i += len + 2;
    }
}

qn_jval qn_jformat(qn_jrun *r, const qn_jstr *format, const qn_jargs *args)
{
    formatter q = { .r = r, .args = args };
    qn_jsb b = { 0 };
    format_text(&q, &b, format->p, format->n, 1);
    return qn_jstr_like(r, format, qn_jsb_done(r, &b));
}
