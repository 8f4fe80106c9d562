/* jinja_scope.c - decides where every variable lives, with the reference's rules.
 *
 * Jinja compiles a template to Python functions, and its scoping is that of the code it writes. When a
 * scope is entered, each name it mentions is loaded once: from the variable of an outer scope (alias),
 * from the context (resolve), or as unset. Assignments then stay inside the scope, except in `if`,
 * which is no scope. A macro sees the variables around it as they are when it runs. Two walks do it:
 * collect() gathers the names of one scope, bind() visits the tree as the compiler would, opening
 * scopes, giving names their slots and refusing what the compiler refuses. */
#include "tokenizer/jinja_ast.h"

#define MAX_SLOTS 60000

typedef struct function { /* one activation record */
    struct function *parent;
    qn_jdict *slots; /* level and name -> slot */
    size_t n_slots;
} function;

typedef struct ident {
    const function *fn;
    uint16_t slot;
} ident;

typedef struct entry { /* one name of a scope */
    int64_t name;
    ident id, from;
    uint8_t load;
    bool stored;
} entry;

typedef struct scope {
    struct scope *parent;
    function *fn;
    int level;
    entry *v;
    size_t n, cap;
} scope;

typedef struct binder {
    qn_jtree *tree;
    qn_jrun *r;
    qn_jdict *names; /* text -> number */
    int in_for;      /* loops around, also through macros */
} binder;

typedef struct place { /* where bind() is */
    scope *s;
    bool soft;     /* in a branch: unknown filters fail only when reached */
    bool toplevel; /* assignments are seen by blocks */
    bool in_loop;  /* break and continue have a loop */
} place;

/* --- the tables of a scope --- */

static int64_t name_number(binder *b, qn_jval name)
{
    qn_jval v;
    if (qn_jdict_get(b->r, b->names, name, &v))
        return v.i;
    qn_jdict_set(b->r, b->names, name, qn_jint((int64_t)b->names->n));
    return (int64_t)b->names->n - 1;
}

static ident slot_of(binder *b, const scope *s, int64_t name)
{
    qn_jval key = qn_jint((int64_t)s->level * (1 << 24) + name), v;
    if (!qn_jdict_get(b->r, s->fn->slots, key, &v)) {
        v = qn_jint((int64_t)s->fn->n_slots);
        if (s->fn->n_slots >= MAX_SLOTS)
            qn_jlimit(b->r, "a template with more than %d variables", MAX_SLOTS);
        else
            s->fn->n_slots++;
        qn_jdict_set(b->r, s->fn->slots, key, v);
    }
    return (ident){ .fn = s->fn, .slot = (uint16_t)v.i };
}

static entry *find_own(binder *b, const scope *s, int64_t name)
{
    qn_jtick(b->r, s->n / 8);
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].name == name)
            return &s->v[i];
    return NULL;
}

static entry *find(binder *b, const scope *s, int64_t name)
{
    entry *e = NULL;
    for (; s && !e; s = s->parent)
        e = find_own(b, s, name);
    return e;
}

static bool reserve(binder *b, scope *s, size_t n)
{
    if (n <= s->cap)
        return true;
    size_t cap = s->cap * 2 > n ? s->cap * 2 : n + 8;
    if (!qn_jroom(b->r, cap, sizeof *s->v))
        return false;
    entry *v = qn_arena_alloc_n(&b->r->arena, cap, sizeof *v);
    if (s->n)
        memcpy(v, s->v, s->n * sizeof *v);
    s->v = v;
    s->cap = cap;
    return true;
}

static void define(binder *b, scope *s, entry e)
{
    e.id = slot_of(b, s, e.name);
    if (reserve(b, s, s->n + 1))
        s->v[s->n++] = e;
}

static void note_load(binder *b, scope *s, qn_jval name)
{
    int64_t k = name_number(b, name);
    if (!find(b, s, k))
        define(b, s, (entry){ .name = k, .load = QN_JL_RESOLVE });
}

