/* test_layout.c - what goldens do not reach: conversions over their whole range, sizes, edges of encoders, views,
 * and that a decoder reads its blocks and not a byte more. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tensor/grouped.h"

static void f16_round_trips_every_value(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = qn_f16_to_f32((uint16_t)h);
        bool nan = (h & 0x7c00) == 0x7c00 && (h & 0x3ff) != 0;
        assert_int_equal(isnan(f) != 0, nan);
        uint16_t back = qn_f32_to_f16(f);
        if (nan)
            assert_true((back & 0x7c00) == 0x7c00 && (back & 0x3ff) != 0);
        else
            assert_int_equal(back, h);
    }
}

/* Halfway between each pair of neighbours goes to the even one, a hair to either side to the nearer. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double lo = qn_f16_to_f32((uint16_t)h);
        double hi = h + 1 == 0x7c00 ? 65536 : qn_f16_to_f32((uint16_t)(h + 1));
        float mid = (float)((lo + hi) / 2); /* exact: f32 has the bits */
        uint32_t even = h & 1 ? h + 1 : h;
        assert_int_equal(qn_f32_to_f16(mid), even);
        assert_int_equal(qn_f32_to_f16(-mid), even | 0x8000);
        assert_int_equal(qn_f32_to_f16(nextafterf(mid, 0)), h);
        assert_int_equal(qn_f32_to_f16(nextafterf(mid, INFINITY)), h + 1);
    }
    assert_int_equal(qn_f32_to_f16(1e30f), 0x7c00);
    assert_int_equal(qn_f32_to_f16(1e-30f), 0);
    assert_int_equal(qn_f32_to_f16(-1e-30f), 0x8000);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = qn_bf16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(qn_bf16_to_f32(qn_f32_to_bf16(f))));
        else
            assert_int_equal(qn_f32_to_bf16(f), h);
    }
    assert_int_equal(qn_f32_to_bf16(1.00390625f), 0x3f80);   /* halfway, down to even */
    assert_int_equal(qn_f32_to_bf16(1.01171875f), 0x3f82);   /* halfway, up to even */
    assert_int_equal(qn_f32_to_bf16(3.4028235e38f), 0x7f80); /* rounds to infinity */
    uint32_t low_nan = 0x7f800001; /* a NaN whose payload lies in the half that is lost */
    float f;
    memcpy(&f, &low_nan, sizeof f);
    assert_true(isnan(qn_bf16_to_f32(qn_f32_to_bf16(f))));
}

static void table_is_consistent(void **state)
{
    (void)state;
    for (int l = 0; l < QN_N_LAYOUTS; l++) {
        const qn_layout_info *info = qn_layout_get((qn_layout)l);
        qn_layout found;
        assert_true(qn_layout_find(info->name, &found) && found == (qn_layout)l);
        assert_int_equal(info->block_elems == 0, info->block_bytes == 0);
        if (info->encode)
            assert_non_null(info->decode);
    }
    qn_layout l;
    assert_false(qn_layout_find("q4", &l));
    assert_false(qn_layout_find("", &l));
}

static void sizes_are_whole_blocks_and_never_wrap(void **state)
{
    (void)state;
    size_t n;
    assert_true(qn_layout_bytes(QN_Q4_K, 512, &n) && n == 288);
    assert_true(qn_layout_bytes(QN_F64, 0, &n) && n == 0);
    assert_false(qn_layout_bytes(QN_Q4_0, 33, &n));
    assert_false(qn_layout_bytes(QN_F32, -1, &n));
    assert_false(qn_layout_bytes(QN_AFFINE, 64, &n));
    assert_false(qn_layout_bytes(QN_F64, INT64_MAX, &n));
    assert_true(qn_layout_bytes(QN_U8, INT64_MAX, &n) && n == INT64_MAX);
}

