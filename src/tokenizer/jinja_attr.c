/* jinja_attr.c - what `x.name` and `x[key]` find: methods of lists, dicts and numbers, fields of the
 * evaluator's objects, and the sandbox's refusals (mutation, underscored names). */
#include <math.h>

#include "tokenizer/jinja_eval.h"

#define METHOD(name)                                                                               \
    static qn_jval m_##name(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)

qn_jval qn_jmethod_new(qn_jrun *r, qn_jval self, const qn_jbuiltin *fn)
{
    qn_jmethod *m = qn_jalloc(r, sizeof *m);
    *m = (qn_jmethod){ .self = self, .fn = fn };
    return (qn_jval){ .type = QN_J_METHOD, .p = m };
}

/* --- lists, tuples, ranges --- */

METHOD(seq_count)
{
    (void)raw;
    int64_t n = 0;
    qn_jiter *it = qn_jiter_open(r, self);
    qn_jval x;
    while (it && qn_jiter_next(r, it, &x))
        n += qn_jeq(r, x, a[0]);
    return qn_jint(n);
}

METHOD(seq_index)
{
    (void)raw;
    int64_t n = qn_jlen(r, self), start = qn_jarg_int(r, a[1], 0), end = qn_jarg_int(r, a[2], n);
    start = start < 0 ? start + n : start;
    end = end < 0 ? end + n : end;
    qn_jiter *it = qn_jiter_open(r, self);
    qn_jval x;
    for (int64_t i = 0; it && i < end && qn_jiter_next(r, it, &x); i++)
        if (i >= start && qn_jeq(r, x, a[0]))
            return qn_jint(i);
    return qn_jfail(r, "%s is not in list", qn_jshort(r, a[0]));
}

METHOD(list_copy)
{
    (void)a, (void)raw;
    return qn_jto_list(r, self, QN_J_LIST);
}

METHOD(refused)
{
    (void)a, (void)raw, (void)self;
    return qn_jfail(r, "this method is not supported in templates");
}

static const qn_jbuiltin seq_methods[] = {
    { "count", m_seq_count, "/value", 1 },
    { "index", m_seq_index, "/value start stop", 1 },
    { 0 },
};

static const qn_jbuiltin list_copy = { "copy", m_list_copy, "", 0 };

bool qn_jseq_method(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out)
{
    const qn_jbuiltin *fn = qn_jfind_in(seq_methods, name->p, name->n);
    if (self.type == QN_J_LIST && qn_jstr_is(name, "copy"))
        fn = &list_copy;
    if (fn) {
        *out = qn_jmethod_new(r, self, fn);
    } else if (self.type == QN_J_TUPLE && self.l->group && qn_jstr_is(name, "grouper")) {
        *out = self.l->v[0];
    } else if (self.type == QN_J_TUPLE && self.l->group && qn_jstr_is(name, "list")) {
        *out = self.l->v[1];
    } else if (self.type == QN_J_RANGE && qn_jstr_is(name, "start")) {
        *out = qn_jint(self.r->start);
    } else if (self.type == QN_J_RANGE && qn_jstr_is(name, "stop")) {
        *out = qn_jint(self.r->stop);
    } else if (self.type == QN_J_RANGE && qn_jstr_is(name, "step")) {
        *out = qn_jint(self.r->step);
    } else {
        return false;
    }
    return true;
}

/* --- dicts --- */

METHOD(dict_get)
{
    (void)raw;
    qn_jval v;
    if (!qn_jhashable(r, a[0]))
        return qn_jfail(r, "unhashable type: '%s'", qn_jtype_name(a[0]));
    if (qn_jdict_get(r, self.m, a[0], &v))
        return v;
    return a[1].type == QN_J_MISSING ? qn_jnone() : a[1];
}

static qn_jval view(qn_jval self, qn_jview_kind kind)
{
    return (qn_jval){ .type = QN_J_VIEW, .kind = (uint8_t)kind, .m = self.m };
}

METHOD(dict_keys)
{
    (void)r, (void)a, (void)raw;
    return view(self, QN_J_KEYS);
}

