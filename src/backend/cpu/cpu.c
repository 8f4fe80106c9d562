/* cpu.c - the CPU backend as an object: options, memory, fusions. exec.c runs steps, pack.c repacks weights. */
#include "backend/cpu/cpu.h"

#include <string.h>
#include <sys/mman.h>

#include "base/cpu.h"
#include "base/mem.h"

#define MAX_THREADS 1024
#define HEAD_BYTES  4096

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

/* Pages of zeros that become real when they are first written: a cache may be sized for the longest context and
 * still cost only what is used of it. The page before the memory remembers its size. */
static void *cpu_alloc(qn_backend *be, size_t bytes)
{
    (void)be;
    size_t all;
    if (!qn_add_size(bytes, HEAD_BYTES, &all))
        return NULL;
    void *head = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (head == MAP_FAILED)
        return NULL;
    *(size_t *)head = all;
    return (char *)head + HEAD_BYTES;
}

static void cpu_free(qn_backend *be, void *p)
{
    (void)be;
    if (!p)
        return;
    void *head = (char *)p - HEAD_BYTES;
    munmap(head, *(size_t *)head);
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