/* Every decoder on one block of each byte pattern that lies at the end of its memory, into guarded output. */
static void decoders_stay_inside_their_blocks(void **state)
{
    (void)state;
    for (int l = 0; l < QN_N_LAYOUTS; l++) {
        const qn_layout_info *info = qn_layout_get((qn_layout)l);
        if (!info->decode)
            continue;
        for (int pattern = 0; pattern < 256; pattern += 51) {
            uint8_t *in = qn_alloc(info->block_bytes);
            float *out = qn_alloc_n((size_t)info->block_elems + 2, sizeof *out);
            memset(in, pattern, info->block_bytes);
            out[0] = out[info->block_elems + 1] = 12345;
            info->decode(in, out + 1, info->block_elems);
            assert_true(out[0] == 12345 && out[info->block_elems + 1] == 12345);
            info->decode(in, out + 1, 0);
            qn_free(in);
            qn_free(out);
        }
    }
}

/* Encoding what was decoded gives the same values, and codes stay in range for odd blocks. */
static void encoders_survive_odd_blocks(void **state)
{
    (void)state;
    float x[32], y[32], z[32];
    uint8_t block[40];
    for (int l = QN_Q4_0; l <= QN_Q8_0; l++) {
        const qn_layout_info *info = qn_layout_get((qn_layout)l);
        for (int kind = 0; kind < 6; kind++) {
            for (int j = 0; j < 32; j++)
                x[j] = kind == 0   ? 0.0f
                       : kind == 1 ? 3.5f
                       : kind == 2 ? -3.5f
                       : kind == 3 ? (j == 31 ? -100.0f : 0.001f * (float)j)
                       : kind == 4 ? 1e-30f * (float)j
                                   : (float)(j * 37 % 32) - 16.0f;
            info->encode(x, block, 32);
            info->decode(block, y, 32);
            float amax = 0;
            for (int j = 0; j < 32; j++)
                amax = fmaxf(amax, fabsf(x[j]));
            for (int j = 0; j < 32; j++)
                assert_true(fabsf(x[j] - y[j]) <= amax / 7 + 1e-6f);
            info->encode(y, block, 32);
            info->decode(block, z, 32);
            for (int j = 0; j < 32; j++)
                assert_true(fabsf(z[j] - y[j]) <= amax * 2e-3f);
        }
        x[3] = NAN; /* garbage in, but defined */
        x[4] = INFINITY;
        info->encode(x, block, 32);
        info->decode(block, y, 32);
    }
}

static void affine_codes_of_every_width(void **state)
{
    (void)state;
    static const int widths[] = { 2, 3, 4, 5, 6, 8 };
    enum { K = 128 };
    float x[K], y[K], again[K];
    for (size_t b = 0; b < sizeof widths / sizeof *widths; b++)
        for (int group = 32; group <= 128; group *= 2) {
            int bits = widths[b];
            float scales[4], biases[4];
            uint8_t *codes = qn_alloc((size_t)(K * bits / 8));
            for (int i = 0; i < K; i++)
                x[i] = sinf((float)i) * (i < 64 ? 1 : 5) + (i < 32 ? 3 : 0);
            qn_grouped_row r = { .k = K, .bits = bits, .group = group, .scale_layout = QN_F32 };
            qn_affine_encode(x, &r, codes, scales, biases);
            r.codes = codes;
            r.scales = (const uint8_t *)scales;
            r.biases = (const uint8_t *)biases;
            qn_grouped_decode_affine(&r, y);
            /* The scale is stretched so that one edge is exact; the other may be cut by up to one step. */
            for (int i = 0; i < K; i++)
                assert_true(fabsf(x[i] - y[i]) <= fabsf(scales[i / group]) * 1.01f);
            /* Packing the decoded values gives the stored codes again. */
            uint8_t *codes2 = qn_alloc((size_t)(K * bits / 8));
            qn_affine_encode(y, &r, codes2, scales, biases);
            qn_grouped_decode_affine(&(qn_grouped_row){ .codes = codes2,
                                                        .scales = (const uint8_t *)scales,
                                                        .biases = (const uint8_t *)biases,
                                                        .k = K,
                                                        .bits = bits,
                                                        .group = group,
                                                        .scale_layout = QN_F32 },
                                     again);
            for (int i = 0; i < K; i++)
                assert_true(fabsf(again[i] - y[i]) <= 1e-4f + fabsf(scales[i / group]) * 0.51f);
            qn_free(codes);
            qn_free(codes2);
        }
    assert_true(qn_affine_valid(1, 32) && qn_affine_valid(8, 128));
    assert_false(qn_affine_valid(7, 64) || qn_affine_valid(0, 64) || qn_affine_valid(9, 64) ||
                 qn_affine_valid(4, 48) || qn_affine_valid(4, -64));
}

