/* test_base_cpu.c - levels can only be lowered, and only to what the processor has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"

static void test_levels(void **state)
{
    (void)state;
    static const char *const names[] = { "ref", "avx2", "avxvnni", "avx512", "bf16", "amx" };
    unsigned found = qn_cpu_found(), below = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsigned flags = qn_cpu_force(names[i]);
        assert_int_equal(flags & ~found, 0);
        assert_int_equal(flags & below, below); /* each level includes those below it */
        assert_int_equal(flags >> i, 0);        /* and none above it */
        assert_int_equal(flags, qn_cpu_flags());
        below = flags;
    }
    assert_int_equal(below, found);
    assert_int_equal(qn_cpu_force("ref"), 0);
    qn_log_level(-1);
    assert_int_equal(qn_cpu_force("avx3"), 0); /* unknown: nothing changes but a warning */
    qn_log_level(QN_LOG_WARN);
    qn_cpu_force("amx");
}

static void test_needs(void **state)
{
    (void)state;
    unsigned f = qn_cpu_found();
    if (f & (QN_CPU_AVXVNNI | QN_CPU_AVX512))
        assert_true(f & QN_CPU_AVX2);
    if (f & QN_CPU_BF16)
        assert_true(f & QN_CPU_AVX512);
    if (f & QN_CPU_AMX)
        assert_true(f & QN_CPU_BF16);
#if defined(__x86_64__)
    __builtin_cpu_init(); /* the compiler's own detection as a second opinion */
    assert_int_equal(!!(f & QN_CPU_AVX2),
                     __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    assert_int_equal(!!(f & QN_CPU_AVX512),
                     __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("avx512vnni"));
#endif
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(qn_cpu_name(0), "ref");
    assert_string_equal(qn_cpu_name(QN_CPU_AVX2), "avx2");
    assert_string_equal(qn_cpu_name(QN_CPU_AVX2 | QN_CPU_AVX512), "avx512");
    assert_string_equal(qn_cpu_name(~0u), "amx");
}

static void test_init_once(void **state)
{
    (void)state;
    qn_cpu_force("ref");
    assert_int_equal(qn_cpu_init(), 0); /* a second call detects nothing anew */
    qn_cpu_force("amx");
    assert_int_equal(qn_cpu_init(), qn_cpu_found());
}

static void test_cores(void **state)
{
    (void)state;
    cpu_set_t all, one;
    int n = qn_cpu_cores();
    assert_in_range(n, 1, 100000);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(qn_cpu_cores(), 1);
    sched_setaffinity(0, sizeof all, &all);
    assert_int_equal(qn_cpu_cores(), n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels), cmocka_unit_test(test_needs),
        cmocka_unit_test(test_names),  cmocka_unit_test(test_init_once),
        cmocka_unit_test(test_cores),
    };
    unsetenv("QUERN_CPU");
    qn_cpu_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
