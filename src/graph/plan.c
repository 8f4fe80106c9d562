/* plan.c - order, lifetimes and places, and the cache of plans.
 *
 * Creation order is already a topological order, so planning is two sweeps: backwards from the outputs to find
 * what is needed and when each value is read last, forwards to give places. A place is the smallest hole that
 * fits (best fit), holes that touch are merged, and the end grows when none does. It is greedy on purpose: on
 * decoder graphs it already reaches the largest set of values alive at once. */
#include "graph/plan.h"

#include <assert.h>
#include <string.h>

#include "graph/op.h"

#define ALIGN     64
#define MAX_BYTES ((size_t)1 << 46) /* beyond any memory; keeps sums of places from overflowing */

typedef struct hole {
    size_t at, bytes;
} hole;

typedef struct planner {
    const qn_graph *g;
    qn_plan *p;
    size_t *bytes; /* [n_nodes] rounded size of each value */
    int32_t
        *last_use; /* [n_nodes] node that reads it last; INT32_MAX for outputs; 0 = not needed */
    hole *holes;   /* ascending by place, never touching each other */
    size_t n_holes, cap_holes;
    bool keep_all;
} planner;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

int64_t qn_dim_value(const qn_graph *g, const qn_bind *bind, int64_t dim)
{
    if (dim >= 0)
        return dim;
    assert(-dim < g->n_symbols);
    const qn_symbol *s = &g->symbol[-dim];
    if (s->of == 0)
        return bind->size[-dim];
    int64_t v = qn_dim_value(g, bind, -(int64_t)s->of);
    if (__builtin_mul_overflow(v, (int64_t)s->a, &v) ||
        __builtin_add_overflow(v, (int64_t)s->b, &v))
        return -1; /* no size: the plan refuses it */
    return floor_div(v, s->c);
}

qn_bind qn_bind_of_batch(const qn_batch *b)
{
    qn_bind bind = { 0 };
    bind.size[QN_SYM_TOK] = b->n_tok;
    bind.size[QN_SYM_OUT] = b->n_out;
    bind.size[QN_SYM_SEQ] = b->n_seq;
    return bind;
}

static bool is_source(const qn_node *n)
{
    return n->op == &qn_op_weight || n->op == &qn_op_input;
}

/* Marks what the outputs need, and by whom each value is read last. */
static void find_uses(planner *pl)
{
    const qn_graph *g = pl->g;
    for (int32_t i = 0; i < g->n_outputs; i++)
        pl->last_use[g->output[i].v.id] = INT32_MAX;
    for (int32_t id = g->n_nodes - 1; id > 0; id--) {
        const qn_node *n = &g->node[id];
        bool needed = false;
        for (int k = 0; k < n->n_out; k++)
            needed |= pl->last_use[id + k] != 0;
        if (!needed)
            continue;
        for (int k = 0; k < n->n_out; k++) /* results that nobody reads still need room */
            if (pl->last_use[id + k] == 0)
                pl->last_use[id + k] = id;
        for (int k = 0; k < n->n_in; k++)
            if (pl->last_use[n->in[k].id] == 0)
                pl->last_use[n->in[k].id] = id;
        if (!is_source(n))
            pl->p->n_steps++;
    }
    pl->last_use[0] = 0;
}

static int size_values(planner *pl, qn_error *err)
{
    const qn_graph *g = pl->g;
    for (int32_t id = 1; id < g->n_nodes; id++) {
        const qn_node *n = &g->node[id];
        if (pl->last_use[id] == 0 || is_source(n))
            continue;
        size_t bytes = 4; /* values are f32 or i32 */
        for (int d = 0; d < n->shape.n_dims; d++) {
            int64_t size = qn_dim_value(g, &pl->p->bind, n->shape.dim[d]);
            if (size < 0)
                return qn_fail(err, QN_ERR_ARGUMENT, "%s: a size is negative", n->name);
            if (!qn_mul_size(bytes, (size_t)size, &bytes) || bytes > MAX_BYTES)
                return qn_fail(err, QN_ERR_LIMIT, "%s: too large", n->name);
        }
        pl->bytes[id] = bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    }
    return QN_OK;
}

/* Gives [at, at + bytes) back, merged with the holes it touches. */
static void release(planner *pl, size_t at, size_t bytes)
{
    size_t i = 0;
    while (i < pl->n_holes && pl->holes[i].at < at)
        i++;
    bool with_prev = i > 0 && pl->holes[i - 1].at + pl->holes[i - 1].bytes == at;
    bool with_next = i < pl->n_holes && at + bytes == pl->holes[i].at;
    if (with_prev) {
        pl->holes[i - 1].bytes += bytes;
        if (with_next) {
            pl->holes[i - 1].bytes += pl->holes[i].bytes;
            memmove(&pl->holes[i], &pl->holes[i + 1], (pl->n_holes - i - 1) * sizeof(hole));
            pl->n_holes--;
        }
    } else if (with_next) {
        pl->holes[i].at = at;
        pl->holes[i].bytes += bytes;
    } else {
        QN_GROW(pl->holes, pl->n_holes, pl->cap_holes);
        memmove(&pl->holes[i + 1], &pl->holes[i], (pl->n_holes - i) * sizeof(hole));
        pl->holes[i] = (hole){ at, bytes };
        pl->n_holes++;
    }
}

