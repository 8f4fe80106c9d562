/* jinja_filters_text.c - filters over text. What is not a string is printed first, as in the reference. */
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/jinja_filters.h"

/* The subject as a string; a dull one once the run has failed. */
static const qn_jstr *text(qn_jrun *r, qn_jval v)
{
    qn_jval s = qn_jsoft_str(r, v);
    return s.type == QN_J_STR ? s.s : qn_jstr_z(r, "").s;
}

/* Filters that call string methods without printing first fail on anything but strings. */
static bool need_str(qn_jrun *r, qn_jval v, const char *what)
{
    if (v.type == QN_J_UNDEF)
        qn_jundef_fail(r, v);
    else if (v.type != QN_J_STR)
        qn_jfail(r, "%s needs a string, not '%s'", what, qn_jtype_name(v));
    return qn_jok(r);
}

#define CASE_FILTER(name)                                                                          \
    QN_JFILTER(qn_jf_##name)                                                                       \
    {                                                                                              \
        (void)a, (void)raw;                                                                        \
        return qn_j##name(r, text(r, self));                                                       \
    }
CASE_FILTER(upper)
CASE_FILTER(lower)
CASE_FILTER(capitalize)

/* Words start after space, dash and opening brackets; unlike str.title(), digits and quotes do not
 * start one. */
QN_JFILTER(qn_jf_title)
{
    (void)a, (void)raw;
    const qn_jstr *s = text(r, self);
    qn_jsb b = { 0 };
    for (size_t i = 0; i < s->n && qn_jok(r);) {
        size_t from = i;
        uint32_t cp;
        bool separator = false;
        while (i < s->n && !separator) {
            int n = qn_utf8_decode(s->p + i, s->n - i, &cp);
            separator = qn_jis_space(cp) || (cp < 128 && strchr("-({[<", (int)cp) && cp);
            i += (size_t)n;
        }
        if (from < i) {
            size_t first = from + (size_t)qn_utf8_decode(s->p + from, s->n - from, &cp);
            qn_jsb_s(r, &b, qn_jupper(r, qn_jstr_ref(r, s->p + from, first - from).s).s);
            qn_jsb_s(r, &b, qn_jlower(r, qn_jstr_ref(r, s->p + first, i - first).s).s);
        }
    }
    return qn_jsb_done(r, &b);
}

QN_JFILTER(qn_jf_center)
{
    (void)raw;
    return qn_jpad(r, text(r, self), qn_jarg_int(r, a[0], 80), ' ', 0);
}

QN_JFILTER(qn_jf_trim)
{
    (void)raw;
    bool all = a[0].type == QN_J_MISSING || a[0].type == QN_J_NONE;
    return qn_jstrip(r, text(r, self), all ? NULL : qn_jarg_str(r, a[0], ""),
                     QN_JSTRIP_LEFT | QN_JSTRIP_RIGHT);
}

QN_JFILTER(qn_jf_replace)
{
    (void)raw;
    qn_jval s = qn_jto_str(r, self), old = qn_jto_str(r, a[0]), to = qn_jto_str(r, a[1]);
    int64_t max = a[2].type == QN_J_NONE ? -1 : qn_jarg_int(r, a[2], -1);
    return qn_jok(r) ? qn_jreplace(r, s.s, old.s, to.s, max) : s;
}

QN_JFILTER(qn_jf_string)
{
    (void)a, (void)raw;
    return qn_jsoft_str(r, self);
}

QN_JFILTER(qn_jf_safe)
{
    (void)a, (void)raw;
    return qn_jmarkup(r, qn_jsoft_str(r, self));
}

QN_JFILTER(qn_jf_escape)
{
    (void)a, (void)raw;
    return qn_jescape(r, self);
}

QN_JFILTER(qn_jf_forceescape)
{
    (void)a, (void)raw;
    return qn_jescape(r, qn_jto_str(r, self));
}

QN_JFILTER(qn_jf_format)
{
    (void)a;
    if (raw->n && raw->kw && raw->kw->n)
        return qn_jfail(r, "can't handle positional and keyword arguments at the same time");
    qn_jval args = qn_jlist_new(r, QN_J_TUPLE);
    for (size_t i = 0; i < raw->n; i++)
        qn_jlist_add(r, args.l, raw->v[i]);
    if (raw->kw && raw->kw->n)
        args = (qn_jval){ .type = QN_J_DICT, .m = (qn_jdict *)raw->kw };
    return qn_jpercent(r, text(r, self), args);
}

QN_JFILTER(qn_jf_indent)
{
    (void)raw;
    qn_jsb b = { 0 }, in = { 0 };
    if (!need_str(r, self, "indent"))
        return qn_jnone();
    if (a[0].type == QN_J_STR)
        qn_jsb_s(r, &in, a[0].s);
    else
        qn_jsb_fill(r, &in, ' ', qn_jarg_int(r, a[0], 4));
    bool blank = qn_jarg_bool(a[2], false);
    qn_jsb_s(r, &b, self.s);
    qn_jsb_str(r, &b, "\n"); /* so that a last empty line is seen */
    qn_jval whole = qn_jsb_done(r, &b), lines = qn_jsplitlines(r, whole.s, false);
    b = (qn_jsb){ 0 };
    if (qn_jarg_bool(a[1], false))
        qn_jsb_add(r, &b, in.p, in.n);
    for (size_t i = 0; i < lines.l->n && qn_jtick(r, 1); i++) {
        const qn_jstr *line = lines.l->v[i].s;
        if (i)
            qn_jsb_str(r, &b, "\n");
        if (i && (blank || line->n))
            qn_jsb_add(r, &b, in.p, in.n);
        qn_jsb_s(r, &b, line);
    }
    return qn_jstr_like(r, self.s, qn_jsb_done(r, &b));
}

QN_JFILTER(qn_jf_truncate)
{
    (void)raw;
    int64_t length = qn_jarg_int(r, a[0], 255);
    const qn_jstr *end = qn_jarg_str(r, a[2], "...");
    int64_t leeway = a[3].type == QN_J_NONE ? 5 : qn_jarg_int(r, a[3], 5);
    if (!qn_jok(r))
        return qn_jnone();
    if (length < (int64_t)end->chars)
        return qn_jfail(r, "expected length >= %u, got %lld", end->chars, (long long)length);
    if (leeway < 0)
        return qn_jfail(r, "expected leeway >= 0, got %lld", (long long)leeway);
    if (self.type != QN_J_STR) /* anything with a length passes while it is short */
        return qn_jlen(r, self) <= length + leeway ? self : qn_jfail(r, "truncate needs a string");
    if ((int64_t)self.s->chars <= length || (int64_t)self.s->chars - length <= leeway)
        return self;
    size_t cut = qn_jstr_at(self.s, (size_t)(length - end->chars));
    if (!qn_jarg_bool(a[1], false)) {
        size_t space = cut;
        while (space > 0 && self.s->p[space - 1] != ' ')
            space--;
        cut = space > 0 ? space - 1 : cut; /* without a space the whole piece stays */
    }
    qn_jsb b = { 0 };
    qn_jsb_add(r, &b, self.s->p, cut);
    qn_jsb_s(r, &b, end);
    return qn_jsb_done(r, &b);
}

QN_JFILTER(qn_jf_wordcount)
{
    (void)a, (void)raw;
    const qn_jstr *s = text(r, self);
    int64_t n = 0;
    bool in_word = false;
    for (size_t i = 0; i < s->n;) {
        uint32_t cp;
        i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        bool word = qn_jis_word(cp);
        n += word && !in_word;
        in_word = word;
    }
    return qn_jint(n);
}

/* Appends the text with runs of white space as one space and none at the ends. */
static qn_jval squeeze(qn_jrun *r, const qn_jstr *s)
{
    qn_jsb b = { 0 };
    bool gap = false;
    for (size_t i = 0; i < s->n && qn_jok(r);) {
        uint32_t cp;
        size_t n = (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (!qn_jis_space(cp)) {
            if (gap && b.n)
                qn_jsb_str(r, &b, " ");
            qn_jsb_add(r, &b, s->p + i, n);
        }
        gap = qn_jis_space(cp);
        i += n;
    }
    return qn_jsb_done(r, &b);
}

/* One HTML reference at p ("&lt;", "&#39;"), its character in *cp; its length, or 0. */
static size_t entity(const char *p, size_t n, uint32_t *cp)
{
    static const struct {
        const char *name;
        uint32_t cp;
    } names[] = { { "&amp;", '&' },  { "&lt;", '<' },    { "&gt;", '>' },
                  { "&quot;", '"' }, { "&apos;", '\'' }, { "&nbsp;", 0xA0 } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i].name);
        if (len <= n && memcmp(p, names[i].name, len) == 0) {
            *cp = names[i].cp;
            return len;
        }
    }
    if (n < 4 || p[1] != '#')
        return 0;
    bool hex = p[2] == 'x' || p[2] == 'X';
    size_t i = hex ? 3 : 2;
    const size_t first = i;
    uint64_t x = 0;
    for (; i < n && i < first + 8; i++) {
        int c = (unsigned char)p[i], d = c >= '0' && c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
        if (d < 0 || d >= (hex ? 16 : 10))
            break;
        x = x * (hex ? 16 : 10) + (unsigned)d;
    }
    if (i == first || i >= n || p[i] != ';')
        return 0;
    *cp = (uint32_t)x;
    return i + 1;
}

