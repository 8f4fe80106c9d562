/* kernel.h - the fast CPU kernels of the ops, as a table the executor looks into.
 *
 * A kernel is called by every thread of the pool with the same call (but ith); it splits its outputs over
 * them and meets the others with c->sync. An op without a kernel is run by its reference on one thread.
 * Rules every kernel keeps (they make results independent of batch, chunk and thread count):
 * threads split outputs and never a sum; the order of float operations that make one output row is the same
 * for every number of rows; tails go through the same arithmetic as bodies. */
#ifndef QN_KERNELS_KERNEL_H
#define QN_KERNELS_KERNEL_H

#include "base/pool.h"
#include "kernels/matmul/matmul.h"
#include "ops/ops.h"

typedef struct qn_kernel {
    const qn_op *op;
    void (*run)(const qn_call *c);
    /* Bytes of shared scratch this call needs; NULL: none. Called with sizes set, before data is. */
    size_t (*scratch)(const qn_call *c);
    /* Calls that make at most this many elements of results are not worth a barrier: thread 0 runs them
     * alone (nth = 1). 0: always all threads. */
    int64_t solo_elems;
} qn_kernel;

#define QN_MAX_KERNELS 32

typedef struct qn_kernels {
    qn_kernel kernel[QN_MAX_KERNELS];
    int n;
    qn_matmul_kernels matmul; /* also for those who repack weights */
} qn_kernels;

/* Fills the table for a mask of QN_CPU_*. Without a level there are no kernels: references run. */
void qn_kernels_init(qn_kernels *t, unsigned cpu);
const qn_kernel *qn_kernels_find(const qn_kernels *t, const qn_op *op);

/* A vector (norm weight, bias) as floats: where it lies, or decoded into buf. */
static inline const float *qn_tensor_vector(const qn_tensor *t, float *buf)
{
    if (t->data || !t->weight)
        return t->data;
    if (t->packed)
        return t->packed;
    if (t->weight->layout == QN_F32)
        return t->weight->data;
    qn_weight_decode_row(t->weight, 0, buf);
    return buf;
}

/* The part [*lo, *hi) of n items that this thread does; parts start at multiples of `grain`. */
static inline void qn_call_part(const qn_call *c, int64_t n, int64_t grain, int64_t *lo,
                                int64_t *hi)
{
    int64_t units = (n + grain - 1) / grain;
    *lo = units * c->ith / c->nth * grain;
    *hi = units * (c->ith + 1) / c->nth * grain;
    *hi = *hi < n ? *hi : n;
    *lo = *lo < n ? *lo : n;
}

/* Hands the chunks 0 .. n-1 of a phase (between two barriers) to whichever thread is free. One loop a phase:
 *     for (int64_t i = qn_chunk_first(c); i < n; i = qn_chunk_next(c, i)) */
static inline int64_t qn_chunk_first(const qn_call *c)
{
    return c->pool && c->nth > 1 ? qn_pool_take(c->pool) : c->ith;
}
static inline int64_t qn_chunk_next(const qn_call *c, int64_t i)
{
    return c->pool && c->nth > 1 ? qn_pool_take(c->pool) : i + c->nth;
}

#endif