static void note_store(binder *b, scope *s, qn_jval name)
{
    int64_t k = name_number(b, name);
    entry *own = find_own(b, s, k);
    if (own) {
        own->stored = true;
        return;
    }
    entry *outer = find(b, s->parent, k),
          e = { .name = k, .stored = true, .load = QN_JL_UNDEFINED };
    if (outer) {
        e.load = QN_JL_ALIAS;
        e.from = outer->id;
    }
    define(b, s, e);
}

static void note_param(binder *b, scope *s, qn_jval name)
{
    int64_t k = name_number(b, name);
    entry *own = find_own(b, s, k);
    if (!own)
        define(b, s, (entry){ .name = k });
    own = find_own(b, s, k);
    if (!own)
        return;
    own->stored = true;
    own->load = QN_JL_PARAM;
}

/* Takes over one name as a branch of an `if` left it. What only branches store is loaded beforehand,
 * so that the other ways through the `if` leave it as it was. */
static void merge_entry(binder *b, scope *s, entry e, entry *own)
{
    const bool stored = e.stored;
    if (own && own->stored)
        return;
    e.stored = false;
    if (own) {
        own->load = e.load;
        own->from = e.from;
    } else {
        define(b, s, e);
        own = find_own(b, s, e.name);
    }
    if (!own || !stored)
        return;
    const entry *outer = find(b, s->parent, e.name);
    own->load = outer ? QN_JL_ALIAS : QN_JL_RESOLVE;
    own->from = outer ? outer->id : (ident){ 0 };
    own->stored = true;
}

static void merge_branches(binder *b, scope *s, const scope *branch, int n)
{
    const size_t before = s->n; /* a branch begins with the same names at the same places */
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < branch[i].n && qn_jtick(b->r, 1); k++) {
            const entry *e = &branch[i].v[k];
            merge_entry(b, s, *e, k < before ? &s->v[k] : find_own(b, s, e->name));
        }
}

/* --- children of a node, in the reference's order of fields --- */

static const char *field_order(const qn_jnode *n)
{
    switch ((qn_jkind)n->kind) {
    case QN_JN_FOR:
        return "abirc";
    case QN_JN_WITH:
    case QN_JN_MACRO:
    case QN_JN_GENERATION:
        return "mri";
    case QN_JN_CALLBLOCK:
        return "amri";
    case QN_JN_FILTERBLOCK:
        return "ia";
    case QN_JN_CALL:
    case QN_JN_FILTER:
    case QN_JN_TEST:
        return "aimbc";
    default:
        return "abcimr";
    }
}

typedef void (*visit_fn)(void *ctx, qn_jnode *n);

static void each(qn_jnodes *list, visit_fn f, void *ctx)
{
    for (size_t i = 0; i < list->n; i++)
        f(ctx, list->v[i]);
}

static void each_child(qn_jnode *n, visit_fn f, void *ctx)
{
    for (const char *o = field_order(n); *o; o++) {
        qn_jnode *one = *o == 'a' ? n->a : *o == 'b' ? n->b : *o == 'c' ? n->c : NULL;
        qn_jnodes *list = *o == 'i'   ? &n->items
                          : *o == 'm' ? &n->more
                          : *o == 'r' ? &n->rest
                                      : NULL;
        if (one)
            f(ctx, one);
        if (list)
            each(list, f, ctx);
    }
}

/* --- which special names does a body use? --- */

typedef struct search {
    binder *b;
    const char *name;
    bool found, hidden;
} search;

static void search_node(void *ctx, qn_jnode *n)
{
    search *q = ctx;
    if (q->found || q->hidden || n->kind == QN_JN_BLOCK || !qn_jtick(q->b->r, 1))
        return;
    if (n->kind != QN_JN_NAME)
        each_child(n, search_node, q);
    else if (qn_jstr_is(n->name.s, q->name))
        *(n->ctx == QN_JX_LOAD ? &q->found : &q->hidden) = true;
}

static bool uses(binder *b, qn_jnodes *body, const char *name)
{
    search q = { .b = b, .name = name };
    each(body, search_node, &q);
    return q.found;
}

