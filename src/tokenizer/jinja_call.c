/* jinja_call.c - calling whatever can be called, and macros: how their arguments are bound. */
#include "tokenizer/jinja_eval.h"

qn_jval qn_jmacro_new(qn_jeval *e, const qn_jnode *node)
{
    qn_jmacro *m = qn_jalloc(e->r, sizeof *m);
    *m = (qn_jmacro){ .node = node, .env = e->env };
    return (qn_jval){ .type = QN_J_MACRO, .p = m };
}

static const char *macro_name(qn_jrun *r, const qn_jmacro *m)
{
    return m->node->kind == QN_JN_MACRO ? qn_jshort(r, m->node->name) : "None";
}

static bool wanted(qn_jref ref)
{
    return ref.slot != UINT16_MAX;
}

/* Keywords a macro was called with; each is taken at most once. */
typedef struct keywords {
    const qn_jdict *kw;
    size_t n_taken;
    bool taken[64];
} keywords;

static bool take(qn_jrun *r, keywords *k, const qn_jstr *name, qn_jval *out)
{
    for (size_t i = 0; k->kw && i < k->kw->n && qn_jtick(r, 1); i++) {
        const qn_jstr *key = k->kw->v[i].key.s;
        if (key->n != name->n || memcmp(key->p, name->p, key->n) != 0)
            continue;
        k->taken[i] = true;
        k->n_taken++;
        *out = k->kw->v[i].val;
        return true;
    }
    return false;
}

/* Parameters in order: positional, then by keyword; MISSING where neither is given. */
static bool bind_params(qn_jeval *e, const qn_jnode *n, const qn_jargs *args, keywords *k)
{
    const size_t count = n->more.n;
    bool found_caller = false, explicit_caller = false;
    for (size_t i = 0; i < count && qn_jok(e->r); i++) {
        const qn_jnode *p = n->more.v[i];
        qn_jval v = qn_jmissing();
        bool is_caller = qn_jstr_is(p->name.s, "caller");
        explicit_caller = explicit_caller || is_caller;
        if (i < args->n)
            v = args->v[i];
        else
            take(e->r, k, p->name.s, &v);
        found_caller = found_caller || (is_caller && i >= args->n);
        *qn_jslot(e, p->ref) = v;
    }
    return args->n >= count ? explicit_caller : found_caller;
}

static void bind_caller(qn_jeval *e, const qn_jframe *f, keywords *k)
{
    static const qn_jstr name = { .p = "caller", .n = 6, .chars = 6 };
    qn_jval v;
    if (!take(e->r, k, &name, &v) || v.type == QN_J_NONE)
        v = qn_jundef_hint(e->r, "No caller defined");
    *qn_jslot(e, f->caller) = v;
}

static void bind_kwargs(qn_jeval *e, const qn_jmacro *m, const keywords *k)
{
    qn_jval rest = qn_jdict_new(e->r);
    for (size_t i = 0; k->kw && i < k->kw->n && qn_jok(e->r); i++)
        if (!k->taken[i])
            qn_jdict_set(e->r, rest.m, k->kw->v[i].key, k->kw->v[i].val);
    if (wanted(m->node->frame->kwargs))
        *qn_jslot(e, m->node->frame->kwargs) = rest;
    else if (rest.m->n && qn_jstr_is(rest.m->v[0].key.s, "caller"))
        qn_jfail(e->r,
                 "macro %s was invoked with two values for the special caller argument."
                 " This is most likely a bug.",
                 macro_name(e->r, m));
    else if (rest.m->n)
        qn_jfail(e->r, "macro %s takes no keyword argument %s", macro_name(e->r, m),
                 qn_jshort(e->r, rest.m->v[0].key));
}

static void bind_varargs(qn_jeval *e, const qn_jmacro *m, const qn_jargs *args)
{
    size_t count = m->node->more.n;
    if (!wanted(m->node->frame->varargs)) {
        if (args->n > count)
            qn_jfail(e->r, "macro %s takes not more than %zu argument(s)", macro_name(e->r, m),
                     count);
        return;
    }
    qn_jval rest = qn_jlist_new(e->r, QN_J_TUPLE);
    for (size_t i = count; i < args->n; i++)
        qn_jlist_add(e->r, rest.l, args->v[i]);
    *qn_jslot(e, m->node->frame->varargs) = rest;
}

