/* jinja_json.c - the tojson filter as transformers defines it (Python's json.dumps without HTML
 * escapes), and the clock behind strftime_now. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/utf8.h"
#include "tokenizer/jinja_filters.h"

typedef struct dumper {
    qn_jrun *r;
    qn_jsb *b;
    const qn_jstr *indent; /* NULL: all on one line */
    const qn_jstr *item_sep, *key_sep;
    bool ascii, sort_keys;
    int level;
} dumper;

static void put_unit(dumper *d, uint32_t unit)
{
    qn_jsb_printf(d->r, d->b, "\\u%04x", unit);
}

static void put_escaped(dumper *d, uint32_t cp)
{
    static const char short_of[] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'
    };
    if (cp == '"' || cp == '\\') {
        qn_jsb_printf(d->r, d->b, "\\%c", (char)cp);
    } else if (cp < sizeof short_of && short_of[cp]) {
        qn_jsb_printf(d->r, d->b, "\\%c", short_of[cp]);
    } else if (cp >= 0x10000) { /* a surrogate pair */
        put_unit(d, 0xD800 + ((cp - 0x10000) >> 10));
        put_unit(d, 0xDC00 + ((cp - 0x10000) & 0x3FF));
    } else {
        put_unit(d, cp);
    }
}

static void dump_str(dumper *d, const qn_jstr *s)
{
    size_t done = 0;
    qn_jsb_str(d->r, d->b, "\"");
    for (size_t i = 0; i < s->n && qn_jok(d->r);) {
        uint32_t cp;
        int n = qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (cp < 32 || cp == '"' || cp == '\\' || (d->ascii && cp >= 127)) {
            qn_jsb_add(d->r, d->b, s->p + done, i - done);
            put_escaped(d, cp);
            done = i + (size_t)n;
        }
        i += (size_t)n;
    }
    qn_jsb_add(d->r, d->b, s->p + done, s->n - done);
    qn_jsb_str(d->r, d->b, "\"");
}

static void dump_float(dumper *d, double x)
{
    char text[40];
    if (isnan(x))
        qn_jsb_str(d->r, d->b, "NaN");
    else if (isinf(x))
        qn_jsb_str(d->r, d->b, x < 0 ? "-Infinity" : "Infinity");
    else
        qn_jsb_add(d->r, d->b, text, (size_t)qn_jfloat_repr(x, text));
}

static void dump(dumper *d, qn_jval v);

static void new_line(dumper *d)
{
    if (!d->indent)
        return;
    qn_jsb_str(d->r, d->b, "\n");
    for (int i = 0; i < d->level && qn_jok(d->r); i++)
        qn_jsb_s(d->r, d->b, d->indent);
}

static void dump_list(dumper *d, const qn_jlist *l)
{
    qn_jsb_str(d->r, d->b, "[");
    d->level++;
    for (size_t i = 0; i < l->n && qn_jtick(d->r, 1); i++) {
        if (i)
            qn_jsb_s(d->r, d->b, d->item_sep);
        new_line(d);
        dump(d, l->v[i]);
    }
    d->level--;
    if (l->n)
        new_line(d);
    qn_jsb_str(d->r, d->b, "]");
}

/* Keys are strings; numbers, booleans and None become their JSON text. */
static void dump_key(dumper *d, qn_jval key)
{
    if (key.type == QN_J_STR) {
        dump_str(d, key.s);
    } else if (key.type == QN_J_NONE || qn_jis_number(key)) {
        qn_jsb_str(d->r, d->b, "\"");
        dump(d, key);
        qn_jsb_str(d->r, d->b, "\"");
    } else {
        qn_jfail(d->r, "keys must be str, int, float, bool or None, not %s", qn_jtype_name(key));
    }
}

static void dump_dict(dumper *d, const qn_jdict *m)
{
    qn_jval keys = qn_jlist_new(d->r, QN_J_LIST), vals = qn_jlist_new(d->r, QN_J_LIST);
    for (size_t i = 0; i < m->n && qn_jtick(d->r, 1); i++) {
        qn_jlist_add(d->r, keys.l, m->v[i].key);
        qn_jlist_add(d->r, vals.l, m->v[i].val);
    }
    if (d->sort_keys && qn_jok(d->r))
        qn_jsort(d->r, keys.l, vals.l, false);
    qn_jsb_str(d->r, d->b, "{");
    d->level++;
    for (size_t i = 0; i < keys.l->n && qn_jtick(d->r, 1); i++) {
        if (i)
            qn_jsb_s(d->r, d->b, d->item_sep);
        new_line(d);
        dump_key(d, keys.l->v[i]);
        qn_jsb_s(d->r, d->b, d->key_sep);
        dump(d, vals.l->v[i]);
    }
    d->level--;
    if (m->n)
        new_line(d);
    qn_jsb_str(d->r, d->b, "}");
}

