/* test_checkpoint_rows.c - weights that are made at load: transposed ones, and rows picked from runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "formats/checkpoint.h"
#include "formats/safetensors.h"
#include "unit/formats_scratch.h"

/* A folder with "m" F32 [6, 4] and "v" F32 [6], counting from 0. */
static const char *folder(qn_arena *a, void **state)
{
    const char *dir = qn_path_join(a, *state, "rows"), config[] = "{}";
    float count[24];

    for (int i = 0; i < 24; i++)
        count[i] = (float)i;
    const qn_st_tensor t[] = {
        { .name = "m", .layout = QN_F32, .n_dims = 2, .dim = { 6, 4 }, .data = count },
        { .name = "v", .layout = QN_F32, .n_dims = 1, .dim = { 6 }, .data = count },
    };
    scratch_write(dir, "config.json", config, strlen(config));
    assert_int_equal(qn_st_write(qn_path_join(a, dir, "model.safetensors"), t, 2, NULL), QN_OK);
    return dir;
}

/* Two runs of three rows, of each the last two: rows 1, 2, 4, 5. */
static void rows_are_picked_from_runs(void **state)
{
    qn_arena a = { 0 };
    qn_checkpoint *c;
    qn_error err = { 0 };
    assert_int_equal(qn_checkpoint_open(&c, folder(&a, state), &err), QN_OK);
    const qn_row_runs runs = { .runs = 2, .start = 1, .n = 2 };
    const qn_weight *m = qn_checkpoint_weight(c, "m");
    const qn_weight *w = qn_checkpoint_picked(c, m, runs, &err);
    static const float first[4] = { 4, 8, 16, 20 };
    assert_true(w && w->dim[0] == 4 && w->dim[1] == 4);
    for (int r = 0; r < 4; r++) {
        float row[4];
        qn_weight_decode_row(w, r, row);
        assert_true(row[0] == first[r] && row[3] == first[r] + 3);
    }
    assert_ptr_equal(w, qn_checkpoint_picked(c, m, runs, &err));

    w = qn_checkpoint_picked(c, qn_checkpoint_weight(c, "v"), runs, &err);
    static const float want[4] = { 1, 2, 4, 5 };
    float got[4];
    assert_true(w && w->n_dims == 1 && w->dim[0] == 4);
    qn_weight_decode_row(w, 0, got);
    assert_memory_equal(got, want, sizeof got);

    assert_null(qn_checkpoint_picked(c, m, (qn_row_runs){ 4, 0, 1 }, &err));
    assert_non_null(strstr(err.msg, "cannot be divided"));
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

/* Rows that share their scales with others cannot be taken apart. */
static void blocks_are_refused(void **state)
{
    qn_arena a = { 0 };
    qn_checkpoint *c;
    qn_error err = { 0 };
    assert_int_equal(qn_checkpoint_open(&c, folder(&a, state), &err), QN_OK);
    qn_weight w = *qn_checkpoint_weight(c, "m");
    w.layout = QN_FP8_BLOCK;
    assert_null(qn_checkpoint_picked(c, &w, (qn_row_runs){ 2, 0, 1 }, &err));
    assert_non_null(strstr(err.msg, "tensor 'm' is packed"));
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

static void matrices_are_transposed(void **state)
{
    qn_arena a = { 0 };
    qn_checkpoint *c;
    qn_error err = { 0 };
    assert_int_equal(qn_checkpoint_open(&c, folder(&a, state), &err), QN_OK);
    const qn_weight *w = qn_checkpoint_transposed(c, qn_checkpoint_weight(c, "m"), &err);
    assert_true(w && w->n_dims == 2 && w->dim[0] == 4 && w->dim[1] == 6);
    float row[6];
    qn_weight_decode_row(w, 2, row);
    for (int i = 0; i < 6; i++)
        assert_true(row[i] == (float)(4 * i + 2));
    assert_null(qn_checkpoint_transposed(c, qn_checkpoint_weight(c, "v"), &err));
    assert_non_null(strstr(err.msg, "cannot be transposed"));
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_picked_from_runs),
        cmocka_unit_test(blocks_are_refused),
        cmocka_unit_test(matrices_are_transposed),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
