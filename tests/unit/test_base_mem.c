/* test_base_mem.c - arenas keep what they were given, sizes are checked, growth keeps contents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

static void test_sizes(void **state)
{
    (void)state;
    size_t v = 7;
    assert_true(qn_mul_size(1u << 20, 1u << 20, &v));
    assert_true(v == (size_t)1 << 40);
    assert_true(qn_mul_size(0, SIZE_MAX, &v));
    assert_int_equal(v, 0);
    assert_false(qn_mul_size(SIZE_MAX, 2, &v));
    assert_false(qn_mul_size((size_t)1 << 32, (size_t)1 << 32, &v));
    assert_true(qn_add_size(SIZE_MAX, 0, &v));
    assert_false(qn_add_size(SIZE_MAX, 1, &v));
}

static void test_alloc_zeroes(void **state)
{
    (void)state;
    for (size_t n = 0; n < 5000; n += 611) {
        unsigned char *p = qn_alloc(n);
        assert_non_null(p);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
        qn_free(p);
    }
    qn_free(NULL);
}

static void test_try_alloc(void **state)
{
    (void)state;
    for (size_t n = 0; n < 300; n += 37) {
        void *p = qn_try_alloc(n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 1, n);
        qn_free(p);
    }
    assert_null(qn_try_alloc(SIZE_MAX));
    assert_null(qn_try_alloc(SIZE_MAX - 64));
    assert_null(qn_try_alloc(SIZE_MAX / 2));
}

/* Runs f in a child and tells whether it aborted. */
static int aborts(void (*f)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = { 0, 0 };
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        f();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void alloc_overflow(void)
{
    qn_free(qn_alloc_n(SIZE_MAX / 2, 3));
}

static void realloc_overflow(void)
{
    qn_free(qn_realloc_n(NULL, SIZE_MAX, 2));
}

static void arena_overflow(void)
{
    qn_arena a = { 0 };
    qn_arena_alloc(&a, SIZE_MAX - 3); /* rounding up must not wrap */
}

static void arena_n_overflow(void)
{
    qn_arena a = { 0 };
    qn_arena_alloc_n(&a, SIZE_MAX / 4, 8);
}

static void nothing(void)
{
}

static void test_overflow_aborts(void **state)
{
    (void)state;
    assert_false(aborts(nothing));
    assert_true(aborts(alloc_overflow));
    assert_true(aborts(realloc_overflow));
    assert_true(aborts(arena_overflow));
    assert_true(aborts(arena_n_overflow));
}

static void test_strings(void **state)
{
    (void)state;
    assert_null(qn_strdup(NULL));
    char *s = qn_strdup("");
    assert_string_equal(s, "");
    qn_free(s);
    s = qn_strndup("ab\0cd", 5);
    assert_memory_equal(s, "ab\0cd", 6);
    qn_free(s);
    s = qn_strndup(NULL, 0);
    assert_string_equal(s, "");
    qn_free(s);
}

/* Many sizes, each filled with its own byte, all checked at the end: no two may overlap. */
static void test_arena_keeps_all(void **state)
{
    (void)state;
    enum { N = 2000 };
    static unsigned char *at[N];
    qn_arena a = { 0 };
    size_t sum = 0;
    for (size_t i = 0; i < N; i++) {
        size_t n = i * 7919 % 3001;
        at[i] = qn_arena_alloc(&a, n);
        assert_int_equal((uintptr_t)at[i] % 16, 0);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(at[i][k], 0);
        memset(at[i], (int)(i & 0xff), n);
        sum += n;
    }
    assert_true(a.used_bytes >= sum && a.used_bytes < sum + 16 * N);
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < i * 7919 % 3001; k++)
            assert_int_equal(at[i][k], i & 0xff);
    qn_arena_free(&a);
    assert_int_equal(a.used_bytes, 0);
    assert_string_equal(qn_arena_strdup(&a, "usable again"), "usable again");
    qn_arena_free(&a);
    qn_arena_free(&a);
}

static void test_arena_large(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    char *small = qn_arena_strdup(&a, "small");
    unsigned char *big = qn_arena_alloc(&a, 5u << 20);
    char *after = qn_arena_strdup(&a, "after");
    memset(big, 0xaa, 5u << 20);
    assert_string_equal(small, "small");
    assert_string_equal(after, "after");
    qn_arena_free(&a);
}

static void test_arena_text(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    assert_null(qn_arena_strdup(&a, NULL));
    assert_string_equal(qn_arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(qn_arena_strndup(&a, NULL, 0), "");
    assert_string_equal(qn_arena_printf(&a, "%s-%d", "x", 12), "x-12");
    assert_string_equal(qn_arena_printf(&a, "%s", ""), "");
    char *wide = qn_arena_printf(&a, "%5000d", 1);
    assert_int_equal(strlen(wide), 5000);
    const int v[3] = { 1, 2, 3 };
    assert_memory_equal(qn_arena_copy(&a, v, sizeof v), v, sizeof v);
    assert_non_null(qn_arena_copy(&a, NULL, 0));
    qn_arena_free(&a);
}

static void test_grow(void **state)
{
    (void)state;
    int *v = NULL;
    size_t cap = 0;
    for (int n = 0; n < 10000; n++) {
        QN_GROW(v, n, cap);
        assert_true(cap > (size_t)n);
        v[n] = n * 3;
    }
    assert_true(cap < 40000);
    for (int n = 0; n < 10000; n++)
        assert_int_equal(v[n], n * 3);
    qn_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),       cmocka_unit_test(test_alloc_zeroes),
        cmocka_unit_test(test_try_alloc),   cmocka_unit_test(test_overflow_aborts),
        cmocka_unit_test(test_strings),     cmocka_unit_test(test_arena_keeps_all),
        cmocka_unit_test(test_arena_large), cmocka_unit_test(test_arena_text),
        cmocka_unit_test(test_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
