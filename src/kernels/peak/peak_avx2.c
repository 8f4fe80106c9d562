/* peak_avx2.c - see peak.h. Kernels widen the 16-bit sums once in a while; the roof leaves that out.
 * The operand depends on the chain, or the product would be computed once for all twelve. */
#include <immintrin.h>

#include "kernels/peak/peak.h"

double qn_peak_avx2(int rounds, uint64_t *sum)
{
    __m256i acc[QN_PEAK_CHAINS], a = _mm256_set1_epi8(3);
    for (int k = 0; k < QN_PEAK_CHAINS; k++)
        acc[k] = _mm256_setzero_si256();
    for (int i = 0; i < rounds; i++) {
        __m256i b = _mm256_set1_epi8((char)i); /* changes, so that nothing is hoisted */
        for (int k = 0; k < QN_PEAK_CHAINS; k++)
            acc[k] = _mm256_add_epi16(acc[k], _mm256_maddubs_epi16(a, _mm256_xor_si256(b, acc[k])));
    }
    for (int k = 0; k < QN_PEAK_CHAINS; k++)
        *sum += (uint64_t)_mm256_extract_epi32(acc[k], 0);
    return (double)rounds * QN_PEAK_CHAINS * 32;
}
