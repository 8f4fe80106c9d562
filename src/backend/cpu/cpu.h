/* cpu.h - the parts of the CPU backend: the object, the store of repacked weights, the executor. */
#ifndef QN_BACKEND_CPU_CPU_H
#define QN_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "kernels/kernel.h"

/* Repacked weights, found by what a weight is (its data and shape), so views of one tensor share them. */
typedef struct qn_pack_store qn_pack_store;
qn_pack_store *qn_pack_store_new(void);
void qn_pack_store_free(qn_pack_store *s);
const void *qn_pack_store_find(const qn_pack_store *s, const qn_weight *w); /* or NULL */

typedef struct qn_cpu {
    qn_backend base; /* first, so that a qn_backend * is a qn_cpu * */
    qn_backend_options opt;
    qn_kernels kernels;
    qn_pool *pool;
    qn_pack_store *packs;
    uint8_t *values; /* where plans place their values */
    size_t values_bytes;
    uint8_t *scratch;
    size_t scratch_bytes;
    qn_dump_fn dump;
    void *dump_ctx;
} qn_cpu;

int qn_cpu_prepare(qn_backend *be, const qn_graph *g, qn_error *err);
int qn_cpu_run(qn_backend *be, const qn_plan *plan, const qn_batch *b, const qn_state *state,
               qn_error *err);

/* The fusions the CPU has kernels for, one a file. */
extern const qn_fuse_rule qn_cpu_fuse_linears, qn_cpu_fuse_glu, qn_cpu_fuse_add_norm;

#endif
