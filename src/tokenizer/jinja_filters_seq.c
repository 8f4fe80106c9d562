/* jinja_filters_seq.c - filters over sequences that give their result at once, and the attribute
 * paths and the stable sort they share. */
#include "tokenizer/jinja_filters.h"

/* --- attribute paths --- */

static void path_add(qn_jrun *r, qn_jpath *p, const char *s, size_t n)
{
    const qn_jstr part = { .p = s, .n = (uint32_t)n, .chars = (uint32_t)qn_jcount_chars(s, n) };
    int64_t i;
    bool too_large;
    if (p->n == sizeof p->part / sizeof *p->part)
        qn_jlimit(r, "an attribute path of more than %zu parts", p->n);
    else if (qn_jis_class(&part, QN_JC_DIGIT) && qn_jparse_int(&part, 10, &i, &too_large))
        p->part[p->n++] = qn_jint(i);
    else
        p->part[p->n++] = qn_jstr_ref(r, s, n);
}

void qn_jpath_init(qn_jrun *r, qn_jpath *p, qn_jval attribute)
{
    *p = (qn_jpath){ 0 };
    if (attribute.type == QN_J_MISSING || attribute.type == QN_J_NONE)
        return;
    if (attribute.type != QN_J_STR) {
        p->part[p->n++] = attribute;
        return;
    }
    const char *s = attribute.s->p, *end = s + attribute.s->n;
    for (;;) {
        const char *dot = memchr(s, '.', (size_t)(end - s));
        path_add(r, p, s, (size_t)((dot ? dot : end) - s));
        if (!dot || !qn_jok(r))
            return;
        s = dot + 1;
    }
}

qn_jval qn_jpath_get(qn_jrun *r, const qn_jpath *p, qn_jval item)
{
    bool has_fallback = p->fallback.type != QN_J_MISSING && p->fallback.type != QN_J_NONE;
    for (size_t i = 0; i < p->n && qn_jok(r); i++) {
        item = qn_jgetitem(r, item, p->part[i]);
        if (has_fallback && item.type == QN_J_UNDEF)
            item = p->fallback;
    }
    return p->fold_case && item.type == QN_J_STR ? qn_jlower(r, item.s) : item;
}

/* --- sorting --- */

typedef struct sorter {
    qn_jrun *r;
    const qn_jlist *keys;
    uint32_t *tmp;
    int sign; /* -1: the largest first */
} sorter;

/* Merges the sorted halves [0, mid) and [mid, n) of the order array. */
static void merge(const sorter *s, uint32_t *at, size_t mid, size_t n)
{
    size_t i = 0, j = mid, k = 0;
    uint32_t *tmp = s->tmp;
    memcpy(tmp, at, n * sizeof *at);
    while (i < mid && j < n && qn_jtick(s->r, 1)) {
        int c = qn_jcmp(s->r, s->keys->v[tmp[j]], s->keys->v[tmp[i]], "<");
        at[k++] = c == -s->sign ? tmp[j++] : tmp[i++];
    }
    while (i < mid)
        at[k++] = tmp[i++];
    while (j < n)
        at[k++] = tmp[j++];
}

void qn_jsort(qn_jrun *r, qn_jlist *keys, qn_jlist *items, bool reverse)
{
    size_t n = keys->n;
    if (n < 2 || n > UINT32_MAX || !qn_jroom(r, n, 4 * sizeof(uint32_t) + 2 * sizeof(qn_jval)))
        return;
    uint32_t *at = qn_arena_alloc_n(&r->arena, n, sizeof *at);
    const sorter s = { .r = r,
                       .keys = keys,
                       .tmp = qn_arena_alloc_n(&r->arena, n, sizeof *at),
                       .sign = reverse ? -1 : 1 };
    for (size_t i = 0; i < n; i++)
        at[i] = (uint32_t)i;
    for (size_t width = 1; width < n; width *= 2)
        for (size_t i = 0; i + width < n && qn_jok(r); i += 2 * width) {
            size_t len = i + 2 * width < n ? 2 * width : n - i;
            merge(&s, at + i, width, len);
        }
    qn_jval *k = qn_arena_copy(&r->arena, keys->v, n * sizeof *k);
    qn_jval *v = qn_arena_copy(&r->arena, items->v, n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        keys->v[i] = k[at[i]];
        items->v[i] = v[at[i]];
    }
}