METHOD(dict_values)
{
    (void)r, (void)a, (void)raw;
    return view(self, QN_J_VALUES);
}

METHOD(dict_items)
{
    (void)r, (void)a, (void)raw;
    return view(self, QN_J_ITEMS);
}

METHOD(dict_copy)
{
    (void)a, (void)raw;
    qn_jval d = qn_jdict_new(r);
    qn_jdict_update(r, d.m, self.m);
    return d;
}

METHOD(dict_fromkeys)
{
    (void)raw, (void)self;
    qn_jval d = qn_jdict_new(r), x;
    qn_jiter *it = qn_jiter_open(r, a[0]);
    while (it && qn_jiter_next(r, it, &x))
        qn_jdict_set(r, d.m, x, a[1].type == QN_J_MISSING ? qn_jnone() : a[1]);
    return d;
}

static const qn_jbuiltin dict_methods[] = {
    { "get", m_dict_get, "/key default", 1 },
    { "items", m_dict_items, "", 0 },
    { "keys", m_dict_keys, "", 0 },
    { "values", m_dict_values, "", 0 },
    { "copy", m_dict_copy, "", 0 },
    { "fromkeys", m_dict_fromkeys, "/keys value", 1 },
    { 0 },
};

bool qn_jdict_method(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out)
{
    const qn_jbuiltin *fn = qn_jfind_in(dict_methods, name->p, name->n);
    if (fn)
        *out = qn_jmethod_new(r, self, fn);
    return fn != NULL;
}

/* --- numbers --- */

METHOD(bit_length)
{
    (void)r, (void)a, (void)raw;
    int64_t i = qn_jas_int(self);
    uint64_t x = i < 0 ? (uint64_t)0 - (uint64_t)i : (uint64_t)i;
    return qn_jint(x ? 64 - __builtin_clzll(x) : 0);
}

METHOD(is_integer)
{
    (void)r, (void)a, (void)raw;
    return qn_jbool(isfinite(self.d) && self.d == floor(self.d));
}

METHOD(conjugate)
{
    (void)r, (void)a, (void)raw;
    return self;
}

static const qn_jbuiltin int_methods[] = {
    { "bit_length", m_bit_length, "", 0 },
    { "conjugate", m_conjugate, "", 0 },
    { "bit_count", m_refused, NULL, 0 },
    { "to_bytes", m_refused, NULL, 0 },
    { "from_bytes", m_refused, NULL, 0 },
    { "as_integer_ratio", m_refused, NULL, 0 },
    { 0 },
};

static const qn_jbuiltin float_methods[] = {
    { "is_integer", m_is_integer, "", 0 },
    { "conjugate", m_conjugate, "", 0 },
    { "hex", m_refused, NULL, 0 },
    { "fromhex", m_refused, NULL, 0 },
    { "as_integer_ratio", m_refused, NULL, 0 },
    { 0 },
};

static bool number_attr(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out)
{
    bool is_float = self.type == QN_J_FLOAT;
    const qn_jbuiltin *fn = qn_jfind_in(is_float ? float_methods : int_methods, name->p, name->n);
    if (fn)
        *out = qn_jmethod_new(r, self, fn);
    else if (qn_jstr_is(name, "real") || (!is_float && qn_jstr_is(name, "numerator")))
        *out = is_float ? self : qn_jint(qn_jas_int(self));
    else if (qn_jstr_is(name, "imag"))
        *out = is_float ? qn_jfloat(0) : qn_jint(0);
    else if (!is_float && qn_jstr_is(name, "denominator"))
        *out = qn_jint(1);
    else
        return false;
    return true;
}

/* --- the evaluator's objects --- */

METHOD(cycler_next)
{
    (void)r, (void)a, (void)raw;
    qn_jcycler *c = self.p;
    qn_jval v = c->items->v[c->pos];
    c->pos = (c->pos + 1) % c->items->n;
    return v;
}

METHOD(cycler_reset)
{
    (void)r, (void)a, (void)raw;
    ((qn_jcycler *)self.p)->pos = 0;
    return qn_jnone();
}

