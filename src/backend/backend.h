/* backend.h - what runs plans: the CPU backend is linked in, others are modules opened at run time. */
#ifndef QN_BACKEND_BACKEND_H
#define QN_BACKEND_BACKEND_H

#include "graph/fuse.h"
#include "graph/op.h"
#include "graph/plan.h"

#define QN_BACKEND_ABI 1

typedef struct qn_backend qn_backend;

typedef struct qn_backend_options {
    int n_threads; /* 0 = one a core this process may use */
    bool
        exact; /* --compute f32: f32 activations and cache, weights decoded, never quantised further */
    bool reference;      /* --eager: every op by its reference, one thread, values kept */
    size_t repack_bytes; /* memory that repacked weights may take; 0 = no limit */
} qn_backend_options;

/* What a step looked at or produced: value `v` (rows x width floats or int32), valid during the call. */
typedef void (*qn_dump_fn)(void *ctx, const qn_node *node, qn_val v, const qn_tensor *t);

struct qn_backend {
    const char *name;
    int abi;
    const qn_fuse_rule *const *rules; /* fusions this backend has kernels for; NULL-ended */
    void (*close)(qn_backend *be);
    /* Repacks the weights of g within the budget (a hint: correct without). Source pages that are no longer
     * needed are given back to the system. */
    int (*prepare)(qn_backend *be, const qn_graph *g, qn_error *err);
    /* Memory the device works on; zeroed. NULL when there is none. */
    void *(*alloc)(qn_backend *be, size_t bytes);
    void (*free)(qn_backend *be, void *p);
    void (*copy)(qn_backend *be, void *dst, const void *src,
                 size_t bytes); /* between any two places */
    /* Runs a step. Values of graph outputs can be read afterwards with `output` until the next run. */
    int (*run)(qn_backend *be, const qn_plan *plan, const qn_batch *b, const qn_state *state,
               qn_error *err);
    const float *(*output)(qn_backend *be, const qn_plan *plan, qn_val v);
    void (*set_dump)(qn_backend *be, qn_dump_fn fn,
                     void *ctx); /* called after each node; NULL = off */
};

/* Never NULL on QN_OK. The caller ends it with be->close(be). */
int qn_backend_cpu_open(qn_backend **out, const qn_backend_options *opt, qn_error *err);

#endif
