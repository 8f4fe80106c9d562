/* bench_peaks.h - loops of nothing but a level's multiply-adds, and plain reading: the limits kernels are
 * held against. One file a level, as for kernels. */
#ifndef QN_BENCH_PEAKS_H
#define QN_BENCH_PEAKS_H

#include <stddef.h>
#include <stdint.h>

typedef struct qn_peaks {
    void (*int_macs)(int loops);
    void (*float_macs)(int loops);
    double int_macs_a_loop, float_macs_a_loop;
    void (*read)(const uint8_t *data, size_t bytes);
} qn_peaks;

void qn_peaks_init(qn_peaks *p, unsigned cpu);
void qn_peaks_avx2(qn_peaks *p);
void qn_peaks_avxvnni(qn_peaks *p);
void qn_peaks_avx512(qn_peaks *p);

#endif
