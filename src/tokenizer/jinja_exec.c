/* jinja_exec.c - running statements: output, assignment, scopes, blocks. Loops are in jinja_loop.c. */
#include "tokenizer/jinja_eval.h"

/* --- scopes --- */

void qn_jenter_frame(qn_jeval *e, const qn_jframe *f)
{
    for (size_t i = 0; i < f->n_load; i++) {
        const qn_jload *l = &f->load[i];
        qn_jval *to = qn_jslot(e, l->to);
        if (l->kind == QN_JL_RESOLVE)
            *to = qn_jresolve(e, l->name);
        else if (l->kind == QN_JL_ALIAS)
            *to = *qn_jslot(e, l->from);
        else if (l->kind == QN_JL_UNDEFINED)
            *to = qn_jmissing();
    }
    qn_jtick(e->r, f->n_load);
}

/* A scope that shares its function's record is wiped, for macros that still see it. */
void qn_jleave_frame(qn_jeval *e, const qn_jframe *f)
{
    for (size_t i = 0; i < f->n_load; i++)
        *qn_jslot(e, f->load[i].to) = qn_jmissing();
}

qn_jenv *qn_jenv_new(qn_jeval *e, const qn_jframe *f, qn_jenv *parent)
{
    qn_jenv *env = qn_jalloc(e->r, sizeof *env);
    env->parent = parent;
    env->vars = parent ? parent->vars : NULL;
    qn_jroom(e->r, f->n_slots, sizeof *env->slot); /* at most a MiB: had even when it fails */
    env->slot = qn_arena_alloc_n(&e->r->arena, f->n_slots, sizeof *env->slot);
    return env;
}

/* Runs a body into a string. */
static qn_jval capture(qn_jeval *e, const qn_jnodes *body)
{
    qn_jsb b = { 0 }, *out = e->out;
    e->out = &b;
    qn_jexec_body(e, body);
    e->out = out;
    return qn_jsb_done(e->r, &b);
}

/* --- statements --- */

static void put_out(qn_jeval *e, qn_jval v)
{
    qn_jput_str(e->r, e->out, v);
    if (e->out->n > e->r->limit.output)
        qn_jlimit(e->r, "the template writes more than %zu bytes", e->r->limit.output);
}

/* Assignments at the top level are part of the context that blocks see. */
static void publish(qn_jeval *e, const qn_jnode *target)
{
    if (target->kind == QN_JN_NAME)
        qn_jdict_set(e->r, e->env->vars->set, target->name, *qn_jslot(e, target->ref));
    for (size_t i = 0; target->kind == QN_JN_TUPLE && i < target->items.n; i++)
        publish(e, target->items.v[i]);
}

static void exec_set(qn_jeval *e, const qn_jnode *n)
{
    qn_jassign(e, n->a, qn_jeval_expr(e, n->b));
    if (n->flag2 && e->tree->blocks.n)
        publish(e, n->a);
}

static void exec_set_block(qn_jeval *e, const qn_jnode *n)
{
    qn_jenter_frame(e, n->frame);
    qn_jval v = capture(e, &n->items);
    if (n->b && !e->signal) { /* the innermost filter of the chain takes the text */
        const qn_jnode *chain[64];
        size_t depth = 0;
        for (const qn_jnode *f = n->b; f && depth < 64; f = f->a)
            chain[depth++] = f;
        if (depth == 64)
            qn_jlimit(e->r, "more than 64 filters on one block");
        while (depth-- > 0 && qn_jok(e->r)) {
            qn_jnode one = *chain[depth];
            one.a = NULL;
            v = qn_jeval_filter(e, &one, v);
        }
    }
    if (!e->signal) /* break leaves before the assignment */
        qn_jassign(e, n->a, v);
    if (n->flag2 && e->tree->blocks.n)
        publish(e, n->a);
    qn_jleave_frame(e, n->frame);
}

