/* jinja_eval.c - evaluating expressions and assigning to targets. */
#include "tokenizer/jinja_eval.h"

/* --- variables --- */

qn_jval *qn_jslot(qn_jeval *e, qn_jref ref)
{
    qn_jenv *env = e->env;
    for (unsigned up = ref.up; up > 0; up--)
        env = env->parent;
    return &env->slot[ref.slot];
}

qn_jval qn_jresolve(qn_jeval *e, qn_jval name)
{
    qn_jval v;
    const qn_jctxvars *vars = e->env->vars;
    if (qn_jdict_get(e->r, vars->set, name, &v) || qn_jdict_get(e->r, vars->given, name, &v))
        return v;
    const qn_jbuiltin *fn = qn_jglobal_find(name.s->p, name.s->n);
    return fn ? (qn_jval){ .type = QN_J_FUNC, .fn = fn } : qn_jmissing();
}

static void assign_tuple(qn_jeval *e, const qn_jnode *target, qn_jval v)
{
    size_t want = target->items.n;
    if (!qn_jiterable(v)) {
        qn_jfail(e->r, "cannot unpack non-iterable %s object", qn_jtype_name(v));
        return;
    }
    qn_jval list = qn_jis_seq(v) ? v : qn_jto_list(e->r, v, QN_J_LIST);
    if (!qn_jok(e->r))
        return;
    if (list.l->n > want)
        qn_jfail(e->r, "too many values to unpack (expected %zu)", want);
    else if (list.l->n < want)
        qn_jfail(e->r, "not enough values to unpack (expected %zu, got %zu)", want, list.l->n);
    for (size_t i = 0; i < want && qn_jok(e->r); i++)
        qn_jassign(e, target->items.v[i], list.l->v[i]);
}

static void assign_namespace(qn_jeval *e, const qn_jnode *target, qn_jval v)
{
    qn_jval ns = *qn_jslot(e, target->ref);
    if (ns.type != QN_J_NAMESPACE)
        qn_jfail(e->r, "cannot assign attribute on non-namespace object");
    else if (target->value.s->n && target->value.s->p[0] == '_')
        qn_jfail(e->r,
                 "Chat templates cannot store underscore-prefixed attributes on a namespace,"
                 " but got %s. Please rename the attribute.",
                 qn_jshort(e->r, target->value));
    else
        qn_jdict_set(e->r, ns.m, target->value, v);
}

void qn_jassign(qn_jeval *e, const qn_jnode *target, qn_jval v)
{
    if (!qn_jok(e->r))
        return;
    if (target->kind == QN_JN_NAME)
        *qn_jslot(e, target->ref) = v;
    else if (target->kind == QN_JN_NSREF)
        assign_namespace(e, target, v);
    else
        assign_tuple(e, target, v);
}

/* --- calls --- */

#define FEW_ARGS 8

/* Evaluated arguments; few of them need no memory from the arena. */
typedef struct arg_buf {
    qn_jval few[FEW_ARGS];
    qn_jargs args;
} arg_buf;

static void star_args(qn_jeval *e, const qn_jnode *n, qn_jlist *all)
{
    for (size_t i = 0; i < n->items.n && qn_jok(e->r); i++)
        qn_jlist_add(e->r, all, qn_jeval_expr(e, n->items.v[i]));
    qn_jval star = qn_jeval_expr(e, n->b), x;
    qn_jiter *it = qn_jok(e->r) ? qn_jiter_open(e->r, star) : NULL;
    while (it && qn_jiter_next(e->r, it, &x))
        qn_jlist_add(e->r, all, x);
}

static void star_kwargs(qn_jeval *e, qn_jval star, qn_jdict *kw)
{
    if (star.type != QN_J_DICT) {
        qn_jfail(e->r, "argument after ** must be a mapping, not %s", qn_jtype_name(star));
        return;
    }
    for (size_t i = 0; i < star.m->n && qn_jtick(e->r, 1); i++) {
        qn_jval key = star.m->v[i].key, was;
        if (key.type != QN_J_STR)
            qn_jfail(e->r, "keywords must be strings");
        else if (qn_jdict_get(e->r, kw, key, &was))
            qn_jfail(e->r, "got multiple values for keyword argument %s", qn_jshort(e->r, key));
        else
            qn_jdict_set(e->r, kw, key, star.m->v[i].val);
    }
}