QN_JFILTER(qn_jf_striptags)
{
    (void)a, (void)raw;
    const qn_jstr *s = text(r, self);
    qn_jsb b = { 0 }, out = { 0 };
    for (size_t i = 0; i < s->n && qn_jtick(r, 1);) { /* comments first, then tags */
        const char *p = s->p + i, *end = s->p + s->n, *stop;
        bool comment = s->n - i >= 4 && memcmp(p, "<!--", 4) == 0;
        if (comment && (stop = qn_jfind(p, (size_t)(end - p), "-->", 3)))
            i = (size_t)(stop - s->p) + 3;
        else if (*p == '<' && !comment && (stop = memchr(p, '>', (size_t)(end - p))))
            i = (size_t)(stop - s->p) + 1;
        else
            qn_jsb_add(r, &b, s->p + i++, 1);
    }
    qn_jval squeezed = squeeze(r, qn_jsb_done(r, &b).s);
    for (size_t i = 0; squeezed.type == QN_J_STR && i < squeezed.s->n && qn_jok(r);) {
        uint32_t cp;
        const char *p = squeezed.s->p + i;
        size_t n = *p == '&' ? entity(p, squeezed.s->n - i, &cp) : 0;
        if (n)
            qn_jsb_cp(r, &out, cp);
        else
            qn_jsb_add(r, &out, p, 1);
        i += n ? n : 1;
    }
    return qn_jsb_done(r, &out);
}

