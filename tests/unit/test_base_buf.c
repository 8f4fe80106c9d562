/* test_base_buf.c - byte strings grow, stay terminated and can be used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/buf.h"

static void test_empty(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    assert_string_equal(qn_buf_cstr(&b), "");
    qn_buf_clear(&b);
    qn_buf_add(&b, NULL, 0);
    assert_int_equal(b.len, 0);
    assert_string_equal(qn_buf_cstr(&b), "");
    qn_buf_free(&b);
    qn_buf_free(&b);
    assert_null(b.data);
}

static void test_parts(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    qn_buf_str(&b, "one");
    qn_buf_char(&b, ' ');
    qn_buf_printf(&b, "%d%%", 25);
    qn_buf_add(&b, "\0x", 2);
    assert_int_equal(b.len, 9);
    assert_memory_equal(b.data, "one 25%\0x", 10);
    qn_buf_printf(&b, "%s", "");
    assert_int_equal(b.len, 9);
    size_t cap = b.cap;
    qn_buf_clear(&b);
    assert_string_equal(qn_buf_cstr(&b), "");
    assert_int_equal(b.cap, cap);
    qn_buf_str(&b, "again");
    assert_string_equal(qn_buf_cstr(&b), "again");
    qn_buf_free(&b);
}

static void test_growth(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    for (size_t i = 0; i < 100000; i++) {
        qn_buf_char(&b, (char)('a' + i % 26));
        assert_true(b.cap > b.len && b.data[b.len] == '\0');
    }
    for (size_t i = 0; i < 100000; i++)
        assert_int_equal(b.data[i], 'a' + i % 26);
    qn_buf_printf(&b, "%70000d", 5); /* far beyond the doubling */
    assert_int_equal(b.len, 170000);
    assert_int_equal(b.data[b.len - 1], '5');
    qn_buf_free(&b);
}

/* After a reserve the promised bytes fit without moving. */
static void test_reserve(void **state)
{
    (void)state;
    for (size_t n = 0; n < 300; n++) {
        qn_buf b = { 0 };
        qn_buf_str(&b, "x");
        qn_buf_reserve(&b, n);
        const char *at = b.data;
        for (size_t i = 0; i < n; i++)
            qn_buf_char(&b, 'y');
        assert_ptr_equal(b.data, at);
        qn_buf_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_reserve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
