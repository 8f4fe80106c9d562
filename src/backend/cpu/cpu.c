/* cpu.c - the CPU backend as an object: options, memory, fusions. exec.c runs steps, pack.c repacks weights. */
#include "backend/cpu/cpu.h"

#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"

#define MAX_THREADS 1024

static const qn_fuse_rule *const rules[] = { &qn_cpu_fuse_linears, &qn_cpu_fuse_glu,
                                             &qn_cpu_fuse_add_norm, NULL };

static void cpu_close(qn_backend *be)
{
    if (!be)
        return;
    qn_cpu *cpu = (qn_cpu *)be;
    qn_pool_free(cpu->pool);
    qn_pack_store_free(cpu->packs);
    qn_free(cpu->values);
    qn_free(cpu->scratch);
    qn_free(cpu);
}

static void *cpu_alloc(qn_backend *be, size_t bytes)
{
    (void)be;
    void *p = qn_try_alloc(bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

static void cpu_free(qn_backend *be, void *p)
{
    (void)be;
    qn_free(p);
}

static void cpu_copy(qn_backend *be, void *dst, const void *src, size_t bytes)
{
    (void)be;
    memmove(dst, src, bytes);
}

static const float *cpu_output(qn_backend *be, const qn_plan *plan, qn_val v)
{
    const qn_cpu *cpu = (const qn_cpu *)be;
    size_t place = plan->place[v.id];
    return place == QN_NO_PLACE ? NULL : (const float *)(cpu->values + place);
}

static void cpu_set_dump(qn_backend *be, qn_dump_fn fn, void *ctx)
{
    qn_cpu *cpu = (qn_cpu *)be;
    cpu->dump = fn;
    cpu->dump_ctx = ctx;
}

int qn_backend_cpu_open(qn_backend **out, const qn_backend_options *opt, qn_error *err)
{
    *out = NULL;
    int n_threads = opt->n_threads > 0 ? opt->n_threads : qn_cpu_cores();
    if (n_threads > MAX_THREADS)
        return qn_fail(err, QN_ERR_ARGUMENT, "%d threads: at most %d are possible", n_threads,
                       MAX_THREADS);
    qn_cpu *cpu = qn_alloc(sizeof *cpu);
    cpu->opt = *opt;
    cpu->base = (qn_backend){
        .name = "cpu",
        .abi = QN_BACKEND_ABI,
        .rules = rules,
        .close = cpu_close,
        .prepare = qn_cpu_prepare,
        .alloc = cpu_alloc,
        .free = cpu_free,
        .copy = cpu_copy,
        .run = qn_cpu_run,
        .output = cpu_output,
        .set_dump = cpu_set_dump,
    };
    /* The reference mode shows every op as it is defined: no fast kernels, and so no threads either. */
    qn_kernels_init(&cpu->kernels, opt->reference ? 0 : qn_cpu_init());
    cpu->pool = qn_pool_new(opt->reference ? 1 : n_threads);
    cpu->packs = qn_pack_store_new();
    if (!cpu->pool) {
        cpu_close(&cpu->base);
        return qn_fail(err, QN_ERR_MEMORY, "cpu: no memory for threads");
    }
    *out = &cpu->base;
    return QN_OK;
}
