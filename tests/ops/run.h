/* run.h - what tests of graphs and ops share: random numbers, small weights and batches, and an executor that
 * runs a plan by the ops' references on one thread.
 *
 * Unlike backends it takes any named input, floats too, so that ops can be fed and differentiated directly. */
#ifndef QN_TESTS_OPS_RUN_H
#define QN_TESTS_OPS_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/fuse.h"
#include "graph/grad.h"
#include "graph/plan.h"
#include "ops/ops.h"

/* ---- numbers ---- */

static inline uint64_t rng_next(uint64_t *s)
{
    uint64_t z = (*s += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline float rng_float(uint64_t *s, float lo, float hi)
{
    return lo + (hi - lo) * (float)(rng_next(s) >> 40) / 16777216.0f;
}

static inline void rng_fill(uint64_t *s, float *x, size_t n, float lo, float hi)
{
    for (size_t i = 0; i < n; i++)
        x[i] = rng_float(s, lo, hi);
}

/* ---- a step ---- */

#define MAX_ROWS 64

/* A ragged causal step of whole sequences with empty caches; tests change fields as they like. */
typedef struct test_batch {
    qn_batch b;
    int32_t token[MAX_ROWS], seq[MAX_ROWS], pos[QN_MAX_POS_AXES * MAX_ROWS], see[MAX_ROWS];
    int32_t q_start[MAX_ROWS + 1], kv_len[MAX_ROWS], rope_len[MAX_ROWS], out_row[MAX_ROWS];
    int32_t label[MAX_ROWS];
} test_batch;

static inline void batch_init(test_batch *t, const int32_t *lens, int n_seq)
{
    memset(t, 0, sizeof *t);
    int32_t n = 0;
    for (int s = 0; s < n_seq; s++) {
        t->q_start[s] = n;
        t->rope_len[s] = lens[s];
        for (int32_t i = 0; i < lens[s]; i++, n++) {
            t->seq[n] = s;
            t->pos[n] = t->see[n] = i;
            t->token[n] = t->label[n] = (n * 7 + 3) % 5;
            t->out_row[n] = n;
        }
    }
    t->q_start[n_seq] = n;
    t->b = (qn_batch){ .n_tok = n,
                       .n_seq = n_seq,
                       .n_out = n,
                       .token = t->token,
                       .seq = t->seq,
                       .pos = t->pos,
                       .see = t->see,
                       .q_start = t->q_start,
                       .kv_len = t->kv_len,
                       .rope_len = t->rope_len,
                       .out_row = t->out_row,
                       .label = t->label };
}

/* ---- running ---- */

typedef struct feed {
    const char *name;
    void *data;
} feed;

typedef struct runner {
    const qn_plan *plan;
    const qn_batch *batch;
    const qn_state *state;
    const feed *feeds; /* ends with a NULL name */
    unsigned char *values;
} runner;

static inline void *fed(const runner *r, const char *name)
{
    for (const feed *f = r->feeds; f && f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f->data;
    const qn_batch *b = r->batch;
    const feed own[] = { { "token", (void *)(uintptr_t)b->token },
                         { "label", (void *)(uintptr_t)b->label },
                         { "out_row", (void *)(uintptr_t)b->out_row } };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i].name, name) == 0)
            return own[i].data;
    fail_msg("no input %s", name);
    return NULL;
}

static inline qn_tensor tensor_at(const runner *r, qn_val v)
{
    if (v.id == 0)
        return (qn_tensor){ 0 };
    const qn_graph *g = r->plan->graph;
    const qn_node *n = qn_node_at(g, v);
    if (n->op == &qn_op_weight) {
        const qn_weight *w = ((const qn_attr_weight *)n->attr)->weight;
        return (qn_tensor){ .weight = w, .rows = qn_weight_rows(w), .width = qn_weight_cols(w) };
    }
    qn_bind bind = qn_bind_of_batch(r->batch);
    qn_tensor t = { .rows = qn_dim_value(g, &bind, n->shape.dim[0]),
                    .width = qn_shape_width(&n->shape) };
    if (n->op == &qn_op_input)
        t.data = fed(r, n->name);
    else
        t.data = r->values + r->plan->place[v.id];
    return t;
}

static inline void run_plan(runner *r)
{
    const qn_graph *g = r->plan->graph;
    if (!r->values)
        r->values = qn_try_alloc(r->plan->bytes);
    for (int32_t i = 0; i < r->plan->n_steps; i++) {
        const qn_node *n = &g->node[r->plan->step[i]];
        qn_call c = { .node = n, .attr = n->attr, .batch = r->batch, .state = r->state, .nth = 1 };
        for (int k = 0; k < n->n_in; k++)
            c.in[k] = tensor_at(r, n->in[k]);
        for (int k = 0; k < n->n_out; k++)
            c.out[k] = tensor_at(r, (qn_val){ r->plan->step[i] + k });
        n->op->ref(&c);
    }
}

/* Runs g once and gives every output's numbers: out[i] is the caller's (free). */
static inline void run_graph(const qn_graph *g, const qn_batch *b, const qn_state *state,
                             const feed *feeds, float **out)
{
    qn_error err = { 0 };
    qn_bind bind = qn_bind_of_batch(b);
    qn_plan *p = qn_plan_new(g, &bind, false, &err);
    if (!p)
        fail_msg("plan: %s", err.msg);
    runner r = { .plan = p, .batch = b, .state = state, .feeds = feeds };
    run_plan(&r);
    for (int32_t i = 0; i < g->n_outputs; i++) {
        qn_tensor t = tensor_at(&r, g->output[i].v);
        size_t bytes = (size_t)(t.rows * t.width) * sizeof(float);
        out[i] = malloc(bytes + 1);
        memcpy(out[i], t.data, bytes);
    }
    free(r.values);
    qn_plan_free(p);
}

#endif