static void exec_filter_block(qn_jeval *e, const qn_jnode *n)
{
    qn_jenter_frame(e, n->frame);
    qn_jval v = capture(e, &n->items);
    const qn_jnode *chain[64];
    size_t depth = 0;
    for (const qn_jnode *f = n->a; f && depth < 64; f = f->a)
        chain[depth++] = f;
    if (depth == 64)
        qn_jlimit(e->r, "more than 64 filters on one block");
    while (depth-- > 0 && !e->signal && qn_jok(e->r)) {
        qn_jnode one = *chain[depth];
        one.a = NULL;
        v = qn_jeval_filter(e, &one, v);
    }
    if (!e->signal)
        put_out(e, v);
    qn_jleave_frame(e, n->frame);
}

static void exec_if(qn_jeval *e, const qn_jnode *n)
{
    if (qn_jtruth(qn_jeval_expr(e, n->a))) {
        qn_jexec_body(e, &n->items);
        return;
    }
    for (size_t i = 0; i < n->more.n && qn_jok(e->r); i++)
        if (qn_jtruth(qn_jeval_expr(e, n->more.v[i]->a))) {
            qn_jexec_body(e, &n->more.v[i]->items);
            return;
        }
    qn_jexec_body(e, &n->rest);
}

static void exec_with(qn_jeval *e, const qn_jnode *n)
{
    qn_jenter_frame(e, n->frame);
    for (size_t i = 0; i < n->more.n && qn_jok(e->r); i++)
        qn_jassign(e, n->more.v[i], qn_jeval_expr(e, n->rest.v[i]));
    qn_jexec_body(e, &n->items);
    qn_jleave_frame(e, n->frame);
}

static void exec_autoescape(qn_jeval *e, const qn_jnode *n)
{
    if (qn_jtruth(qn_jeval_expr(e, n->a)))
        qn_jfail(e->r, "line %d: autoescape is not supported", n->line);
    qn_jenter_frame(e, n->frame);
    qn_jexec_body(e, &n->items);
    qn_jleave_frame(e, n->frame);
}

static void exec_macro(qn_jeval *e, const qn_jnode *n)
{
    qn_jval m = qn_jmacro_new(e, n);
    *qn_jslot(e, n->ref) = m;
    if (n->flag2 && e->tree->blocks.n)
        qn_jdict_set(e->r, e->env->vars->set, n->name, m);
}

static void add_span(qn_jeval *e, size_t chars)
{
    const qn_jsb *t = e->root;
    e->counted_chars += qn_jcount_chars(t->p ? t->p + e->counted : "", t->n - e->counted);
    e->counted = t->n;
    if (e->n_span == e->cap_span) {
        size_t cap = e->cap_span ? e->cap_span * 2 : 16;
        if (!qn_jroom(e->r, cap, sizeof *e->span))
            return;
        qn_jspan *v = qn_arena_alloc_n(&e->r->arena, cap, sizeof *v);
        if (e->n_span)
            memcpy(v, e->span, e->n_span * sizeof *v);
        e->span = v;
        e->cap_span = cap;
    }
    e->span[e->n_span++] = (qn_jspan){ e->counted_chars, e->counted_chars + chars };
}

/* What the model is to learn. Inside a macro the text is not yet in the output, and the span counts
 * from what is, as in the reference. */
static void exec_generation(qn_jeval *e, const qn_jnode *n)
{
    const qn_jmacro body = { .node = n, .env = e->env };
    qn_jval v = qn_jcall_macro(e, &body, &(qn_jargs){ 0 });
    if (!qn_jok(e->r))
        return;
    add_span(e, v.s->chars);
    put_out(e, v);
}

/* --- blocks --- */

