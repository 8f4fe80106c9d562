/* tile_ymm.h - what the 256-bit tiles share: reading a panel's scales and codes, and the float update.
 *
 * Included by tile_avx2.c and tile_avxvnni.c only, which bring the integer dot product. `form` is always a
 * constant, so each tile is compiled for its form alone. */
#ifndef QN_KERNELS_MATMUL_TILE_YMM_H
#define QN_KERNELS_MATMUL_TILE_YMM_H

#include <immintrin.h>
#include <string.h>

#include "kernels/matmul/matmul.h"

#define INLINE static inline __attribute__((always_inline))
#define LANES  8
#define AHEAD  1536 /* bytes */

/* Value of a code c of a row: d c + m. The super scales of K layouts stay here from block to block. */
typedef struct scales {
    __m256 d, m, super_d, super_m;
} scales;

INLINE __m256 load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}

INLINE __m256 load_bf16(const uint8_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

INLINE __m256 load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)));
}

/* 2^(e - 128) by its bits; e of 0 and 1 are subnormal. */
INLINE __m256 load_e8m0_half(const uint8_t *p)
{
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small));
}

/* The scales of an MLX group, in the type the checkpoint has. */
INLINE __m256 load_scale(const uint8_t *p, int layout)
{
    if (layout == QN_F32)
        return _mm256_loadu_ps((const void *)p);
    return layout == QN_F16 ? load_f16(p) : load_bf16(p);
}

INLINE bool has_min(const int form)
{
    return form != QN_PANEL_Q8_0 && form != QN_PANEL_IQ4_NL && form != QN_PANEL_MXFP4 &&
           form != QN_PANEL_Q6_K;
}

INLINE const uint8_t *affine_scales(const int form, const qn_tile *t, const uint8_t *p, scales *s)
{
    int bytes = (t->scale_layout == QN_F32 ? 4 : 2) * LANES;
    s->d = load_scale(p, t->scale_layout);
    s->m = load_scale(p + bytes, t->scale_layout);
    if (form == QN_PANEL_AFFINE8) /* the codes are made signed, by 128 less */
        s->m = _mm256_fmadd_ps(s->d, _mm256_set1_ps(128.0F), s->m);
    return p + 2 * bytes;
}

/* Reads the scales of block b at p; returns where its codes are. */
INLINE const uint8_t *load_scales(const int form, const qn_tile *t, int64_t b, const uint8_t *p,
                                  scales *s)
{
    switch (form) {
    case QN_PANEL_Q4_0:
    case QN_PANEL_Q5_0:
        s->d = load_f16(p);
        s->m = _mm256_mul_ps(s->d, _mm256_set1_ps(form == QN_PANEL_Q4_0 ? -8.0F : -16.0F));
        return p + 2 * LANES;
    case QN_PANEL_Q4_1:
    case QN_PANEL_Q5_1:
        s->d = load_f16(p);
        s->m = load_f16(p + 2 * LANES);
        return p + 4 * LANES;
    case QN_PANEL_Q8_0:
    case QN_PANEL_IQ4_NL:
        s->d = load_f16(p);
        return p + 2 * LANES;
    case QN_PANEL_MXFP4:
        s->d = load_e8m0_half(p);
        return p + LANES;
    case QN_PANEL_Q4_K:
    case QN_PANEL_Q5_K:
        if (b % 8 == 0) {
            s->super_d = load_f16(p);
            s->super_m = _mm256_sub_ps(_mm256_setzero_ps(), load_f16(p + 2 * LANES));
            p += 4 * LANES;
        }
        s->d = _mm256_mul_ps(s->super_d, load_u8(p));
        s->m = _mm256_mul_ps(s->super_m, load_u8(p + LANES));
        return p + 2 * LANES;
    case QN_PANEL_Q6_K: /* its block scales are read with the codes: they are multiplied as integers */
        if (b % 8 == 0) {
            s->d = load_f16(p);
            p += 2 * LANES;
        }
        return p;
    default:
        return b * 32 % t->group == 0 ? affine_scales(form, t, p, s) : p;
    }
}

/* Bytes of a block's codes (and, for Q6_K, its scales). */
INLINE int code_bytes(const int form)
{
    switch (form) {
    case QN_PANEL_Q5_0:
    case QN_PANEL_Q5_1:
    case QN_PANEL_Q5_K:
        return 20 * LANES;
    case QN_PANEL_Q8_0:
    case QN_PANEL_AFFINE8:
        return 32 * LANES;
    case QN_PANEL_Q6_K:
        return 26 * LANES;
    default:
        return 16 * LANES;
    }
}

INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

/* Codes of column group g (0..7, four columns each) that lie in nibbles. */
INLINE __m256i nibbles(const uint8_t *p, const int g)
{
    __m256i raw = load(p + 4 * LANES * (g & 3));
    return _mm256_and_si256(g < 4 ? raw : _mm256_srli_epi16(raw, 4), _mm256_set1_epi8(15));
}

/* The same with a fifth bit from the dword after the nibbles. */
INLINE __m256i five_bits(const uint8_t *p, const int g)
{
    __m256i high = load(p + 16 * LANES);
    high = g < 4 ? _mm256_slli_epi16(high, 4 - g) : _mm256_srli_epi16(high, g - 4);
    return _mm256_or_si256(nibbles(p, g), _mm256_and_si256(high, _mm256_set1_epi8(16)));
}

