/* jinja_methods.c - the methods of strings that templates call, with Python's signatures.
 * Lists, dicts and the other types have theirs in jinja_attr.c. */
#include "base/utf8.h"
#include "tokenizer/jinja_eval.h"

#define METHOD(name)                                                                               \
    static qn_jval m_##name(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
#define UNUSED() (void)a, (void)raw

static qn_jval same(const qn_jstr *s)
{
    return (qn_jval){ .type = QN_J_STR, .s = s };
}

/* None and absent both mean "whitespace" (or "no limit") to Python's string methods. */
static bool given(qn_jval v)
{
    return v.type != QN_J_MISSING && v.type != QN_J_NONE;
}

/* --- case and classes --- */

#define CASE_METHOD(name)                                                                          \
    METHOD(name)                                                                                   \
    {                                                                                              \
        UNUSED();                                                                                  \
        return qn_j##name(r, self.s);                                                              \
    }
CASE_METHOD(upper)
CASE_METHOD(lower)
CASE_METHOD(title)
CASE_METHOD(capitalize)
CASE_METHOD(swapcase)
CASE_METHOD(casefold)

#define CLASS_METHOD(name, what)                                                                   \
    METHOD(name)                                                                                   \
    {                                                                                              \
        UNUSED();                                                                                  \
        (void)r;                                                                                   \
        return qn_jbool(what);                                                                     \
    }
CLASS_METHOD(isalpha, qn_jis_class(self.s, QN_JC_ALPHA))
CLASS_METHOD(isdigit, qn_jis_class(self.s, QN_JC_DIGIT))
CLASS_METHOD(isdecimal, qn_jis_class(self.s, QN_JC_DECIMAL))
CLASS_METHOD(isnumeric, qn_jis_class(self.s, QN_JC_NUMERIC))
CLASS_METHOD(isalnum, qn_jis_class(self.s, QN_JC_ALNUM))
CLASS_METHOD(isspace, qn_jis_class(self.s, QN_JC_SPACE))
CLASS_METHOD(isprintable, qn_jis_class(self.s, QN_JC_PRINTABLE))
CLASS_METHOD(isascii, qn_jis_class(self.s, QN_JC_ASCII))
CLASS_METHOD(isupper, qn_jis_cased(self.s, true))
CLASS_METHOD(islower, qn_jis_cased(self.s, false))
CLASS_METHOD(istitle, qn_jis_title(self.s))
CLASS_METHOD(isidentifier, qn_jis_identifier(self.s))

/* --- stripping and padding --- */

static qn_jval strip(qn_jrun *r, qn_jval self, qn_jval chars, int sides)
{
    return qn_jstrip(r, self.s, given(chars) ? qn_jarg_str(r, chars, "") : NULL, sides);
}

METHOD(strip)
{
    (void)raw;
    return strip(r, self, a[0], QN_JSTRIP_LEFT | QN_JSTRIP_RIGHT);
}

METHOD(lstrip)
{
    (void)raw;
    return strip(r, self, a[0], QN_JSTRIP_LEFT);
}

METHOD(rstrip)
{
    (void)raw;
    return strip(r, self, a[0], QN_JSTRIP_RIGHT);
}

static qn_jval pad(qn_jrun *r, qn_jval self, const qn_jval *a, int align)
{
    uint32_t fill = ' ';
    const qn_jstr *f = qn_jarg_str(r, a[1], " ");
    if (f->chars != 1)
        return qn_jfail(r, "The fill character must be exactly one character long");
    qn_utf8_decode(f->p, f->n, &fill);
    return qn_jpad(r, self.s, qn_jarg_int(r, a[0], 0), fill, align);
}

METHOD(center)
{
    (void)raw;
    return pad(r, self, a, 0);
}

METHOD(ljust)
{
    (void)raw;
    return pad(r, self, a, -1);
}

METHOD(rjust)
{
    (void)raw;
    return pad(r, self, a, 1);
}

