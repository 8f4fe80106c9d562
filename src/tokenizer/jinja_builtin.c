/* jinja_builtin.c - calling builtins: binding arguments to parameters, and the global functions. */
#include "base/utf8.h"
#include "tokenizer/jinja_eval.h"

const qn_jbuiltin *qn_jfind_in(const qn_jbuiltin *table, const char *name, size_t n)
{
    for (const qn_jbuiltin *f = table; f->name; f++)
        if (strlen(f->name) == n && memcmp(f->name, name, n) == 0)
            return f;
    return NULL;
}

/* The position of `name` in a list of words, or -1. */
static int word_index(const char *words, const qn_jstr *name)
{
    int i = 0;
    for (const char *w = words; *w; i++) {
        size_t n = strcspn(w, " ");
        if (n == name->n && memcmp(w, name->p, n) == 0)
            return i;
        w += n + (w[n] == ' ');
    }
    return -1;
}

static size_t word_count(const char *words)
{
    size_t n = *words != 0;
    for (const char *w = words; *w; w++)
        n += *w == ' ';
    return n;
}

static void bind_keywords(qn_jrun *r, const qn_jbuiltin *fn, const qn_jdict *kw, const char *words,
                          qn_jval *out)
{
    for (size_t i = 0; kw && i < kw->n; i++) {
        const qn_jval key = kw->v[i].key;
        int at = fn->params[0] != '/' && key.type == QN_J_STR ? word_index(words, key.s) : -1;
        if (at < 0)
            qn_jfail(r, "%s() got an unexpected keyword argument %s", fn->name, qn_jshort(r, key));
        else if (out[at].type != QN_J_MISSING)
            qn_jfail(r, "%s() got multiple values for argument %s", fn->name, qn_jshort(r, key));
        else
            out[at] = kw->v[i].val;
    }
}

qn_jval qn_jcall_builtin(qn_jrun *r, const qn_jbuiltin *fn, qn_jval self, const qn_jargs *args)
{
    qn_jval a[QN_J_MAX_PARAMS] = { 0 };
    /* Whatever a method or filter does with a text, it looks at all of it. */
    if (!qn_jtick(r, 1 + (self.type == QN_J_STR ? self.s->n / 8 : 0)))
        return qn_jnone();
    if (!fn->params)
        return fn->fn(r, self, NULL, args);
    const char *words = fn->params + (fn->params[0] == '/');
    size_t n = word_count(words);
    if (args->n > n)
        return qn_jfail(r, "%s() takes at most %zu arguments (%zu given)", fn->name, n, args->n);
    for (size_t i = 0; i < args->n; i++)
        a[i] = args->v[i];
    bind_keywords(r, fn, args->kw, words, a);
    for (size_t i = 0; i < fn->n_required; i++)
        if (a[i].type == QN_J_MISSING)
            return qn_jfail(r, "%s() is missing argument %zu", fn->name, i + 1);
    return qn_jok(r) ? fn->fn(r, self, a, args) : qn_jnone();
}

/* --- argument access --- */

int64_t qn_jarg_int(qn_jrun *r, qn_jval v, int64_t absent)
{
    if (v.type == QN_J_MISSING)
        return absent;
    if (v.type == QN_J_UNDEF)
        qn_jundef_fail(r, v);
    else if (!qn_jis_int(v))
        qn_jfail(r, "'%s' object cannot be interpreted as an integer", qn_jtype_name(v));
    else
        return qn_jas_int(v);
    return absent;
}

bool qn_jarg_bool(qn_jval v, bool absent)
{
    return v.type == QN_J_MISSING ? absent : qn_jtruth(v);
}

const qn_jstr *qn_jarg_str(qn_jrun *r, qn_jval v, const char *absent)
{
    if (v.type == QN_J_STR)
        return v.s;
    if (v.type != QN_J_MISSING)
        qn_jfail(r, "a string is required, not '%s'", qn_jtype_name(v));
    return qn_jstr_z(r, absent).s;
}

/* --- globals --- */

static int64_t range_count(int64_t start, int64_t stop, int64_t step)
{
    if (step > 0 ? start >= stop : start <= stop)
        return 0;
    uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t by = step > 0 ? (uint64_t)step : (uint64_t)0 - (uint64_t)step;
    uint64_t n = (span - 1) / by + 1;
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static qn_jval g_range(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)self;
    bool one = raw->n == 1;
    qn_jrange *g = qn_jalloc(r, sizeof *g);
    g->start = one ? 0 : qn_jarg_int(r, a[0], 0);
    g->stop = qn_jarg_int(r, a[one ? 0 : 1], 0);
    g->step = qn_jarg_int(r, a[2], 1);
    if (!qn_jok(r))
        return qn_jnone();
    if (g->step == 0)
        return qn_jfail(r, "range() arg 3 must not be zero");
    g->n = range_count(g->start, g->stop, g->step);
    if (g->n > 100000) /* the reference's sandbox has the same border */
        return qn_jlimit(r, "Range too big. The sandbox blocks ranges larger than"
                            " MAX_RANGE (100000).");
    return (qn_jval){ .type = QN_J_RANGE, .r = g };
}

