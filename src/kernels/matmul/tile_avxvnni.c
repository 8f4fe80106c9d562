/* tile_avxvnni.c - tiles of 8 rows with the 256-bit dot product, which adds four byte products to a 32-bit lane
 * at once. It wants one side unsigned: signed codes get 128 more, which the activation sums take off again. */
#include "kernels/matmul/tile_ymm.h"

INLINE bool is_signed(const int form)
{
    return form == QN_PANEL_Q8_0 || form == QN_PANEL_AFFINE8 || form == QN_PANEL_IQ4_NL ||
           form == QN_PANEL_MXFP4;
}

INLINE __m256i unsigned_codes(const int form, const uint8_t *p, const int g)
{
    if (is_signed(form))
        return _mm256_xor_si256(signed_codes(form, p, g), _mm256_set1_epi8(-128));
    if (form == QN_PANEL_Q6_K)
        return six_bits(p, g);
    return form == QN_PANEL_Q5_0 || form == QN_PANEL_Q5_1 || form == QN_PANEL_Q5_K ? five_bits(p, g)
                                                                                   : nibbles(p, g);
}

/* Groups from `first` on: a half block of Q6_K, else all eight. */
INLINE void dot_groups(const int form, const uint8_t *p, const uint8_t *const *x, const int nx,
                       const int first, __m256i *sum)
{
    const int end = form == QN_PANEL_Q6_K ? first + 4 : 8;
#pragma GCC unroll 8
    for (int g = first; g < end; g++) {
        __m256i w = unsigned_codes(form, p, g);
#pragma GCC unroll 4
        for (int i = 0; i < nx; i++)
            sum[i] = _mm256_dpbusd_avx_epi32(sum[i], w, spread(x[i] + 4 * g));
    }
}

/* Q6_K: each half block has its own 8-bit scale; the codes' offset of 32 is taken off by the halves' sums. */
INLINE void dot_q6_k(const uint8_t *p, const uint8_t *const *x, const int nx,
                     const qn_act_block *const *a, __m256i *sum)
{
    __m256i s0 = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p));
    __m256i s1 = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p + LANES)));
    __m256i half[2][4];
    for (int i = 0; i < nx; i++) {
        half[0][i] = _mm256_set1_epi32(-32 * a[i]->half[0]);
        half[1][i] = _mm256_set1_epi32(-32 * a[i]->half[1]);
    }
    dot_groups(QN_PANEL_Q6_K, p + 2 * LANES, x, nx, 0, half[0]);
    dot_groups(QN_PANEL_Q6_K, p + 2 * LANES, x, nx, 4, half[1]);
    for (int i = 0; i < nx; i++)
        sum[i] = _mm256_add_epi32(_mm256_mullo_epi32(half[0][i], s0),
                                  _mm256_mullo_epi32(half[1][i], s1));
}

INLINE void dot_avxvnni(const int form, const uint8_t *p, const uint8_t *const *x, const int nx,
                        const qn_act_block *const *a, __m256i *sum)
{
    if (form == QN_PANEL_Q6_K) {
        dot_q6_k(p, x, nx, a, sum);
        return;
    }
    for (int i = 0; i < nx; i++) {
        int all = a[i]->half[0] + a[i]->half[1];
        sum[i] = _mm256_set1_epi32(is_signed(form) ? -128 * all : 0);
    }
    dot_groups(form, p, x, nx, 0, sum);
}

#define TILES(X)                                                                                   \
    X(Q4_0)                                                                                        \
    X(Q4_1)                                                                                        \
    X(Q5_0)                                                                                        \
    X(Q5_1)                                                                                        \
    X(Q8_0) X(Q4_K) X(Q5_K) X(Q6_K) X(IQ4_NL) X(MXFP4) X(AFFINE4) X(AFFINE8)
#define X(form)                                                                                    \
    static void tile_##form(const qn_tile *t)                                                      \
    {                                                                                              \
        int_tile(QN_PANEL_##form, t, dot_avxvnni);                                                 \
    }
TILES(X)
#undef X

void qn_tiles_avxvnni(qn_matmul_kernels *t)
{
#define X(form) t->tile[QN_PANEL_##form] = tile_##form;
    TILES(X)
#undef X
}
