/* pool.h - a team of threads that run the same function together and meet at barriers.
 *
 * Made for work of microseconds: a thread that waits first spins, then parks in the kernel, so that a busy
 * step costs no system call and an idle team costs no processor. It has no queue and no tasks: one caller
 * runs one function at a time, never nested. */
#ifndef QN_BASE_POOL_H
#define QN_BASE_POOL_H

#include <stdint.h>

typedef struct qn_pool qn_pool;

/* n_threads >= 1 counts the caller, who works as thread 0. Fewer are started when the system refuses; NULL when there is no
 * memory. */
qn_pool *qn_pool_new(int n_threads);
void qn_pool_free(qn_pool *p); /* NULL is fine */
int qn_pool_size(const qn_pool *p);

/* Runs fn(ctx, ith) once on every thread and returns when all have returned. */
void qn_pool_run(qn_pool *p, void (*fn)(void *ctx, int ith), void *ctx);

/* Inside a run: returns when every thread of the team has called it. Also restarts qn_pool_take. */
void qn_pool_sync(qn_pool *p);

/* Inside a run: 0, 1, 2, ... each handed to one thread only, counted anew after every barrier. */
int64_t qn_pool_take(qn_pool *p);

#endif
