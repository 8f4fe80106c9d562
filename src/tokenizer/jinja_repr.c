/* jinja_repr.c - how values print: Python's str() and repr(), names of types, shortest floats. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/jinja_eval.h"

const char *qn_jtype_name(qn_jval v)
{
    static const char *const names[] = {
        [QN_J_MISSING] = "missing",
        [QN_J_UNDEF] = "Undefined",
        [QN_J_NONE] = "NoneType",
        [QN_J_BOOL] = "bool",
        [QN_J_INT] = "int",
        [QN_J_FLOAT] = "float",
        [QN_J_STR] = "str",
        [QN_J_LIST] = "list",
        [QN_J_TUPLE] = "tuple",
        [QN_J_DICT] = "dict",
        [QN_J_RANGE] = "range",
        [QN_J_VIEW] = "dict_keys",
        [QN_J_ITER] = "generator",
        [QN_J_NAMESPACE] = "Namespace",
        [QN_J_FUNC] = "function",
        [QN_J_METHOD] = "builtin_function_or_method",
        [QN_J_MACRO] = "Macro",
        [QN_J_LOOP] = "LoopContext",
        [QN_J_CYCLER] = "Cycler",
        [QN_J_JOINER] = "Joiner",
        [QN_J_SELF] = "TemplateReference",
        [QN_J_BLOCK] = "BlockReference",
    };
    if (v.type == QN_J_VIEW)
        return v.kind == QN_J_KEYS     ? "dict_keys"
               : v.kind == QN_J_VALUES ? "dict_values"
                                       : "dict_items";
    if (v.type == QN_J_ITER)
        return v.it->type_name;
    if (v.type == QN_J_STR && v.s->markup)
        return "Markup";
    return names[v.type];
}

/* Python's float repr: the fewest digits that read back, exponent form outside 1e-4 .. 1e16. */
int qn_jfloat_repr(double d, char out[40])
{
    if (isnan(d))
        return sprintf(out, "nan");
    if (isinf(d))
        return sprintf(out, d < 0 ? "-inf" : "inf");
    char e[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(e, sizeof e, "%.*e", digits - 1, d);
        if (strtod(e, NULL) == d)
            break;
    }
    char *exp_at = strchr(e, 'e');
    int exp = atoi(exp_at + 1);
    char digits[24];
    int n = 0;
    for (const char *p = e; p < exp_at; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    char *o = out;
    if (signbit(d))
        *o++ = '-';
    if (exp < -4 || exp >= 16) {
        *o++ = digits[0];
        if (n > 1)
            o += sprintf(o, ".%.*s", n - 1, digits + 1);
        return (int)(o - out) + sprintf(o, "e%c%02d", exp < 0 ? '-' : '+', abs(exp));
    }
    if (exp < 0) {
        o += sprintf(o, "0.%.*s%.*s", -exp - 1, "0000", n, digits);
        return (int)(o - out);
    }
    for (int i = 0; i <= exp; i++)
        *o++ = i < n ? digits[i] : '0';
    *o++ = '.';
    if (n > exp + 1)
        o += sprintf(o, "%.*s", n - exp - 1, digits + exp + 1);
    else
        *o++ = '0';
    *o = 0;
    return (int)(o - out);
}

static void put_escape(qn_jrun *r, qn_jsb *b, uint32_t cp, char quote)
{
    if (cp == (uint32_t)quote || cp == '\\')
        qn_jsb_printf(r, b, "\\%c", (char)cp);
    else if (cp == '\n')
        qn_jsb_str(r, b, "\\n");
    else if (cp == '\r')
        qn_jsb_str(r, b, "\\r");
    else if (cp == '\t')
        qn_jsb_str(r, b, "\\t");
    else if (cp < 256)
        qn_jsb_printf(r, b, "\\x%02x", cp);
    else
        qn_jsb_printf(r, b, cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
}

static void put_str_repr(qn_jrun *r, qn_jsb *b, const qn_jstr *s)
{
    char quote = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    if (s->markup)
        qn_jsb_str(r, b, "Markup(");
    qn_jsb_add(r, b, &quote, 1);
    size_t done = 0;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        int n = qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (cp == (uint32_t)quote || cp == '\\' || !qn_jis_printable(cp)) {
            qn_jsb_add(r, b, s->p + done, i - done);
            put_escape(r, b, cp, quote);
            done = i + (size_t)n;
        }
        i += (size_t)n;
    }
    qn_jsb_add(r, b, s->p + done, s->n - done);
    qn_jsb_add(r, b, &quote, 1);
    if (s->markup)
        qn_jsb_str(r, b, ")");
}

static void put_items(qn_jrun *r, qn_jsb *b, const qn_jlist *l)
{
    for (size_t i = 0; i < l->n && qn_jtick(r, 1); i++) {
        if (i)
            qn_jsb_str(r, b, ", ");
        qn_jput_repr(r, b, l->v[i]);
    }
}

static void put_dict(qn_jrun *r, qn_jsb *b, const qn_jdict *d)
{
    qn_jsb_str(r, b, "{");
    for (size_t i = 0; i < d->n && qn_jtick(r, 1); i++) {
        if (i)
            qn_jsb_str(r, b, ", ");
        qn_jput_repr(r, b, d->v[i].key);
        qn_jsb_str(r, b, ": ");
        qn_jput_repr(r, b, d->v[i].val);
    }
    qn_jsb_str(r, b, "}");
}

static void put_view(qn_jrun *r, qn_jsb *b, qn_jval v)
{
    qn_jsb_printf(r, b, "%s([", qn_jtype_name(v));
    qn_jval l = qn_jto_list(r, v, QN_J_LIST);
    put_items(r, b, l.l);
    qn_jsb_str(r, b, "])");
}

static void put_range(qn_jrun *r, qn_jsb *b, const qn_jrange *g)
{
    qn_jsb_printf(r, b, "range(%lld, %lld", (long long)g->start, (long long)g->stop);
    if (g->step != 1)
        qn_jsb_printf(r, b, ", %lld", (long long)g->step);
    qn_jsb_str(r, b, ")");
}

static void put_number(qn_jrun *r, qn_jsb *b, qn_jval v)
{
    char text[40];
    if (v.type == QN_J_BOOL)
        qn_jsb_str(r, b, v.b ? "True" : "False");
    else if (v.type == QN_J_INT)
        qn_jsb_printf(r, b, "%lld", (long long)v.i);
    else
        qn_jsb_add(r, b, text, (size_t)qn_jfloat_repr(v.d, text));
}

static void put_container(qn_jrun *r, qn_jsb *b, qn_jval v)
{
    if (v.type == QN_J_LIST) {
        qn_jsb_str(r, b, "[");
        put_items(r, b, v.l);
        qn_jsb_str(r, b, "]");
    } else if (v.type == QN_J_TUPLE) {
        qn_jsb_str(r, b, "(");
        put_items(r, b, v.l);
        qn_jsb_str(r, b, v.l->n == 1 ? ",)" : ")");
    } else if (v.type == QN_J_DICT) {
        put_dict(r, b, v.m);
    } else if (v.type == QN_J_VIEW) {
        put_view(r, b, v);
    } else if (v.type == QN_J_NAMESPACE) {
        qn_jsb_str(r, b, "<Namespace ");
        put_dict(r, b, v.m);
        qn_jsb_str(r, b, ">");
    } else if (v.type == QN_J_RANGE) {
        put_range(r, b, v.r);
    } else {
        qn_jput_object(r, b, v);
    }
}

void qn_jput_repr(qn_jrun *r, qn_jsb *b, qn_jval v)
{
    if (!qn_jenter(r)) {
        qn_jleave(r);
        return;
    }
    if (v.type == QN_J_STR)
        put_str_repr(r, b, v.s);
    else if (v.type == QN_J_UNDEF)
        qn_jsb_str(r, b, "Undefined");
    else if (v.type == QN_J_NONE)
        qn_jsb_str(r, b, "None");
    else if (qn_jis_number(v))
        put_number(r, b, v);
    else
        put_container(r, b, v);
    qn_jleave(r);
}

void qn_jput_str(qn_jrun *r, qn_jsb *b, qn_jval v)
{
    if (v.type == QN_J_STR)
        qn_jsb_s(r, b, v.s);
    else if (v.type != QN_J_UNDEF)
        qn_jput_repr(r, b, v);
}

qn_jval qn_jto_str(qn_jrun *r, qn_jval v)
{
    if (v.type == QN_J_STR && !v.s->markup)
        return v;
    if (v.type == QN_J_STR)
        return qn_jstr_ref(r, v.s->p, v.s->n);
    qn_jsb b = { 0 };
    qn_jput_str(r, &b, v);
    return qn_jsb_done(r, &b);
}

qn_jval qn_jsoft_str(qn_jrun *r, qn_jval v)
{
    return v.type == QN_J_STR ? v : qn_jto_str(r, v);
}
