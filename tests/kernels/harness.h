/* harness.h - runs one kernel of one CPU level on made-up data, beside the op's reference.
 *
 * A case is a node with its inputs as plain arrays. Outputs and scratch lie between guard bytes, so that a
 * kernel that writes outside is caught by every test. Levels the machine lacks are named as skipped. */
#ifndef QN_TESTS_KERNELS_HARNESS_H
#define QN_TESTS_KERNELS_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/cpu.h"
#include "kernels/kernel.h"

#define UNUSED __attribute__((unused))
#define GUARD  64

/* ---- random numbers: the same on every run ---- */

static uint64_t rng_state = 0x9E3779B97F4A7C15U;

static UNUSED uint32_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 32);
}

static UNUSED float rng_float(void) /* in [-1, 1) */
{
    return (float)(int32_t)rng() * (1.0F / 2147483648.0F);
}

static UNUSED void fill(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = rng_float() * (rng() % 16 == 0 ? 4.0F : 1.0F);
}

/* ---- levels ---- */

static const char *const level_names[] = { "avx2", "avxvnni", "avx512", "bf16", "amx" };
#define N_LEVELS 5

/* Makes level i the one in use; false (said once a program) when this machine has it not. */
static UNUSED bool use_level(int i)
{
    static unsigned said;
    unsigned flags = qn_cpu_force(level_names[i]);
    bool has = strcmp(qn_cpu_name(flags), level_names[i]) == 0;
    if (!(said & 1U << i))
        print_message("level %s: %s\n", level_names[i],
                      has ? "runs" : "skipped: this processor lacks it (or the system forbids it)");
    said |= 1U << i;
    return has;
}

/* ---- one call ---- */

typedef struct kcase {
    qn_node node;
    qn_call call;
    uint8_t *block[QN_MAX_OUT]; /* outputs with their guards */
} kcase;

static UNUSED void add_output(kcase *k, int i, int64_t rows, int64_t width)
{
    size_t bytes = (size_t)(rows * width) * 4;
    k->block[i] = test_malloc(bytes + 2 * GUARD);
    memset(k->block[i], 0xA5, bytes + 2 * GUARD);
    k->call.out[i] = (qn_tensor){ .data = k->block[i] + GUARD, .rows = rows, .width = width };
    if ((int)k->node.n_out <= i)
        k->node.n_out = (uint8_t)(i + 1);
}

static UNUSED void add_input(kcase *k, int i, const void *data, int64_t rows, int64_t width)
{
    k->call.in[i] = (qn_tensor){ .data = (void *)(uintptr_t)data, .rows = rows, .width = width };
    if ((int)k->node.n_in <= i)
        k->node.n_in = (uint8_t)(i + 1);
}

static UNUSED void add_weight(kcase *k, int i, const qn_weight *w)
{
    k->call.in[i] =
        (qn_tensor){ .weight = w, .rows = qn_weight_rows(w), .width = qn_weight_cols(w) };
    if ((int)k->node.n_in <= i)
        k->node.n_in = (uint8_t)(i + 1);
}

static UNUSED void free_case(kcase *k)
{
    for (int i = 0; i < QN_MAX_OUT; i++)
        if (k->block[i])
            test_free(k->block[i]);
}

static UNUSED void check_guards(const kcase *k)
{
    for (int i = 0; i < k->node.n_out; i++) {
        size_t bytes = (size_t)(k->call.out[i].rows * k->call.out[i].width) * 4;
        for (size_t j = 0; j < GUARD; j++) {
            assert_int_equal(k->block[i][j], 0xA5);
            assert_int_equal(k->block[i][GUARD + bytes + j], 0xA5);
        }
    }
}

static void harness_sync(const qn_call *c)
{
    if (c->nth > 1)
        qn_pool_sync(c->pool);
}

typedef struct team {
    const kcase *k;
    const qn_kernel *kernel;
} team;

static void team_member(void *ctx, int ith)
{
    const team *t = ctx;
    qn_call c = t->k->call;
    c.ith = ith;
    t->kernel->run(&c);
}

/* Runs the case by the kernel of the level in use, on n_threads. */
static UNUSED void run_kernel(kcase *k, int n_threads)
{
    qn_kernels tables;
    qn_kernels_init(&tables, qn_cpu_flags());
    const qn_kernel *kernel = qn_kernels_find(&tables, k->node.op);
    assert_non_null(kernel);
    qn_call *c = &k->call;
    c->node = &k->node;
    c->attr = k->node.attr;
    c->kernels = &tables;
    c->nth = n_threads;
    c->sync = harness_sync;
    c->pool = qn_pool_new(n_threads);
    assert_non_null(c->pool);
    size_t bytes = kernel->scratch ? kernel->scratch(c) : 0;
    uint8_t *scratch = qn_try_alloc(bytes + GUARD);
    assert_non_null(scratch);
    memset(scratch + bytes, 0xA5, GUARD);
    c->scratch = scratch;
    team t = { k, kernel };
    qn_pool_run(c->pool, team_member, &t);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(scratch[bytes + (size_t)i], 0xA5);
    check_guards(k);
    qn_free(scratch);
    qn_pool_free(c->pool);
}

/* The same case by the op's reference. */
static UNUSED void run_ref(kcase *k)
{
    k->call.node = &k->node;
    k->call.attr = k->node.attr;
    k->call.ith = 0;
    k->call.nth = 1;
    k->call.sync = harness_sync;
    k->node.op->ref(&k->call);
    check_guards(k);
}

/* ---- weights ---- */

/* A weight of a block layout with random codes and scales whose values are all moderate. The caller frees
 * w->data with qn_free. */
static UNUSED qn_weight random_weight(qn_layout layout, int64_t rows, int64_t cols)
{
    const qn_layout_info *info = qn_layout_get(layout);
    size_t n_blocks = (size_t)(rows * cols / info->block_elems), bytes = info->block_bytes;
    uint8_t *data = qn_alloc(n_blocks * bytes);
    float value[256];
    for (size_t b = 0; b < n_blocks; b++) {
        bool good = false;
        while (!good) {
            for (size_t i = 0; i < bytes; i++)
                data[b * bytes + i] = (uint8_t)rng();
            info->decode(data + b * bytes, value, info->block_elems);
            good = true;
            for (int i = 0; i < info->block_elems; i++)
                good = good && fabsf(value[i]) < 16.0F;
        }
    }
    return (qn_weight){
        .name = "w", .dim = { rows, cols }, .n_dims = 2, .layout = (uint8_t)layout, .data = data
    };
}

#endif