/* What dict() does: a mapping or a sequence of pairs, then keywords. */
static void fill_dict(qn_jrun *r, qn_jdict *d, const char *what, const qn_jargs *args)
{
    if (args->n > 1) {
        qn_jfail(r, "%s expected at most 1 argument, got %zu", what, args->n);
        return;
    }
    if (args->n == 1 && args->v[0].type == QN_J_DICT) {
        qn_jdict_update(r, d, args->v[0].m);
    } else if (args->n == 1) {
        qn_jiter *it = qn_jiter_open(r, args->v[0]);
        qn_jval pair;
        while (it && qn_jiter_next(r, it, &pair)) {
            qn_jval p = qn_jto_list(r, pair, QN_J_LIST);
            if (qn_jok(r) && p.l->n != 2)
                qn_jfail(r, "dictionary update sequence element has length %zu; 2 is required",
                         p.l->n);
            if (qn_jok(r))
                qn_jdict_set(r, d, p.l->v[0], p.l->v[1]);
        }
    }
    if (args->kw)
        qn_jdict_update(r, d, args->kw);
}

static qn_jval g_dict(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)self, (void)a;
    qn_jval d = qn_jdict_new(r);
    fill_dict(r, d.m, "dict", raw);
    return d;
}

static qn_jval g_namespace(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)self, (void)a;
    qn_jval d = qn_jdict_new(r);
    fill_dict(r, d.m, "namespace", raw);
    d.type = QN_J_NAMESPACE;
    for (size_t i = 0; i < d.m->n; i++)
        if (d.m->v[i].key.type == QN_J_STR && d.m->v[i].key.s->n && d.m->v[i].key.s->p[0] == '_')
            return qn_jfail(r,
                            "Chat templates cannot store underscore-prefixed attributes on a"
                            " namespace, but got %s. Please rename the attribute.",
                            qn_jshort(r, d.m->v[i].key));
    return d;
}

static qn_jval g_cycler(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)self, (void)a;
    if (raw->n == 0 || (raw->kw && raw->kw->n))
        return qn_jfail(r, "at least one item has to be provided");
    qn_jcycler *c = qn_jalloc(r, sizeof *c);
    qn_jval items = qn_jlist_new(r, QN_J_TUPLE);
    for (size_t i = 0; i < raw->n; i++)
        qn_jlist_add(r, items.l, raw->v[i]);
    c->items = items.l;
    return (qn_jval){ .type = QN_J_CYCLER, .p = c };
}

static qn_jval g_joiner(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)self, (void)raw;
    qn_jjoiner *j = qn_jalloc(r, sizeof *j);
    j->sep = a[0].type == QN_J_MISSING ? qn_jstr_z(r, ", ") : a[0];
    return (qn_jval){ .type = QN_J_JOINER, .p = j };
}

static qn_jval g_raise(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)self, (void)raw;
    qn_jval text = qn_jto_str(r, a[0]);
    if (!qn_jok(r))
        return qn_jnone();
    r->raised = text.s;
    size_t room = sizeof r->err.msg - 1; /* the whole text is in r->raised */
    size_t n = qn_utf8_valid(text.s->p, text.s->n < room ? text.s->n : room);
    r->rc = qn_fail(&r->err, QN_ERR_RAISED, "%.*s", (int)n, text.s->p);
    return qn_jnone();
}

static qn_jval g_strftime(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)self, (void)raw;
    return qn_jstrftime(r, qn_jarg_str(r, a[0], ""));
}

static qn_jval g_lipsum(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)self, (void)a, (void)raw;
    return qn_jfail(r, "lipsum() is not supported: a rendering must not depend on chance");
}

static const qn_jbuiltin globals[] = {
    { "range", g_range, "/start stop step", 1 },
    { "dict", g_dict, NULL, 0 },
    { "namespace", g_namespace, NULL, 0 },
    { "cycler", g_cycler, NULL, 0 },
    { "joiner", g_joiner, "sep", 0 },
    { "raise_exception", g_raise, "message", 1 },
    { "strftime_now", g_strftime, "format", 1 },
    { "lipsum", g_lipsum, NULL, 0 },
    { 0 },
};

const qn_jbuiltin *qn_jglobal_find(const char *name, size_t n)
{
    return qn_jfind_in(globals, name, n);
}