static const qn_jbuiltin cycler_methods[] = {
    { "next", m_cycler_next, "", 0 },
    { "reset", m_cycler_reset, "", 0 },
    { 0 },
};

static bool cycler_attr(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out)
{
    const qn_jcycler *c = self.p;
    const qn_jbuiltin *fn = qn_jfind_in(cycler_methods, name->p, name->n);
    if (fn)
        *out = qn_jmethod_new(r, self, fn);
    else if (qn_jstr_is(name, "current"))
        *out = c->items->v[c->pos];
    else if (qn_jstr_is(name, "pos"))
        *out = qn_jint((int64_t)c->pos);
    else if (qn_jstr_is(name, "items"))
        *out = (qn_jval){ .type = QN_J_TUPLE, .l = c->items };
    else
        return false;
    return true;
}

static bool macro_attr(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out)
{
    const qn_jnode *n = ((const qn_jmacro *)self.p)->node;
    if (qn_jstr_is(name, "name")) {
        *out = n->kind == QN_JN_MACRO ? n->name : qn_jnone();
    } else if (qn_jstr_is(name, "arguments")) {
        *out = qn_jlist_new(r, QN_J_TUPLE);
        for (size_t i = 0; i < n->more.n; i++)
            qn_jlist_add(r, out->l, n->more.v[i]->name);
    } else if (qn_jstr_is(name, "catch_kwargs")) {
        *out = qn_jbool(n->frame->kwargs.slot != UINT16_MAX);
    } else if (qn_jstr_is(name, "catch_varargs")) {
        *out = qn_jbool(n->frame->varargs.slot != UINT16_MAX);
    } else if (qn_jstr_is(name, "caller")) {
        *out = qn_jbool(n->frame->caller.slot != UINT16_MAX);
    } else {
        return false;
    }
    return true;
}

static bool self_attr(qn_jrun *r, const qn_jstr *name, qn_jval *out)
{
    const qn_jnodes *blocks = &r->eval->tree->blocks;
    for (size_t i = 0; i < blocks->n; i++)
        if (blocks->v[i]->name.s->n == name->n &&
            memcmp(blocks->v[i]->name.s->p, name->p, name->n) == 0) {
            *out = (qn_jval){ .type = QN_J_BLOCK, .p = blocks->v[i] };
            return true;
        }
    return false;
}

bool qn_jobject_attr(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out)
{
    switch ((qn_jtype)self.type) {
    case QN_J_NAMESPACE:
        return qn_jdict_get(r, self.m, (qn_jval){ .type = QN_J_STR, .s = name }, out);
    case QN_J_LOOP:
        return qn_jloop_attr(r, self, name, out);
    case QN_J_CYCLER:
        return cycler_attr(r, self, name, out);
    case QN_J_MACRO:
        return macro_attr(r, self, name, out);
    case QN_J_SELF:
        return self_attr(r, name, out);
    case QN_J_JOINER:
        if (qn_jstr_is(name, "sep"))
            *out = ((qn_jjoiner *)self.p)->sep;
        else if (qn_jstr_is(name, "used"))
            *out = qn_jbool(((qn_jjoiner *)self.p)->used);
        else
            return false;
        return true;
    case QN_J_FUNC:
        if (!qn_jstr_is(name, "fromkeys") || strcmp(self.fn->name, "dict") != 0)
            return false;
        *out = qn_jmethod_new(r, self, qn_jfind_in(dict_methods, "fromkeys", 8));
        return true;
    default:
        return false;
    }
}

/* --- lookup --- */

static bool in_words(const qn_jstr *name, const char *const *words)
{
    for (; *words; words++)
        if (qn_jstr_is(name, *words))
            return true;
    return false;
}

/* Attributes that exist in Python and that the immutable sandbox keeps from templates. */
static bool is_unsafe(qn_jval obj, const qn_jstr *name)
{
    static const char *const list_words[] = { "append", "clear",  "pop",    "reverse", "insert",
                                              "sort",   "extend", "remove", NULL };
    static const char *const dict_words[] = { "clear",      "pop",    "popitem",
                                              "setdefault", "update", NULL };
    if (name->n >= 2 && name->p[0] == '_' && name->p[1] == '_')
        return true;
    return (obj.type == QN_J_LIST && in_words(name, list_words)) ||
           (obj.type == QN_J_DICT && in_words(name, dict_words));
}

