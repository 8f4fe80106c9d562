/* bench_kernels.c - times every kernel of every level of this machine, beside limits measured in the same run.
 *
 * Usage: bench_kernels [--threads N] [--level NAME]. A product with 1 row is bound by reading weights, so it is
 * given as GB/s and as a share of plain reading; with 64 rows it is bound by arithmetic: multiply-adds a second
 * as a share of a loop of nothing but the level's multiply-add. Each number is the best of many short runs,
 * which is what a kernel can do when nobody else has the processor. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "bench_peaks.h"
#include "kernels/kernel.h"

#define ROUNDS 40

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- running one thing on all threads ---- */

static double best_time(qn_pool *pool, void (*fn)(void *, int), void *ctx)
{
    double best = INFINITY;
    for (int i = 0; i < ROUNDS; i++) {
        double t = now_s();
        qn_pool_run(pool, fn, ctx);
        t = now_s() - t;
        best = t < best ? t : best;
    }
    return best;
}

/* ---- limits ---- */

typedef struct limits {
    double int_macs, float_macs, read_bytes; /* a second, all threads */
} limits;

#define PEAK_LOOPS 200000

static void int_peak(void *ctx, int ith)
{
    (void)ith;
    ((const qn_peaks *)ctx)->int_macs(PEAK_LOOPS);
}

static void float_peak(void *ctx, int ith)
{
    (void)ith;
    ((const qn_peaks *)ctx)->float_macs(PEAK_LOOPS);
}

typedef struct read_job {
    const uint8_t *data;
    size_t bytes;
    int n_threads;
    const qn_peaks *peaks;
} read_job;

static void read_peak(void *ctx, int ith)
{
    const read_job *r = ctx;
    size_t part = r->bytes / (size_t)r->n_threads / 4096 * 4096;
    r->peaks->read(r->data + part * (size_t)ith, part);
}

static limits measure_limits(qn_pool *pool, const qn_peaks *peaks)
{
    double n = (double)PEAK_LOOPS * qn_pool_size(pool);
    limits l = { 0 };
    size_t bytes = (size_t)192 << 20; /* beyond the last cache of most machines */
    uint8_t *data = qn_try_alloc(bytes);
    if (!data)
        return l;
    memset(data, 1, bytes);
    read_job r = { data, bytes, qn_pool_size(pool), peaks };
    l.int_macs = n * peaks->int_macs_a_loop / best_time(pool, int_peak, (void *)(uintptr_t)peaks);
    l.float_macs =
        n * peaks->float_macs_a_loop / best_time(pool, float_peak, (void *)(uintptr_t)peaks);
    l.read_bytes = (double)bytes / best_time(pool, read_peak, &r);
    qn_free(data);
    return l;
}

/* ---- a call of a kernel ---- */

typedef struct bench_call {
    qn_call call;
    qn_node node;
    const qn_kernel *kernel;
} bench_call;

static void sync_call(const qn_call *c)
{
    qn_pool_sync(c->pool);
}

static void run_thread(void *ctx, int ith)
{
    const bench_call *b = ctx;
    qn_call c = b->call;
    c.ith = ith;
    b->kernel->run(&c);
}

static double time_call(bench_call *b, const qn_kernels *kernels, qn_pool *pool)
{
    qn_call *c = &b->call;
    b->kernel = qn_kernels_find(kernels, b->node.op);
    c->node = &b->node;
    c->attr = b->node.attr;
    c->kernels = kernels;
    c->pool = pool;
    c->nth = qn_pool_size(pool);
    c->sync = sync_call;
    size_t bytes = b->kernel->scratch ? b->kernel->scratch(c) : 0;
    c->scratch = qn_try_alloc(bytes + 64);
    double t = c->scratch ? best_time(pool, run_thread, b) : INFINITY;
    qn_free(c->scratch);
    return t;
}

static float *numbers(int64_t n)
{
    float *x = qn_try_alloc((size_t)n * sizeof *x);
    for (int64_t i = 0; x && i < n; i++)
        x[i] = (float)((i * 7919) % 1001 - 500) * 0.002F;
    return x;
}

/* ---- products ---- */

/* A matrix of one byte (speed does not depend on values) of a layout, repacked as the backend would. */
static uint8_t *packed_bytes(const qn_kernels *k, const qn_weight *w)
{
    qn_panel_plan p = qn_panel_plan_of(&k->matmul, w, false);
    size_t bytes = p.panel_bytes * (size_t)p.n_panels;
    uint8_t *packed = qn_try_alloc(bytes + 64);
    if (packed)
        memset(packed, 0x38, bytes); /* scales of half, whatever they are */
    return packed;
}

static void bench_linear(const qn_kernels *k, qn_pool *pool, qn_layout layout, const limits *l)
{
    enum { K = 1536, N_LARGE = 24576, N_SMALL = 1536, ROWS = 64 };
    double gbs = 0, macs = 0;
    size_t bytes = 0;
    for (int many = 0; many < 2; many++) {
        int64_t n = many ? N_SMALL : N_LARGE, rows = many ? ROWS : 1;
        qn_weight w = { .dim = { n, K }, .n_dims = 2, .layout = (uint8_t)layout };
        qn_layout_bytes(layout, n * K, &bytes);
        float *x = numbers(rows * K), *y = numbers(rows * n);
        uint8_t *packed = packed_bytes(k, &w);
        bench_call b = { .node = { .op = &qn_op_linear, .n_in = 2, .n_out = 1 } };
        b.call.in[0] = (qn_tensor){ .data = x, .rows = rows, .width = K };
        b.call.in[1] = (qn_tensor){ .weight = &w, .packed = packed, .rows = n, .width = K };
        b.call.out[0] = (qn_tensor){ .data = y, .rows = rows, .width = n };
        double t = time_call(&b, k, pool);
        if (many)
            macs = (double)(rows * n * K) / t;
        else
            gbs = (double)bytes / t;
        qn_free(x);
        qn_free(y);
        qn_free(packed);
    }
    double peak = layout > QN_BF16 ? l->int_macs : l->float_macs;
    printf("  linear %-8s 1 row %6.1f GB/s (%3.0f%% of reading)   64 rows %7.1f GMAC/s (%3.0f%%)\n",
           qn_layout_get(layout)->name, gbs * 1e-9, 100 * gbs / l->read_bytes, macs * 1e-9,
           100 * macs / peak);
}