/* --- URLs and attributes --- */

static void put_quoted(qn_jrun *r, qn_jsb *b, qn_jval v, bool query)
{
    const qn_jstr *s = text(r, v);
    for (size_t i = 0; i < s->n && qn_jok(r); i++) {
        unsigned char c = (unsigned char)s->p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr("_.-~", c)) || (c == '/' && !query);
        if (plain)
            qn_jsb_add(r, b, s->p + i, 1);
        else if (c == ' ' && query)
            qn_jsb_str(r, b, "+");
        else
            qn_jsb_printf(r, b, "%%%02X", c);
    }
}

QN_JFILTER(qn_jf_urlencode)
{
    (void)a, (void)raw;
    qn_jsb b = { 0 };
    qn_jval pair;
    if (self.type == QN_J_STR || !qn_jiterable(self)) {
        put_quoted(r, &b, self, false);
        return qn_jsb_done(r, &b);
    }
    if (self.type == QN_J_DICT)
        self = (qn_jval){ .type = QN_J_VIEW, .kind = QN_J_ITEMS, .m = self.m };
    qn_jiter *it = qn_jiter_open(r, self);
    for (bool first = true; it && qn_jiter_next(r, it, &pair); first = false) {
        qn_jval p = qn_jto_list(r, pair, QN_J_LIST);
        if (!qn_jok(r) || p.l->n != 2)
            return qn_jfail(r, "urlencode needs pairs");
        qn_jsb_str(r, &b, first ? "" : "&");
        put_quoted(r, &b, p.l->v[0], true);
        qn_jsb_str(r, &b, "=");
        put_quoted(r, &b, p.l->v[1], true);
    }
    return qn_jsb_done(r, &b);
}

QN_JFILTER(qn_jf_xmlattr)
{
    (void)raw;
    qn_jsb b = { 0 };
    if (self.type == QN_J_UNDEF)
        return qn_jundef_fail(r, self);
    if (self.type != QN_J_DICT)
        return qn_jfail(r, "'%s' object has no attribute 'items'", qn_jtype_name(self));
    for (size_t i = 0; i < self.m->n && qn_jtick(r, 1); i++) {
        const qn_jentry *e = &self.m->v[i];
        if (e->val.type == QN_J_NONE || e->val.type == QN_J_UNDEF)
            continue;
        if (e->key.type != QN_J_STR)
            return qn_jfail(r, "expected string or bytes-like object, got '%s'",
                            qn_jtype_name(e->key));
        for (size_t k = 0; k < e->key.s->n; k++)
            if (e->key.s->p[k] && strchr(" \t\n\r\f\v/>=", e->key.s->p[k]))
                return qn_jfail(r, "Invalid character in attribute name: %s", qn_jshort(r, e->key));
        if (b.n || qn_jarg_bool(a[0], true))
            qn_jsb_str(r, &b, " ");
        qn_jput_str(r, &b, qn_jescape(r, e->key));
        qn_jsb_str(r, &b, "=\"");
        qn_jput_str(r, &b, qn_jescape(r, e->val));
        qn_jsb_str(r, &b, "\"");
    }
    return qn_jsb_done(r, &b);
}
