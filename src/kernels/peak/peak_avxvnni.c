/* peak_avxvnni.c - see peak.h. vpdpbusd multiplies 32 pairs and adds them to 8 sums. */
#include <immintrin.h>

#include "kernels/peak/peak.h"

double qn_peak_avxvnni(int rounds, uint64_t *sum)
{
    __m256i acc[QN_PEAK_CHAINS], a = _mm256_set1_epi8(3);
    for (int k = 0; k < QN_PEAK_CHAINS; k++)
        acc[k] = _mm256_setzero_si256();
    for (int i = 0; i < rounds; i++) {
        __m256i b = _mm256_set1_epi8((char)i); /* changes, so that nothing is hoisted */
        for (int k = 0; k < QN_PEAK_CHAINS; k++)
            acc[k] = _mm256_dpbusd_avx_epi32(acc[k], a, b);
    }
    for (int k = 0; k < QN_PEAK_CHAINS; k++)
        *sum += (uint64_t)_mm256_extract_epi32(acc[k], 0);
    return (double)rounds * QN_PEAK_CHAINS * 32;
}
