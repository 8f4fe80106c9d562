/* bench_peaks_avx512.c - the 512-bit dot product and multiply-add. */
#include <immintrin.h>

#include "bench_peaks.h"

#define CHAINS 16

static void int_macs(int loops)
{
    __m512i w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(5), s[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        s[i] = _mm512_setzero_si512();
    for (int n = 0; n < loops; n++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            s[i] = _mm512_dpbusd_epi32(s[i], w, x);
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "v"(s[i]));
}

static void float_macs(int loops)
{
    __m512 w = _mm512_set1_ps(0.5F), s[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        s[i] = _mm512_setzero_ps();
    for (int n = 0; n < loops; n++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++)
            s[i] = _mm512_fmadd_ps(w, w, s[i]);
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "v"(s[i]));
}

void qn_peaks_avx512(qn_peaks *p)
{
    p->int_macs = int_macs;
    p->float_macs = float_macs;
    p->int_macs_a_loop = CHAINS * 64;
    p->float_macs_a_loop = CHAINS * 16;
}