/* Defaults see the parameters before them. */
static void fill_defaults(qn_jeval *e, const qn_jnode *n)
{
    size_t first = n->more.n - n->rest.n;
    for (size_t i = 0; i < n->more.n && qn_jok(e->r); i++) {
        qn_jval *slot = qn_jslot(e, n->more.v[i]->ref);
        if (slot->type != QN_J_MISSING)
            continue;
        const qn_jstr *name = n->more.v[i]->name.s;
        *slot = i >= first ? qn_jeval_expr(e, n->rest.v[i - first])
                           : qn_jundef_hint(e->r, "parameter '%.*s' was not provided",
                                            (int)(name->n < 80 ? name->n : 80), name->p);
    }
}

static void run_macro(qn_jeval *e, const qn_jmacro *m, const qn_jargs *args)
{
    const qn_jnode *n = m->node;
    keywords k = { .kw = args->kw };
    if (k.kw && k.kw->n > sizeof k.taken) {
        qn_jlimit(e->r, "a macro call with more than %zu keywords", sizeof k.taken);
        return;
    }
    bool found_caller = bind_params(e, n, args, &k);
    if (wanted(n->frame->caller) && !found_caller)
        bind_caller(e, n->frame, &k);
    bind_kwargs(e, m, &k);
    bind_varargs(e, m, args);
    if (!qn_jok(e->r))
        return;
    qn_jenter_frame(e, n->frame);
    fill_defaults(e, n);
    if (qn_jok(e->r))
        qn_jexec_body(e, &n->items);
}

qn_jval qn_jcall_macro(qn_jeval *e, const qn_jmacro *m, const qn_jargs *args)
{
    qn_jsb b = { 0 }, *out = e->out;
    qn_jenv *saved = e->env;
    if (qn_jenter(e->r)) {
        e->out = &b;
        e->env = qn_jenv_new(e, m->node->frame, m->env);
        run_macro(e, m, args);
        e->env = saved;
        e->out = out;
    }
    qn_jleave(e->r);
    return qn_jsb_done(e->r, &b);
}

static qn_jval call_joiner(qn_jjoiner *j, qn_jrun *r)
{
    bool first = !j->used;
    j->used = true;
    return first ? qn_jstr_z(r, "") : j->sep;
}

qn_jval qn_jcall(qn_jrun *r, qn_jval f, const qn_jargs *args)
{
    switch ((qn_jtype)f.type) {
    case QN_J_FUNC:
        return qn_jcall_builtin(r, f.fn, f, args);
    case QN_J_METHOD:
        return qn_jcall_builtin(r, ((qn_jmethod *)f.p)->fn, ((qn_jmethod *)f.p)->self, args);
    case QN_J_MACRO:
        return qn_jcall_macro(r->eval, f.p, args);
    case QN_J_LOOP:
        if (args->n != 1)
            return qn_jfail(r, "loop() takes one iterable");
        return qn_jloop_call(r->eval, f.p, args->v[0]);
    case QN_J_JOINER:
        return call_joiner(f.p, r);
    case QN_J_BLOCK:
        return qn_jrun_block(r->eval, f.p);
    case QN_J_UNDEF:
        return qn_jundef_fail(r, f);
    default:
        return qn_jfail(r, "'%s' object is not callable", qn_jtype_name(f));
    }
}

void qn_jput_object(qn_jrun *r, qn_jsb *b, qn_jval v)
{
    if (v.type == QN_J_MACRO && ((const qn_jmacro *)v.p)->node->kind == QN_JN_MACRO) {
        qn_jsb_printf(r, b, "<Macro %s>", macro_name(r, v.p));
    } else if (v.type == QN_J_MACRO) {
        qn_jsb_str(r, b, "<Macro anonymous>");
    } else if (v.type == QN_J_LOOP) {
        qn_jloop *l = v.p;
        qn_jsb_printf(r, b, "<LoopContext %lld/%lld>", (long long)l->index0 + 1,
                      (long long)qn_jloop_length(r, l));
    } else if (v.type == QN_J_SELF) {
        qn_jsb_str(r, b, "<TemplateReference None>");
    } else {
        qn_jsb_printf(r, b, "<%s object>", qn_jtype_name(v));
    }
}