/* ---- attention ---- */

static void bench_attention(const qn_kernels *k, qn_pool *pool, const limits *l)
{
    enum { H = 9, HKV = 3, D = 64, ROWS = 512 };
    const qn_attr_attention a = {
        .n_heads = H, .n_kv_heads = HKV, .k_dim = D, .v_dim = D, .scale = 0.125F
    };
    int32_t seq[ROWS] = { 0 }, see[ROWS], q_start[2] = { 0, ROWS }, kv_len[1] = { 0 };
    for (int i = 0; i < ROWS; i++)
        see[i] = i;
    const qn_batch batch = {
        .n_tok = ROWS, .n_seq = 1, .seq = seq, .see = see, .q_start = q_start, .kv_len = kv_len
    };
    float *q = numbers(ROWS * H * D), *kv = numbers(ROWS * HKV * D), *y = numbers(ROWS * H * D);
    bench_call b = { .node = { .op = &qn_op_attention, .attr = &a, .n_in = 3, .n_out = 1 } };
    b.call.batch = &batch;
    b.call.in[0] = (qn_tensor){ .data = q, .rows = ROWS, .width = H * D };
    b.call.in[1] = b.call.in[2] = (qn_tensor){ .data = kv, .rows = ROWS, .width = HKV * D };
    b.call.out[0] = (qn_tensor){ .data = y, .rows = ROWS, .width = H * D };
    double t = time_call(&b, k, pool), macs = (double)H * D * ROWS * (ROWS + 1) / t;
    printf("  attention 512 rows, causal                           %7.1f GMAC/s (%3.0f%%)\n",
           macs * 1e-9, 100 * macs / l->float_macs);
    qn_free(q);
    qn_free(kv);
    qn_free(y);
}

/* ---- rows ---- */

static void bench_rows(const qn_kernels *k, qn_pool *pool)
{
    enum { ROWS = 256, W = 1536 };
    const qn_attr_act act = { QN_ACT_SILU };
    const qn_attr_norm norm = { .eps = 1e-5F };
    const qn_op *const ops[] = { &qn_op_add, &qn_op_glu, &qn_op_norm, &qn_op_add_norm };
    const void *const attrs[] = { NULL, &act, &norm, &norm };
    float *a = numbers(ROWS * W), *c = numbers(ROWS * W), *y = numbers(ROWS * W),
          *z = numbers(ROWS * W);
    for (int i = 0; i < 4; i++) {
        bench_call b = { .node = { .op = ops[i], .attr = attrs[i] } };
        b.call.in[0] = (qn_tensor){ .data = a, .rows = ROWS, .width = W };
        if (ops[i] != &qn_op_norm)
            b.call.in[1] = (qn_tensor){ .data = c, .rows = ROWS, .width = W };
        b.call.out[0] = (qn_tensor){ .data = y, .rows = ROWS, .width = W };
        b.call.out[1] = (qn_tensor){ .data = z, .rows = ROWS, .width = W };
        double t = time_call(&b, k, pool);
        printf("  %-10s %6.2f G elements/s\n", ops[i]->name, (double)ROWS * W / t * 1e-9);
    }
    qn_free(a);
    qn_free(c);
    qn_free(y);
    qn_free(z);
}

static void bench_level(const char *level, qn_pool *pool)
{
    static const qn_layout layouts[] = { QN_F32,  QN_BF16,   QN_F16,  QN_Q4_0, QN_Q4_1,
                                         QN_Q5_0, QN_Q5_1,   QN_Q8_0, QN_Q4_K, QN_Q5_K,
                                         QN_Q6_K, QN_IQ4_NL, QN_MXFP4 };
    unsigned flags = qn_cpu_force(level);
    if (strcmp(qn_cpu_name(flags), level) != 0) {
        printf("%s: not on this machine\n", level);
        return;
    }
    qn_peaks peaks;
    qn_peaks_init(&peaks, flags);
    limits l = measure_limits(pool, &peaks);
    printf("%s, %d threads: %.0f G int8 and %.0f G f32 multiply-adds/s, reading %.1f GB/s\n", level,
           qn_pool_size(pool), l.int_macs * 1e-9, l.float_macs * 1e-9, l.read_bytes * 1e-9);
    qn_kernels k;
    qn_kernels_init(&k, flags);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        bench_linear(&k, pool, layouts[i], &l);
    bench_attention(&k, pool, &l);
    bench_rows(&k, pool);
}

int main(int argc, char **argv)
{
    static const char *const levels[] = { "avx2", "avxvnni", "avx512" };
    const char *level = NULL;
    qn_cpu_init();
    int threads = qn_cpu_cores();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--level") == 0)
            level = argv[i + 1];
    }
    qn_pool *pool = qn_pool_new(threads > 0 ? threads : 1);
    if (!pool)
        return 1;
    for (int i = 0; i < 3; i++)
        if (!level || strcmp(level, levels[i]) == 0)
            bench_level(levels[i], pool);
    qn_pool_free(pool);
    return 0;
}
