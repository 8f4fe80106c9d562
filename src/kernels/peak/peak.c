/* peak.c - see peak.h. */
#include "kernels/peak/peak.h"

#include "base/cpu.h"

double qn_peak_products(int rounds, uint64_t *sum)
{
#if defined(__x86_64__)
    unsigned cpu = qn_cpu_flags();
    if (cpu & QN_CPU_AVX512)
        return qn_peak_avx512(rounds, sum);
    if (cpu & QN_CPU_AVXVNNI)
        return qn_peak_avxvnni(rounds, sum);
    if (cpu & QN_CPU_AVX2)
        return qn_peak_avx2(rounds, sum);
#endif
    (void)rounds;
    (void)sum;
    return 0;
}