/* --- first walk: the names of one scope --- */

typedef struct collector {
    binder *b;
    scope *s;
} collector;

static void collect(void *ctx, qn_jnode *n);

/* Each branch starts from what was known before the `if`. */
static void collect_if(collector *c, qn_jnode *n)
{
    scope *whole = c->s, branch[3];
    qn_jnodes *bodies[3] = { &n->items, &n->more, &n->rest };
    for (int i = 0; i < 3; i++) {
        branch[i] = (scope){ .parent = whole->parent, .fn = whole->fn, .level = whole->level };
        if (!qn_jtick(c->b->r, whole->n / 4) || !reserve(c->b, &branch[i], whole->n))
            return;
        if (whole->n)
            memcpy(branch[i].v, whole->v, whole->n * sizeof *whole->v);
        branch[i].n = whole->n;
        c->s = &branch[i];
        each(bodies[i], collect, c);
        c->s = whole;
    }
    merge_branches(c->b, whole, branch, 3);
}

static void collect(void *ctx, qn_jnode *n)
{
    collector *c = ctx;
    if (!qn_jtick(c->b->r, 1))
        return;
    switch ((qn_jkind)n->kind) {
    case QN_JN_NAME:
        if (n->ctx == QN_JX_PARAM)
            note_param(c->b, c->s, n->name);
        else if (n->ctx == QN_JX_STORE)
            note_store(c->b, c->s, n->name);
        else
            note_load(c->b, c->s, n->name);
        break;
    case QN_JN_NSREF:
        note_load(c->b, c->s, n->name);
        break;
    case QN_JN_IF:
        collect(c, n->a);
        collect_if(c, n);
        break;
    case QN_JN_MACRO:
        note_store(c->b, c->s, n->name);
        break;
    case QN_JN_SET:
        collect(c, n->b);
        collect(c, n->a);
        break;
    case QN_JN_FOR: /* what follows is visited as far as it belongs to the outer scope */
        collect(c, n->b);
        break;
    case QN_JN_CALLBLOCK:
    case QN_JN_FILTERBLOCK:
    case QN_JN_SETBLOCK:
        collect(c, n->a);
        break;
    case QN_JN_WITH:
        each(&n->rest, collect, c);
        break;
    case QN_JN_GENERATION:
    case QN_JN_AUTOESCAPE:
    case QN_JN_BLOCK:
        break;
    default:
        each_child(n, collect, c);
    }
}

static void collect_target(collector *c, qn_jnode *n) /* the variables of a loop are parameters */
{
    if (n->kind == QN_JN_NAME)
        note_param(c->b, c->s, n->name);
    for (size_t i = 0; n->kind == QN_JN_TUPLE && i < n->items.n; i++)
        collect_target(c, n->items.v[i]);
}

/* --- second walk: slots for names --- */

static void bind(binder *b, place at, qn_jnode *n);

static qn_jref ref_to(const scope *from, ident id)
{
    uint16_t up = 0;
    for (const function *f = from->fn; f && f != id.fn; f = f->parent)
        up++;
    return (qn_jref){ .up = up, .slot = id.slot };
}

static qn_jref ref_name(binder *b, const scope *s, qn_jval name)
{
    entry *e = find(b, s, name_number(b, name));
    if (!e) /* only where the reference's compiler itself would break */
        qn_jfail(b->r, "the name %s cannot be resolved", qn_jshort(b->r, name));
    return e ? ref_to(s, e->id) : (qn_jref){ 0 };
}

static scope *inner_scope(binder *b, scope *parent, bool new_function)
{
    scope *s = qn_jalloc(b->r, sizeof *s);
    s->parent = parent;
    s->level = parent ? parent->level + 1 : 0;
    s->fn = parent ? parent->fn : NULL;
    if (new_function) {
        function *f = qn_jalloc(b->r, sizeof *f);
        f->parent = s->fn;
        f->slots = qn_jdict_new(b->r).m;
        s->fn = f;
    }
    return s;
}