static void drop_hole(planner *pl, size_t i)
{
    memmove(&pl->holes[i], &pl->holes[i + 1], (pl->n_holes - i - 1) * sizeof(hole));
    pl->n_holes--;
}

static size_t take(planner *pl, size_t bytes)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < pl->n_holes; i++)
        if (pl->holes[i].bytes >= bytes &&
            (best == SIZE_MAX || pl->holes[i].bytes < pl->holes[best].bytes))
            best = i;
    if (best != SIZE_MAX) {
        size_t at = pl->holes[best].at;
        pl->holes[best].at += bytes;
        pl->holes[best].bytes -= bytes;
        if (pl->holes[best].bytes == 0)
            drop_hole(pl, best);
        return at;
    }
    size_t at = pl->p->bytes;
    if (pl->n_holes > 0) { /* a hole at the end is the start of the new place */
        hole *last = &pl->holes[pl->n_holes - 1];
        if (last->at + last->bytes == at) {
            at = last->at;
            drop_hole(pl, pl->n_holes - 1);
        }
    }
    pl->p->bytes = at + bytes;
    return at;
}

static bool may_take_over(const planner *pl, int32_t id)
{
    const qn_node *n = &pl->g->node[id];
    if (!n->op->in_place || pl->keep_all || n->n_in == 0)
        return false;
    int32_t x = n->in[0].id;
    for (int k = 1; k < n->n_in; k++)
        if (n->in[k].id == x)
            return false; /* the op would read what it has overwritten */
    return x && pl->p->place[x] != QN_NO_PLACE && pl->last_use[x] == id &&
           pl->bytes[x] == pl->bytes[id];
}

static void place_results(planner *pl, int32_t id)
{
    const qn_node *n = &pl->g->node[id];
    bool over = may_take_over(pl, id);
    if (over)
        pl->p->place[id] = pl->p->place[n->in[0].id];
    for (int k = over ? 1 : 0; k < n->n_out; k++)
        pl->p->place[id + k] = take(pl, pl->bytes[id + k]);
    if (pl->keep_all)
        return;
    for (int k = over ? 1 : 0; k < n->n_in; k++) {
        int32_t x = n->in[k].id;
        bool again = false; /* the same value given twice is released once */
        for (int j = 0; j < k; j++)
            again |= n->in[j].id == x;
        if (x && !again && pl->last_use[x] == id && pl->p->place[x] != QN_NO_PLACE)
            release(pl, pl->p->place[x], pl->bytes[x]);
    }
    for (int k = 0; k < n->n_out; k++)
        if (pl->last_use[id + k] == id)
            release(pl, pl->p->place[id + k], pl->bytes[id + k]);
}

static int place_all(planner *pl, qn_error *err)
{
    const qn_graph *g = pl->g;
    int32_t n = 0;
    for (int32_t id = 1; id < g->n_nodes; id++) {
        const qn_node *node = &g->node[id];
        if (pl->last_use[id] == 0 || node->n_out == 0 || is_source(node))
            continue;
        pl->p->step[n++] = id;
        place_results(pl, id);
        if (pl->p->bytes > MAX_BYTES)
            return qn_fail(err, QN_ERR_LIMIT, "%s: the step does not fit in memory", node->name);
    }
    assert(n == pl->p->n_steps);
    return QN_OK;
}

qn_plan *qn_plan_new(const qn_graph *g, const qn_bind *bind, bool keep_all, qn_error *err)
{
    if (g->err.code != QN_OK) {
        qn_fail(err, g->err.code, "%s", g->err.msg);
        return NULL;
    }
    size_t n = (size_t)g->n_nodes;
    qn_plan *p = qn_alloc(sizeof *p);
    *p = (qn_plan){ .graph = g, .bind = *bind, .place = qn_alloc_n(n, sizeof(size_t)) };
    for (size_t i = 0; i < n; i++)
        p->place[i] = QN_NO_PLACE;
    planner pl = { .g = g, .p = p, .keep_all = keep_all };
    pl.bytes = qn_alloc_n(n, sizeof *pl.bytes);
    pl.last_use = qn_alloc_n(n, sizeof *pl.last_use);
    find_uses(&pl);
    p->step = qn_alloc_n((size_t)p->n_steps, sizeof *p->step);
    int rc = size_values(&pl, err);
    if (rc == QN_OK)
        rc = place_all(&pl, err);
    qn_free(pl.bytes);
    qn_free(pl.last_use);
    qn_free(pl.holes);
    if (rc != QN_OK) {
        qn_plan_free(p);
        return NULL;
    }
    return p;
}

void qn_plan_free(qn_plan *p)
{
    if (!p)
        return;
    qn_free(p->step);
    qn_free(p->place);
    qn_free(p);
}
