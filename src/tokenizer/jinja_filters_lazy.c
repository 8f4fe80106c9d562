/* jinja_filters_lazy.c - filters that give generators: nothing is looked at, and no argument is
 * checked, before the first item is asked for; that is visible in which templates fail. */
#include "tokenizer/jinja_filters.h"

typedef struct lazy {
    qn_jargs args; /* what the filter or test behind gets */
    const qn_jbuiltin *fn;
    qn_jpath path;
    bool by_path, reject, attr;
    qn_jval fill, seen;
} lazy;

static qn_jval lazy_new(qn_jrun *r, bool (*next)(qn_jrun *, qn_jiter *, qn_jval *), qn_jval src,
                        lazy init)
{
    qn_jiter *it = qn_jiter_new(r, next, src);
    lazy *z = qn_jalloc(r, sizeof *z);
    *z = init;
    it->state = z;
    return qn_jiter_val(it);
}

/* The arguments live on the caller's stack; a generator keeps its own copy. */
static qn_jargs keep_args(qn_jrun *r, const qn_jargs *raw)
{
    qn_jargs a = { .n = raw->n, .kw = raw->kw };
    if (qn_jroom(r, raw->n, sizeof *raw->v))
        a.v = qn_arena_copy(&r->arena, raw->v, raw->n * sizeof *raw->v);
    else
        a.n = 0;
    return a;
}

static qn_jargs args_from(const qn_jargs *a, size_t first)
{
    return (qn_jargs){ .v = a->v + first, .n = a->n - first, .kw = a->kw };
}

/* --- map --- */

static void map_start(qn_jrun *r, qn_jiter *it)
{
    lazy *z = it->state;
    qn_jval attribute;
    if (z->args.n == 0 && z->args.kw && qn_jdict_get_z(r, z->args.kw, "attribute", &attribute)) {
        bool has_default = qn_jdict_get_z(r, z->args.kw, "default", &z->fill);
        if (z->args.kw->n > 1 + (size_t)has_default)
            qn_jfail(r, "Unexpected keyword argument of the filter 'map'");
        qn_jpath_init(r, &z->path, attribute);
        if (has_default)
            z->path.fallback = z->fill;
        z->by_path = true;
    } else if (z->args.n == 0) {
        qn_jfail(r, "map requires a filter argument");
    } else {
        const qn_jstr *name = qn_jarg_str(r, z->args.v[0], "");
        z->fn = qn_jfilter_find(name->p, name->n);
        if (!z->fn)
            qn_jfail(r, "No filter named %s.", qn_jshort(r, z->args.v[0]));
        z->args = args_from(&z->args, 1);
    }
}

/* Opens the source; an empty or undefined one ends the generator before its arguments are checked. */
static bool lazy_start(qn_jrun *r, qn_jiter *it, void (*start)(qn_jrun *, qn_jiter *))
{
    if (it->started)
        return it->inner != NULL;
    it->started = true;
    if (!qn_jtruth(it->src))
        return false;
    start(r, it);
    if (qn_jok(r))
        it->inner = qn_jiter_open(r, it->src);
    return it->inner != NULL;
}

static bool map_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    lazy *z = it->state;
    qn_jval x;
    if (!lazy_start(r, it, map_start) || !qn_jiter_next(r, it->inner, &x))
        return false;
    *out = z->by_path ? qn_jpath_get(r, &z->path, x) : qn_jcall_builtin(r, z->fn, x, &z->args);
    return true;
}

QN_JFILTER(qn_jf_map)
{
    (void)a;
    return lazy_new(r, map_next, self, (lazy){ .args = keep_args(r, raw) });
}

/* --- select, reject, selectattr, rejectattr --- */

static void select_start(qn_jrun *r, qn_jiter *it)
{
    lazy *z = it->state;
    if (z->attr && z->args.n == 0) {
        qn_jfail(r, "Missing parameter for attribute name");
        return;
    }
    if (z->attr) {
        qn_jpath_init(r, &z->path, z->args.v[0]);
        z->args = args_from(&z->args, 1);
    }
    if (z->args.n == 0)
        return;
    const qn_jstr *name = qn_jarg_str(r, z->args.v[0], "");
    z->fn = qn_jtest_find(name->p, name->n);
    if (!z->fn)
        qn_jfail(r, "No test named %s.", qn_jshort(r, z->args.v[0]));
    z->args = args_from(&z->args, 1);
}

static bool select_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    lazy *z = it->state;
    if (!lazy_start(r, it, select_start))
        return false;
    while (qn_jiter_next(r, it->inner, out)) {
        qn_jval x = z->attr ? qn_jpath_get(r, &z->path, *out) : *out;
        if (z->fn)
            x = qn_jcall_builtin(r, z->fn, x, &z->args);
        if (qn_jok(r) && qn_jtruth(x) != z->reject)
            return true;
    }
    return false;
}

