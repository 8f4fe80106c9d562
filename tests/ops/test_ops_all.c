/* test_ops_all.c - every op by table: inferred shape, gradient against finite differences, fused against
 * expansion. The table is cases.h. */
#include "ops/cases.h"

static void test_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        op_case c = ranged(&cases[i]);
        check_shape(&c);
    }
}

static void test_gradients(void **state)
{
    (void)state;
    double worst = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        op_case c = ranged(&cases[i]);
        double e = check_grad(&c);
        if (getenv("QUERN_VERBOSE"))
            printf("%-34s gradient error %.2e\n", c.what, e);
        worst = fmax(worst, e);
    }
    printf("largest gradient error %.2e\n", worst);
    assert_true(worst < 1e-3);
}

static void test_expansions(void **state)
{
    (void)state;
    int n = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        op_case c = ranged(&cases[i]);
        if (!c.op->expand)
            continue;
        check_expansion(&c);
        n++;
    }
    assert_int_equal(n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_expansions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