/* The same with two bits from the two dwords after the nibbles. */
INLINE __m256i six_bits(const uint8_t *p, const int g)
{
    __m256i high = load(p + 16 * LANES + 4 * LANES * (g / 4));
    const int up = 4 - 2 * (g & 3);
    high = up >= 0 ? _mm256_slli_epi16(high, up) : _mm256_srli_epi16(high, -up);
    return _mm256_or_si256(nibbles(p, g), _mm256_and_si256(high, _mm256_set1_epi8(48)));
}

/* Signed codes: bytes as they are, unsigned ones less 128, or values of a table. */
INLINE __m256i signed_codes(const int form, const uint8_t *p, const int g)
{
    if (form == QN_PANEL_Q8_0)
        return load(p + 4 * LANES * g);
    if (form == QN_PANEL_AFFINE8)
        return _mm256_xor_si256(load(p + 4 * LANES * g), _mm256_set1_epi8(-128));
    __m128i table = form == QN_PANEL_IQ4_NL
                        ? _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53,
                                        69, 89, 113)
                        : _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles(p, g));
}

/* Four activation codes in every lane. */
INLINE __m256i spread(const uint8_t *x)
{
    int32_t four;
    memcpy(&four, x, 4);
    return _mm256_set1_epi32(four);
}

/* Integer products of one block with nx rows of activations: sum[i] += codes . x[i]. */
typedef void (*dot_fn)(const int form, const uint8_t *p, const uint8_t *const *x, const int nx,
                       const qn_act_block *const *a, __m256i *sum);

/* Rows first .. first + nx of the tile. */
INLINE void int_part(const int form, const qn_tile *t, int first, const int nx, dot_fn dot)
{
    const uint8_t *p = t->panel, *x[4];
    const qn_act_block *a[4];
    __m256 acc[4];
    scales s = { 0 };
    for (int i = 0; i < nx; i++) {
        x[i] = t->x[first + i];
        a[i] = (const void *)(x[i] + t->k);
        acc[i] = _mm256_setzero_ps();
    }
    for (int64_t b = 0; b < t->k / 32; b++) {
        __m256i sum[4];
        p = load_scales(form, t, b, p, &s);
        if (nx ==
            1) /* a single row streams the weights through: ask for them before they are needed */
            for (int at = 0; at < code_bytes(form) + 4 * LANES; at += 64)
                _mm_prefetch((const void *)(p + AHEAD + at), _MM_HINT_T0);
        dot(form, p, x, nx, a, sum);
        p += code_bytes(form);
        for (int i = 0; i < nx; i++) {
            __m256 d = _mm256_mul_ps(s.d, _mm256_broadcast_ss(&a[i]->d));
            acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[i]), d, acc[i]);
            if (has_min(form))
                acc[i] = _mm256_fmadd_ps(s.m, _mm256_broadcast_ss(&a[i]->s), acc[i]);
            x[i] += 32;
            a[i]++;
        }
    }
    for (int i = 0; i < nx; i++)
        _mm256_storeu_ps(t->out[first + i], acc[i]);
}

INLINE void int_tile(const int form, const qn_tile *t, dot_fn dot)
{
    int i = 0;
    for (; i + 4 <= t->n_x; i += 4)
        int_part(form, t, i, 4, dot);
    if (i + 2 <= t->n_x) {
        int_part(form, t, i, 2, dot);
        i += 2;
    }
    if (i < t->n_x)
        int_part(form, t, i, 1, dot);
}

/* Eight rows' weights of one column, as floats. */
INLINE __m256 load_column(const int form, const uint8_t *p)
{
    if (form == QN_PANEL_F32)
        return _mm256_loadu_ps((const void *)p);
    return form == QN_PANEL_F16 ? load_f16(p) : load_bf16(p);
}

/* Two sums, of even and odd columns: four tokens then keep eight independent chains of multiply-adds going,
 * which the latency of two units needs, and one token two. */
INLINE void float_part(const int form, const qn_tile *t, int first, const int nx)
{
    const int bytes = (form == QN_PANEL_F32 ? 4 : 2) * LANES;
    const uint8_t *p = t->panel;
    const float *x[4];
    __m256 even[4], odd[4];
    for (int i = 0; i < nx; i++) {
        x[i] = t->x[first + i];
        even[i] = odd[i] = _mm256_setzero_ps();
    }
    int64_t k = 0;
    for (; k + 2 <= t->k; k += 2, p += 2 * bytes) {
        __m256 w0 = load_column(form, p), w1 = load_column(form, p + bytes);
        for (int i = 0; i < nx; i++) {
            even[i] = _mm256_fmadd_ps(w0, _mm256_broadcast_ss(x[i] + k), even[i]);
            odd[i] = _mm256_fmadd_ps(w1, _mm256_broadcast_ss(x[i] + k + 1), odd[i]);
        }
    }
    if (k < t->k)
        for (int i = 0; i < nx; i++)
            even[i] = _mm256_fmadd_ps(load_column(form, p), _mm256_broadcast_ss(x[i] + k), even[i]);
    for (int i = 0; i < nx; i++)
        _mm256_storeu_ps(t->out[first + i], _mm256_add_ps(even[i], odd[i]));
}

INLINE void float_tile(const int form, const qn_tile *t)
{
    int i = 0;
    for (; i + 4 <= t->n_x; i += 4)
        float_part(form, t, i, 4);
    if (i + 2 <= t->n_x) {
        float_part(form, t, i, 2);
        i += 2;
    }
    if (i < t->n_x)
        float_part(form, t, i, 1);
}

#endif
