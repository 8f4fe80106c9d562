/* matmul.c - which tiles a CPU level has. */
#include "kernels/matmul/matmul.h"

#include "base/cpu.h"

void qn_matmul_init(qn_matmul_kernels *t, unsigned cpu)
{
    *t = (qn_matmul_kernels){ 0 };
#if defined(__x86_64__)
    if (cpu & QN_CPU_AVX2)
        qn_tiles_avx2(t);
    if (cpu & QN_CPU_AVXVNNI)
        qn_tiles_avxvnni(t);
    if (cpu & QN_CPU_AVX512)
        qn_tiles_avx512(t);
#else
    (void)cpu;
#endif
}
