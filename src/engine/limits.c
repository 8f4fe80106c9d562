/* limits.c - see limits.h. Both loops do nothing but what they measure: reads go through a buffer far larger
 * than the caches of small machines, products stay in registers. */
#include "engine/limits.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "kernels/peak/peak.h"

enum { READ_BYTES = 256 << 20, PRODUCT_ROUNDS = 1 << 19, PASSES = 3, MAX_THREADS = 256 };

typedef struct job {
    const uint64_t *data; /* this thread's part */
    size_t n_words;
    uint64_t sum; /* kept, so that the loop is not left out */
    double macs;
} job;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *read_part(void *arg)
{
    job *j = arg;
    uint64_t s[8] = { 0 }; /* eight sums, so that additions do not wait for each other */
    for (size_t i = 0; i + 8 <= j->n_words; i += 8)
        for (int k = 0; k < 8; k++)
            s[k] += j->data[i + (size_t)k];
    for (int k = 0; k < 8; k++)
        j->sum += s[k];
    return NULL;
}

static void *multiply_part(void *arg)
{
    job *j = arg;
    j->macs = qn_peak_products(PRODUCT_ROUNDS, &j->sum);
    return NULL;
}

/* Runs the work on n threads and returns the time of the fastest of some passes. */
static double best_time(void *(*work)(void *), job *jobs, int n)
{
    double best = 1e30;
    pthread_t thread[MAX_THREADS];
    for (int pass = 0; pass < PASSES; pass++) {
        double start = seconds();
        int started = 0;
        while (started < n && !pthread_create(&thread[started], NULL, work, &jobs[started]))
            started++;
        for (int i = 0; i < started; i++)
            pthread_join(thread[i], NULL);
        double t = seconds() - start;
        if (started == n && t < best)
            best = t;
    }
    return best;
}

void qn_limits_measure(qn_limits *l, int n_threads)
{
    job jobs[MAX_THREADS] = { { 0 } };
    int n = n_threads < 1 ? 1 : n_threads > MAX_THREADS ? MAX_THREADS : n_threads;
    size_t words = READ_BYTES / sizeof(uint64_t), part = words / (size_t)n;
    *l = (qn_limits){ 0 };
    qn_cpu_init();
    uint64_t *data = qn_try_alloc(READ_BYTES);
    if (data) {
        memset(data, 1, READ_BYTES); /* pages that were never written are all one page of zeros */
        for (int i = 0; i < n; i++)
            jobs[i] = (job){ .data = data + (size_t)i * part, .n_words = part };
        l->read_bytes_per_s = (double)part * sizeof *data * n / best_time(read_part, jobs, n);
        qn_free(data);
    }
    double t = best_time(multiply_part, jobs, n);
    l->int8_macs_per_s = jobs[0].macs * n / t;
}
