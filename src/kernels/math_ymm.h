/* math_ymm.h - functions of eight floats, for kernels of the AVX2 level and above.
 *
 * The same function serves bodies and tails (load_part, store_part), so an element's value does not depend on
 * where in a row it stands. */
#ifndef QN_KERNELS_MATH_YMM_H
#define QN_KERNELS_MATH_YMM_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

/* Lanes 0 .. n-1 of a vector, n <= 8; the rest reads 0 and is not written. */
INLINE __m256i part_mask(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n < 8 ? n : 8)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE __m256 load_part(const float *x, int64_t n)
{
    return n >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, part_mask(n));
}
INLINE void store_part(float *y, int64_t n, __m256 v)
{
    if (n >= 8)
        _mm256_storeu_ps(y, v);
    else
        _mm256_maskstore_ps(y, part_mask(n), v);
}

INLINE float sum_lanes(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
INLINE float max_lanes(__m256 v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

/* exp(x) within 2 units in the last place: 2^n times a polynomial of the rest, |r| <= ln 2 / 2 (its Taylor
 * series to the seventh power errs by 2^-27). Below -87.3 it is 0, above 88.7 infinite; NaN stays NaN. */
INLINE __m256 exp_ymm(__m256 x)
{
    const __m256 lowest = _mm256_set1_ps(-87.33F), highest = _mm256_set1_ps(88.72F);
    __m256 in = _mm256_max_ps(_mm256_min_ps(highest, x), lowest); /* NaN becomes `lowest` for now */
    __m256 n = _mm256_round_ps(_mm256_mul_ps(in, _mm256_set1_ps(1.44269504F)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375F), in);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4F), r);
    __m256 p = _mm256_set1_ps(1.0F / 5040);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 720));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
    /* n reaches 128 near the top: two factors of half the exponent each stay finite. */
    __m256i e = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(e, 1);
    __m256i bias = _mm256_set1_epi32(127);
    __m256 f1 = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    __m256 f2 = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(e, half), bias), 23));
    __m256 y = _mm256_mul_ps(_mm256_mul_ps(p, f1), f2);
    y = _mm256_andnot_ps(_mm256_cmp_ps(x, lowest, _CMP_LT_OQ), y);
    y = _mm256_blendv_ps(y, _mm256_set1_ps(__builtin_inff()),
                         _mm256_cmp_ps(x, highest, _CMP_GT_OQ));
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

INLINE __m256 sigmoid_ymm(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0F);
    return _mm256_div_ps(one, _mm256_add_ps(one, exp_ymm(_mm256_sub_ps(_mm256_setzero_ps(), x))));
}

/* Angle less the nearest multiple n of pi / 2, in double (angles reach hundreds of thousands, where f32 would
 * have no digits left). */
INLINE __m128 reduce_angle(__m128 x, __m128i *n)
{
    __m256d a = _mm256_cvtps_pd(x);
    __m256d k = _mm256_round_pd(_mm256_mul_pd(a, _mm256_set1_pd(0.63661977236758134308)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    a = _mm256_fnmadd_pd(k, _mm256_set1_pd(1.5707963267948966), a);
    a = _mm256_fnmadd_pd(k, _mm256_set1_pd(6.123233995736766e-17), a);
    *n = _mm256_cvtpd_epi32(k);
    return _mm256_cvtpd_ps(a);
}

/* Sine and cosine within 2^-24: Taylor polynomials on |r| <= pi / 4, then by quadrant. */
INLINE void sincos_ymm(__m256 x, __m256 *sine, __m256 *cosine)
{
    __m128i n_lo, n_hi;
    __m128 r_lo = reduce_angle(_mm256_castps256_ps128(x), &n_lo);
    __m128 r_hi = reduce_angle(_mm256_extractf128_ps(x, 1), &n_hi);
    __m256 r = _mm256_set_m128(r_hi, r_lo), r2 = _mm256_mul_ps(r, r);
    __m256i n = _mm256_set_m128i(n_hi, n_lo);
    __m256 s = _mm256_set1_ps(1.0F / 362880);
    s = _mm256_fmadd_ps(s, r2, _mm256_set1_ps(-1.0F / 5040));
    s = _mm256_fmadd_ps(s, r2, _mm256_set1_ps(1.0F / 120));
    s = _mm256_fmadd_ps(s, r2, _mm256_set1_ps(-1.0F / 6));
    s = _mm256_fmadd_ps(_mm256_mul_ps(s, r2), r, r);
    __m256 c = _mm256_set1_ps(-1.0F / 3628800);
    c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(1.0F / 40320));
    c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(-1.0F / 720));
    c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(1.0F / 24));
    c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(-0.5F));
    c = _mm256_fmadd_ps(c, r2, _mm256_set1_ps(1.0F));
    /* Odd quadrants swap the two; the sine turns negative in 2 and 3, the cosine in 1 and 2. */
    __m256 swap = _mm256_castsi256_ps(_mm256_slli_epi32(n, 31));
    __m256i two = _mm256_set1_epi32(2);
    __m256 s_sign = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_and_si256(n, two), 30));
    __m256i n1 = _mm256_add_epi32(n, _mm256_set1_epi32(1));
    __m256 c_sign = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_and_si256(n1, two), 30));
    *sine = _mm256_xor_ps(_mm256_blendv_ps(s, c, swap), s_sign);
    *cosine = _mm256_xor_ps(_mm256_blendv_ps(c, s, swap), c_sign);
}

#endif
