/* op.h - what an op is, and the call a kernel gets. Each src/ops/<op>.c defines exactly one qn_op. */
#ifndef QN_GRAPH_OP_H
#define QN_GRAPH_OP_H

#include "graph/graph.h"

/* One input or result of a call, at its true size (not the bucket's). */
typedef struct qn_tensor {
    void *data;              /* float or int32_t; NULL for an absent optional input or a weight */
    const qn_weight *weight; /* for weights; data is then NULL */
    const void *packed;      /* the backend's repacked form of the weight, or NULL */
    int64_t rows, width;
} qn_tensor;

/* Node of a plan about to run. The same call is made by every thread of the backend's pool. */
typedef struct qn_call {
    const qn_node *node;
    const void *attr;
    qn_tensor in[QN_MAX_IN], out[QN_MAX_OUT];
    const qn_batch *batch;
    const qn_state *state; /* NULL when nothing is cached (training, tests of plain ops) */
    bool exact;            /* f32 compute: activations are never quantised */
    void *scratch;         /* shared by the threads, as large as the kernel asked for */
    int ith, nth;          /* this thread, of how many */
    void (*sync)(const struct qn_call *); /* barrier of the nth threads */
    void *pool;
    const void
        *kernels; /* the backend's tables of kernels, for its own kernels; references ignore it */
} qn_call;

typedef struct qn_op {
    const char *name;
    size_t attr_size;
    uint8_t min_in, max_in, n_out;
    bool in_place; /* result 0 may lie where input 0 lay, if that is used nowhere else */
    /* Checks inputs and attributes, fills out[0..n_out). False (with *why set) refuses. in[i] of an absent
     * optional input has n_dims 0. */
    bool (*infer)(const qn_node *node, const qn_shape *in, qn_shape *out, const char **why);
    /* The definition, in plain C, called by one thread with nth = 1. */
    void (*ref)(const qn_call *c);
    /* Emits the gradient with respect to each input into din[i] ({0}: none flows). dout[k] may be {0}. NULL:
     * the op has no gradient, or is differentiated through its expansion. */
    void (*grad)(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din);
    /* The same values in plain ops: out[0..n_out). NULL: the op is plain. */
    void (*expand)(qn_graph *g, const qn_node *node, const qn_val *in, qn_val *out);
    /* Copies what the attributes point to into the arena, so that a graph owns all it holds. NULL: nothing. */
    void (*adopt)(qn_arena *a, void *attr);
} qn_op;

/* The ops that a graph makes by itself; like all others they are defined in src/ops. */
extern const qn_op qn_op_result; /* a further result of the op before it */
extern const qn_op
    qn_op_add; /* a [R, W], b [R, W] or [W] -> a + b; also two equal shapes of any kind */

extern const qn_op qn_op_weight; /* -> the weight */
typedef struct qn_attr_weight {
    const qn_weight *weight;
} qn_attr_weight;

extern const qn_op qn_op_input; /* -> data of the step ("token", "out_row", "label") by node name */
typedef struct qn_attr_input {
    qn_shape shape;
} qn_attr_input;

#endif
