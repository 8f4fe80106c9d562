/* tile_avx2.c - tiles of 8 rows for AVX2: integer products by 8-bit multiply-adds, and f32 ones.
 *
 * vpmaddubsw multiplies unsigned by signed bytes and adds pairs into 16 bits. Small codes leave room to add
 * several of those before widening: 4-bit ones 8 (2 * 15 * 128 * 8 < 2^15), 5-bit ones 4, 6-bit ones 2.
 * Signed 8-bit codes move their sign to the activation and widen at once. Integer sums are exact, so these
 * choices do not show in results. */
#include "kernels/matmul/tile_ymm.h"

INLINE __m256i widen(__m256i pairs)
{
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

INLINE __m256i small_codes(const int form, const uint8_t *p, const int g)
{
    return form == QN_PANEL_Q5_0 || form == QN_PANEL_Q5_1 || form == QN_PANEL_Q5_K ? five_bits(p, g)
                                                                                   : nibbles(p, g);
}

/* Makes the compiler keep this order of additions: left to itself it gathers all products of a block before it
 * adds them, and spills most of them. */
INLINE __m256i in_order(__m256i v)
{
    __asm__("" : "+x"(v));
    return v;
}

/* Codes of at most 5 bits: 8 groups of four columns (4 for 5 bits) are added in 16 bits. */
INLINE void dot_small(const int form, const uint8_t *p, const uint8_t *const *x, const int nx,
                      __m256i *sum)
{
    const bool five = code_bytes(form) != 16 * LANES;
    __m256i pairs[4];
#pragma GCC unroll 8
    for (int n = 0; n < 8; n++) {
        const int g = n / 2 + n % 2 * 4; /* both halves of a nibble one after the other */
        __m256i w = small_codes(form, p, g);
#pragma GCC unroll 4
        for (int i = 0; i < nx; i++) {
            __m256i part = _mm256_maddubs_epi16(w, spread(x[i] + 4 * g));
            if (n == 0 || (five && n == 4))
                pairs[i] = part;
            else
                pairs[i] = in_order(_mm256_add_epi16(pairs[i], part));
            if (five && n == 3)
                sum[i] = widen(pairs[i]);
            if (n == 7)
                sum[i] = five ? _mm256_add_epi32(sum[i], widen(pairs[i])) : widen(pairs[i]);
        }
    }
}

INLINE void dot_signed(const int form, const uint8_t *p, const uint8_t *const *x, const int nx,
                       __m256i *sum)
{
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        __m256i w = signed_codes(form, p, g), size = _mm256_abs_epi8(w);
#pragma GCC unroll 4
        for (int i = 0; i < nx; i++) {
            __m256i y = _mm256_sign_epi8(spread(x[i] + 4 * g), w);
            __m256i part = widen(_mm256_maddubs_epi16(size, y));
            sum[i] = g == 0 ? part : _mm256_add_epi32(sum[i], part);
        }
    }
}

/* Q6_K: each half block has its own 8-bit scale, applied as the factor of the widening multiply-add. The
 * codes' offset of 32 is taken off by the halves' activation sums. */
INLINE void dot_q6_k(const uint8_t *p, const uint8_t *const *x, const int nx,
                     const qn_act_block *const *a, __m256i *sum)
{
    __m128i raw0 = _mm_loadl_epi64((const void *)p), raw1 = _mm_loadl_epi64((const void *)(p + 8));
    __m256i s0 = _mm256_cvtepi8_epi32(raw0), s1 = _mm256_cvtepi8_epi32(raw1);
    /* Both 16-bit halves of a lane get the scale: one half's for the products, both for the offset. */
    const __m256i low = _mm256_set1_epi32(0xffff);
    __m256i even = _mm256_or_si256(_mm256_and_si256(s0, low), _mm256_slli_epi32(s0, 16));
    __m256i odd = _mm256_or_si256(_mm256_and_si256(s1, low), _mm256_slli_epi32(s1, 16));
    __m256i mixed = _mm256_or_si256(_mm256_and_si256(s0, low), _mm256_slli_epi32(s1, 16));
    for (int i = 0; i < nx; i++) {
        __m256i offset = _mm256_madd_epi16(mixed, spread((const uint8_t *)a[i]->half));
        sum[i] = _mm256_slli_epi32(_mm256_sub_epi32(_mm256_setzero_si256(), offset), 5);
    }
    p += 2 * LANES;
#pragma GCC unroll 4
    for (int g = 0; g < 8; g += 2) {
        __m256i w0 = six_bits(p, g), w1 = six_bits(p, g + 1);
#pragma GCC unroll 4
        for (int i = 0; i < nx; i++) {
            __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w0, spread(x[i] + 4 * g)),
                                             _mm256_maddubs_epi16(w1, spread(x[i] + 4 * g + 4)));
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, g < 4 ? even : odd));
        }
    }
}