static void eval_args(qn_jeval *e, const qn_jnode *n, qn_jval caller, arg_buf *buf)
{
    buf->args = (qn_jargs){ .v = buf->few, .n = n->items.n };
    if (n->b || n->items.n > FEW_ARGS) {
        qn_jval all = qn_jlist_new(e->r, QN_J_LIST);
        if (n->b)
            star_args(e, n, all.l);
        for (size_t i = 0; !n->b && i < n->items.n && qn_jok(e->r); i++)
            qn_jlist_add(e->r, all.l, qn_jeval_expr(e, n->items.v[i]));
        buf->args.v = all.l->v;
        buf->args.n = all.l->n;
    } else {
        for (size_t i = 0; i < n->items.n; i++)
            buf->few[i] = qn_jeval_expr(e, n->items.v[i]);
    }
    if (n->more.n == 0 && !n->c && caller.type == QN_J_MISSING)
        return;
    qn_jdict *kw = qn_jdict_new(e->r).m;
    for (size_t i = 0; i < n->more.n && qn_jok(e->r); i++)
        qn_jdict_set(e->r, kw, n->more.v[i]->name, qn_jeval_expr(e, n->more.v[i]->a));
    if (caller.type != QN_J_MISSING)
        qn_jdict_set(e->r, kw, qn_jstr_z(e->r, "caller"), caller);
    if (n->c)
        star_kwargs(e, qn_jeval_expr(e, n->c), kw);
    buf->args.kw = kw;
}

qn_jval qn_jeval_call(qn_jeval *e, const qn_jnode *n, qn_jval caller)
{
    arg_buf buf;
    qn_jval f = qn_jeval_expr(e, n->a);
    eval_args(e, n, caller, &buf);
    return qn_jok(e->r) ? qn_jcall(e->r, f, &buf.args) : qn_jnone();
}

qn_jval qn_jeval_filter(qn_jeval *e, const qn_jnode *n, qn_jval input)
{
    arg_buf buf;
    if (n->a)
        input = qn_jeval_expr(e, n->a);
    eval_args(e, n, qn_jmissing(), &buf);
    if (!n->fn)
        return qn_jfail(e->r, "No %s named %s found.", n->kind == QN_JN_FILTER ? "filter" : "test",
                        qn_jshort(e->r, n->name));
    return qn_jok(e->r) ? qn_jcall_builtin(e->r, n->fn, input, &buf.args) : qn_jnone();
}

/* --- operators --- */

static bool compare(qn_jeval *e, int op, qn_jval a, qn_jval b)
{
    static const char *const names[] = { "<", "<=", ">", ">=" };
    if (!qn_jok(e->r))
        return false;
    if (op == QN_JT_EQ || op == QN_JT_NE)
        return qn_jeq(e->r, a, b) == (op == QN_JT_EQ);
    if (op > QN_JT_GE) /* in, not in */
        return qn_jcontains(e->r, b, a) == (op == 100);
    int c = qn_jcmp(e->r, a, b, names[op - QN_JT_LT]);
    if (c == 2)
        return false;
    return op == QN_JT_LT ? c < 0 : op == QN_JT_LE ? c <= 0 : op == QN_JT_GT ? c > 0 : c >= 0;
}

static qn_jval eval_compare(qn_jeval *e, const qn_jnode *n)
{
    qn_jval left = qn_jeval_expr(e, n->a);
    bool holds = true;
    for (size_t i = 0; i < n->items.n && holds && qn_jok(e->r); i++) {
        qn_jval right = qn_jeval_expr(e, n->items.v[i]->a);
        holds = compare(e, n->items.v[i]->op, left, right);
        left = right;
    }
    return qn_jbool(holds);
}

static qn_jval eval_concat(qn_jeval *e, const qn_jnode *n)
{
    qn_jsb b = { 0 };
    for (size_t i = 0; i < n->items.n && qn_jok(e->r); i++)
        qn_jput_str(e->r, &b, qn_jeval_expr(e, n->items.v[i]));
    return qn_jsb_done(e->r, &b);
}

static qn_jval eval_list(qn_jeval *e, const qn_jnode *n, qn_jtype type)
{
    qn_jval v = qn_jlist_new(e->r, type);
    for (size_t i = 0; i < n->items.n && qn_jok(e->r); i++)
        qn_jlist_add(e->r, v.l, qn_jeval_expr(e, n->items.v[i]));
    return v;
}

