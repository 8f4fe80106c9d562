/* test_gguf_logits.c - the kit's small GGUF files (permuted rows, mixed blocks, stacked experts, norms with 1 added)
 * against the reference's logits on the same values, in both compute modes, through quern-parity. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

static const char *const files[] = { "llama_q8_0", "llama_kquant", "qwen3_mixed", "gemma2_q8_0",
                                     "qwen3moe_q4_0" };
enum { N_FILES = sizeof files / sizeof *files };

/* Runs all files in one mode; the lines that begin with `word` are counted. */
static int run(const char *mode, const char *word, int *status)
{
    char command[4096];
    int n = snprintf(command, sizeof command, QUERN_BINARY "/quern-parity --compute %s", mode);
    for (int i = 0; i < N_FILES; i++)
        n += snprintf(command + n, sizeof command - (size_t)n, " " QUERN_KIT "/gguf/%s.gguf",
                      files[i]);
    assert_true((size_t)n < sizeof command);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    char line[512];
    int count = 0;
    while (fgets(line, sizeof line, p)) {
        fputs(line, stdout);
        count += qn_starts_with(line, word);
    }
    *status = pclose(p);
    return count;
}

static void test_f32(void **state)
{
    (void)state;
    int status;
    assert_int_equal(run("f32", "PASS ", &status), N_FILES);
    assert_int_equal(status, 0);
}

/* Mixtures without a stated bound are judged in f32 only: a router's tie may fall otherwise. */
static void test_default(void **state)
{
    (void)state;
    int status;
    assert_int_equal(run("default", "PASS ", &status), N_FILES - 1);
    assert_int_equal(status, 0);
}

int main(void)
{
    if (!qn_is_file(QUERN_KIT "/gguf/llama_q8_0.gguf") ||
        !qn_is_file(QUERN_BINARY "/quern-parity")) {
        puts("skipped: no kit");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
