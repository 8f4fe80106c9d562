/* jinja_ops.c - what operators mean: truth, equality, order, arithmetic, membership, slices. */
#include <math.h>

#include "base/utf8.h"
#include "tokenizer/jinja_eval.h"

bool qn_jtruth(qn_jval v)
{
    switch ((qn_jtype)v.type) {
    case QN_J_MISSING:
    case QN_J_UNDEF:
    case QN_J_NONE:
        return false;
    case QN_J_BOOL:
        return v.b;
    case QN_J_INT:
        return v.i != 0;
    case QN_J_FLOAT:
        return v.d != 0;
    case QN_J_STR:
        return v.s->n != 0;
    case QN_J_LIST:
    case QN_J_TUPLE:
        return v.l->n != 0;
    case QN_J_DICT:
    case QN_J_VIEW:
        return v.m->n != 0;
    case QN_J_RANGE:
        return v.r->n != 0;
    default:
        return true; /* objects, and generators even when they will give nothing */
    }
}

bool qn_jhas_len(qn_jval v)
{
    return v.type == QN_J_STR || qn_jis_seq(v) || v.type == QN_J_DICT || v.type == QN_J_VIEW ||
           v.type == QN_J_RANGE || v.type == QN_J_UNDEF || v.type == QN_J_LOOP;
}

int64_t qn_jlen(qn_jrun *r, qn_jval v)
{
    switch ((qn_jtype)v.type) {
    case QN_J_STR:
        return v.s->chars;
    case QN_J_LIST:
    case QN_J_TUPLE:
        return (int64_t)v.l->n;
    case QN_J_DICT:
    case QN_J_VIEW:
        return (int64_t)v.m->n;
    case QN_J_RANGE:
        return v.r->n;
    case QN_J_UNDEF:
        return 0;
    case QN_J_LOOP:
        return qn_jloop_length(r, v.p);
    default:
        qn_jfail(r, "object of type '%s' has no len()", qn_jtype_name(v));
        return 0;
    }
}

/* --- equality and order --- */

static bool eq_list(qn_jrun *r, const qn_jlist *a, const qn_jlist *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!qn_jtick(r, 1) || !qn_jeq(r, a->v[i], b->v[i]))
            return false;
    return true;
}

static bool eq_dict(qn_jrun *r, const qn_jdict *a, const qn_jdict *b)
{
    qn_jval other;
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!qn_jtick(r, 1) || !qn_jdict_get(r, b, a->v[i].key, &other) ||
            !qn_jeq(r, a->v[i].val, other))
            return false;
    return true;
}