/* The keys of `sort`: one list per item, a member for each comma-separated attribute. */
static qn_jval multi_key(qn_jrun *r, const qn_jpath *paths, size_t n, qn_jval item)
{
    qn_jval key = qn_jlist_new(r, QN_J_LIST);
    for (size_t i = 0; i < n; i++)
        qn_jlist_add(r, key.l, qn_jpath_get(r, &paths[i], item));
    return key;
}

QN_JFILTER(qn_jf_sort)
{
    (void)raw;
    qn_jpath path[8];
    size_t n = 0;
    const qn_jstr empty = { .p = "" }, *s = a[2].type == QN_J_STR ? a[2].s : &empty;
    const char *p = s->p, *end = s->p + s->n, *comma;
    do {
        if (n == sizeof path / sizeof *path)
            return qn_jlimit(r, "sort by more than %zu attributes", n);
        comma = memchr(p, ',', (size_t)(end - p));
        qn_jval one = a[2];
        if (one.type == QN_J_STR)
            one = qn_jstr_ref(r, p, (size_t)((comma ? comma : end) - p));
        qn_jpath_init(r, &path[n], one);
        path[n++].fold_case = !qn_jarg_bool(a[1], false);
        p = comma ? comma + 1 : end;
    } while (comma);
    qn_jval items = qn_jto_list(r, self, QN_J_LIST), keys = qn_jlist_new(r, QN_J_LIST);
    for (size_t i = 0; i < items.l->n && qn_jok(r); i++)
        qn_jlist_add(r, keys.l, multi_key(r, path, n, items.l->v[i]));
    if (qn_jok(r))
        qn_jsort(r, keys.l, items.l, qn_jarg_bool(a[0], false));
    return items;
}

QN_JFILTER(qn_jf_dictsort)
{
    (void)raw;
    const qn_jstr *by = qn_jarg_str(r, a[1], "key");
    bool by_key = qn_jstr_is(by, "key");
    if (!by_key && !qn_jstr_is(by, "value"))
        return qn_jfail(r, "You can only sort by either \"key\" or \"value\"");
    if (self.type == QN_J_UNDEF)
        return qn_jundef_fail(r, self);
    if (self.type != QN_J_DICT)
        return qn_jfail(r, "'%s' object has no attribute 'items'", qn_jtype_name(self));
    qn_jval items = qn_jlist_new(r, QN_J_LIST), keys = qn_jlist_new(r, QN_J_LIST);
    for (size_t i = 0; i < self.m->n && qn_jtick(r, 1); i++) {
        qn_jval key = by_key ? self.m->v[i].key : self.m->v[i].val;
        if (!qn_jarg_bool(a[0], false) && key.type == QN_J_STR)
            key = qn_jlower(r, key.s);
        qn_jlist_add(r, keys.l, key);
        qn_jlist_add(r, items.l, qn_jtuple2(r, self.m->v[i].key, self.m->v[i].val));
    }
    if (qn_jok(r))
        qn_jsort(r, keys.l, items.l, qn_jarg_bool(a[2], false));
    return items;
}

QN_JFILTER(qn_jf_groupby)
{
    (void)raw;
    qn_jpath path;
    qn_jpath_init(r, &path, a[0]);
    path.fallback = a[1];
    path.fold_case = !qn_jarg_bool(a[2], false);
    qn_jval items = qn_jto_list(r, self, QN_J_LIST), keys = qn_jlist_new(r, QN_J_LIST);
    for (size_t i = 0; i < items.l->n && qn_jok(r); i++)
        qn_jlist_add(r, keys.l, qn_jpath_get(r, &path, items.l->v[i]));
    qn_jval out = qn_jlist_new(r, QN_J_LIST);
    if (!qn_jok(r))
        return out;
    qn_jsort(r, keys.l, items.l, false);
    path.fold_case = false; /* the name of a group is its first member's own */
    for (size_t i = 0; i < items.l->n && qn_jtick(r, 1);) {
        qn_jval members = qn_jlist_new(r, QN_J_LIST), first = keys.l->v[i];
        qn_jval group = qn_jtuple2(r, qn_jpath_get(r, &path, items.l->v[i]), members);
        group.l->group = true;
        do
            qn_jlist_add(r, members.l, items.l->v[i++]);
        while (i < items.l->n && qn_jok(r) && qn_jeq(r, keys.l->v[i], first));
        qn_jlist_add(r, out.l, group);
    }
    return out;
}

