/* jinja_filters.c - the table of filters and the small ones: numbers, defaults, attributes. */
#include "tokenizer/jinja_filters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FILTER(name) static QN_JFILTER(f_##name)

FILTER(abs)
{
    (void)a, (void)raw;
    if (self.type == QN_J_FLOAT)
        return qn_jfloat(fabs(self.d));
    if (self.type == QN_J_UNDEF || !qn_jis_int(self))
        return qn_jfail(r, "bad operand type for abs(): '%s'", qn_jtype_name(self));
    return qn_jas_int(self) < 0 ? qn_jnegate(r, self, true) : qn_jint(qn_jas_int(self));
}

FILTER(attr)
{
    (void)raw;
    return qn_jattr_only(r, self, a[0]);
}

FILTER(default)
{
    (void)raw;
    if (self.type == QN_J_UNDEF || (qn_jarg_bool(a[1], false) && !qn_jtruth(self)))
        return a[0].type == QN_J_MISSING ? qn_jstr_z(r, "") : a[0];
    return self;
}

FILTER(filesizeformat)
{
    (void)raw;
    static const char *const decimal[] = { "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB" };
    static const char *const binary[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB" };
    bool bin = qn_jarg_bool(a[0], false);
    double bytes = 0, base = bin ? 1024 : 1000, unit = base;
    if (qn_jis_number(self))
        bytes = qn_jas_float(self);
    else if (self.type != QN_J_STR || !qn_jparse_float(self.s, &bytes))
        return qn_jfail(r, "could not convert %s to float", qn_jshort(r, self));
    qn_jsb b = { 0 };
    if (bytes == 1)
        return qn_jstr_z(r, "1 Byte");
    if (bytes < base) {
        qn_jsb_printf(r, &b, "%.0f Bytes", trunc(bytes) + 0.0);
        return qn_jsb_done(r, &b);
    }
    int i = 0;
    for (unit = base * base; i < 7 && bytes >= unit; i++)
        unit *= base;
    qn_jsb_printf(r, &b, "%.1f %s", base * bytes / unit, bin ? binary[i] : decimal[i]);
    return qn_jsb_done(r, &b);
}

FILTER(float)
{
    (void)raw;
    double d;
    if (self.type == QN_J_UNDEF)
        return qn_jundef_fail(r, self);
    if (qn_jis_number(self))
        return qn_jfloat(qn_jas_float(self));
    if (self.type == QN_J_STR && qn_jparse_float(self.s, &d))
        return qn_jfloat(d);
    return a[0].type == QN_J_MISSING ? qn_jfloat(0) : a[0];
}

static qn_jval float_to_int(qn_jrun *r, double d)
{
    if (isnan(d) || isinf(d))
        return qn_jfail(r, "cannot convert float %s to integer", isnan(d) ? "NaN" : "infinity");
    if (fabs(d) >= 9223372036854775808.0)
        return qn_jlimit(r, "integer too large (more than 64 bits)");
    return qn_jint((int64_t)d);
}

FILTER(int)
{
    (void)raw;
    int64_t i, base = qn_jarg_int(r, a[1], 10);
    bool too_large;
    double d;
    qn_jval absent = a[0].type == QN_J_MISSING ? qn_jint(0) : a[0];
    if (self.type == QN_J_UNDEF)
        return qn_jundef_fail(r, self);
    if (qn_jis_int(self))
        return qn_jint(qn_jas_int(self));
    if (self.type == QN_J_FLOAT)
        return isnan(self.d) ? absent : float_to_int(r, self.d);
    if (self.type != QN_J_STR)
        return absent;
    if (qn_jparse_int(self.s, (int)base, &i, &too_large))
        return too_large ? qn_jlimit(r, "integer too large (more than 64 bits)") : qn_jint(i);
    if (!qn_jparse_float(self.s, &d) || isnan(d) || isinf(d))
        return absent;
    return float_to_int(r, d);
}

/* A repr with sorted dict keys, which is what pprint gives for a value that fits one line. */
static void put_pretty(qn_jrun *r, qn_jsb *b, qn_jval v)
{
    if (v.type == QN_J_DICT && qn_jenter(r)) {
        qn_jval keys = qn_jlist_new(r, QN_J_LIST), vals = qn_jlist_new(r, QN_J_LIST);
        for (size_t i = 0; i < v.m->n; i++) {
            qn_jlist_add(r, keys.l, v.m->v[i].key);
            qn_jlist_add(r, vals.l, v.m->v[i].val);
        }
        qn_jsort(r, keys.l, vals.l, false);
        qn_jsb_str(r, b, "{");
        for (size_t i = 0; i < keys.l->n && qn_jok(r); i++) {
            qn_jsb_str(r, b, i ? ", " : "");
            qn_jput_repr(r, b, keys.l->v[i]);
            qn_jsb_str(r, b, ": ");
            put_pretty(r, b, vals.l->v[i]);
        }
        qn_jsb_str(r, b, "}");
        qn_jleave(r);
    } else if (qn_jis_seq(v) && qn_jenter(r)) {
        qn_jsb_str(r, b, v.type == QN_J_LIST ? "[" : "(");
        for (size_t i = 0; i < v.l->n && qn_jok(r); i++) {
            qn_jsb_str(r, b, i ? ", " : "");
            put_pretty(r, b, v.l->v[i]);
        }
        qn_jsb_str(r, b, v.type == QN_J_LIST ? "]" : v.l->n == 1 ? ",)" : ")");
        qn_jleave(r);
    } else {
        qn_jput_repr(r, b, v);
    }
}

FILTER(pprint)
{
    (void)a, (void)raw;
    qn_jsb b = { 0 };
    put_pretty(r, &b, self);
    if (b.n > 80 && qn_jok(r))
        return qn_jfail(r, "pprint of a value wider than 80 columns is not supported");
    return qn_jsb_done(r, &b);
}

/* round() of an int with digits left of the point: half to even. */
static qn_jval round_int(qn_jrun *r, int64_t i, int64_t digits)
{
    int64_t unit = 1;
    if (digits >= 0)
        return qn_jint(i);
    for (; digits < 0; digits++)
        if (__builtin_mul_overflow(unit, (int64_t)10, &unit))
            return qn_jint(0);
    int64_t rest = i % unit, down = i - rest, half = unit / 2;
    int64_t size = rest < 0 ? -rest : rest;
    bool odd = down / unit % 2 != 0;
    if (size > half || (size == half && odd))
        if (__builtin_add_overflow(down, i < 0 ? -unit : unit, &down))
            return qn_jlimit(r, "integer too large (more than 64 bits)");
    return qn_jint(down);
}

static qn_jval round_float(double d, int64_t digits)
{
    char text[400];
    if (!isfinite(d) || digits > 300 || d == 0)
        return qn_jfloat(d);
    if (digits < -310)
        return qn_jfloat(copysign(0.0, d));
    if (digits >= 0 && (fabs(d) > 1e22 || digits > 40))
        return qn_jfloat(d);
    if (digits >= 0) { /* printf rounds the exact binary value, as Python does */
        snprintf(text, sizeof text, "%.*f", (int)digits, d);
        return qn_jfloat(strtod(text, NULL));
    }
    int exponent = (int)floor(log10(fabs(d)));
    int keep = exponent + (int)digits; /* digits after the first one */
    if (keep < 0) {
        double unit = pow(10, (double)-digits);
        bool up = fabs(d) > unit / 2;
        return qn_jfloat(copysign(up ? unit : 0.0, d));
    }
    snprintf(text, sizeof text, "%.*e", keep, d);
    return qn_jfloat(strtod(text, NULL));
}

FILTER(round)
{
    (void)raw;
    int64_t digits = qn_jarg_int(r, a[0], 0);
    const qn_jstr *method = qn_jarg_str(r, a[1], "common");
    bool ceiling = qn_jstr_is(method, "ceil"), floor_it = qn_jstr_is(method, "floor");
    if (!ceiling && !floor_it && !qn_jstr_is(method, "common"))
        return qn_jfail(r, "method must be common, ceil or floor");
    if (self.type == QN_J_UNDEF)
        return qn_jundef_fail(r, self);
    if (!qn_jis_number(self))
        return qn_jfail(r, "type %s doesn't define __round__ method", qn_jtype_name(self));
    if (!ceiling && !floor_it)
        return qn_jis_int(self) ? round_int(r, qn_jas_int(self), digits)
                                : round_float(self.d, digits);
    double scale = pow(10, (double)digits), x = qn_jas_float(self) * scale;
    if (!isfinite(x))
        return qn_jfail(r, "cannot convert float to integer");
    return qn_jfloat((ceiling ? ceil(x) : floor(x)) / scale + 0.0);
}

FILTER(random)
{
    (void)a, (void)raw, (void)self;
    return qn_jfail(r,
                    "the filter 'random' is not supported: a rendering must not depend on chance");
}

FILTER(urlize)
{
    (void)a, (void)raw, (void)self;
    return qn_jfail(r, "the filter 'urlize' is not supported");
}

static const qn_jbuiltin filters[] = {
    { "abs", f_abs, "", 0 },
    { "attr", f_attr, "name", 1 },
    { "batch", qn_jf_batch, "linecount fill_with", 1 },
    { "capitalize", qn_jf_capitalize, "", 0 },
    { "center", qn_jf_center, "width", 0 },
    { "count", qn_jf_length, "", 0 },
    { "d", f_default, "default_value boolean", 0 },
    { "default", f_default, "default_value boolean", 0 },
    { "dictsort", qn_jf_dictsort, "case_sensitive by reverse", 0 },
    { "e", qn_jf_escape, "", 0 },
    { "escape", qn_jf_escape, "", 0 },
    { "filesizeformat", f_filesizeformat, "binary", 0 },
    { "first", qn_jf_first, "", 0 },
    { "float", f_float, "default", 0 },
    { "forceescape", qn_jf_forceescape, "", 0 },
    { "format", qn_jf_format, NULL, 0 },
    { "groupby", qn_jf_groupby, "attribute default case_sensitive", 1 },
    { "indent", qn_jf_indent, "width first blank", 0 },
    { "int", f_int, "default base", 0 },
    { "items", qn_jf_items, "", 0 },
    { "join", qn_jf_join, "d attribute", 0 },
    { "last", qn_jf_last, "", 0 },
    { "length", qn_jf_length, "", 0 },
    { "list", qn_jf_list, "", 0 },
    { "lower", qn_jf_lower, "", 0 },
    { "map", qn_jf_map, NULL, 0 },
    { "max", qn_jf_max, "case_sensitive attribute", 0 },
    { "min", qn_jf_min, "case_sensitive attribute", 0 },
    { "pprint", f_pprint, "", 0 },
    { "random", f_random, "", 0 },
    { "reject", qn_jf_reject, NULL, 0 },
    { "rejectattr", qn_jf_rejectattr, NULL, 0 },
    { "replace", qn_jf_replace, "old new count", 2 },
    { "reverse", qn_jf_reverse, "", 0 },
    { "round", f_round, "precision method", 0 },
    { "safe", qn_jf_safe, "", 0 },
    { "select", qn_jf_select, NULL, 0 },
    { "selectattr", qn_jf_selectattr, NULL, 0 },
    { "slice", qn_jf_slice, "slices fill_with", 1 },
    { "sort", qn_jf_sort, "reverse case_sensitive attribute", 0 },
    { "string", qn_jf_string, "", 0 },
    { "striptags", qn_jf_striptags, "", 0 },
    { "sum", qn_jf_sum, "attribute start", 0 },
    { "title", qn_jf_title, "", 0 },
    { "tojson", qn_jtojson, "ensure_ascii indent separators sort_keys", 0 },
    { "trim", qn_jf_trim, "chars", 0 },
    { "truncate", qn_jf_truncate, "length killwords end leeway", 0 },
    { "unique", qn_jf_unique, "case_sensitive attribute", 0 },
    { "upper", qn_jf_upper, "", 0 },
    { "urlencode", qn_jf_urlencode, "", 0 },
    { "urlize", f_urlize, NULL, 0 },
    { "wordcount", qn_jf_wordcount, "", 0 },
    { "wordwrap", qn_jf_wordwrap, "width break_long_words wrapstring break_on_hyphens", 0 },
    { "xmlattr", qn_jf_xmlattr, "autospace", 0 },
    { 0 },
};

const qn_jbuiltin *qn_jfilter_find(const char *name, size_t n)
{
    return qn_jfind_in(filters, name, n);
}