static bool eq_range(const qn_jrange *a, const qn_jrange *b)
{
    return a->n == b->n &&
           (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

/* keys() and items() compare as sets, so order does not matter. */
static bool eq_view(qn_jrun *r, qn_jval a, qn_jval b)
{
    if (a.kind != b.kind || a.kind == QN_J_VALUES)
        return a.m == b.m && a.kind == b.kind;
    if (a.kind == QN_J_ITEMS)
        return eq_dict(r, a.m, b.m);
    qn_jval other;
    for (size_t i = 0; i < a.m->n; i++)
        if (!qn_jdict_get(r, b.m, a.m->v[i].key, &other))
            return false;
    return a.m->n == b.m->n;
}

static bool eq_deep(qn_jrun *r, qn_jval a, qn_jval b)
{
    bool eq = false;
    if (qn_jenter(r)) {
        if (qn_jis_seq(a))
            eq = eq_list(r, a.l, b.l);
        else if (a.type == QN_J_DICT)
            eq = eq_dict(r, a.m, b.m);
        else
            eq = eq_view(r, a, b);
    }
    qn_jleave(r);
    return eq;
}

bool qn_jeq(qn_jrun *r, qn_jval a, qn_jval b)
{
    if (qn_jis_int(a) && qn_jis_int(b))
        return qn_jas_int(a) == qn_jas_int(b);
    if (qn_jis_number(a) && qn_jis_number(b))
        return qn_jas_float(a) == qn_jas_float(b);
    if (a.type != b.type)
        return false;
    if (a.type == QN_J_STR)
        return a.s == b.s || (a.s->n == b.s->n && qn_jtick(r, a.s->n / 256) &&
                              memcmp(a.s->p, b.s->p, a.s->n) == 0);
    if (a.type == QN_J_NONE || a.type == QN_J_UNDEF)
        return true;
    if (a.type == QN_J_RANGE)
        return eq_range(a.r, b.r);
    if (qn_jis_seq(a) || a.type == QN_J_DICT || a.type == QN_J_VIEW)
        return a.p == b.p || eq_deep(r, a, b);
    return a.p == b.p;
}

static int cmp_str(const qn_jstr *a, const qn_jstr *b)
{
    /* Byte order of UTF-8 is code point order. */
    size_t n = a->n < b->n ? a->n : b->n;
    int c = memcmp(a->p, b->p, n);
    return c ? (c < 0 ? -1 : 1) : (a->n > b->n) - (a->n < b->n);
}

static int cmp_list(qn_jrun *r, const qn_jlist *a, const qn_jlist *b, const char *op)
{
    int c = 0;
    size_t n = a->n < b->n ? a->n : b->n;
    if (qn_jenter(r)) {
        size_t i = 0;
        while (i < n && qn_jtick(r, 1) && qn_jeq(r, a->v[i], b->v[i]))
            i++;
        c = i < n && qn_jok(r) ? qn_jcmp(r, a->v[i], b->v[i], op) : (a->n > b->n) - (a->n < b->n);
    }
    qn_jleave(r);
    return c;
}

int qn_jcmp(qn_jrun *r, qn_jval a, qn_jval b, const char *op)
{
    if (qn_jis_int(a) && qn_jis_int(b))
        return (qn_jas_int(a) > qn_jas_int(b)) - (qn_jas_int(a) < qn_jas_int(b));
    if (qn_jis_number(a) && qn_jis_number(b)) {
        double x = qn_jas_float(a), y = qn_jas_float(b);
        return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
    }
    if (a.type == QN_J_UNDEF || b.type == QN_J_UNDEF) {
        qn_jundef_fail(r, a.type == QN_J_UNDEF ? a : b);
        return 0;
    }
    if (a.type == QN_J_STR && b.type == QN_J_STR)
        return qn_jtick(r, a.s->n / 256) ? cmp_str(a.s, b.s) : 0;
    if (a.type == b.type && qn_jis_seq(a))
        return cmp_list(r, a.l, b.l, op);
    qn_jfail(r, "'%s' not supported between instances of '%s' and '%s'", op, qn_jtype_name(a),
             qn_jtype_name(b));
    return 0;
}

/* --- membership --- */

static bool in_iter(qn_jrun *r, qn_jiter *it, qn_jval v)
{
    qn_jval x;
    while (it && qn_jiter_next(r, it, &x))
        if (qn_jeq(r, x, v))
            return true;
    return false;
}

bool qn_jcontains(qn_jrun *r, qn_jval seq, qn_jval v)
{
    qn_jval got;
    if (seq.type == QN_J_STR) {
        if (v.type == QN_J_STR)
            return qn_jtick(r, seq.s->n / 16) && qn_jfind(seq.s->p, seq.s->n, v.s->p, v.s->n);
        qn_jfail(r, "'in <string>' requires string as left operand, not %s", qn_jtype_name(v));
        return false;
    }
    bool by_key = seq.type == QN_J_DICT || (seq.type == QN_J_VIEW && seq.kind == QN_J_KEYS);
    if (by_key && !qn_jhashable(r, v)) {
        qn_jfail(r, "unhashable type: '%s'", qn_jtype_name(v));
        return false;
    }
    if (by_key)
        return qn_jdict_get(r, seq.m, v, &got);
    if (!qn_jiterable(seq)) {
        qn_jfail(r, "argument of type '%s' is not iterable", qn_jtype_name(seq));
        return false;
    }
    return in_iter(r, qn_jiter_open(r, seq), v);
}

/* --- arithmetic --- */

static const char *const op_names[] = { "+", "-", "*", "/", "//", "%", "** or pow()" };

static qn_jval unsupported(qn_jrun *r, qn_jop op, qn_jval a, qn_jval b)
{
    if (op == QN_JOP_ADD && a.type == QN_J_STR)
        return qn_jfail(r, "can only concatenate str (not \"%s\") to str", qn_jtype_name(b));
    if (op == QN_JOP_ADD && qn_jis_seq(a))
        return qn_jfail(r, "can only concatenate %s (not \"%s\") to %s", qn_jtype_name(a),
                        qn_jtype_name(b), qn_jtype_name(a));
    return qn_jfail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op_names[op],
                    qn_jtype_name(a), qn_jtype_name(b));
}

static qn_jval int_pow(qn_jrun *r, int64_t a, int64_t b)
{
    int64_t result = 1;
    if (b < 0) {
        if (a == 0)
            return qn_jfail(r, "0.0 cannot be raised to a negative power");
        return qn_jfloat(pow((double)a, (double)b));
    }
    if (a == 0 || a == 1)
        return qn_jint(b ? a : 1);
    if (a == -1)
        return qn_jint(b % 2 ? -1 : 1);
    for (; b > 0; b--) /* at most 63 rounds before it overflows */
        if (__builtin_mul_overflow(result, a, &result))
            return qn_jlimit(r, "integer too large (more than 64 bits)");
    return qn_jint(result);
}

static qn_jval int_op(qn_jrun *r, qn_jop op, int64_t a, int64_t b)
{
    int64_t x = 0;
    bool over = false;
    switch (op) {
    case QN_JOP_ADD:
        over = __builtin_add_overflow(a, b, &x);
        break;
    case QN_JOP_SUB:
        over = __builtin_sub_overflow(a, b, &x);
        break;
    case QN_JOP_MUL:
        over = __builtin_mul_overflow(a, b, &x);
        break;
    case QN_JOP_DIV:
        return b ? qn_jfloat((double)((long double)a / (long double)b))
                 : qn_jfail(r, "division by zero");
    case QN_JOP_POW:
        return int_pow(r, a, b);
    default: /* // and % round towards minus infinity */
        if (b == 0)
            return qn_jfail(r, "integer division or modulo by zero");
        if (b == -1) { /* INT64_MIN / -1 traps */
            over = op == QN_JOP_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &x);
            break;
        }
        x = op == QN_JOP_FLOORDIV ? a / b : a % b;
        if (a % b != 0 && (a < 0) != (b < 0))
            x += op == QN_JOP_FLOORDIV ? -1 : b;
    }
    return over ? qn_jlimit(r, "integer too large (more than 64 bits)") : qn_jint(x);
}

