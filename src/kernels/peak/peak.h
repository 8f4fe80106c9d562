/* peak.h - the most 8-bit products a core can do: nothing but multiply-adds on registers, for `quern bench`.
 *
 * No op uses these; they are the roof that the matmul kernels are compared with, so they live beside them and
 * are chosen by the same CPU levels. */
#ifndef QN_KERNELS_PEAK_PEAK_H
#define QN_KERNELS_PEAK_PEAK_H

#include <stdint.h>

/* Twelve independent chains: more than latency times ports of any core so far. */
enum { QN_PEAK_CHAINS = 12 };

/* Runs `rounds` multiply-adds on each chain, at the level in use, and returns how many products of two bytes that
 * were; 0 where no level has a loop. *sum takes the result, so that the work is not left out. */
double qn_peak_products(int rounds, uint64_t *sum);

double qn_peak_avx2(int rounds, uint64_t *sum);
double qn_peak_avxvnni(int rounds, uint64_t *sum);
double qn_peak_avx512(int rounds, uint64_t *sum);

#endif
