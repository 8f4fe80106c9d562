/* test_base_error.c - one clear line whatever the bytes, and log lines likewise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"

static void test_fail(void **state)
{
    (void)state;
    qn_error err = { 0 };
    assert_int_equal(qn_fail(&err, QN_ERR_FORMAT, "%s: %d", "a.gguf", 3), QN_ERR_FORMAT);
    assert_int_equal(err.code, QN_ERR_FORMAT);
    assert_string_equal(err.msg, "a.gguf: 3");
    assert_int_equal(qn_fail(NULL, QN_ERR_IO, "x"), QN_ERR_IO);
    assert_int_equal(qn_fail_in(NULL, QN_ERR_IO, "x"), QN_ERR_IO);
}

static void test_control_characters(void **state)
{
    (void)state;
    qn_error err = { 0 };
    qn_fail(&err, QN_ERR_IO,
            "a\nb\tc\x1b[2J\x7f"
            "d\xc3\xa9");
    assert_string_equal(err.msg, "a b c [2J d\xc3\xa9");
}

static void test_context(void **state)
{
    (void)state;
    qn_error err = { 0 };
    qn_fail(&err, QN_ERR_LIMIT, "too many");
    assert_int_equal(qn_fail_in(&err, QN_ERR_IO, "%s", "file\n1"), QN_ERR_LIMIT);
    assert_string_equal(err.msg, "file 1: too many");
    qn_error none = { 0 };
    assert_int_equal(qn_fail_in(&none, QN_ERR_IO, "here"), QN_ERR_IO);
    assert_int_equal(none.code, QN_ERR_IO);
}

/* The old message may be an argument of the new one. */
static void test_own_message(void **state)
{
    (void)state;
    qn_error err = { 0 };
    qn_fail(&err, QN_ERR_IO, "cause");
    qn_fail(&err, QN_ERR_FORMAT, "outer (%s)", err.msg);
    assert_string_equal(err.msg, "outer (cause)");
    qn_fail_in(&err, QN_ERR_FORMAT, "<%s>", err.msg);
    assert_string_equal(err.msg, "<outer (cause)>: outer (cause)");
}

/* Long messages are cut between characters and stay terminated. */
static void test_cut(void **state)
{
    (void)state;
    for (int pad = 0; pad < 4; pad++) {
        char text[2048];
        memset(text, 'x', (size_t)pad);
        for (size_t i = (size_t)pad; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac\0", 4);
        qn_error err = { 0 };
        qn_fail(&err, QN_ERR_IO, "%s", text);
        size_t n = strlen(err.msg);
        assert_true(n > sizeof err.msg - 5 && n < sizeof err.msg);
        assert_int_equal(qn_utf8_valid(err.msg, n), n);
        qn_fail_in(&err, QN_ERR_IO, "y%s", "z");
        assert_memory_equal(err.msg, "yz: ", 4);
        assert_int_equal(qn_utf8_valid(err.msg, strlen(err.msg)), strlen(err.msg));
    }
}

/* What qn_log writes to standard error goes to a pipe here. */
static size_t logged(int max, int level, const char *text, char *out, size_t cap)
{
    int fd[2], saved = dup(2);
    assert_int_equal(pipe(fd), 0);
    dup2(fd[1], 2);
    qn_log_level(max);
    qn_log(level, "%s", text);
    dup2(saved, 2);
    close(saved);
    close(fd[1]);
    ssize_t n = read(fd[0], out, cap - 1);
    close(fd[0]);
    out[n < 0 ? 0 : n] = '\0';
    qn_log_level(QN_LOG_WARN);
    return n < 0 ? 0 : (size_t)n;
}

static void test_log(void **state)
{
    (void)state;
    static char line[4096], text[3000];
    logged(QN_LOG_WARN, QN_LOG_ERROR, "no", line, sizeof line);
    assert_string_equal(line, "quern: no\n");
    logged(QN_LOG_WARN, QN_LOG_WARN, "slow", line, sizeof line);
    assert_string_equal(line, "quern: warning: slow\n");
    assert_int_equal(logged(QN_LOG_WARN, QN_LOG_INFO, "detail", line, sizeof line), 0);
    logged(QN_LOG_DEBUG, QN_LOG_DEBUG, "a\nb\x1b[31m", line, sizeof line);
    assert_string_equal(line, "quern: a b [31m\n");
    memset(text, 'x', sizeof text - 1);
    size_t n = logged(QN_LOG_WARN, QN_LOG_ERROR, text, line, sizeof line);
    assert_true(n > 500 && n < 1100 && line[n - 1] == '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail),    cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_context), cmocka_unit_test(test_own_message),
        cmocka_unit_test(test_cut),     cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
