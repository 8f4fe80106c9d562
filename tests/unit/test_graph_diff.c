/* test_graph_diff.c - `quern diff` as people and scripts call it, on a model made from a formula. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/formula.h"

static char dir[] = "/tmp/quern-diff-XXXXXX";

static int make_model(void **state)
{
    (void)state;
    return mkdtemp(dir) && qn_formula_write_checkpoint(QUERN_SOURCE "/tests/golden/cases/llama/a",
                                                       dir, NULL) == QN_OK
               ? 0
               : -1;
}

static int drop_model(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    const char *const files[] = { "model.safetensors", "config.json", "case.json", "tensors.json" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(qn_path_join(&a, dir, files[i]));
    qn_arena_free(&a);
    return rmdir(dir);
}

/* Output of `quern diff <dir> <args>`; the exit status in *status. */
static void run(const char *args, char *out, size_t size, int *status)
{
    char command[1024];
    snprintf(command, sizeof command, "%s/quern diff %s %s 2>&1", QUERN_BINARY, dir, args);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = '\0';
    while (fgetc(f) != EOF)
        continue;
    *status = WEXITSTATUS(pclose(f));
}

static void test_agree(void **state)
{
    (void)state;
    char out[4096];
    int status;
    run("--ids 5 6 7 8 --json", out, sizeof out, &status);
    assert_int_equal(status, 0);
    qn_arena a = { 0 };
    const qn_json *j = qn_json_parse(&a, out, strlen(out), NULL);
    assert_true(qn_json_int(qn_json_get(j, "compared"), 0) > 20);
    assert_true(qn_json_is(qn_json_get(j, "first"), QN_JSON_NULL));
    assert_true(qn_json_num(qn_json_path(j, "worst.error"), 1) < 1e-4);
    qn_arena_free(&a);
}

/* With no tolerance to speak of, rounding is the first place where references and kernels part. */
static void test_part(void **state)
{
    (void)state;
    char out[4096];
    int status;
    run("--ids 5 6 7 8 --tolerance 1e-30", out, sizeof out, &status);
    assert_int_equal(status, 1);
    assert_non_null(strstr(out, "eager and f32 part at model."));
}

static void test_dump(void **state)
{
    (void)state;
    char out[8192];
    int status;
    run("--ids 5 6 --dump 'model.embed*'", out, sizeof out, &status);
    assert_int_equal(status, 0);
    assert_non_null(strstr(out, "eager: model.embed_tokens"));
    assert_non_null(strstr(out, "f32: model.embed_tokens"));
    assert_null(strstr(out, "layers"));
}

static void test_usage(void **state)
{
    (void)state;
    char out[4096];
    int status;
    run("", out, sizeof out, &status);
    assert_int_equal(status, 2);
    run("--ids 5 --b nonsense", out, sizeof out, &status);
    assert_int_equal(status, 1);
    assert_non_null(strstr(out, "no way called nonsense"));
    run("words", out, sizeof out, &status);
    assert_int_equal(status, 1); /* this model has no tokenizer */
    run("--ids 99999", out, sizeof out, &status);
    assert_int_equal(status, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agree),
        cmocka_unit_test(test_part),
        cmocka_unit_test(test_dump),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests(tests, make_model, drop_model);
}
