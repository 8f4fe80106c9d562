/* cpu.h - what this processor can do, read once (CPUID, XCR0, and the kernel's AMX tile permission).
 *
 * A level includes those below it: ref < avx2 (AVX2, FMA, F16C, BMI2) < avxvnni < avx512 (F BW DQ VL VNNI)
 * < bf16 < amx; only avxvnni may be missing below avx512, so ask for flags and not for a level.
 * QUERN_CPU=<level> forces a lower one. Call qn_cpu_init() before threads start. */
#ifndef QN_BASE_CPU_H
#define QN_BASE_CPU_H

enum {
    QN_CPU_AVX2 = 1,
    QN_CPU_AVXVNNI = 2,
    QN_CPU_AVX512 = 4,
    QN_CPU_BF16 = 8,
    QN_CPU_AMX = 16,
};

unsigned qn_cpu_init(void);               /* reads the processor and QUERN_CPU; idempotent */
unsigned qn_cpu_flags(void);              /* what is in use: a mask of QN_CPU_* */
unsigned qn_cpu_found(void);              /* what the processor has, whatever QUERN_CPU says */
unsigned qn_cpu_force(const char *level); /* for tests: lowers to `level`, returns the new flags */
const char *qn_cpu_name(unsigned flags);  /* the highest level in a mask: "ref", "avx2", ... */
int qn_cpu_cores(void); /* threads this process may run on (affinity, cgroup quota) */

#endif