/* --- one item, or one value of all --- */

QN_JFILTER(qn_jf_first)
{
    (void)a, (void)raw;
    qn_jval x;
    qn_jiter *it = qn_jiter_open(r, self);
    if (it && qn_jiter_next(r, it, &x))
        return x;
    return qn_jundef_hint(r, "No first item, sequence was empty.");
}

QN_JFILTER(qn_jf_last)
{
    (void)a, (void)raw;
    qn_jval x;
    qn_jiter *it = qn_jiter_reversed(r, self);
    if (it && qn_jiter_next(r, it, &x))
        return x;
    return qn_jundef_hint(r, "No last item, sequence was empty.");
}

QN_JFILTER(qn_jf_length)
{
    (void)a, (void)raw;
    return qn_jint(qn_jlen(r, self));
}

QN_JFILTER(qn_jf_list)
{
    (void)a, (void)raw;
    return qn_jto_list(r, self, QN_J_LIST);
}

QN_JFILTER(qn_jf_join)
{
    (void)raw;
    qn_jpath path;
    qn_jpath_init(r, &path, a[1]);
    qn_jval sep = a[0].type == QN_J_MISSING ? qn_jstr_z(r, "") : qn_jto_str(r, a[0]), x;
    qn_jiter *it = qn_jiter_open(r, self);
    qn_jsb b = { 0 };
    for (bool first = true; it && qn_jiter_next(r, it, &x); first = false) {
        if (!first)
            qn_jput_str(r, &b, sep);
        qn_jput_str(r, &b, qn_jpath_get(r, &path, x));
    }
    return qn_jsb_done(r, &b);
}

static qn_jval extreme(qn_jrun *r, qn_jval self, const qn_jval *a, int sign)
{
    qn_jpath path;
    qn_jpath_init(r, &path, a[1]);
    path.fold_case = !qn_jarg_bool(a[0], false);
    qn_jiter *it = qn_jiter_open(r, self);
    qn_jval best, x;
    if (!it || !qn_jiter_next(r, it, &best))
        return qn_jundef_hint(r, "No aggregated item, sequence was empty.");
    qn_jval best_key = qn_jpath_get(r, &path, best);
    while (qn_jiter_next(r, it, &x)) {
        qn_jval key = qn_jpath_get(r, &path, x);
        if (qn_jcmp(r, key, best_key, sign > 0 ? ">" : "<") != sign)
            continue;
        best = x;
        best_key = key;
    }
    return best;
}

QN_JFILTER(qn_jf_max)
{
    (void)raw;
    return extreme(r, self, a, 1);
}

QN_JFILTER(qn_jf_min)
{
    (void)raw;
    return extreme(r, self, a, -1);
}

QN_JFILTER(qn_jf_sum)
{
    (void)raw;
    qn_jpath path;
    qn_jpath_init(r, &path, a[0]);
    qn_jval total = a[1].type == QN_J_MISSING ? qn_jint(0) : a[1], x;
    if (total.type == QN_J_STR)
        return qn_jfail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    qn_jiter *it = qn_jiter_open(r, self);
    while (it && qn_jiter_next(r, it, &x))
        total = qn_jbinary(r, QN_JOP_ADD, total, qn_jpath_get(r, &path, x));
    return total;
}

QN_JFILTER(qn_jf_reverse)
{
    (void)a, (void)raw;
    if (self.type == QN_J_STR)
        return qn_jslice(r, self, (qn_jval[3]){ qn_jnone(), qn_jnone(), qn_jint(-1) });
    if (self.type != QN_J_ITER) {
        qn_jiter *back = qn_jiter_reversed(r, self);
        return back ? qn_jiter_val(back) : qn_jnone();
    }
    qn_jval list = qn_jto_list(r, self, QN_J_LIST);
    return qn_jslice(r, list, (qn_jval[3]){ qn_jnone(), qn_jnone(), qn_jint(-1) });
}