static qn_jval eval_dict(qn_jeval *e, const qn_jnode *n)
{
    qn_jval v = qn_jdict_new(e->r);
    for (size_t i = 0; i + 1 < n->items.n && qn_jok(e->r); i += 2) {
        qn_jval key = qn_jeval_expr(e, n->items.v[i]);
        qn_jdict_set(e->r, v.m, key, qn_jeval_expr(e, n->items.v[i + 1]));
    }
    return v;
}

static qn_jval eval_item(qn_jeval *e, const qn_jnode *n)
{
    qn_jval obj = qn_jeval_expr(e, n->a);
    if (n->b->kind != QN_JN_SLICE)
        return qn_jgetitem(e->r, obj, qn_jeval_expr(e, n->b));
    const qn_jnode *const part[3] = { n->b->a, n->b->b, n->b->c };
    qn_jval bounds[3];
    for (int i = 0; i < 3; i++)
        bounds[i] = part[i] ? qn_jeval_expr(e, part[i]) : qn_jnone();
    return qn_jslice(e->r, obj, bounds);
}

static qn_jval eval_name(qn_jeval *e, const qn_jnode *n)
{
    qn_jval v = *qn_jslot(e, n->ref);
    return v.type == QN_J_MISSING ? qn_jundef_name(e->r, n->name) : v;
}

static qn_jval eval_cond(qn_jeval *e, const qn_jnode *n)
{
    if (qn_jtruth(qn_jeval_expr(e, n->a)))
        return qn_jeval_expr(e, n->b);
    if (n->c)
        return qn_jeval_expr(e, n->c);
    return qn_jundef_hint(e->r,
                          "the inline if-expression on line %d evaluated to false and no else"
                          " section was defined.",
                          n->line);
}

/* `and` and `or` give one of their operands. */
static qn_jval eval_logic(qn_jeval *e, const qn_jnode *n)
{
    qn_jval left = qn_jeval_expr(e, n->a);
    return qn_jtruth(left) == (n->kind == QN_JN_AND) ? qn_jeval_expr(e, n->b) : left;
}

static qn_jval eval_binary(qn_jeval *e, const qn_jnode *n)
{
    qn_jval left = qn_jeval_expr(e, n->a);
    return qn_jbinary(e->r, (qn_jop)n->op, left, qn_jeval_expr(e, n->b));
}

static qn_jval eval(qn_jeval *e, const qn_jnode *n)
{
    switch ((qn_jkind)n->kind) {
    case QN_JN_CONST:
        return n->value;
    case QN_JN_NAME:
        return eval_name(e, n);
    case QN_JN_TUPLE:
        return eval_list(e, n, QN_J_TUPLE);
    case QN_JN_LIST:
        return eval_list(e, n, QN_J_LIST);
    case QN_JN_DICT:
        return eval_dict(e, n);
    case QN_JN_GETATTR:
        return qn_jgetattr(e->r, qn_jeval_expr(e, n->a), n->name);
    case QN_JN_GETITEM:
        return eval_item(e, n);
    case QN_JN_CALL:
        return qn_jeval_call(e, n, qn_jmissing());
    case QN_JN_FILTER:
    case QN_JN_TEST:
        return qn_jeval_filter(e, n, qn_jnone());
    case QN_JN_NOT:
        return qn_jbool(!qn_jtruth(qn_jeval_expr(e, n->a)));
    case QN_JN_NEG:
    case QN_JN_POS:
        return qn_jnegate(e->r, qn_jeval_expr(e, n->a), n->kind == QN_JN_NEG);
    case QN_JN_BINARY:
        return eval_binary(e, n);
    case QN_JN_AND:
    case QN_JN_OR:
        return eval_logic(e, n);
    case QN_JN_CONCAT:
        return eval_concat(e, n);
    case QN_JN_COMPARE:
        return eval_compare(e, n);
    case QN_JN_COND:
        return eval_cond(e, n);
    default:
        return qn_jfail(e->r, "line %d: slices cannot be used here", n->line);
    }
}

qn_jval qn_jeval_expr(qn_jeval *e, const qn_jnode *n)
{
    qn_jval v = qn_jnone();
    if (qn_jenter(e->r) && qn_jtick(e->r, 1))
        v = eval(e, n);
    qn_jleave(e->r);
    return v;
}
