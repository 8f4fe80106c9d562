/* bench_peaks_avx2.c - 8 independent chains of each multiply-add. The empty asm makes the compiler believe that
 * every value changes, so that nothing is folded away. */
#include <immintrin.h>

#include "bench_peaks.h"

#define CHAINS 8

/* Eight products of 16 bits are added before one is widened, as the 4-bit tiles do. */
static void int_macs(int loops)
{
    __m256i w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5), s[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        s[i] = _mm256_setzero_si256();
    for (int n = 0; n < loops; n++)
#pragma GCC unroll 8
        for (int i = 0; i < CHAINS; i++) {
            __asm__("" : "+x"(w), "+x"(x));
            s[i] = _mm256_add_epi16(s[i], _mm256_maddubs_epi16(w, x));
        }
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "x"(s[i]));
}

static void float_macs(int loops)
{
    __m256 w = _mm256_set1_ps(0.5F), x = w, s[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        s[i] = _mm256_setzero_ps();
    for (int n = 0; n < loops; n++)
#pragma GCC unroll 8
        for (int i = 0; i < CHAINS; i++) {
            __asm__("" : "+x"(w), "+x"(x));
            s[i] = _mm256_fmadd_ps(w, x, s[i]);
        }
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "x"(s[i]));
}

static void read_all(const uint8_t *data, size_t bytes)
{
    __m256i s[4] = { _mm256_setzero_si256() };
    s[1] = s[2] = s[3] = s[0];
    for (size_t i = 0; i + 128 <= bytes; i += 128)
        for (int j = 0; j < 4; j++)
            s[j] = _mm256_xor_si256(s[j], _mm256_loadu_si256((const void *)(data + i + 32 * j)));
    for (int j = 0; j < 4; j++)
        __asm__ volatile("" : : "x"(s[j]));
}

void qn_peaks_avx2(qn_peaks *p)
{
    *p = (qn_peaks){ int_macs, float_macs, CHAINS * 32, CHAINS * 8, read_all };
}
