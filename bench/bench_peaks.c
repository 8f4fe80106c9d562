/* bench_peaks.c - the loops of a level. */
#include "bench_peaks.h"

#include "base/cpu.h"

void qn_peaks_init(qn_peaks *p, unsigned cpu)
{
    qn_peaks_avx2(p);
    if (cpu & QN_CPU_AVXVNNI)
        qn_peaks_avxvnni(p);
    if (cpu & QN_CPU_AVX512)
        qn_peaks_avx512(p);
}
