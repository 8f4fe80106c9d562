/* jinja_loop.c - the `for` statement: lazy items, the loop object, filtered and recursive loops. */
#include "tokenizer/jinja_eval.h"

/* --- the loop object --- */

static bool loop_next(qn_jrun *r, qn_jloop *l, qn_jval *out)
{
    if (l->after.type != QN_J_MISSING) {
        *out = l->after;
        l->after = qn_jmissing();
    } else if (!qn_jiter_next(r, l->it, out)) {
        return false;
    }
    l->index0++;
    l->before = l->current;
    l->current = *out;
    return true;
}

/* Walking over `loop` itself gives pairs of item and loop, and moves the loop on. */
static bool pair_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    if (!loop_next(r, it->src.p, out))
        return false;
    *out = qn_jtuple2(r, *out, it->src);
    return true;
}

qn_jiter *qn_jloop_iter(qn_jrun *r, qn_jval loop)
{
    return qn_jiter_new(r, pair_next, loop);
}

static qn_jval loop_peek(qn_jrun *r, qn_jloop *l)
{
    qn_jval v;
    if (l->after.type == QN_J_MISSING && qn_jiter_next(r, l->it, &v))
        l->after = v;
    return l->after;
}

/* What has no length is drained to count it; the items go on from the list. */
int64_t qn_jloop_length(qn_jrun *r, qn_jloop *l)
{
    if (l->length >= 0)
        return l->length;
    if (qn_jhas_len(l->iterable)) {
        l->length = qn_jlen(r, l->iterable);
        return l->length;
    }
    qn_jval rest = qn_jto_list(r, qn_jiter_val(l->it), QN_J_LIST);
    l->it = qn_jiter_open(r, rest);
    l->length = (int64_t)rest.l->n + l->index0 + 1 + (l->after.type != QN_J_MISSING);
    return l->length;
}

static qn_jval m_cycle(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)a;
    const qn_jloop *l = self.p;
    if (raw->n == 0)
        return qn_jfail(r, "no items for cycling given");
    return raw->v[(size_t)l->index0 % raw->n];
}

static qn_jval m_changed(qn_jrun *r, qn_jval self, const qn_jval *a, const qn_jargs *raw)
{
    (void)a;
    qn_jloop *l = self.p;
    qn_jval now = qn_jlist_new(r, QN_J_TUPLE);
    for (size_t i = 0; i < raw->n; i++)
        qn_jlist_add(r, now.l, raw->v[i]);
    bool same = l->last_changed.type != QN_J_MISSING && qn_jeq(r, l->last_changed, now);
    l->last_changed = now;
    return qn_jbool(!same);
}

static const qn_jbuiltin loop_methods[] = {
    { "cycle", m_cycle, NULL, 0 },
    { "changed", m_changed, NULL, 0 },
    { 0 },
};

typedef enum loop_field {
    INDEX,
    INDEX0,
    REVINDEX,
    REVINDEX0,
    FIRST,
    LAST,
    LENGTH,
    DEPTH,
    DEPTH0,
    PREVITEM,
    NEXTITEM
} loop_field;

static qn_jval loop_value(qn_jrun *r, qn_jloop *l, loop_field f)
{
    qn_jval next;
    switch (f) {
    case INDEX:
        return qn_jint(l->index0 + 1);
    case INDEX0:
        return qn_jint(l->index0);
    case REVINDEX:
        return qn_jint(qn_jloop_length(r, l) - l->index0);
    case REVINDEX0:
        return qn_jint(qn_jloop_length(r, l) - l->index0 - 1);
    case FIRST:
        return qn_jbool(l->index0 == 0);
    case LAST:
        return qn_jbool(loop_peek(r, l).type == QN_J_MISSING);
    case LENGTH:
        return qn_jint(qn_jloop_length(r, l));
    case DEPTH:
        return qn_jint(l->depth0 + 1);
    case DEPTH0:
        return qn_jint(l->depth0);
    case PREVITEM:
        return l->index0 == 0 ? qn_jundef_hint(r, "there is no previous item") : l->before;
    default:
        next = loop_peek(r, l);
        return next.type == QN_J_MISSING ? qn_jundef_hint(r, "there is no next item") : next;
    }
}

bool qn_jloop_attr(qn_jrun *r, qn_jval self, const qn_jstr *name, qn_jval *out)
{
    static const char *const fields[] = {
        [INDEX] = "index",         [INDEX0] = "index0",     [REVINDEX] = "revindex",
        [REVINDEX0] = "revindex0", [FIRST] = "first",       [LAST] = "last",
        [LENGTH] = "length",       [DEPTH] = "depth",       [DEPTH0] = "depth0",
        [PREVITEM] = "previtem",   [NEXTITEM] = "nextitem",
    };
    for (int i = 0; i <= NEXTITEM; i++)
        if (qn_jstr_is(name, fields[i])) {
            *out = loop_value(r, self.p, (loop_field)i);
            return true;
        }
    const qn_jbuiltin *fn = qn_jfind_in(loop_methods, name->p, name->n);
    if (fn)
        *out = qn_jmethod_new(r, self, fn);
    return fn != NULL;
}

