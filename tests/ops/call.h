/* call.h - calling one op's reference directly, on arrays: for tests of values. */
#ifndef QN_TESTS_OPS_CALL_H
#define QN_TESTS_OPS_CALL_H

#include <math.h>

#include "ops/run.h"

typedef struct op_call {
    qn_call c;
    qn_node node;
} op_call;

static inline void call_init(op_call *t, const qn_op *op, const void *attr, const test_batch *b)
{
    memset(t, 0, sizeof *t);
    t->node.op = op;
    t->c.attr = attr;
    t->c.batch = b ? &b->b : NULL;
    t->c.nth = 1;
}

static inline qn_tensor tensor(void *data, int64_t rows, int64_t width)
{
    return (qn_tensor){ .data = data, .rows = rows, .width = width };
}

static inline void call_run(op_call *t)
{
    while (t->c.out[t->node.n_out].data)
        t->node.n_out++;
    t->c.node = &t->node;
    t->node.op->ref(&t->c);
}

/* A weight that views the floats of a vector (rows 0) or a matrix. */
static inline qn_weight floats_weight(const float *data, int64_t rows, int64_t cols)
{
    qn_weight w = { .name = "w", .layout = QN_F32, .global_scale = 1, .data = data };
    w.n_dims = rows ? 2 : 1;
    w.dim[0] = rows ? rows : cols;
    w.dim[1] = rows ? cols : 0;
    return w;
}

static inline qn_tensor weight_tensor(const qn_weight *w)
{
    return (qn_tensor){ .weight = w, .rows = qn_weight_rows(w), .width = qn_weight_cols(w) };
}

static inline void assert_near(const float *got, const double *want, size_t n, double tol)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tol))
            fail_msg("element %zu: %.9g, should be %.9g", i, got[i], want[i]);
}

#endif
