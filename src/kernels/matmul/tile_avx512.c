/* tile_avx512.c - tiles of 16 rows for AVX-512 with VNNI, up to 8 rows of activations at once.
 *
 * The counterpart of tile_ymm.h and tile_avxvnni.c in 512 bits: same forms, same order of float operations a
 * lane. The dot product reads activations as a broadcast memory operand, so they cost no instruction. */
#include <immintrin.h>
#include <string.h>

#include "kernels/matmul/matmul.h"

#define INLINE static inline __attribute__((always_inline))
#define LANES  16
#define MOST_X 8

typedef struct scales {
    __m512 d, m, super_d, super_m;
} scales;

INLINE __m512 load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}

INLINE __m512 load_bf16(const uint8_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

INLINE __m512i bytes_of(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
}

INLINE __m512i signed_bytes_of(const uint8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p));
}

/* 2^(e - 128) by its bits; e of 0 and 1 are subnormal. */
INLINE __m512 load_e8m0_half(const uint8_t *p)
{
    __m512i e = bytes_of(p);
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32(0x200000), e);
    __mmask16 is_small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_blend_epi32(is_small, normal, small));
}

INLINE __m512 load_scale(const uint8_t *p, int layout)
{
    if (layout == QN_F32)
        return _mm512_loadu_ps(p);
    return layout == QN_F16 ? load_f16(p) : load_bf16(p);
}

INLINE bool is_signed(const int form)
{
    return form == QN_PANEL_Q8_0 || form == QN_PANEL_IQ4_NL || form == QN_PANEL_MXFP4;
}

INLINE bool has_min(const int form)
{
    return !is_signed(form) && form != QN_PANEL_Q6_K;
}

INLINE bool is_five(const int form)
{
    return form == QN_PANEL_Q5_0 || form == QN_PANEL_Q5_1 || form == QN_PANEL_Q5_K;
}

INLINE const uint8_t *affine_scales(const qn_tile *t, const uint8_t *p, scales *s)
{
    int bytes = (t->scale_layout == QN_F32 ? 4 : 2) * LANES;
    s->d = load_scale(p, t->scale_layout);
    s->m = load_scale(p + bytes, t->scale_layout);
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
        s->m = _mm512_mul_ps(s->d, _mm512_set1_ps(form == QN_PANEL_Q4_0 ? -8.0F : -16.0F));
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
            s->super_m = _mm512_sub_ps(_mm512_setzero_ps(), load_f16(p + 2 * LANES));
            p += 4 * LANES;
        }
        s->d = _mm512_mul_ps(s->super_d, _mm512_cvtepi32_ps(bytes_of(p)));
        s->m = _mm512_mul_ps(s->super_m, _mm512_cvtepi32_ps(bytes_of(p + LANES)));
        return p + 2 * LANES;
    case QN_PANEL_Q6_K: /* its block scales are read with the codes: they are multiplied as integers */
        if (b % 8 == 0) {
            s->d = load_f16(p);
            p += 2 * LANES;
        }
        return p;
    default:
        return b * 32 % t->group == 0 ? affine_scales(t, p, s) : p;
    }
}

/* Bytes of a block's codes (and, for Q6_K, its scales). */
INLINE int code_bytes(const int form)
{
    if (is_five(form))
        return 20 * LANES;
    if (form == QN_PANEL_Q8_0 || form == QN_PANEL_AFFINE8)
        return 32 * LANES;
    return (form == QN_PANEL_Q6_K ? 26 : 16) * LANES;
}

INLINE __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

INLINE __m512i nibbles(const uint8_t *p, const int g)
{
    __m512i raw = load(p + 4 * LANES * (g & 3));
    return _mm512_and_si512(g < 4 ? raw : _mm512_srli_epi16(raw, 4), _mm512_set1_epi8(15));
}

INLINE __m512i five_bits(const uint8_t *p, const int g)
{
    __m512i high = load(p + 16 * LANES);
    high = g < 4 ? _mm512_slli_epi16(high, (unsigned)(4 - g))
                 : _mm512_srli_epi16(high, (unsigned)(g - 4));
    return _mm512_or_si512(nibbles(p, g), _mm512_and_si512(high, _mm512_set1_epi8(16)));
}

