/* limits.h - what this machine can do at best, measured: the roof that `quern bench` compares with. */
#ifndef QN_ENGINE_LIMITS_H
#define QN_ENGINE_LIMITS_H

typedef struct qn_limits {
    double read_bytes_per_s; /* streaming reads from memory by all threads */
    double
        int8_macs_per_s; /* 8-bit multiply-adds from registers by all threads; 0 = not known here */
} qn_limits;

/* Takes about half a second. */
void qn_limits_measure(qn_limits *l, int n_threads);

#endif