/* A one-row slice of a Q8_0 matrix, an empty slice at the end, and byte counts. */
static void views_point_at_their_rows(void **state)
{
    (void)state;
    uint8_t bytes[3 * 2 * 34];
    float x[64], row[64];
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 64; i++)
            x[i] = (float)(r * 64 + i % 7);
        qn_layout_get(QN_Q8_0)->encode(x, bytes + r * 68, 64);
    }
    qn_weight w = { .name = "w", .n_dims = 2, .dim = { 3, 64 }, .layout = QN_Q8_0, .data = bytes };
    assert_int_equal(qn_weight_bytes(&w), sizeof bytes);
    assert_int_equal(qn_weight_row_bytes(&w), 68);
    qn_weight last = qn_weight_slice_rows(&w, 2, 1), none = qn_weight_slice_rows(&w, 3, 0);
    assert_int_equal(qn_weight_rows(&none), 0);
    assert_int_equal(qn_weight_bytes(&none), 0);
    qn_weight_decode_row(&last, 0, row);
    qn_weight_decode_row(&w, 2, x);
    assert_memory_equal(row, x, sizeof row);
    qn_weight v = { .name = "v", .n_dims = 1, .dim = { 64 }, .layout = QN_Q8_0, .data = bytes };
    assert_int_equal(qn_weight_rows(&v), 1);
    assert_int_equal(qn_weight_elems(&v), 64);
}

static void fp8_stacks_keep_their_scales_apart(void **state)
{
    (void)state;
    enum { E = 2, N = 3, K = 4 };
    uint8_t codes[E * N * K];
    float scales[E * 2 * 2], row[K];
    memset(codes, 0x38, sizeof codes); /* 1.0 */
    for (int i = 0; i < E * 4; i++)
        scales[i] = (float)(i + 1);
    qn_weight w = { .name = "w",
                    .n_dims = 3,
                    .dim = { E, N, K },
                    .layout = QN_FP8_BLOCK,
                    .scale_layout = QN_F32,
                    .group = 3,
                    .block_rows = 2,
                    .global_scale = 1,
                    .data = codes,
                    .scales = scales };
    assert_int_equal(qn_weight_bytes(&w), sizeof codes + sizeof scales);
    qn_weight_decode_row(&w, 1 * N + 2, row); /* expert 1, second block row, ragged last block */
    assert_true(row[0] == 7 && row[2] == 7 && row[3] == 8);
    qn_weight e = qn_weight_expert(&w, 1), tail = qn_weight_slice_rows(&e, 1, 2);
    qn_weight_decode_row(&tail, 0, row);
    assert_true(row[0] == 5 && row[3] == 6);
    qn_weight_decode_row(&tail, 1, row);
    assert_true(row[0] == 7 && row[3] == 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_round_trips_every_value),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(table_is_consistent),
        cmocka_unit_test(sizes_are_whole_blocks_and_never_wrap),
        cmocka_unit_test(decoders_stay_inside_their_blocks),
        cmocka_unit_test(encoders_survive_odd_blocks),
        cmocka_unit_test(affine_codes_of_every_width),
        cmocka_unit_test(views_point_at_their_rows),
        cmocka_unit_test(fp8_stacks_keep_their_scales_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