METHOD(zfill)
{
    (void)raw;
    int64_t width = qn_jarg_int(r, a[0], 0);
    bool sign = self.s->n && (self.s->p[0] == '-' || self.s->p[0] == '+');
    qn_jsb b = { 0 };
    qn_jsb_add(r, &b, self.s->p, sign);
    qn_jsb_fill(r, &b, '0', width - (int64_t)self.s->chars);
    qn_jsb_add(r, &b, self.s->p + sign, self.s->n - sign);
    return qn_jsb_done(r, &b);
}

METHOD(expandtabs)
{
    (void)raw;
    int64_t size = qn_jarg_int(r, a[0], 8), column = 0;
    qn_jsb b = { 0 };
    for (size_t i = 0; i < self.s->n && qn_jok(r);) {
        uint32_t cp;
        size_t n = (size_t)qn_utf8_decode(self.s->p + i, self.s->n - i, &cp);
        int64_t spaces = cp == '\t' && size > 0 ? size - column % size : 0;
        qn_jsb_fill(r, &b, ' ', spaces);
        if (cp != '\t')
            qn_jsb_add(r, &b, self.s->p + i, n);
        column = cp == '\n' || cp == '\r' ? 0 : column + spaces + (cp != '\t');
        i += n;
    }
    return qn_jsb_done(r, &b);
}

/* --- splitting and joining --- */

/* Splits at runs of whitespace from the left. */
static void split_space(qn_jrun *r, const qn_jstr *s, int64_t max, qn_jlist *out)
{
    size_t i = 0;
    uint32_t cp;
    for (;;) {
        while (i < s->n && (qn_utf8_decode(s->p + i, s->n - i, &cp), qn_jis_space(cp)))
            i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        if (i >= s->n || !qn_jtick(r, 1))
            return;
        size_t from = i;
        if (max-- == 0) { /* the rest, with the space that ends it */
            qn_jlist_add(r, out, qn_jstr_cut(r, s, from, s->n));
            return;
        }
        while (i < s->n && (qn_utf8_decode(s->p + i, s->n - i, &cp), !qn_jis_space(cp)))
            i += (size_t)qn_utf8_decode(s->p + i, s->n - i, &cp);
        qn_jlist_add(r, out, qn_jstr_cut(r, s, from, i));
    }
}

static void rsplit_space(qn_jrun *r, const qn_jstr *s, int64_t max, qn_jlist *out)
{
    size_t end = s->n, at;
    uint32_t cp;
    for (;;) {
        while (end > 0 && (at = qn_jprev(s->p, end, &cp), qn_jis_space(cp)))
            end = at;
        if (end == 0 || !qn_jtick(r, 1))
            return;
        if (max-- == 0) {
            qn_jlist_add(r, out, qn_jstr_cut(r, s, 0, end));
            return;
        }
        size_t from = end;
        while (from > 0 && (at = qn_jprev(s->p, from, &cp), !qn_jis_space(cp)))
            from = at;
        qn_jlist_add(r, out, qn_jstr_cut(r, s, from, end));
        end = from;
    }
}

static void split_at(qn_jrun *r, const qn_jstr *s, const qn_jstr *sep, int64_t max, qn_jlist *out)
{
    const char *p = s->p, *end = s->p + s->n, *hit;
    while (max-- != 0 && qn_jtick(r, 1) && (hit = qn_jfind(p, (size_t)(end - p), sep->p, sep->n))) {
        qn_jlist_add(r, out, qn_jstr_cut(r, s, (size_t)(p - s->p), (size_t)(hit - s->p)));
        p = hit + sep->n;
    }
    qn_jlist_add(r, out, qn_jstr_cut(r, s, (size_t)(p - s->p), s->n));
}

/* The last occurrence of q that ends at or before p + n. */
static const char *find_last(const char *p, size_t n, const qn_jstr *q)
{
    if (q->n > n)
        return NULL;
    for (const char *c = p + n - q->n;; c--) {
        if (memcmp(c, q->p, q->n) == 0)
            return c;
        if (c == p)
            return NULL;
    }
}