static qn_jval select(qn_jrun *r, qn_jval self, const qn_jargs *raw, bool reject, bool attr)
{
    return lazy_new(r, select_next, self,
                    (lazy){ .args = keep_args(r, raw), .reject = reject, .attr = attr });
}

QN_JFILTER(qn_jf_select)
{
    (void)a;
    return select(r, self, raw, false, false);
}

QN_JFILTER(qn_jf_reject)
{
    (void)a;
    return select(r, self, raw, true, false);
}

QN_JFILTER(qn_jf_selectattr)
{
    (void)a;
    return select(r, self, raw, false, true);
}

QN_JFILTER(qn_jf_rejectattr)
{
    (void)a;
    return select(r, self, raw, true, true);
}

/* --- items, unique, batch, slice --- */

static bool items_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    if (!it->started && it->src.type != QN_J_UNDEF) {
        if (it->src.type != QN_J_DICT)
            qn_jfail(r, "Can only get item pairs from a mapping.");
        else
            it->inner = qn_jiter_open(
                r, (qn_jval){ .type = QN_J_VIEW, .kind = QN_J_ITEMS, .m = it->src.m });
    }
    it->started = true;
    return it->inner && qn_jiter_next(r, it->inner, out);
}

QN_JFILTER(qn_jf_items)
{
    (void)a, (void)raw;
    return lazy_new(r, items_next, self, (lazy){ 0 });
}

static bool unique_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    lazy *z = it->state;
    qn_jval was;
    if (!it->started)
        it->inner = qn_jiter_open(r, it->src);
    it->started = true;
    while (it->inner && qn_jiter_next(r, it->inner, out)) {
        qn_jval key = qn_jpath_get(r, &z->path, *out);
        if (qn_jhashable(r, key) && qn_jdict_get(r, z->seen.m, key, &was))
            continue;
        qn_jdict_set(r, z->seen.m, key, qn_jnone());
        return qn_jok(r);
    }
    return false;
}

QN_JFILTER(qn_jf_unique)
{
    (void)raw;
    lazy z = { .seen = qn_jdict_new(r) };
    qn_jpath_init(r, &z.path, a[1]);
    z.path.fold_case = !qn_jarg_bool(a[0], false);
    return lazy_new(r, unique_next, self, z);
}

static bool batch_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    lazy *z = it->state;
    qn_jval x;
    if (!it->started)
        it->inner = qn_jiter_open(r, it->src);
    it->started = true;
    *out = qn_jlist_new(r, QN_J_LIST);
    while (it->inner && ((int64_t)out->l->n < it->k || it->k <= 0) &&
           qn_jiter_next(r, it->inner, &x))
        qn_jlist_add(r, out->l, x);
    if (out->l->n == 0)
        return false;
    if (z->fill.type != QN_J_MISSING && z->fill.type != QN_J_NONE)
        while ((int64_t)out->l->n < it->k && qn_jtick(r, 1))
            qn_jlist_add(r, out->l, z->fill);
    return true;
}

QN_JFILTER(qn_jf_batch)
{
    (void)raw;
    qn_jval v = lazy_new(r, batch_next, self, (lazy){ .fill = a[1] });
    v.it->k = qn_jarg_int(r, a[0], 0);
    return v;
}

static bool slice_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    lazy *z = it->state;
    if (!it->started) {
        z->seen = qn_jto_list(r, it->src, QN_J_LIST);
        if (qn_jok(r) && it->k == 0)
            qn_jfail(r, "integer division or modulo by zero");
    }
    it->started = true;
    if (!qn_jok(r) || (int64_t)it->i >= it->k)
        return false;
    size_t each = z->seen.l->n / (size_t)it->k, extra = z->seen.l->n % (size_t)it->k;
    size_t take = each + (it->i < extra);
    *out = qn_jlist_new(r, QN_J_LIST);
    for (size_t i = 0; i < take && qn_jtick(r, 1); i++)
        qn_jlist_add(r, out->l, z->seen.l->v[it->n++]);
    if (z->fill.type != QN_J_MISSING && z->fill.type != QN_J_NONE && it->i >= extra)
        qn_jlist_add(r, out->l, z->fill);
    it->i++;
    return true;
}

QN_JFILTER(qn_jf_slice)
{
    (void)raw;
    qn_jval v = lazy_new(r, slice_next, self, (lazy){ .fill = a[1] });
    v.it->k = qn_jarg_int(r, a[0], 0);
    return v;
}
