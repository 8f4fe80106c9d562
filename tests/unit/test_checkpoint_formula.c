/* test_checkpoint_formula.c - tensors given by a formula: the published check numbers, every dtype and form, and
 * a whole case written and loaded again. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/checkpoint.h"
#include "formats/formula.h"
#include "formats/safetensors.h"
#include "unit/formats_scratch.h"

static void check_numbers_of_the_definition(void **state)
{
    (void)state;
    static const float want[4] = { 0.387266934f, 0.523798108f, 0.800256729f, 0.430807769f };
    float got[4];
    qn_formula_fill("model.norm.weight", 1, 0, 1, got, 4);
    for (int i = 0; i < 4; i++)
        assert_true(fabsf(got[i] - want[i]) < 1e-8f);
    qn_formula_fill("model.norm.weight", 1, -2, 2, got, 1);
    assert_true(fabsf(got[0] - (float)(4 * 0.387266934 - 2)) < 1e-6f);
    float other[4];
    qn_formula_fill("model.norm.weight", 2, 0, 1, other, 4);
    assert_true(other[0] != want[0]);
}

static const char tensors[] =
    "{\"salt\":3,\"tensors\":["
    "{\"name\":\"f\",\"dtype\":\"F32\",\"shape\":[2,3],\"lo\":-1,\"hi\":1},"
    "{\"name\":\"b\",\"dtype\":\"BF16\",\"shape\":[4],\"lo\":0,\"hi\":1},"
    "{\"name\":\"h\",\"dtype\":\"F16\",\"shape\":[4],\"lo\":0,\"hi\":1},"
    "{\"name\":\"u\",\"dtype\":\"U8\",\"shape\":[16],\"lo\":0,\"hi\":256},"
    "{\"name\":\"i\",\"dtype\":\"I64\",\"shape\":[3],\"values\":[-7,9007199254740993,5]},"
    "{\"name\":\"t\",\"dtype\":\"BOOL\",\"shape\":[2],\"values\":[true,false]},"
    "{\"name\":\"v\",\"dtype\":\"BF16\",\"shape\":[2],\"values\":[0.5,-1.25]},"
    "{\"name\":\"same\",\"dtype\":\"F32\",\"shape\":[6],\"lo\":-1,\"hi\":1,\"alias\":\"f\"},"
    "{\"name\":\"s\",\"dtype\":\"F32\",\"shape\":[5,8],\"sinusoids\":10000.0}]}";

static const qn_st_tensor *get(const qn_st *s, const char *name)
{
    const qn_st_tensor *t = qn_st_find(s, name);
    assert_non_null(t);
    return t;
}

static void every_form_is_written(void **state)
{
    const char *dir = *state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    scratch_write(dir, "case/config.json", "{}", 2);
    scratch_write(dir, "case/case.json", "{}", 2);
    scratch_write(dir, "case/sub/tensors.json", tensors, strlen(tensors));
    scratch_write(dir, "case/tensors.json", tensors, strlen(tensors));
    const char *out = qn_path_join(&a, dir, "out");
    if (qn_formula_write_checkpoint(qn_path_join(&a, dir, "case"), out, &err) != QN_OK)
        fail_msg("%s", err.msg);
    assert_true(qn_is_file(qn_path_join(&a, out, "config.json")));
    assert_false(qn_is_file(qn_path_join(&a, out, "case.json")));
    assert_true(qn_is_file(qn_path_join(&a, out, "sub/model.safetensors")));

    qn_st *s;
    assert_int_equal(qn_st_open(&s, out, &err), QN_OK);
    float x[16], first = ((const float *)get(s, "f")->data)[0];
    qn_formula_fill("f", 3, -1, 1, x, 6);
    assert_memory_equal(get(s, "f")->data, x, sizeof(float) * 6);
    assert_memory_equal(get(s, "same")->data, x, sizeof(float) * 6);
    assert_true(first >= -1 && first <= 1);
    qn_formula_fill("u", 3, 0, 256, x, 16);
    for (int i = 0; i < 16; i++)
        assert_int_equal(((const uint8_t *)get(s, "u")->data)[i], (int)x[i]);
    qn_formula_fill("b", 3, 0, 1, x, 4);
    assert_int_equal(((const uint16_t *)get(s, "b")->data)[2], qn_f32_to_bf16(x[2]));
    qn_formula_fill("h", 3, 0, 1, x, 4);
    assert_int_equal(((const uint16_t *)get(s, "h")->data)[3], qn_f32_to_f16(x[3]));
    assert_true(((const int64_t *)get(s, "i")->data)[0] == -7);
    assert_true(((const int64_t *)get(s, "i")->data)[1] == 9007199254740993);
    assert_memory_equal(get(s, "t")->data, "\1\0", 2);
    assert_int_equal(((const uint16_t *)get(s, "v")->data)[1], qn_f32_to_bf16(-1.25f));
    const float *sin_table = get(s, "s")->data;
    assert_true(sin_table[0] == 0 && sin_table[4] == 1);
    assert_true(fabsf(sin_table[8] - sinf(1)) < 1e-6f && fabsf(sin_table[12] - cosf(1)) < 1e-6f);
    assert_true(fabsf(sin_table[8 + 3] - sinf(1e-4f)) < 1e-9f);
    qn_st_close(s);
    qn_arena_free(&a);
}

static void bad_lists_are_refused(void **state)
{
    static const char *const bad[] = {
        "{}",
        "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"Q9\",\"shape\":[1],\"lo\":0,\"hi\":1}]}",
        "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"F32\",\"shape\":[1]}]}",
        "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"F32\",\"shape\":[2],\"values\":[1]}]}",
        "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"F32\",\"shape\":[-1],\"lo\":0,\"hi\":1}]}",
        "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"F32\",\"shape\":[4294967296,4294967296]}]}",
        "{\"tensors\":[{\"name\":\"a\",\"dtype\":\"F32\",\"shape\":[3,3],\"sinusoids\":10000}]}",
    };
    const char *dir = *state;
    qn_arena a = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_error err = { 0 };
        scratch_write(dir, "bad/tensors.json", bad[i], strlen(bad[i]));
        int rc = qn_formula_write_checkpoint(qn_path_join(&a, dir, "bad"),
                                             qn_path_join(&a, dir, "out2"), &err);
        assert_true(rc < 0);
        assert_non_null(strstr(err.msg, "tensors.json"));
    }
    qn_arena_free(&a);
}

/* Loads a case of the kit the way users' folders are loaded. */
static void a_case_of_the_kit_loads(void **state)
{
    const char *dir = *state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    if (!qn_is_dir(QUERN_KIT "/mixtral/a"))
        skip();
    const char *out = qn_path_join(&a, dir, "mixtral");
    if (qn_formula_write_checkpoint(QUERN_KIT "/mixtral/a", out, &err) != QN_OK)
        fail_msg("%s", err.msg);
    qn_checkpoint *c;
    if (qn_checkpoint_open(&c, out, &err) != QN_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(qn_checkpoint_format(c), "safetensors");
    assert_string_equal(qn_json_str(qn_json_get(qn_checkpoint_config(c), "model_type"), ""),
                        "mixtral");
    const char *pattern = "model.layers.1.block_sparse_moe.experts.%d.w2.weight";
    const qn_weight *w = qn_checkpoint_stack(c, pattern, 8, &err);
    assert_non_null(w);
    assert_int_equal(w->n_dims, 3);
    assert_ptr_equal(w, qn_checkpoint_stack(c, pattern, 8, &err));
    const qn_weight *third =
        qn_checkpoint_weight(c, "model.layers.1.block_sparse_moe.experts.3.w2.weight");
    qn_weight view = qn_weight_expert(w, 3);
    float x[64], y[64];
    assert_int_equal(qn_weight_cols(&view), 64);
    qn_weight_decode_row(third, 5, x);
    qn_weight_decode_row(&view, 5, y);
    assert_memory_equal(x, y, sizeof x);
    assert_null(qn_checkpoint_stack(c, "no.%d.such", 8, &err));
    assert_int_equal(err.code, QN_OK);
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_numbers_of_the_definition),
        cmocka_unit_test(every_form_is_written),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(a_case_of_the_kit_loads),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