INLINE void dot_avx2(const int form, const uint8_t *p, const uint8_t *const *x, const int nx,
                     const qn_act_block *const *a, __m256i *sum)
{
    if (form == QN_PANEL_Q6_K)
        dot_q6_k(p, x, nx, a, sum);
    else if (form == QN_PANEL_Q8_0 || form == QN_PANEL_AFFINE8 || form == QN_PANEL_IQ4_NL ||
             form == QN_PANEL_MXFP4)
        dot_signed(form, p, x, nx, sum);
    else
        dot_small(form, p, x, nx, sum);
}

/* One compiled tile for each form. */
#define TILES(X)                                                                                   \
    X(Q4_0)                                                                                        \
    X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(MXFP4) X(AFFINE4) X(AFFINE8)
#define X(form)                                                                                    \
    static void tile_##form(const qn_tile *t)                                                      \
    {                                                                                              \
        int_tile(QN_PANEL_##form, t, dot_avx2);                                                    \
    }
TILES(X)
#undef X

static void tile_f32(const qn_tile *t)
{
    float_tile(QN_PANEL_F32, t);
}

static void tile_f16(const qn_tile *t)
{
    float_tile(QN_PANEL_F16, t);
}

static void tile_bf16(const qn_tile *t)
{
    float_tile(QN_PANEL_BF16, t);
}

static __m256 largest_of(const float *x)
{
    const __m256 sign = _mm256_set1_ps(-0.0F);
    __m256 m = _mm256_andnot_ps(sign, _mm256_loadu_ps(x));
    for (int i = 8; i < 32; i += 8)
        m = _mm256_max_ps(m, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)));
    return m;
}

/* Sum of 32 codes as one int, those of each half apart: 16 bit pairs would not overflow, but 32 are as cheap. */
static void half_sums(__m256i codes, int16_t *half)
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
    __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    __m256i eights = _mm256_hadd_epi32(fours, fours);
    __m256i sums = _mm256_hadd_epi32(eights, eights);
    half[0] = (int16_t)_mm256_extract_epi32(sums, 0);
    half[1] = (int16_t)_mm256_extract_epi32(sums, 4);
}

/* Quantises a row to int8 in blocks of 32: d = largest / 127, codes rounded to the nearest (ties to even). */
static void quant_avx2(const float *x, int64_t k, void *row)
{
    int8_t *code = row;
    qn_act_block *a = (void *)(code + k);
    for (int64_t b = 0; b < k / 32; b++, x += 32, code += 32, a++) {
        __m256 m = largest_of(x);
        __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
        m4 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
        float most = _mm_cvtss_f32(_mm_max_ss(m4, _mm_movehdup_ps(m4)));
        float d = most / 127.0F;
        __m256 inverse = _mm256_set1_ps(most > 0.0F ? 127.0F / most : 0.0F);
        __m256i q[4];
        for (int i = 0; i < 4; i++)
            q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inverse));
        /* Packing works within halves of 128 bits; the permutation puts the dwords back in order. */
        __m256i bytes =
            _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((void *)code, bytes);
        half_sums(bytes, a->half);
        a->d = d;
        a->s = d * (float)(a->half[0] + a->half[1]);
    }
}

void qn_tiles_avx2(qn_matmul_kernels *t)
{
    t->rows = 8;
    t->n_x = 4;
    t->quant = quant_avx2;
    t->tile[QN_PANEL_F32] = tile_f32;
    t->tile[QN_PANEL_F16] = tile_f16;
    t->tile[QN_PANEL_BF16] = tile_bf16;
#define X(form) t->tile[QN_PANEL_##form] = tile_##form;
    TILES(X)
#undef X
}
