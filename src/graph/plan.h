/* plan.h - a graph bound to numbers: the order of work and a place in one block of memory for every value.
 *
 * A plan is made for a bucket (sizes rounded up), so it serves every step that fits. Values that nobody needs
 * any longer give their place to later ones. Weights and inputs take no place. */
#ifndef QN_GRAPH_PLAN_H
#define QN_GRAPH_PLAN_H

#include "graph/graph.h"

typedef struct qn_bind {
    int64_t size[QN_SYM_FIXED]; /* by symbol; derived symbols follow */
} qn_bind;

#define QN_NO_PLACE SIZE_MAX

typedef struct qn_plan {
    const qn_graph *graph;
    qn_bind bind;
    int32_t *step; /* [n_steps] node ids in order; sources and results are no steps */
    int32_t n_steps;
    size_t *place; /* [graph->n_nodes] byte offset of each value, or QN_NO_PLACE; 64-byte aligned */
    size_t bytes;
} qn_plan;

/* Plans what the graph's outputs need. keep_all gives every value a place of its own (dumps). NULL on error. */
qn_plan *qn_plan_new(const qn_graph *g, const qn_bind *bind, bool keep_all, qn_error *err);
void qn_plan_free(qn_plan *p);

/* The number a dim of the graph stands for under `bind`. */
int64_t qn_dim_value(const qn_graph *g, const qn_bind *bind, int64_t dim);
qn_bind qn_bind_of_batch(const qn_batch *b);

/* A small cache of plans: sizes are rounded up to buckets (1, 2, 4, ... tokens), least recently used out. */
typedef struct qn_plan_cache qn_plan_cache;
qn_plan_cache *qn_plan_cache_new(const qn_graph *g, size_t max_plans);
void qn_plan_cache_free(qn_plan_cache *c);
const qn_plan *qn_plan_cache_get(qn_plan_cache *c, const qn_batch *b, qn_error *err);

#endif