static void rsplit_at(qn_jrun *r, const qn_jstr *s, const qn_jstr *sep, int64_t max, qn_jlist *out)
{
    size_t end = s->n;
    const char *hit;
    while (max-- != 0 && qn_jtick(r, 1) && (hit = find_last(s->p, end, sep))) {
        qn_jlist_add(r, out, qn_jstr_cut(r, s, (size_t)(hit - s->p) + sep->n, end));
        end = (size_t)(hit - s->p);
    }
    qn_jlist_add(r, out, qn_jstr_cut(r, s, 0, end));
}

static qn_jval split(qn_jrun *r, qn_jval self, const qn_jval *a, bool from_right)
{
    qn_jval list = qn_jlist_new(r, QN_J_LIST);
    int64_t max = qn_jarg_int(r, a[1], -1);
    if (!given(a[0])) {
        (from_right ? rsplit_space : split_space)(r, self.s, max, list.l);
    } else {
        const qn_jstr *sep = qn_jarg_str(r, a[0], "");
        if (!qn_jok(r) || sep->n == 0)
            return qn_jfail(r, "empty separator");
        (from_right ? rsplit_at : split_at)(r, self.s, sep, max, list.l);
    }
    for (size_t i = 0; from_right && i < list.l->n / 2; i++) {
        qn_jval *x = &list.l->v[i], *y = &list.l->v[list.l->n - 1 - i], t = *x;
        *x = *y;
        *y = t;
    }
    return list;
}

METHOD(split)
{
    (void)raw;
    return split(r, self, a, false);
}

METHOD(rsplit)
{
    (void)raw;
    return split(r, self, a, true);
}

METHOD(splitlines)
{
    (void)raw;
    return qn_jsplitlines(r, self.s, qn_jarg_bool(a[0], false));
}

static qn_jval partition(qn_jrun *r, qn_jval self, qn_jval sep_val, bool from_right)
{
    const qn_jstr *s = self.s, *sep = qn_jarg_str(r, sep_val, "");
    if (!qn_jok(r) || sep->n == 0)
        return qn_jfail(r, "empty separator");
    const char *hit =
        from_right ? find_last(s->p, s->n, sep) : qn_jfind(s->p, s->n, sep->p, sep->n);
    qn_jval t = qn_jlist_new(r, QN_J_TUPLE), none = qn_jstr_z(r, "");
    size_t at = hit ? (size_t)(hit - s->p) : from_right ? 0 : s->n;
    qn_jlist_add(r, t.l, hit || !from_right ? qn_jstr_cut(r, s, 0, at) : none);
    qn_jlist_add(r, t.l, hit ? same(sep) : none);
    qn_jlist_add(r, t.l, hit ? qn_jstr_cut(r, s, at + sep->n, s->n) : from_right ? self : none);
    return t;
}

METHOD(partition)
{
    (void)raw;
    return partition(r, self, a[0], false);
}

METHOD(rpartition)
{
    (void)raw;
    return partition(r, self, a[0], true);
}

METHOD(join)
{
    (void)raw;
    qn_jiter *it = qn_jiter_open(r, a[0]);
    qn_jsb b = { 0 };
    qn_jval x;
    for (int64_t i = 0; it && qn_jiter_next(r, it, &x); i++) {
        if (x.type != QN_J_STR)
            return qn_jfail(r, "sequence item %lld: expected str instance, %s found", (long long)i,
                            qn_jtype_name(x));
        if (i)
            qn_jsb_s(r, &b, self.s);
        if (self.s->markup)
            x = qn_jescape(r, x);
        qn_jsb_s(r, &b, x.s);
    }
    return qn_jstr_like(r, self.s, qn_jsb_done(r, &b));
}

/* --- searching --- */

/* The byte range [from, to) that optional start and end arguments select. false: nothing there. */
static bool window(qn_jrun *r, const qn_jstr *s, const qn_jval *a, size_t *from, size_t *to)
{
    int64_t n = s->chars, start = given(a[0]) ? qn_jarg_int(r, a[0], 0) : 0;
    int64_t end = given(a[1]) ? qn_jarg_int(r, a[1], 0) : n;
    start = start < 0 ? (start + n < 0 ? 0 : start + n) : start;
    end = end < 0 ? (end + n < 0 ? 0 : end + n) : end > n ? n : end;
    if (start > end)
        return false;
    *from = qn_jstr_at(s, (size_t)start);
    *to = qn_jstr_at(s, (size_t)end);
    return true;
}