static void run_block(qn_jeval *e, const qn_jnode *n)
{
    qn_jenv *caller = e->env, *env = qn_jenv_new(e, n->frame, NULL);
    qn_jctxvars *vars = caller->vars;
    if (n->flag2) { /* scoped: the variables around the block are on top of the context */
        vars = qn_jalloc(e->r, sizeof *vars);
        vars->given = caller->vars->given;
        vars->set = qn_jdict_new(e->r).m;
        qn_jdict_update(e->r, vars->set, caller->vars->set);
        for (size_t i = n->rest.n; i-- > 0;) {
            qn_jval v = *qn_jslot(e, n->rest.v[i]->ref);
            if (v.type != QN_J_MISSING)
                qn_jdict_set(e->r, vars->set, n->rest.v[i]->name, v);
        }
    }
    env->vars = vars;
    e->env = env;
    qn_jenter_frame(e, n->frame);
    if (n->frame->caller.slot != UINT16_MAX)
        *qn_jslot(e, n->frame->caller) = (qn_jval){ .type = QN_J_SELF };
    qn_jexec_body(e, &n->items);
    e->env = caller;
}

static void exec_block(qn_jeval *e, const qn_jnode *n)
{
    if (n->flag) {
        qn_jfail(e->r, "Required block %s not found", qn_jshort(e->r, n->name));
        return;
    }
    if (qn_jenter(e->r))
        run_block(e, n);
    qn_jleave(e->r);
}

qn_jval qn_jrun_block(qn_jeval *e, const qn_jnode *block)
{
    qn_jsb b = { 0 }, *out = e->out;
    e->out = &b;
    exec_block(e, block);
    e->out = out;
    return qn_jsb_done(e->r, &b);
}

/* --- dispatch --- */

static void exec_output(qn_jeval *e, const qn_jnode *n)
{
    for (size_t i = 0; i < n->items.n && qn_jok(e->r); i++) {
        qn_jval v = qn_jeval_expr(e, n->items.v[i]);
        if (qn_jok(e->r))
            put_out(e, v);
    }
}

static void exec(qn_jeval *e, const qn_jnode *n)
{
    switch ((qn_jkind)n->kind) {
    case QN_JN_DATA:
        put_out(e, n->value);
        break;
    case QN_JN_OUTPUT:
        exec_output(e, n);
        break;
    case QN_JN_IF:
        exec_if(e, n);
        break;
    case QN_JN_FOR:
        qn_jexec_for(e, n);
        break;
    case QN_JN_SET:
        exec_set(e, n);
        break;
    case QN_JN_SETBLOCK:
        exec_set_block(e, n);
        break;
    case QN_JN_MACRO:
        exec_macro(e, n);
        break;
    case QN_JN_CALLBLOCK:
        put_out(e, qn_jeval_call(e, n->a, qn_jmacro_new(e, n)));
        break;
    case QN_JN_GENERATION:
        exec_generation(e, n);
        break;
    case QN_JN_FILTERBLOCK:
        exec_filter_block(e, n);
        break;
    case QN_JN_WITH:
        exec_with(e, n);
        break;
    case QN_JN_AUTOESCAPE:
        exec_autoescape(e, n);
        break;
    case QN_JN_BLOCK:
        exec_block(e, n);
        break;
    case QN_JN_LOADER:
        qn_jfail(e->r, "line %d: no loader for this environment specified", n->line);
        break;
    default:
        e->signal = n->kind; /* break, continue */
    }
}

void qn_jexec_body(qn_jeval *e, const qn_jnodes *body)
{
    if (qn_jenter(e->r))
        for (size_t i = 0; i < body->n && !e->signal && qn_jtick(e->r, 1); i++)
            exec(e, body->v[i]);
    qn_jleave(e->r);
}

void qn_jexec_root(qn_jeval *e)
{
    const qn_jframe *f = e->tree->root->frame;
    qn_jctxvars *vars = e->env->vars;
    e->env = qn_jenv_new(e, f, NULL);
    e->env->vars = vars;
    qn_jenter_frame(e, f);
    if (f->caller.slot != UINT16_MAX)
        *qn_jslot(e, f->caller) = (qn_jval){ .type = QN_J_SELF };
    qn_jexec_body(e, &e->tree->root->items);
}
