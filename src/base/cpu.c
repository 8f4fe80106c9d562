/* cpu.c - see cpu.h. */
#include "base/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/log.h"

static const struct level {
    const char *name;
    unsigned flags;
} levels[] = {
    { "ref", 0 },
    { "avx2", QN_CPU_AVX2 },
    { "avxvnni", QN_CPU_AVX2 | QN_CPU_AVXVNNI },
    { "avx512", QN_CPU_AVX2 | QN_CPU_AVXVNNI | QN_CPU_AVX512 },
    { "bf16", QN_CPU_AVX2 | QN_CPU_AVXVNNI | QN_CPU_AVX512 | QN_CPU_BF16 },
    { "amx", QN_CPU_AVX2 | QN_CPU_AVXVNNI | QN_CPU_AVX512 | QN_CPU_BF16 | QN_CPU_AMX },
};

static unsigned found, in_use;
static bool ready;

#if defined(__x86_64__)
static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* Linux gives the 8 KiB tile state only to processes that ask (ARCH_REQ_XCOMP_PERM, XTILEDATA = 18). */
static bool ask_amx(void)
{
    return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

static unsigned detect(void)
{
    uint32_t a, b, c, d, b7, c7, d7, a71 = 0, max_sub = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
        return 0;
    bool fma = c & bit_FMA, f16c = c & bit_F16C;
    uint64_t xcr0 = read_xcr0();
    if ((xcr0 & 6) != 6 || !__get_cpuid_count(7, 0, &max_sub, &b7, &c7, &d7))
        return 0;
    if (max_sub >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    unsigned f = 0;
    if (fma && f16c && (b7 & bit_AVX2) && (b7 & bit_BMI2))
        f |= QN_CPU_AVX2;
    if ((f & QN_CPU_AVX2) && (a71 & 1u << 4))
        f |= QN_CPU_AVXVNNI;
    const uint32_t want512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F DQ BW VL */
    bool zmm = (xcr0 & 0xe6) == 0xe6;
    if ((f & QN_CPU_AVX2) && zmm && (b7 & want512) == want512 && (c7 & 1u << 11))
        f |= QN_CPU_AVX512;
    if ((f & QN_CPU_AVX512) && (a71 & 1u << 5))
        f |= QN_CPU_BF16;
    const uint32_t want_amx = 1u << 22 | 1u << 24 | 1u << 25; /* BF16 TILE INT8 */
    if ((f & QN_CPU_BF16) && (d7 & want_amx) == want_amx && (xcr0 & 3u << 17) == 3u << 17 &&
        ask_amx())
        f |= QN_CPU_AMX;
    return f;
}
#else
static unsigned detect(void)
{
    return 0;
}
#endif

unsigned qn_cpu_force(const char *level)
{
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(level, levels[i].name) == 0)
            return in_use = found & levels[i].flags;
    qn_log(QN_LOG_WARN, "QUERN_CPU=%s is no level; ref, avx2, avxvnni, avx512, bf16, amx are",
           level);
    return in_use;
}

unsigned qn_cpu_init(void)
{
    if (ready)
        return in_use;
    ready = true;
    found = in_use = detect();
    const char *forced = getenv("QUERN_CPU");
    if (forced && *forced)
        qn_cpu_force(forced);
    return in_use;
}

unsigned qn_cpu_flags(void)
{
    return in_use;
}

unsigned qn_cpu_found(void)
{
    return found;
}

const char *qn_cpu_name(unsigned flags)
{
    static const char *const names[] = { "avx2", "avxvnni", "avx512", "bf16", "amx" };
    for (int i = 4; i >= 0; i--)
        if (flags & 1u << i)
            return names[i];
    return "ref";
}

/* CPU time this cgroup may use in whole cores, 0 when there is no limit. */
static int cgroup_cores(void)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    long quota = 0, period = 0;
    if (!f)
        return 0;
    int n = fscanf(f, "%ld %ld", &quota, &period);
    fclose(f);
    return n == 2 && period > 0 && quota > 0 ? (int)((quota + period - 1) / period) : 0;
}

int qn_cpu_cores(void)
{
    cpu_set_t set; /* too small a set for a machine of over 1024 CPUs: then all that are on line */
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                        : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (n < 1)
        n = 1;
    int limit = cgroup_cores();
    return limit > 0 && limit < n ? limit : n;
}
