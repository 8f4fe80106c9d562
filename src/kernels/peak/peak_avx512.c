/* peak_avx512.c - see peak.h. vpdpbusd multiplies 64 pairs and adds them to 16 sums. */
#include <immintrin.h>

#include "kernels/peak/peak.h"

double qn_peak_avx512(int rounds, uint64_t *sum)
{
    __m512i acc[QN_PEAK_CHAINS], a = _mm512_set1_epi8(3);
    for (int k = 0; k < QN_PEAK_CHAINS; k++)
        acc[k] = _mm512_setzero_si512();
    for (int i = 0; i < rounds; i++) {
        __m512i b = _mm512_set1_epi8((char)i); /* changes, so that nothing is hoisted */
        for (int k = 0; k < QN_PEAK_CHAINS; k++)
            acc[k] = _mm512_dpbusd_epi32(acc[k], a, b);
    }
    for (int k = 0; k < QN_PEAK_CHAINS; k++)
        *sum += (uint64_t)_mm512_reduce_add_epi32(acc[k]);
    return (double)rounds * QN_PEAK_CHAINS * 64;
}