/* --- `for x in y if z` --- */

typedef struct loop_filter {
    qn_jeval *e;
    const qn_jnode *node;
    qn_jenv *env;
} loop_filter;

static bool filter_next(qn_jrun *r, qn_jiter *it, qn_jval *out)
{
    loop_filter *f = it->state;
    qn_jeval *e = f->e;
    qn_jenv *saved = e->env;
    const qn_jnode *target = f->node->more.v[0];
    bool found = false;
    e->env = f->env;
    if (!it->started) {
        qn_jenter_frame(e, f->node->frame2);
        it->inner = qn_jiter_open(r, it->src);
    }
    it->started = true;
    while (!found && it->inner && qn_jiter_next(r, it->inner, out)) {
        qn_jassign(e, target, *out);
        found = qn_jok(r) && qn_jtruth(qn_jeval_expr(e, f->node->c));
    }
    if (found && target->kind == QN_JN_TUPLE) /* what is passed on is the unpacked target */
        *out = qn_jto_list(r, *out, QN_J_TUPLE);
    e->env = saved;
    return found && qn_jok(r);
}

static qn_jval filtered(qn_jeval *e, const qn_jnode *n, qn_jval iterable, qn_jenv *around)
{
    loop_filter *f = qn_jalloc(e->r, sizeof *f);
    *f = (loop_filter){ .e = e, .node = n, .env = qn_jenv_new(e, n->frame2, around) };
    qn_jiter *it = qn_jiter_new(e->r, filter_next, iterable);
    it->state = f;
    return qn_jiter_val(it);
}

/* --- running --- */

/* One item has been assigned: runs the body. false: break. *whole: the body ran to its end, which is
 * what spares the else part (the reference's `continue` does not). */
static bool run_item(qn_jeval *e, const qn_jnode *n, bool *whole)
{
    qn_jenter_frame(e, n->frame);
    qn_jexec_body(e, &n->items);
    int signal = e->signal;
    e->signal = 0;
    *whole = *whole || signal == 0;
    return signal != QN_JN_BREAK;
}

static void run_loop(qn_jeval *e, const qn_jnode *n, qn_jval iterable, int depth0, qn_jenv *around)
{
    qn_jrun *r = e->r;
    qn_jval src = n->c ? filtered(e, n, iterable, around) : iterable, item;
    qn_jloop *l = NULL;
    qn_jiter *it = qn_jiter_open(r, src);
    bool whole = false;
    if (!it)
        return;
    if (n->flag2) {
        l = qn_jalloc(r, sizeof *l);
        *l = (qn_jloop){ .it = it,
                         .iterable = src,
                         .index0 = -1,
                         .length = -1,
                         .depth0 = depth0,
                         .node = n->flag ? n : NULL,
                         .env = around };
    }
    while (qn_jok(r) && (l ? loop_next(r, l, &item) : qn_jiter_next(r, it, &item))) {
        qn_jassign(e, n->a, item);
        if (l)
            *qn_jslot(e, n->frame->loop) = (qn_jval){ .type = QN_J_LOOP, .p = l };
        if (!qn_jok(r) || !run_item(e, n, &whole))
            break;
    }
    if (!qn_jok(r))
        return;
    qn_jleave_frame(e, n->frame);
    if (n->rest.n && !whole) {
        qn_jenter_frame(e, n->frame3);
        qn_jexec_body(e, &n->rest);
        qn_jleave_frame(e, n->frame3);
    }
}

/* A recursive loop is a function: its own variables, its text returned. */
static qn_jval run_recursive(qn_jeval *e, const qn_jnode *n, qn_jval iterable, int depth0,
                             qn_jenv *around)
{
    qn_jsb b = { 0 }, *out = e->out;
    qn_jenv *saved = e->env;
    if (qn_jenter(e->r)) {
        e->out = &b;
        e->env = qn_jenv_new(e, n->frame, around);
        run_loop(e, n, iterable, depth0, around);
        e->env = saved;
        e->out = out;
    }
    qn_jleave(e->r);
    return qn_jsb_done(e->r, &b);
}

qn_jval qn_jloop_call(qn_jeval *e, qn_jloop *l, qn_jval iterable)
{
    if (!l->node)
        return qn_jfail(e->r,
                        "The loop must have the 'recursive' marker to be called recursively.");
    return run_recursive(e, l->node, iterable, l->depth0 + 1, l->env);
}

void qn_jexec_for(qn_jeval *e, const qn_jnode *n)
{
    qn_jval iterable = qn_jeval_expr(e, n->b);
    if (!qn_jok(e->r))
        return;
    if (n->flag)
        qn_jput_str(e->r, e->out, run_recursive(e, n, iterable, 0, e->env));
    else
        run_loop(e, n, iterable, 0, e->env);
}
