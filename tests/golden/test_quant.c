/* test_quant.c - the weight layouts against bytes and values of other programs (the kit's quant folder, or the part
 * of it in quant/ here): decoding bit for bit, products within the stated bound, encoders code for code. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/safetensors.h"
#include "tensor/float8.h"
#include "tensor/grouped.h"

/* The kit where there is one, else the smaller set in the tree. */
static const char *golden_dir(void)
{
    return qn_is_dir(QUERN_KIT "/quant") ? QUERN_KIT "/quant" : QUERN_SOURCE "/tests/golden/quant";
}

static qn_st *open_golden(const char *file)
{
    qn_st *s;
    qn_error err = { 0 };
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", golden_dir(), file);
    int rc = qn_st_open(&s, path, &err);
    if (rc != QN_OK)
        fail_msg("%s", err.msg);
    return s;
}

static qn_arena copies; /* of goldens, until the program ends */

/* A golden, copied to where floats may lie: the format does not align. */
static const qn_st_tensor *get(const qn_st *s, const char *base, const char *suffix)
{
    char name[200];
    snprintf(name, sizeof name, "%s%s", base, suffix);
    const qn_st_tensor *t = qn_st_find(s, name);
    if (!t)
        fail_msg("golden %s is missing", name);
    qn_st_tensor *copy = qn_arena_copy(&copies, t, sizeof *t);
    copy->data = qn_arena_copy(&copies, t->data, t->bytes);
    return copy;
}

/* Bit for bit, but any NaN equals any NaN. */
static void check_equal(const char *what, const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        bool same = memcmp(&got[i], &want[i], 4) == 0 || (isnan(got[i]) && isnan(want[i])) ||
                    (got[i] == 0 && want[i] == 0);
        if (!same)
            fail_msg("%s: element %lld is %.9g, the golden has %.9g", what, (long long)i,
                     (double)got[i], (double)want[i]);
    }
}

/* y = x w^T, x of 3 rows, against the golden within 1e-4 of the sum of magnitudes. */
static void check_product(const char *what, const float *w, const qn_st_tensor *x,
                          const qn_st_tensor *y)
{
    int64_t k = x->dim[1], n = y->dim[1];
    const float *xs = x->data, *ys = y->data;
    for (int64_t r = 0; r < x->dim[0]; r++)
        for (int64_t c = 0; c < n; c++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < k; i++) {
                double p = (double)xs[r * k + i] * w[c * k + i];
                sum += p;
                size += fabs(p);
            }
            if (!(fabs(sum - ys[r * n + c]) <= 1e-4 * size))
                fail_msg("%s: product %lld, %lld is %g, not %g", what, (long long)r, (long long)c,
                         sum, (double)ys[r * n + c]);
        }
}

static float *decode_all(const qn_weight *w)
{
    int64_t rows = qn_weight_rows(w), k = qn_weight_cols(w);
    float *out = qn_alloc_n((size_t)(rows * k), sizeof *out);
    for (int64_t r = 0; r < rows; r++)
        qn_weight_decode_row(w, r, out + r * k);
    return out;
}

static void check_block_case(const qn_st *s, const char *base, qn_layout l)
{
    const qn_st_tensor *bytes = get(s, base, ".bytes"), *want = get(s, base, ".dequant");
    qn_weight w = { .name = base,
                    .n_dims = 2,
                    .dim = { want->dim[0], want->dim[1] },
                    .layout = (uint8_t)l,
                    .data = bytes->data };
    assert_int_equal(qn_weight_bytes(&w), bytes->bytes);
    float *got = decode_all(&w);
    check_equal(base, got, want->data, want->dim[0] * want->dim[1]);
    check_product(base, got, get(s, "x", ""), get(s, base, ".y"));
    qn_free(got);
}

static void gguf_blocks_decode_exactly(void **state)
{
    (void)state;
    qn_st *s = open_golden("gguf.safetensors");
    int n = 0;
    for (size_t i = 0; i < qn_st_count(s); i++) {
        const char *name = qn_st_at(s, i)->name;
        char base[100];
        qn_layout l;
        if (!qn_ends_with(name, ".bytes"))
            continue;
        snprintf(base, sizeof base, "%.*s", (int)(strlen(name) - strlen(".bytes")), name);
        char type[100];
        snprintf(type, sizeof type, "%.*s", (int)(strlen(base) - 2), base);
        assert_true(qn_layout_find(type, &l));
        if (!qn_layout_get(l)->decode)
            fail_msg("no decoder for %s", type);
        check_block_case(s, base, l);
        n++;
    }
    assert_true(n >= 30);
    qn_st_close(s);
}