/* Writes down what entering the scope does. To be called when its names are complete; the number of
 * slots of a function is final only after everything in it is bound. */
static qn_jframe *frame_of(binder *b, const scope *s)
{
    static const qn_jref unwanted = { .slot = UINT16_MAX };
    qn_jframe *f = qn_jalloc(b->r, sizeof *f);
    *f = (qn_jframe){
        .caller = unwanted, .kwargs = unwanted, .varargs = unwanted, .loop = unwanted
    };
    if (!qn_jroom(b->r, s->n, sizeof *f->load))
        return f;
    f->load = qn_arena_alloc_n(&b->r->arena, s->n, sizeof *f->load);
    for (size_t i = 0; i < s->n; i++) {
        const entry *e = &s->v[i];
        qn_jload *l = &f->load[f->n_load++];
        l->kind = e->load;
        l->to = ref_to(s, e->id);
        l->name = b->names->v[e->name].key;
        if (e->load == QN_JL_ALIAS)
            l->from = ref_to(s, e->from);
    }
    return f;
}

static void bind_all(binder *b, place at, qn_jnodes *list)
{
    for (size_t i = 0; i < list->n && qn_jok(b->r); i++)
        bind(b, at, list->v[i]);
}

static void bind_name(binder *b, place at, qn_jnode *n)
{
    if (n->ctx == QN_JX_STORE && b->in_for && qn_jstr_is(n->name.s, "loop"))
        qn_jfail(b->r, "line %d: Can't assign to special loop variable in for-loop target",
                 n->line);
    n->ref = ref_name(b, at.s, n->name);
}

static void bind_lookup(binder *b, place at, qn_jnode *n)
{
    bool filter = n->kind == QN_JN_FILTER;
    n->fn = (filter ? qn_jfilter_find : qn_jtest_find)(n->name.s->p, n->name.s->n);
    if (!n->fn && !at.soft)
        qn_jfail(b->r, "line %d: No %s named %s.", n->line, filter ? "filter" : "test",
                 qn_jshort(b->r, n->name));
}

static place inside(place at, scope *s)
{
    return (place){ .s = s, .in_loop = at.in_loop };
}

static qn_jnode *clone_target(binder *b, const qn_jnode *n)
{
    qn_jnode *c = qn_jalloc(b->r, sizeof *c);
    *c = *n;
    if (!qn_jroom(b->r, n->items.n, sizeof *c->items.v))
        return c;
    c->items.v = qn_arena_alloc_n(&b->r->arena, n->items.n, sizeof *c->items.v);
    for (size_t i = 0; i < n->items.n; i++)
        c->items.v[i] = clone_target(b, n->items.v[i]);
    return c;
}

/* The condition of a loop runs in a function of its own, with its own copy of the target. */
static void bind_loop_test(binder *b, place at, qn_jnode *n)
{
    scope *s = inner_scope(b, at.s, true);
    collector c = { .b = b, .s = s };
    collect_target(&c, n->a);
    collect(&c, n->c);
    qn_jparser p = { .r = b->r };
    qn_jnode *copy = clone_target(b, n->a);
    qn_jnode_add(&p, n, &n->more, copy);
    n->frame2 = frame_of(b, s);
    bind(b, (place){ .s = s }, copy);
    bind(b, (place){ .s = s }, n->c);
    n->frame2->n_slots = (uint16_t)(s->fn->n_slots + 1);
}