static int64_t find(qn_jrun *r, qn_jval self, const qn_jval *a, bool last)
{
    const qn_jstr *s = self.s, *q = qn_jarg_str(r, a[0], "");
    size_t from, to;
    if (!qn_jtick(r, (uint64_t)(s->n / 64) * (1 + (last ? q->n / 8 : 4))) ||
        !window(r, s, a + 1, &from, &to))
        return -1;
    const char *hit =
        last ? find_last(s->p + from, to - from, q) : qn_jfind(s->p + from, to - from, q->p, q->n);
    return hit ? (int64_t)qn_jcount_chars(s->p, (size_t)(hit - s->p)) : -1;
}

METHOD(find)
{
    (void)raw;
    return qn_jint(find(r, self, a, false));
}

METHOD(rfind)
{
    (void)raw;
    return qn_jint(find(r, self, a, true));
}

METHOD(index)
{
    (void)raw;
    int64_t at = find(r, self, a, false);
    return at < 0 ? qn_jfail(r, "substring not found") : qn_jint(at);
}

METHOD(rindex)
{
    (void)raw;
    int64_t at = find(r, self, a, true);
    return at < 0 ? qn_jfail(r, "substring not found") : qn_jint(at);
}

METHOD(count)
{
    (void)raw;
    const qn_jstr *s = self.s, *q = qn_jarg_str(r, a[0], "");
    size_t from, to;
    int64_t n = 0;
    if (!window(r, s, a + 1, &from, &to))
        return qn_jint(0);
    if (q->n == 0)
        return qn_jint((int64_t)qn_jcount_chars(s->p + from, to - from) + 1);
    const char *p = s->p + from, *end = s->p + to;
    while (qn_jtick(r, 1) && (p = qn_jfind(p, (size_t)(end - p), q->p, q->n))) {
        p += q->n;
        n++;
    }
    return qn_jint(n);
}

static bool affix_is(const char *p, size_t n, const qn_jstr *q, bool at_end)
{
    return q->n <= n && memcmp(at_end ? p + n - q->n : p, q->p, q->n) == 0;
}

static qn_jval has_affix(qn_jrun *r, qn_jval self, const qn_jval *a, bool at_end)
{
    size_t from, to;
    if (a[0].type != QN_J_STR && a[0].type != QN_J_TUPLE)
        return qn_jfail(r, "%s first arg must be str or a tuple of str, not %s",
                        at_end ? "endswith" : "startswith", qn_jtype_name(a[0]));
    if (!window(r, self.s, a + 1, &from, &to))
        return qn_jbool(false);
    size_t n = a[0].type == QN_J_TUPLE ? a[0].l->n : 1;
    for (size_t i = 0; i < n; i++) {
        qn_jval q = a[0].type == QN_J_TUPLE ? a[0].l->v[i] : a[0];
        if (q.type != QN_J_STR)
            return qn_jfail(r, "tuple for startswith must only contain str, not %s",
                            qn_jtype_name(q));
        if (affix_is(self.s->p + from, to - from, q.s, at_end))
            return qn_jbool(true);
    }
    return qn_jbool(false);
}

METHOD(startswith)
{
    (void)raw;
    return has_affix(r, self, a, false);
}

METHOD(endswith)
{
    (void)raw;
    return has_affix(r, self, a, true);
}

METHOD(removeprefix)
{
    (void)raw;
    const qn_jstr *q = qn_jarg_str(r, a[0], "");
    bool has = affix_is(self.s->p, self.s->n, q, false);
    return has ? qn_jstr_cut(r, self.s, q->n, self.s->n) : self;
}

METHOD(removesuffix)
{
    (void)raw;
    const qn_jstr *q = qn_jarg_str(r, a[0], "");
    bool has = affix_is(self.s->p, self.s->n, q, true);
    return has ? qn_jstr_cut(r, self.s, 0, self.s->n - q->n) : self;
}