INLINE __m512i six_bits(const uint8_t *p, const int g)
{
    __m512i high = load(p + 16 * LANES + 4 * LANES * (g / 4));
    const int up = 4 - 2 * (g & 3);
    high = up >= 0 ? _mm512_slli_epi16(high, (unsigned)up) : _mm512_srli_epi16(high, (unsigned)-up);
    return _mm512_or_si512(nibbles(p, g), _mm512_and_si512(high, _mm512_set1_epi8(48)));
}

/* Codes of column group g as unsigned bytes: signed ones with 128 more, AFFINE8 as they are. */
INLINE __m512i codes(const int form, const uint8_t *p, const int g)
{
    const __m512i offset = _mm512_set1_epi8(-128);
    if (form == QN_PANEL_Q8_0)
        return _mm512_xor_si512(load(p + 4 * LANES * g), offset);
    if (form == QN_PANEL_AFFINE8)
        return load(p + 4 * LANES * g);
    if (form == QN_PANEL_Q6_K)
        return six_bits(p, g);
    if (is_five(form))
        return five_bits(p, g);
    if (!is_signed(form))
        return nibbles(p, g);
    const __m128i iq4_nl =
        _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    const __m128i mxfp4 = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    __m512i table = _mm512_broadcast_i32x4(form == QN_PANEL_IQ4_NL ? iq4_nl : mxfp4);
    return _mm512_xor_si512(_mm512_shuffle_epi8(table, nibbles(p, g)), offset);
}

INLINE __m512i spread(const uint8_t *x)
{
    int32_t four;
    memcpy(&four, x, 4);
    return _mm512_set1_epi32(four);
}

/* Groups from `first` on: a half block of Q6_K, else all eight. */
INLINE void dot_groups(const int form, const uint8_t *p, const uint8_t *const *x, const int nx,
                       const int first, __m512i *sum)
{
    const int end = form == QN_PANEL_Q6_K ? first + 4 : 8;
#pragma GCC unroll 8
    for (int g = first; g < end; g++) {
        __m512i w = codes(form, p, g);
#pragma GCC unroll 8
        for (int i = 0; i < nx; i++)
            sum[i] = _mm512_dpbusd_epi32(sum[i], w, spread(x[i] + 4 * g));
    }
}

/* Integer products of a block. Sums start at what the codes' offset will have added too much. */
INLINE void dot(const int form, const uint8_t *p, const uint8_t *const *x, const int nx,
                const qn_act_block *const *a, __m512i *sum)
{
    if (form != QN_PANEL_Q6_K) {
        for (int i = 0; i < nx; i++) {
            int all = a[i]->half[0] + a[i]->half[1];
            sum[i] = _mm512_set1_epi32(is_signed(form) ? -128 * all : 0);
        }
        dot_groups(form, p, x, nx, 0, sum);
        return;
    }
    /* Each half block has its own 8-bit scale. */
    __m512i s0 = signed_bytes_of(p), s1 = signed_bytes_of(p + LANES), half[MOST_X];
    for (int i = 0; i < nx; i++)
        half[i] = _mm512_set1_epi32(-32 * a[i]->half[0]);
    dot_groups(form, p + 2 * LANES, x, nx, 0, half);
    for (int i = 0; i < nx; i++) {
        sum[i] = _mm512_mullo_epi32(half[i], s0);
        half[i] = _mm512_set1_epi32(-32 * a[i]->half[1]);
    }
    dot_groups(form, p + 2 * LANES, x, nx, 4, half);
    for (int i = 0; i < nx; i++)
        sum[i] = _mm512_add_epi32(sum[i], _mm512_mullo_epi32(half[i], s1));
}