static void bind_for(binder *b, place at, qn_jnode *n)
{
    static const char loop_text[] = "loop";
    qn_jval loop = qn_jstr_ref(b->r, loop_text, 4);
    b->in_for++;
    bind(b, at, n->b);
    scope *s = inner_scope(b, at.s, n->flag);
    collector c = { .b = b, .s = s };
    n->flag2 = n->flag || uses(b, &n->items, "loop");
    if (n->flag2)
        note_param(b, s, loop);
    collect_target(&c, n->a);
    each(&n->items, collect, &c);
    n->frame = frame_of(b, s);
    if (n->flag2 && qn_jok(b->r))
        n->frame->loop = ref_name(b, s, loop);
    if (n->c && qn_jok(b->r))
        bind_loop_test(b, at, n);
    place in = inside(at, s);
    in.in_loop = true;
    bind(b, in, n->a);
    bind_all(b, in, &n->items);
    if (n->rest.n && qn_jok(b->r)) {
        scope *e = inner_scope(b, at.s, false);
        if (n->flag) { /* the else part of a recursive loop is in its function */
            e->fn = s->fn;
            in.in_loop = false;
        } else {
            in.in_loop = at.in_loop;
        }
        in.s = e;
        c.s = e;
        each(&n->rest, collect, &c);
        n->frame3 = frame_of(b, e);
        bind_all(b, in, &n->rest);
    }
    if (n->flag)
        n->frame->n_slots = (uint16_t)(s->fn->n_slots + 1);
    b->in_for--;
}

static void special_param(binder *b, scope *s, qn_jnode *n, const char *name, qn_jref *ref)
{
    qn_jval v = qn_jstr_z(b->r, name);
    for (size_t i = 0; i < n->more.n; i++)
        if (qn_jstr_is(n->more.v[i]->name.s, name)) { /* a plain parameter of that name */
            if (strcmp(name, "caller") == 0 && i + n->rest.n < n->more.n &&
                uses(b, &n->items, name))
                qn_jfail(b->r,
                         "line %d: When defining macros or call blocks the special \"caller\" "
                         "argument must be omitted or be given a default.",
                         n->line);
            return;
        }
    if (!uses(b, &n->items, name))
        return;
    note_param(b, s, v);
    *ref = ref_name(b, s, v);
}

/* A macro, or the body of a call or generation block. */
static void bind_function(binder *b, place at, qn_jnode *n)
{
    scope *s = inner_scope(b, at.s, true);
    collector c = { .b = b, .s = s };
    qn_jref caller = { .slot = UINT16_MAX }, kwargs = caller, varargs = caller;
    each(&n->more, collect, &c);
    each(&n->rest, collect, &c);
    each(&n->items, collect, &c);
    special_param(b, s, n, "caller", &caller);
    special_param(b, s, n, "kwargs", &kwargs);
    special_param(b, s, n, "varargs", &varargs);
    n->frame = frame_of(b, s);
    n->frame->caller = caller;
    n->frame->kwargs = kwargs;
    n->frame->varargs = varargs;
    place in = { .s = s };
    bind_all(b, in, &n->more);
    bind_all(b, in, &n->rest);
    bind_all(b, in, &n->items);
    n->frame->n_slots = (uint16_t)(s->fn->n_slots + 1);
}

static void bind_scope(binder *b, place at, qn_jnode *n)
{
    scope *s = inner_scope(b, at.s, false);
    collector c = { .b = b, .s = s };
    place in = inside(at, s);
    if (n->kind == QN_JN_WITH)
        each(&n->more, collect, &c);
    each(&n->items, collect, &c);
    if (n->kind == QN_JN_FILTERBLOCK)
        collect(&c, n->a);
    if (n->kind == QN_JN_SETBLOCK && n->b)
        collect(&c, n->b);
    n->frame = frame_of(b, s);
    if (n->kind == QN_JN_WITH) {
        bind_all(b, at, &n->rest);
        bind_all(b, in, &n->more);
    } else if (n->kind == QN_JN_SETBLOCK) {
        bind(b, at, n->a);
        n->flag2 = at.toplevel;
        if (n->b)
            bind(b, in, n->b);
    } else {
        bind(b, n->kind == QN_JN_FILTERBLOCK ? in : at, n->a);
    }
    bind_all(b, in, &n->items);
}

