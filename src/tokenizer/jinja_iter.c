/* jinja_iter.c - walking over values: what `for`, filters and `in` see, one item at a time. */
#include "base/utf8.h"
#include "tokenizer/jinja_eval.h"

qn_jiter *qn_jiter_new(qn_jrun *r, bool (*next)(qn_jrun *, qn_jiter *, qn_jval *), qn_jval src)
{
    qn_jiter *it = qn_jalloc(r, sizeof *it);
    *it = (qn_jiter){ .next = next, .type_name = "generator", .src = src };
    return it;
}

qn_jval qn_jiter_val(qn_jiter *it)
{
    return (qn_jval){ .type = QN_J_ITER, .it = it };
}

bool qn_jiter_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    return qn_jtick(r, 1) && it->next(r, it, out) && qn_jok(r);
}

static bool next_none(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    (void)r, (void)it, (void)out;
    return false;
}

static bool next_list(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    (void)r;
    if (it->i >= it->src.l->n)
        return false;
    *out = it->src.l->v[it->i++];
    return true;
}

static bool next_list_back(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    (void)r;
    if (it->i == 0)
        return false;
    *out = it->src.l->v[--it->i];
    return true;
}

static bool next_char(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    const qn_jstr *s = it->src.s;
    uint32_t cp;
    if (it->i >= s->n)
        return false;
    size_t n = (size_t)qn_utf8_decode(s->p + it->i, s->n - it->i, &cp);
    *out = qn_jstr_ref(r, s->p + it->i, n);
    it->i += n;
    return true;
}

static bool next_char_back(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    const qn_jstr *s = it->src.s;
    uint32_t cp;
    if (it->i == 0)
        return false;
    size_t from = qn_jprev(s->p, it->i, &cp);
    *out = qn_jstr_ref(r, s->p + from, it->i - from);
    it->i = from;
    return true;
}

static qn_jval entry_val(qn_jrun *r, const qn_jentry *e, int kind)
{
    if (kind == QN_J_ITEMS)
        return qn_jtuple2(r, e->key, e->val);
    return kind == QN_J_KEYS ? e->key : e->val;
}

static int entry_kind(qn_jval v)
{
    return v.type == QN_J_VIEW ? v.kind : QN_J_KEYS;
}

static bool next_entry(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    if (it->i >= it->src.m->n)
        return false;
    *out = entry_val(r, &it->src.m->v[it->i++], entry_kind(it->src));
    return true;
}

static bool next_entry_back(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    if (it->i == 0)
        return false;
    *out = entry_val(r, &it->src.m->v[--it->i], entry_kind(it->src));
    return true;
}

static bool next_range(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    (void)r;
    if ((int64_t)it->i >= it->src.r->n)
        return false;
    *out = qn_jint(it->src.r->start + (int64_t)it->i++ * it->src.r->step);
    return true;
}

static bool next_range_back(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    (void)r;
    if (it->i == 0)
        return false;
    *out = qn_jint(it->src.r->start + (int64_t)--it->i * it->src.r->step);
    return true;
}

bool qn_jiterable(qn_jval v)
{
    return qn_jis_seq(v) || v.type == QN_J_STR || v.type == QN_J_DICT || v.type == QN_J_VIEW ||
           v.type == QN_J_RANGE || v.type == QN_J_ITER || v.type == QN_J_UNDEF ||
           v.type == QN_J_LOOP;
}

qn_jiter *qn_jiter_open(qn_jrun *r, qn_jval v)
{
    switch ((qn_jtype)v.type) {
    case QN_J_LIST:
    case QN_J_TUPLE:
        return qn_jiter_new(r, next_list, v);
    case QN_J_STR:
        return qn_jiter_new(r, next_char, v);
    case QN_J_DICT:
    case QN_J_VIEW:
        return qn_jiter_new(r, next_entry, v);
    case QN_J_RANGE:
        return qn_jiter_new(r, next_range, v);
    case QN_J_UNDEF:
        return qn_jiter_new(r, next_none, v);
    case QN_J_ITER:
        return v.it;
    case QN_J_LOOP:
        return qn_jloop_iter(r, v);
    default:
        qn_jfail(r, "'%s' object is not iterable", qn_jtype_name(v));
        return NULL;
    }
}

qn_jiter *qn_jiter_reversed(qn_jrun *r, qn_jval v)
{
    qn_jiter *it = qn_jiter_new(r, next_list_back, v);
    it->type_name = "list_reverseiterator";
    if (qn_jis_seq(v)) {
        it->i = v.l->n;
    } else if (v.type == QN_J_STR) {
        it->next = next_char_back;
        it->i = v.s->n;
    } else if (v.type == QN_J_DICT || v.type == QN_J_VIEW) {
        it->next = next_entry_back;
        it->i = v.m->n;
    } else if (v.type == QN_J_RANGE) {
        it->next = next_range_back;
        it->i = (size_t)v.r->n;
    } else if (v.type == QN_J_UNDEF) {
        it->next = next_none; /* has a length of 0, so reversed() never asks for an item */
    } else {
        qn_jfail(r, "'%s' object is not reversible", qn_jtype_name(v));
        return NULL;
    }
    return it;
}

qn_jval qn_jto_list(qn_jrun *r, qn_jval v, qn_jtype type)
{
    qn_jval out = qn_jlist_new(r, type), x;
    qn_jiter *it = qn_jok(r) ? qn_jiter_open(r, v) : NULL;
    while (it && qn_jiter_next(r, it, &x))
        qn_jlist_add(r, out.l, x);
    return out;
}