static void gguf_encoders_give_the_same_bytes(void **state)
{
    (void)state;
    qn_st *s = open_golden("gguf.safetensors");
    const qn_st_tensor *w = get(s, "w_f32", "");
    int n = 0;
    for (int l = 0; l < QN_N_LAYOUTS; l++) {
        const qn_layout_info *info = qn_layout_get((qn_layout)l);
        char name[100];
        snprintf(name, sizeof name, "%s.q.bytes", info->name);
        const qn_st_tensor *want = qn_st_find(s, name);
        if (!want || !info->encode)
            continue;
        uint8_t *got = qn_alloc(want->bytes);
        info->encode(w->data, got, w->dim[0] * w->dim[1]);
        for (size_t i = 0; i < want->bytes; i++)
            if (got[i] != ((const uint8_t *)want->data)[i])
                fail_msg("%s: byte %zu is %u, the golden has %u", info->name, i, got[i],
                         ((const uint8_t *)want->data)[i]);
        qn_free(got);
        n++;
    }
    assert_true(n >= 6);
    qn_st_close(s);
}

/* The weight that a golden's .weight, .scales and .biases describe. */
static qn_weight grouped(const qn_st *s, const char *base, qn_layout l, int bits, int group)
{
    const qn_st_tensor *want = get(s, base, ".dequant"), *scales = get(s, base, ".scales");
    qn_weight w = { .name = base,
                    .n_dims = want->n_dims,
                    .layout = (uint8_t)l,
                    .bits = (uint8_t)bits,
                    .group = group,
                    .scale_layout = scales->layout,
                    .global_scale = 1,
                    .data = get(s, base, ".weight")->data,
                    .scales = scales->data };
    for (int i = 0; i < want->n_dims; i++)
        w.dim[i] = want->dim[i];
    if (l == QN_AFFINE)
        w.biases = get(s, base, ".biases")->data;
    return w;
}

static void check_grouped(const qn_st *s, const char *base, const qn_weight *w)
{
    const qn_st_tensor *want = get(s, base, ".dequant");
    float *got = decode_all(w);
    check_equal(base, got, want->data, qn_weight_elems(w));
    if (w->n_dims == 2 && strcmp(base, "nvfp4_global") != 0) /* which has no product */
        check_product(base, got, get(s, "x", ""), get(s, base, ".y"));
    qn_free(got);
}

static void check_affine_encoder(const qn_st *s, const char *base, const qn_weight *w)
{
    const qn_st_tensor *x = get(s, "w_f32", "");
    int64_t k = x->dim[1], rows = x->dim[0], groups = k / w->group;
    float *in = qn_alloc_n((size_t)(rows * k), sizeof *in);
    /* What MLX quantised had the scales' dtype already. */
    qn_layout_get((qn_layout)w->scale_layout)->encode(x->data, in, rows * k);
    uint8_t *narrow = qn_alloc(x->bytes);
    memcpy(narrow, in, x->bytes);
    qn_layout_get((qn_layout)w->scale_layout)->decode(narrow, in, rows * k);
    qn_free(narrow);
    int scale_bytes = qn_scale_bytes(w->scale_layout);
    size_t codes = (size_t)(rows * k * w->bits / 8), scales = (size_t)(rows * groups * scale_bytes);
    uint8_t *q = qn_alloc(codes), *sc = qn_alloc(scales), *bi = qn_alloc(scales);
    qn_grouped_row shape = {
        .k = k, .bits = w->bits, .group = w->group, .scale_layout = w->scale_layout
    };
    for (int64_t r = 0; r < rows; r++)
        qn_affine_encode(in + r * k, &shape, q + r * k * w->bits / 8, sc + r * groups * scale_bytes,
                         bi + r * groups * scale_bytes);
    if (memcmp(q, w->data, codes) != 0 || memcmp(sc, w->scales, scales) != 0 ||
        memcmp(bi, w->biases, scales) != 0)
        fail_msg("%s: the encoder gives other codes, scales or biases", base);
    qn_free(in);
    qn_free(q);
    qn_free(sc);
    qn_free(bi);
}

static void affine_decodes_and_encodes_exactly(void **state)
{
    (void)state;
    qn_st *s = open_golden("affine.safetensors");
    int n = 0;
    for (size_t i = 0; i < qn_st_count(s); i++) {
        const char *name = qn_st_at(s, i)->name;
        int bits, group;
        char base[100];
        if (!qn_ends_with(name, ".weight") || sscanf(name, "affine%d_g%d_", &bits, &group) != 2)
            continue;
        snprintf(base, sizeof base, "%.*s", (int)(strlen(name) - strlen(".weight")), name);
        qn_weight w = grouped(s, base, QN_AFFINE, bits, group);
        check_grouped(s, base, &w);
        if (bits > 1)
            check_affine_encoder(s, base, &w);
        n++;
    }
    assert_true(n >= 9);
    qn_st_close(s);
}

static void expert_views_equal_the_stack(void **state)
{
    (void)state;
    qn_st *s = open_golden("affine.safetensors");
    qn_weight w = grouped(s, "experts4_g32", QN_AFFINE, 4, 32);
    check_grouped(s, "experts4_g32", &w);
    const float *want = get(s, "experts4_g32", ".dequant")->data;
    float row[64];
    for (int e = 0; e < 3; e++) {
        qn_weight one = qn_weight_expert(&w, e);
        qn_weight last = qn_weight_slice_rows(&one, 2, 2);
        assert_int_equal(qn_weight_rows(&one), 4);
        qn_weight_decode_row(&last, 1, row);
        check_equal("expert", row, want + (e * 4 + 3) * 64, 64);
    }
    qn_st_close(s);
}