/* A block sees the context only; a scoped one also the variables around it, listed in `rest`. */
static void bind_block_call(binder *b, place at, qn_jnode *n)
{
    qn_jparser p = { .r = b->r };
    for (const scope *s = n->flag2 ? at.s : NULL; s; s = s->parent)
        for (size_t i = 0; i < s->n && qn_jtick(b->r, 1); i++) {
            if (!s->v[i].stored)
                continue;
            qn_jnode *name = qn_jnode_new(&p, QN_JN_NAME, n->line);
            name->name = b->names->v[s->v[i].name].key;
            name->ref = ref_to(at.s, s->v[i].id);
            qn_jnode_add(&p, n, &n->rest, name);
        }
    for (size_t i = 0; i < b->tree->blocks.n && qn_jtick(b->r, 1); i++)
        if (qn_jeq(b->r, b->tree->blocks.v[i]->name, n->name))
            qn_jfail(b->r, "block %s defined twice", qn_jshort(b->r, n->name));
    qn_jnode_add(&p, n, &b->tree->blocks, n);
}

static void bind_root(binder *b, qn_jnode *n, qn_jnodes *body, bool toplevel)
{
    scope *s = inner_scope(b, NULL, true);
    collector c = { .b = b, .s = s };
    qn_jval self = qn_jstr_z(b->r, "self");
    bool wants_self = uses(b, body, "self");
    if (wants_self)
        note_param(b, s, self);
    each(body, collect, &c);
    n->frame = frame_of(b, s);
    if (wants_self && qn_jok(b->r))
        n->frame->caller = ref_name(b, s, self);
    bind_all(b, (place){ .s = s, .toplevel = toplevel }, body);
    n->frame->n_slots = (uint16_t)(s->fn->n_slots + 1);
}

static void bind_if(binder *b, place at, qn_jnode *n)
{
    at.soft = true;
    bind(b, at, n->a);
    bind_all(b, at, &n->items);
    for (size_t i = 0; i < n->more.n && qn_jok(b->r); i++) {
        bind(b, at, n->more.v[i]->a);
        bind_all(b, at, &n->more.v[i]->items);
    }
    bind_all(b, at, &n->rest);
}

typedef struct visit {
    binder *b;
    place at;
} visit;

static void bind_child(void *ctx, qn_jnode *n)
{
    visit *v = ctx;
    if (qn_jok(v->b->r))
        bind(v->b, v->at, n);
}

static void bind(binder *b, place at, qn_jnode *n)
{
    if (!qn_jtick(b->r, 1))
        return;
    switch ((qn_jkind)n->kind) {
    case QN_JN_NAME:
    case QN_JN_NSREF:
        bind_name(b, at, n);
        return;
    case QN_JN_IF:
        bind_if(b, at, n);
        return;
    case QN_JN_FOR:
        bind_for(b, at, n);
        return;
    case QN_JN_MACRO:
        n->ref = ref_name(b, at.s, n->name);
        n->flag2 = at.toplevel;
        bind_function(b, at, n);
        return;
    case QN_JN_CALLBLOCK:
        bind(b, at, n->a);
        n->a->flag = true;
        bind_function(b, at, n);
        return;
    case QN_JN_GENERATION:
        bind_function(b, at, n);
        return;
    case QN_JN_WITH:
    case QN_JN_SETBLOCK:
    case QN_JN_FILTERBLOCK:
    case QN_JN_AUTOESCAPE:
        bind_scope(b, at, n);
        return;
    case QN_JN_BLOCK:
        bind_block_call(b, at, n);
        bind_root(b, n, &n->items, false);
        return;
    case QN_JN_BREAK:
    case QN_JN_CONTINUE:
        if (!at.in_loop)
            qn_jfail(b->r, "line %d: '%s' outside loop", n->line,
                     n->kind == QN_JN_BREAK ? "break" : "continue");
        return;
    case QN_JN_FILTER:
    case QN_JN_TEST:
        bind_lookup(b, at, n);
        break;
    case QN_JN_COND:
        at.soft = true;
        break;
    case QN_JN_SET:
        n->flag2 = at.toplevel;
        break;
    default:
        break;
    }
    each_child(n, bind_child, &(visit){ .b = b, .at = at });
}

void qn_jscope(qn_jtree *t)
{
    binder b = { .tree = t, .r = &t->run };
    b.names = qn_jdict_new(b.r).m;
    bind_root(&b, t->root, &t->root->items, true);
}
