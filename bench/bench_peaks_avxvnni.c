/* bench_peaks_avxvnni.c - the 256-bit dot product. */
#include <immintrin.h>

#include "bench_peaks.h"

#define CHAINS 12

static void int_macs(int loops)
{
    __m256i w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(5), s[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        s[i] = _mm256_setzero_si256();
    for (int n = 0; n < loops; n++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            s[i] = _mm256_dpbusd_avx_epi32(s[i], w, x);
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "x"(s[i]));
}

void qn_peaks_avxvnni(qn_peaks *p)
{
    p->int_macs = int_macs;
    p->int_macs_a_loop = CHAINS * 32;
}