static double float_mod(double a, double b)
{
    double m = fmod(a, b);
    if (m == 0)
        return copysign(0.0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

static double float_floordiv(double a, double b)
{
    double m = float_mod(a, b), q = (a - m) / b;
    if (q == 0)
        return copysign(0.0, a / b);
    double f = floor(q);
    return q - f > 0.5 ? f + 1.0 : f;
}

static qn_jval float_op(qn_jrun *r, qn_jop op, double a, double b)
{
    switch (op) {
    case QN_JOP_ADD:
        return qn_jfloat(a + b);
    case QN_JOP_SUB:
        return qn_jfloat(a - b);
    case QN_JOP_MUL:
        return qn_jfloat(a * b);
    case QN_JOP_POW:
        if (a == 0 && b < 0)
            return qn_jfail(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            return qn_jfail(r, "complex numbers are not supported");
        double p = pow(a, b);
        if (isinf(p) && isfinite(a) && isfinite(b))
            return qn_jfail(r, "(34, 'Numerical result out of range')");
        return qn_jfloat(p);
    default:
        if (b == 0)
            return qn_jfail(r, op == QN_JOP_DIV ? "float division by zero"
                                                : "float floor division by zero");
        return qn_jfloat(op == QN_JOP_DIV   ? a / b
                         : op == QN_JOP_MOD ? float_mod(a, b)
                                            : float_floordiv(a, b));
    }
}

static qn_jval str_add(qn_jrun *r, qn_jval a, qn_jval b)
{
    bool markup = a.s->markup || b.s->markup;
    if (markup) { /* the unmarked side is escaped */
        a = qn_jescape(r, a);
        b = qn_jescape(r, b);
    }
    if (!markup && (a.s->n == 0 || b.s->n == 0))
        return a.s->n ? a : b;
    qn_jsb sb = { 0 };
    qn_jsb_s(r, &sb, a.s);
    qn_jsb_s(r, &sb, b.s);
    qn_jval v = qn_jsb_done(r, &sb);
    return markup ? qn_jmarkup(r, v) : v;
}

static qn_jval list_add(qn_jrun *r, qn_jval a, qn_jval b)
{
    qn_jval v = qn_jlist_new(r, a.type);
    for (size_t i = 0; i < a.l->n && qn_jtick(r, 1); i++)
        qn_jlist_add(r, v.l, a.l->v[i]);
    for (size_t i = 0; i < b.l->n && qn_jtick(r, 1); i++)
        qn_jlist_add(r, v.l, b.l->v[i]);
    return v;
}

static qn_jval repeat(qn_jrun *r, qn_jval seq, int64_t times)
{
    if (seq.type == QN_J_STR) {
        qn_jsb b = { 0 };
        if (times > 0 && seq.s->n && !qn_jroom(r, (size_t)times, seq.s->n))
            return qn_jnone();
        for (int64_t i = 0; seq.s->n && i < times && qn_jtick(r, 1); i++)
            qn_jsb_s(r, &b, seq.s);
        return qn_jstr_like(r, seq.s, qn_jsb_done(r, &b));
    }
    qn_jval v = qn_jlist_new(r, seq.type);
    for (int64_t i = 0; seq.l->n && i < times && qn_jok(r); i++)
        for (size_t k = 0; k < seq.l->n && qn_jtick(r, 1); k++)
            qn_jlist_add(r, v.l, seq.l->v[k]);
    return v;
}

qn_jval qn_jbinary(qn_jrun *r, qn_jop op, qn_jval a, qn_jval b)
{
    if (!qn_jok(r))
        return qn_jnone();
    if (op == QN_JOP_MOD && a.type == QN_J_STR)
        return qn_jpercent(r, a.s, b);
    if (a.type == QN_J_UNDEF || b.type == QN_J_UNDEF)
        return qn_jundef_fail(r, a.type == QN_J_UNDEF ? a : b);
    if (qn_jis_int(a) && qn_jis_int(b))
        return int_op(r, op, qn_jas_int(a), qn_jas_int(b));
    if (qn_jis_number(a) && qn_jis_number(b))
        return float_op(r, op, qn_jas_float(a), qn_jas_float(b));
    if (op == QN_JOP_ADD && a.type == QN_J_STR && b.type == QN_J_STR)
        return str_add(r, a, b);
    if (op == QN_JOP_ADD && a.type == b.type && qn_jis_seq(a))
        return list_add(r, a, b);
    if (op == QN_JOP_MUL && (a.type == QN_J_STR || qn_jis_seq(a)) && qn_jis_int(b))
        return repeat(r, a, qn_jas_int(b));
    if (op == QN_JOP_MUL && (b.type == QN_J_STR || qn_jis_seq(b)) && qn_jis_int(a))
        return repeat(r, b, qn_jas_int(a));
    return unsupported(r, op, a, b);
}

qn_jval qn_jnegate(qn_jrun *r, qn_jval v, bool minus)
{
    int64_t x;
    if (!qn_jok(r))
        return v;
    if (v.type == QN_J_UNDEF)
        return qn_jundef_fail(r, v);
    if (v.type == QN_J_FLOAT)
        return qn_jfloat(minus ? -v.d : v.d);
    if (!qn_jis_int(v))
        return qn_jfail(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+',
                        qn_jtype_name(v));
    if (!minus)
        return qn_jint(qn_jas_int(v));
    if (__builtin_sub_overflow((int64_t)0, qn_jas_int(v), &x))
        return qn_jlimit(r, "integer too large (more than 64 bits)");
    return qn_jint(x);
}

/* --- slices --- */

/* One bound as Python clips it: negative counts from the end, then into [low, high]. */
static int64_t clip(qn_jval v, int64_t absent, int64_t n, bool backwards)
{
    if (v.type == QN_J_NONE)
        return absent;
    int64_t i = qn_jas_int(v);
    if (i < 0) {
        i = i < -n ? -1 : i + n;
        return i < 0 ? (backwards ? -1 : 0) : i;
    }
    return i >= n ? (backwards ? n - 1 : n) : i;
}

static qn_jval slice_str(qn_jrun *r, const qn_jstr *s, int64_t start, int64_t step, int64_t count)
{
    qn_jsb b = { 0 };
    if (step == 1)
        return qn_jstr_cut(r, s, qn_jstr_at(s, (size_t)start),
                           qn_jstr_at(s, (size_t)(start + count)));
    if (step == -1) { /* reversing: one walk back, not one search per character */
        size_t at = qn_jstr_at(s, (size_t)start + 1);
        for (int64_t i = 0; i < count && qn_jtick(r, 1); i++) {
            uint32_t cp;
            size_t from = qn_jprev(s->p, at, &cp);
            qn_jsb_add(r, &b, s->p + from, at - from);
            at = from;
        }
        return qn_jstr_like(r, s, qn_jsb_done(r, &b));
    }
    for (int64_t i = 0; i < count && qn_jtick(r, 1 + (s->n == s->chars ? 0 : s->n / 256)); i++) {
        size_t at = qn_jstr_at(s, (size_t)(start + i * step));
        qn_jsb_add(r, &b, s->p + at, qn_jstr_at(s, (size_t)(start + i * step) + 1) - at);
    }
    return qn_jstr_like(r, s, qn_jsb_done(r, &b));
}

static qn_jval slice_range(qn_jrun *r, const qn_jrange *g, int64_t start, int64_t step,
                           int64_t count)
{
    qn_jrange *out = qn_jalloc(r, sizeof *out);
    int64_t unit = g->step * step, first = g->start + start * g->step;
    *out = (qn_jrange){ .start = first, .stop = first + count * unit, .step = unit, .n = count };
    return (qn_jval){ .type = QN_J_RANGE, .r = out };
}

qn_jval qn_jslice(qn_jrun *r, qn_jval obj, const qn_jval bounds[3])
{
    if (!qn_jok(r))
        return qn_jnone();
    if (obj.type == QN_J_UNDEF)
        return qn_jundef_fail(r, obj);
    if (obj.type == QN_J_DICT)
        return qn_jfail(r, "unhashable type: 'slice'");
    if (obj.type != QN_J_STR && !qn_jis_seq(obj) && obj.type != QN_J_RANGE)
        return qn_jfail(r, "'%s' object is not subscriptable", qn_jtype_name(obj));
    for (int i = 0; i < 3; i++)
        if (bounds[i].type != QN_J_NONE && !qn_jis_int(bounds[i]))
            return qn_jfail(r,
                            "slice indices must be integers or None or have an __index__ method");
    int64_t n = qn_jlen(r, obj);
    int64_t step = bounds[2].type == QN_J_NONE ? 1 : qn_jas_int(bounds[2]);
    if (step == 0)
        return qn_jfail(r, "slice step cannot be zero");
    /* A longer step takes the same one item, and keeps the sums below far from overflow. */
    step = step > n + 1 ? n + 1 : step < -n - 1 ? -n - 1 : step;
    bool back = step < 0;
    int64_t start = clip(bounds[0], back ? n - 1 : 0, n, back);
    int64_t stop = clip(bounds[1], back ? -1 : n, n, back);
    int64_t count = back ? (start > stop ? (start - stop - 1) / -step + 1 : 0)
                         : (stop > start ? (stop - start - 1) / step + 1 : 0);
    if (count == 0)
        start = 0;
    if (obj.type == QN_J_STR)
        return slice_str(r, obj.s, start, step, count);
    if (obj.type == QN_J_RANGE)
        return slice_range(r, obj.r, start, step, count);
    qn_jval v = qn_jlist_new(r, obj.type);
    for (int64_t i = 0; i < count && qn_jtick(r, 1); i++)
        qn_jlist_add(r, v.l, obj.l->v[start + i * step]);
    return v;
}
