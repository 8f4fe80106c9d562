/* test_expert_linear.c - products with chosen experts equal, to the bit, the plain products of the same rows
 * with the same matrices: linear's own test says how far those are from the reference. */
#include "kernels/harness.h"

enum { ROWS = 23, K = 256, N = 37, EXPERTS = 6, TOP_K = 3 };

static float x[ROWS * TOP_K * K], bias[EXPERTS * N];
static int32_t ids[ROWS * TOP_K];

/* Result row of linear for input row `row` and expert e. */
static void one_product(const qn_weight *w, int64_t row, int32_t e, bool exact, float *y)
{
    qn_weight expert = qn_weight_expert(w, e);
    kcase k = { .node = { .op = &qn_op_linear }, .call = { .exact = exact } };
    add_input(&k, 0, x + row * K, 1, K);
    add_weight(&k, 1, &expert);
    add_input(&k, 2, bias + e * N, N, 1);
    add_output(&k, 0, 1, N);
    run_kernel(&k, 1);
    memcpy(y, k.call.out[0].data, N * sizeof *y);
    free_case(&k);
}

static void one_case(qn_layout layout, bool per_slot, bool exact)
{
    const qn_attr_expert_linear a = { .top_k = TOP_K, .x_per_slot = per_slot };
    qn_weight w = random_weight(layout, EXPERTS * N, K);
    w.n_dims = 3;
    w.dim[0] = EXPERTS;
    w.dim[1] = N;
    w.dim[2] = K;
    for (int threads = 1; threads <= 3; threads++) {
        kcase k = { .node = { .op = &qn_op_expert_linear, .attr = &a },
                    .call = { .exact = exact } };
        add_input(&k, 0, x, ROWS, per_slot ? TOP_K * K : K);
        add_weight(&k, 1, &w);
        add_input(&k, 2, ids, ROWS, TOP_K);
        add_input(&k, 3, bias, EXPERTS, N);
        add_output(&k, 0, ROWS, TOP_K * N);
        run_kernel(&k, threads);
        for (int p = 0; p < ROWS * TOP_K; p++) {
            float want[N];
            one_product(&w, per_slot ? p : p / TOP_K, ids[p], exact, want);
            assert_memory_equal((float *)k.call.out[0].data + (size_t)p * N, want, sizeof want);
        }
        free_case(&k);
    }
    qn_free((void *)(uintptr_t)w.data);
}

static void test_experts(void **state)
{
    (void)state;
    for (int level = 0; level < N_LEVELS; level++) {
        if (!use_level(level))
            continue;
        for (int kind = 0; kind < 4; kind++) {
            one_case(QN_Q4_0, kind & 1, kind & 2);
            one_case(QN_BF16, kind & 1, kind & 2);
            one_case(QN_Q6_K, kind & 1, kind & 2);
        }
    }
}

int main(void)
{
    qn_cpu_init();
    fill(x, ROWS * TOP_K * K);
    fill(bias, EXPERTS * N);
    for (int i = 0; i < ROWS * TOP_K; i++)
        ids[i] =
            i % 7 == 0 ? 0 : (int32_t)(rng() % (EXPERTS - 1)); /* the last one is never chosen */
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_experts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