static bool attribute(qn_jrun *r, qn_jval obj, const qn_jstr *name, qn_jval *out)
{
    switch ((qn_jtype)obj.type) {
    case QN_J_STR:
        return qn_jstr_method(r, obj, name, out);
    case QN_J_LIST:
    case QN_J_TUPLE:
    case QN_J_RANGE:
        return qn_jseq_method(r, obj, name, out);
    case QN_J_DICT:
        return qn_jdict_method(r, obj, name, out);
    case QN_J_BOOL:
    case QN_J_INT:
    case QN_J_FLOAT:
        return number_attr(r, obj, name, out);
    default:
        return qn_jobject_attr(r, obj, name, out);
    }
}

static qn_jval unsafe(qn_jrun *r, qn_jval obj, qn_jval name)
{
    return qn_jundef_hint(r, "access to attribute %s of '%s' object is unsafe.", qn_jshort(r, name),
                          qn_jtype_name(obj));
}

/* obj[key] alone; false when Python would raise TypeError or LookupError. */
static bool item(qn_jrun *r, qn_jval obj, qn_jval key, qn_jval *out)
{
    if (obj.type == QN_J_DICT)
        return qn_jhashable(r, key) && qn_jdict_get(r, obj.m, key, out);
    if ((obj.type != QN_J_STR && !qn_jis_seq(obj) && obj.type != QN_J_RANGE) || !qn_jis_int(key))
        return false;
    int64_t n = qn_jlen(r, obj), i = qn_jas_int(key);
    i = i < 0 ? i + n : i;
    if (i < 0 || i >= n)
        return false;
    if (qn_jis_seq(obj)) {
        *out = obj.l->v[i];
    } else if (obj.type == QN_J_RANGE) {
        *out = qn_jint(obj.r->start + i * obj.r->step);
    } else {
        size_t at = qn_jstr_at(obj.s, (size_t)i), end = qn_jstr_at(obj.s, (size_t)i + 1);
        qn_jtick(r, obj.s->n == obj.s->chars ? 0 : at / 32);
        *out = qn_jstr_cut(r, obj.s, at, end);
    }
    return true;
}

qn_jval qn_jgetattr(qn_jrun *r, qn_jval obj, qn_jval name)
{
    qn_jval v = qn_jnone();
    if (!qn_jok(r))
        return v;
    if (is_unsafe(obj, name.s))
        return unsafe(r, obj, name);
    if (obj.type == QN_J_UNDEF)
        return qn_jundef_fail(r, obj);
    if (attribute(r, obj, name.s, &v) || item(r, obj, name, &v))
        return v;
    return qn_jundef_in(r, obj, name);
}

qn_jval qn_jgetitem(qn_jrun *r, qn_jval obj, qn_jval key)
{
    qn_jval v = qn_jnone();
    if (!qn_jok(r))
        return v;
    if (obj.type == QN_J_UNDEF)
        return qn_jundef_fail(r, obj);
    if (item(r, obj, key, &v) || !qn_jok(r))
        return v;
    if (key.type == QN_J_STR) {
        if (is_unsafe(obj, key.s))
            return unsafe(r, obj, key);
        if (attribute(r, obj, key.s, &v))
            return v;
    }
    return qn_jundef_in(r, obj, key);
}

qn_jval qn_jattr_only(qn_jrun *r, qn_jval obj, qn_jval name)
{
    qn_jval v = qn_jnone();
    if (name.type != QN_J_STR)
        return qn_jfail(r, "attribute name must be string, not '%s'", qn_jtype_name(name));
    if (obj.type == QN_J_UNDEF)
        return qn_jundef_fail(r, obj);
    if (is_unsafe(obj, name.s))
        return unsafe(r, obj, name);
    return attribute(r, obj, name.s, &v) ? v : qn_jundef_in(r, obj, name);
}
