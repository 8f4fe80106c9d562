/* graph.h - what a model computes, recorded once: nodes in order of creation, which is a topological order.
 *
 * Values are dense, row-major, rows x width. A size may be a symbol (a negative number): a row count that
 * only a step knows. Weights and inputs are nodes too. Errors are sticky: the first is kept, later calls do
 * nothing, so builders need not check each call. The graph owns its nodes, names and attributes (one arena);
 * it borrows weights. It does not know of devices, memory or time: plans and backends do. */
#ifndef QN_GRAPH_GRAPH_H
#define QN_GRAPH_GRAPH_H

#include "base/error.h"
#include "base/mem.h"
#include "graph/batch.h"
#include "tensor/weight.h"

#define QN_MAX_IN  16
#define QN_MAX_OUT 4

typedef struct qn_val {
    int32_t id; /* 0 = none */
} qn_val;

/* Result k of the op that made v (v itself is result 0). */
static inline qn_val qn_out(qn_val v, int k)
{
    return (qn_val){ v.id + k };
}

/* Row counts known at a step. A dim of -QN_SYM_TOK means "n_tok rows". */
enum {
    QN_SYM_TOK = 1,
    QN_SYM_OUT,
    QN_SYM_SEQ,
    QN_SYM_PATCH,
    QN_SYM_FRAME,
    QN_SYM_HEIGHT,
    QN_SYM_WIDTH,
    QN_SYM_FIXED /* first free id for floor((a * s + b) / c) of another symbol */
};
#define QN_SYM_MAX 64

typedef struct qn_symbol {
    int32_t of; /* 0: bound by the step; else floor((a * of + b) / c) */
    int32_t a, b, c;
} qn_symbol;

typedef struct qn_shape {
    int64_t dim[4];        /* slowest first */
    uint8_t n_dims, dtype; /* dtype: a qn_layout; values are QN_F32 or QN_I32, weights any */
} qn_shape;

struct qn_op;

typedef struct qn_node {
    const struct qn_op *op;
    const void *attr; /* op->attr_size bytes in the graph's arena */
    const char *name; /* for dumps: "model.layers.3.self_attn.q" */
    qn_val in[QN_MAX_IN];
    qn_shape shape;
    int16_t layer;       /* -1 outside layers */
    uint8_t n_in, n_out; /* n_out 0: a further result of the node before it */
} qn_node;

/* A layer's need of cache, noted by the attention block; the cache decides pages and memory. */
typedef struct qn_kv_need {
    int32_t n_kv_heads, k_dim, v_dim, window; /* window 0 = everything */
    int32_t group, slot;                      /* given by qn_graph_kv */
} qn_kv_need;

typedef struct qn_output {
    const char *name;
    qn_val v;
} qn_output;

typedef struct qn_graph {
    qn_arena arena;
    qn_node *node; /* [n_nodes], node 0 is unused so that id 0 is none */
    int32_t n_nodes;
    size_t cap_nodes;
    qn_symbol symbol[QN_SYM_MAX];
    int32_t n_symbols;
    qn_kv_need *kv;
    int32_t n_kv, n_kv_groups;
    size_t cap_kv;
    int64_t state_floats; /* of one state slot: all layers' states, by qn_graph_state */
    qn_output *output;    /* [n_outputs] */
    int32_t n_outputs;
    size_t cap_outputs;
    const char *scope_name; /* names and layer of the nodes that follow */
    int16_t scope_layer;
    int32_t scope_first; /* node count when the scope was entered: names are numbered within it */
    qn_error err;
} qn_graph;

void qn_graph_init(qn_graph *g);
void qn_graph_free(qn_graph *g);

/* Adds op(in...) and returns its result 0. attr is copied (NULL when op->attr_size is 0), with what it points
 * to where the op says so (op->adopt). Optional inputs may be {0}. A shape the op refuses becomes the graph's error, and {0} is returned. */
qn_val qn_graph_add(qn_graph *g, const struct qn_op *op, const void *attr, const qn_val *in,
                    int n_in);
#define QN_ADD(g, op, attr, ...)                                                                   \
    qn_graph_add((g), (op), (attr), (const qn_val[]){ __VA_ARGS__ },                               \
                 (int)(sizeof((const qn_val[]){ __VA_ARGS__ }) / sizeof(qn_val)))

qn_val qn_graph_weight(qn_graph *g, const qn_weight *w); /* the same weight gives the same value */
qn_val qn_graph_input(qn_graph *g, const char *name,
                      qn_shape shape); /* the same name gives the same value */
void qn_graph_output(qn_graph *g, const char *name, qn_val v);
qn_val qn_graph_find_output(const qn_graph *g, const char *name);

int64_t qn_graph_symbol(qn_graph *g, int32_t of, int32_t a, int32_t b,
                        int32_t c); /* a dim (negative) */
void qn_graph_scope(qn_graph *g, int layer, const char *name);
void qn_graph_fail(qn_graph *g, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Notes that an attention layer keeps k and v rows; layers of equal window and sizes share a group.
 * Returns the index of the need in g->kv. */
int qn_graph_kv(qn_graph *g, qn_kv_need need);

/* Notes that a layer keeps `floats` numbers of each sequence from step to step, at first zeros. Returns where
 * they begin in the sequence's slot, in floats. */
int64_t qn_graph_state(qn_graph *g, int64_t floats);

static inline const qn_node *qn_node_at(const qn_graph *g, qn_val v)
{
    return &g->node[v.id];
}
static inline qn_shape qn_shape_of(const qn_graph *g, qn_val v)
{
    return g->node[v.id].shape;
}
int64_t qn_shape_width(
    const qn_shape *s); /* product of all dims but the first; symbols are not allowed there */

/* A matrix [rows, cols] of ones that the graph owns: a constant is a weight. rows 0 makes a vector [cols]. */
qn_val qn_graph_ones(qn_graph *g, int64_t rows, int64_t cols);

/* The node that makes v: v itself, or the one whose further result it is. */
int32_t qn_graph_maker(const qn_graph *g, int32_t id);

/* Text of a graph, one line a node, for people and tests; the string is the caller's (qn_free). */
char *qn_graph_print_dup(const qn_graph *g);

#endif