static void dump(dumper *d, qn_jval v)
{
    if (!qn_jenter(d->r)) {
        qn_jleave(d->r);
        return;
    }
    if (v.type == QN_J_STR)
        dump_str(d, v.s);
    else if (v.type == QN_J_NONE)
        qn_jsb_str(d->r, d->b, "null");
    else if (v.type == QN_J_BOOL)
        qn_jsb_str(d->r, d->b, v.b ? "true" : "false");
    else if (v.type == QN_J_INT)
        qn_jsb_printf(d->r, d->b, "%lld", (long long)v.i);
    else if (v.type == QN_J_FLOAT)
        dump_float(d, v.d);
    else if (qn_jis_seq(v))
        dump_list(d, v.l);
    else if (v.type == QN_J_DICT)
        dump_dict(d, v.m);
    else
        qn_jfail(d->r, "Object of type %s is not JSON serializable", qn_jtype_name(v));
    qn_jleave(d->r);
}

/* A number of spaces, or the string itself; NULL for none. */
static const qn_jstr *indent_of(qn_jrun *r, qn_jval v)
{
    if (v.type == QN_J_MISSING || v.type == QN_J_NONE)
        return NULL;
    if (v.type == QN_J_STR)
        return v.s;
    qn_jsb b = { 0 };
    qn_jsb_fill(r, &b, ' ', qn_jarg_int(r, v, 0));
    qn_jval s = qn_jsb_done(r, &b);
    return s.type == QN_J_STR ? s.s : NULL;
}

qn_jval qn_jtojson(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)raw;
    qn_jsb b = { 0 };
    dumper d = { .r = r,
                 .b = &b,
                 .ascii = qn_jarg_bool(a[0], false),
                 .indent = indent_of(r, a[1]),
                 .sort_keys = qn_jarg_bool(a[3], false),
                 .key_sep = qn_jstr_z(r, ": ").s };
    d.item_sep = qn_jstr_z(r, d.indent ? "," : ", ").s;
    if (a[2].type != QN_J_MISSING && a[2].type != QN_J_NONE) {
        qn_jval pair = qn_jto_list(r, a[2], QN_J_LIST);
        if (!qn_jok(r) || pair.l->n != 2)
            return qn_jfail(r, "separators must be a pair of strings");
        d.item_sep = qn_jarg_str(r, pair.l->v[0], "");
        d.key_sep = qn_jarg_str(r, pair.l->v[1], "");
    }
    if (qn_jok(r))
        dump(&d, self);
    return qn_jsb_done(r, &b);
}

/* --- the clock --- */

/* libc's strftime for one directive; Python's own ones, and those of a clock without a zone, first. */
static void put_time(qn_jrun *r, qn_jsb *b, const char *directive, const struct tm *tm)
{
    char text[256];
    char last = directive[strlen(directive) - 1];
    if (last == 'f') {
        qn_jsb_str(r, b, "000000");
    } else if (last != 'z' && last != 'Z') {
        size_t n = strftime(text, sizeof text, directive, tm);
        qn_jsb_add(r, b, text, n);
    }
}

qn_jval qn_jstrftime(qn_jrun *r, const qn_jstr *format)
{
    struct tm tm = { .tm_year = r->now.year - 1900,
                     .tm_mon = r->now.month - 1,
                     .tm_mday = r->now.day,
                     .tm_hour = r->now.hour,
                     .tm_min = r->now.minute,
                     .tm_sec = r->now.second,
                     .tm_isdst = -1 };
    struct tm day = tm;
    timegm(&day); /* fills in the days of the week and of the year */
    tm.tm_wday = day.tm_wday;
    tm.tm_yday = day.tm_yday;
    qn_jsb b = { 0 };
    for (size_t i = 0; i < format->n && qn_jtick(r, 1);) {
        size_t from = i++;
        if (format->p[from] != '%') {
            qn_jsb_add(r, &b, format->p + from, 1);
            continue;
        }
        while (i < format->n && i - from < 4 && strchr("-_0^#:EO", format->p[i]) && format->p[i])
            i++;
        char directive[8] = { 0 };
        if (i >= format->n || (unsigned char)format->p[i] >= 128 || !format->p[i]) {
            qn_jsb_add(r, &b, format->p + from, i - from);
            continue;
        }
        memcpy(directive, format->p + from, ++i - from);
        put_time(r, &b, directive, &tm);
    }
    return qn_jsb_done(r, &b);
}
