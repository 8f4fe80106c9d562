/* plan_cache.c - plans by size bucket, least recently used out.
 *
 * Sizes are rounded up so that a handful of plans serves every step: powers of two while a step is small
 * (a plan per doubling wastes at most half of little memory), multiples of 256 beyond. */
#include <string.h>

#include "graph/plan.h"

typedef struct entry {
    qn_plan *plan;
    uint64_t used; /* clock of the last get */
} entry;

struct qn_plan_cache {
    const qn_graph *graph;
    size_t max_plans, n;
    uint64_t clock;
    entry e[];
};

static int64_t bucket(int64_t n)
{
    int64_t b = 1;
    while (b < n && b < 512)
        b *= 2;
    return n <= b ? b : (n + 255) / 256 * 256;
}

qn_plan_cache *qn_plan_cache_new(const qn_graph *g, size_t max_plans)
{
    if (max_plans == 0)
        max_plans = 1;
    qn_plan_cache *c = qn_alloc(sizeof *c + max_plans * sizeof c->e[0]);
    c->graph = g;
    c->max_plans = max_plans;
    return c;
}

void qn_plan_cache_free(qn_plan_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++)
        qn_plan_free(c->e[i].plan);
    qn_free(c);
}

/* The slot for a new plan: a fresh one, or that of the plan not asked for the longest. */
static entry *make_room(qn_plan_cache *c)
{
    if (c->n < c->max_plans)
        return &c->e[c->n++];
    entry *oldest = &c->e[0];
    for (size_t i = 1; i < c->n; i++)
        if (c->e[i].used < oldest->used)
            oldest = &c->e[i];
    qn_plan_free(oldest->plan);
    return oldest;
}

const qn_plan *qn_plan_cache_get(qn_plan_cache *c, const qn_batch *b, qn_error *err)
{
    qn_bind bind = qn_bind_of_batch(b);
    for (int i = 1; i < QN_SYM_FIXED; i++)
        bind.size[i] = bind.size[i] ? bucket(bind.size[i]) : 0;
    c->clock++;
    for (size_t i = 0; i < c->n; i++) {
        if (memcmp(&c->e[i].plan->bind, &bind, sizeof bind) == 0) {
            c->e[i].used = c->clock;
            return c->e[i].plan;
        }
    }
    qn_plan *p = qn_plan_new(c->graph, &bind, false, err);
    if (!p)
        return NULL;
    *make_room(c) = (entry){ p, c->clock };
    return p;
}