/* Rows first .. first + nx of the tile. */
INLINE void int_part(const int form, const qn_tile *t, int first, const int nx)
{
    const uint8_t *p = t->panel, *x[MOST_X];
    const qn_act_block *a[MOST_X];
    __m512 acc[MOST_X];
    scales s = { 0 };
    for (int i = 0; i < nx; i++) {
        x[i] = t->x[first + i];
        a[i] = (const void *)(x[i] + t->k);
        acc[i] = _mm512_setzero_ps();
    }
    for (int64_t b = 0; b < t->k / 32; b++) {
        __m512i sum[MOST_X];
        p = load_scales(form, t, b, p, &s);
        dot(form, p, x, nx, a, sum);
        p += code_bytes(form);
        for (int i = 0; i < nx; i++) {
            __m512 d = _mm512_mul_ps(s.d, _mm512_set1_ps(a[i]->d));
            acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i]), d, acc[i]);
            if (has_min(form))
                acc[i] = _mm512_fmadd_ps(s.m, _mm512_set1_ps(a[i]->s), acc[i]);
            x[i] += 32;
            a[i]++;
        }
    }
    for (int i = 0; i < nx; i++)
        _mm512_storeu_ps(t->out[first + i], acc[i]);
}

INLINE __m512 load_column(const int form, const uint8_t *p)
{
    if (form == QN_PANEL_F32)
        return _mm512_loadu_ps(p);
    return form == QN_PANEL_F16 ? load_f16(p) : load_bf16(p);
}

/* Two sums, of even and odd columns, as in tile_ymm.h. */
INLINE void float_part(const int form, const qn_tile *t, int first, const int nx)
{
    const int bytes = (form == QN_PANEL_F32 ? 4 : 2) * LANES;
    const uint8_t *p = t->panel;
    const float *x[MOST_X];
    __m512 even[MOST_X], odd[MOST_X];
    for (int i = 0; i < nx; i++) {
        x[i] = t->x[first + i];
        even[i] = odd[i] = _mm512_setzero_ps();
    }
    int64_t k = 0;
    for (; k + 2 <= t->k; k += 2, p += 2 * bytes) {
        __m512 w0 = load_column(form, p), w1 = load_column(form, p + bytes);
        for (int i = 0; i < nx; i++) {
            even[i] = _mm512_fmadd_ps(w0, _mm512_set1_ps(x[i][k]), even[i]);
            odd[i] = _mm512_fmadd_ps(w1, _mm512_set1_ps(x[i][k + 1]), odd[i]);
        }
    }
    if (k < t->k)
        for (int i = 0; i < nx; i++)
            even[i] = _mm512_fmadd_ps(load_column(form, p), _mm512_set1_ps(x[i][k]), even[i]);
    for (int i = 0; i < nx; i++)
        _mm512_storeu_ps(t->out[first + i], _mm512_add_ps(even[i], odd[i]));
}

INLINE void part(const int form, const qn_tile *t, int first, const int nx)
{
    if (form <= QN_PANEL_BF16)
        float_part(form, t, first, nx);
    else
        int_part(form, t, first, nx);
}

INLINE void tile(const int form, const qn_tile *t)
{
    int i = 0;
    if (t->n_x & 8) {
        part(form, t, 0, 8);
        return;
    }
    if (t->n_x & 4) {
        part(form, t, 0, 4);
        i = 4;
    }
    if (t->n_x & 2) {
        part(form, t, i, 2);
        i += 2;
    }
    if (t->n_x & 1)
        part(form, t, i, 1);
}

#define TILES(X)                                                                                   \
    X(F32)                                                                                         \
    X(F16)                                                                                         \
    X(BF16)                                                                                        \
    X(Q4_0)                                                                                        \
    X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(MXFP4) X(AFFINE4) X(AFFINE8)
#define X(form)                                                                                    \
    static void tile_##form(const qn_tile *t)                                                      \
    {                                                                                              \
        tile(QN_PANEL_##form, t);                                                                  \
    }
TILES(X)
#undef X

void qn_tiles_avx512(qn_matmul_kernels *t)
{
    t->rows = LANES;
    t->n_x = MOST_X;
#define X(form) t->tile[QN_PANEL_##form] = tile_##form;
    TILES(X)
#undef X
}