static void microscaling_decodes_exactly(void **state)
{
    (void)state;
    qn_st *s = open_golden("microscale.safetensors");
    qn_weight w = grouped(s, "mxfp4", QN_GROUP_MXFP4, 4, 32);
    check_grouped(s, "mxfp4", &w);
    w = grouped(s, "mxfp8", QN_GROUP_MXFP8, 8, 32);
    check_grouped(s, "mxfp8", &w);
    w = grouped(s, "nvfp4", QN_GROUP_NVFP4, 4, 16);
    check_grouped(s, "nvfp4", &w);
    w = grouped(s, "nvfp4_global", QN_GROUP_NVFP4, 4, 16);
    w.global_scale =
        *(const float *)get(s, "nvfp4_global", ".global_scale")->data / (448.0f * 6.0f);
    check_grouped(s, "nvfp4_global", &w);
    qn_st_close(s);
}

static void float_tables_agree(void **state)
{
    (void)state;
    qn_st *s = open_golden("microscale.safetensors"), *t = open_golden("interop.safetensors");
    float e4m3[256], e5m2[256], e8m0[255];
    for (int i = 0; i < 256; i++) {
        e4m3[i] = qn_f8_e4m3_to_f32((uint8_t)i);
        e5m2[i] = qn_f8_e5m2_to_f32((uint8_t)i);
        if (i < 255)
            e8m0[i] = qn_f8_e8m0_to_f32((uint8_t)i);
    }
    check_equal("e2m1", qn_e2m1, get(s, "table.e2m1", "")->data, 16);
    check_equal("e4m3 of MLX", e4m3, get(s, "table.e4m3_mlx", "")->data, 256);
    check_equal("e8m0", e8m0, get(s, "table.e8m0_0to254", "")->data, 255);
    check_equal("e4m3 of torch", e4m3, get(t, "table.e4m3fn", "")->data, 256);
    check_equal("e5m2", e5m2, get(t, "table.e5m2", "")->data, 256);
    qn_st_close(s);
    qn_st_close(t);
}

static void fp8_blocks_decode_with_ragged_edges(void **state)
{
    (void)state;
    qn_st *s = open_golden("interop.safetensors");
    qn_weight w = { .name = "fp8_block",
                    .n_dims = 2,
                    .dim = { 144, 320 },
                    .layout = QN_FP8_BLOCK,
                    .scale_layout = QN_F32,
                    .group = 128,
                    .block_rows = 128,
                    .global_scale = 1,
                    .data = get(s, "fp8_block", ".weight")->data,
                    .scales = get(s, "fp8_block", ".weight_scale_inv")->data };
    const float *want = get(s, "fp8_block", ".dequant_rows_126_130")->data;
    float row[320];
    /* The same rows through a slice that begins inside a block. */
    qn_weight slice = qn_weight_slice_rows(&w, 126, 10);
    for (int r = 0; r < 4; r++) {
        qn_weight_decode_row(&w, 126 + r, row);
        check_equal("fp8_block", row, want + r * 320, 320);
        qn_weight_decode_row(&slice, r, row);
        check_equal("fp8_block slice", row, want + r * 320, 320);
    }
    float *all = decode_all(&w);
    check_product("fp8_block", all, get(s, "fp8_block", ".x"), get(s, "fp8_block", ".y"));
    qn_free(all);
    qn_st_close(s);
}

/* GPT-OSS's blocks and MLX's words are the same bits. transformers hands them out transposed: [E, K, N]. */
static void gptoss_blocks_are_mxfp4_words(void **state)
{
    (void)state;
    qn_st *s = open_golden("interop.safetensors");
    qn_weight w = { .name = "gptoss",
                    .n_dims = 3,
                    .dim = { 2, 6, 96 },
                    .layout = QN_GROUP_MXFP4,
                    .scale_layout = QN_U8,
                    .bits = 4,
                    .group = 32,
                    .global_scale = 1,
                    .data = get(s, "gptoss", ".blocks")->data,
                    .scales = get(s, "gptoss", ".scales")->data };
    const float *want = get(s, "gptoss", ".dequant_as_transformers")->data;
    float *got = decode_all(&w);
    for (int e = 0; e < 2; e++)
        for (int n = 0; n < 6; n++)
            for (int k = 0; k < 96; k++)
                assert_true(got[(e * 6 + n) * 96 + k] == want[(e * 96 + k) * 6 + n]);
    qn_free(got);
    qn_st_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_blocks_decode_exactly),
        cmocka_unit_test(gguf_encoders_give_the_same_bytes),
        cmocka_unit_test(affine_decodes_and_encodes_exactly),
        cmocka_unit_test(expert_views_equal_the_stack),
        cmocka_unit_test(microscaling_decodes_exactly),
        cmocka_unit_test(float_tables_agree),
        cmocka_unit_test(fp8_blocks_decode_with_ragged_edges),
        cmocka_unit_test(gptoss_blocks_are_mxfp4_words),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qn_arena_free(&copies);
    return failed;
}