METHOD(replace)
{
    (void)raw;
    const qn_jstr *from = qn_jarg_str(r, a[0], ""), *to = qn_jarg_str(r, a[1], "");
    int64_t max = qn_jarg_int(r, a[2], -1);
    return qn_jok(r) ? qn_jstr_like(r, self.s, qn_jreplace(r, self.s, from, to, max)) : self;
}

/* --- formatting --- */

METHOD(format)
{
    (void)a;
    return qn_jformat(r, self.s, raw);
}

METHOD(format_map)
{
    (void)raw;
    if (a[0].type != QN_J_DICT)
        return qn_jfail(r, "format_map() needs a mapping, not '%s'", qn_jtype_name(a[0]));
    const qn_jargs args = { .kw = a[0].m };
    return qn_jformat(r, self.s, &args);
}

METHOD(refused)
{
    UNUSED();
    (void)self;
    return qn_jfail(r, "this string method is not supported in templates");
}

static const qn_jbuiltin str_methods[] = {
    { "capitalize", m_capitalize, "", 0 },
    { "casefold", m_casefold, "", 0 },
    { "center", m_center, "/width fill", 1 },
    { "count", m_count, "/sub start end", 1 },
    { "encode", m_refused, NULL, 0 },
    { "endswith", m_endswith, "/suffix start end", 1 },
    { "expandtabs", m_expandtabs, "tabsize", 0 },
    { "find", m_find, "/sub start end", 1 },
    { "format", m_format, NULL, 0 },
    { "format_map", m_format_map, "/map", 1 },
    { "index", m_index, "/sub start end", 1 },
    { "isalnum", m_isalnum, "", 0 },
    { "isalpha", m_isalpha, "", 0 },
    { "isascii", m_isascii, "", 0 },
    { "isdecimal", m_isdecimal, "", 0 },
    { "isdigit", m_isdigit, "", 0 },
    { "isidentifier", m_isidentifier, "", 0 },
    { "islower", m_islower, "", 0 },
    { "isnumeric", m_isnumeric, "", 0 },
    { "isprintable", m_isprintable, "", 0 },
    { "isspace", m_isspace, "", 0 },
    { "istitle", m_istitle, "", 0 },
    { "isupper", m_isupper, "", 0 },
    { "join", m_join, "/iterable", 1 },
    { "ljust", m_ljust, "/width fill", 1 },
    { "lower", m_lower, "", 0 },
    { "lstrip", m_lstrip, "/chars", 0 },
    { "maketrans", m_refused, NULL, 0 },
    { "partition", m_partition, "/sep", 1 },
    { "removeprefix", m_removeprefix, "/prefix", 1 },
    { "removesuffix", m_removesuffix, "/suffix", 1 },
    { "replace", m_replace, "/old new count", 2 },
    { "rfind", m_rfind, "/sub start end", 1 },
    { "rindex", m_rindex, "/sub start end", 1 },
    { "rjust", m_rjust, "/width fill", 1 },
    { "rpartition", m_rpartition, "/sep", 1 },
    { "rsplit", m_rsplit, "sep maxsplit", 0 },
    { "rstrip", m_rstrip, "/chars", 0 },
    { "split", m_split, "sep maxsplit", 0 },
    { "splitlines", m_splitlines, "keepends", 0 },
    { "startswith", m_startswith, "/prefix start end", 1 },
    { "strip", m_strip, "/chars", 0 },
    { "swapcase", m_swapcase, "", 0 },
    { "title", m_title, "", 0 },
    { "translate", m_refused, NULL, 0 },
    { "upper", m_upper, "", 0 },
    { "zfill", m_zfill, "/width", 1 },
    { 0 },
};

bool qn_jstr_method(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out)
{
    const qn_jbuiltin *fn = qn_jfind_in(str_methods, name->p, name->n);
    if (fn)
        *out = qn_jmethod_new(r, self, fn);
    return fn != NULL;
}
