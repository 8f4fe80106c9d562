/* pool.c - see pool.h.
 *
 * One barrier serves everything: it has a count of arrivals and a generation. The last to arrive resets the
 * count and advances the generation; the others watch the generation, spinning for a while and then sleeping
 * on it (futex). A sleeper announces itself before it sleeps and the last arriver looks for sleepers after it
 * has advanced the generation, both sequentially consistent, so no wake-up is lost. */
#include "base/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

/* About 20 us of pauses: longer than a barrier of a step under way, far shorter than a time slice that a
 * preempted partner would need back. */
#define SPINS 1000

/* Words that several threads write stand in cache lines of their own. */
typedef struct gate {
    _Alignas(64) atomic_uint generation;
    _Alignas(64) atomic_uint arrived;
    _Alignas(64) atomic_int sleepers;
} gate;

struct qn_pool {
    gate barrier; /* between the threads of a run */
    gate start;   /* its generation counts runs */
    _Alignas(64) atomic_llong next;
    void (*fn)(void *, int); /* written before `start` advances, read after: paired by it */
    void *ctx;
    bool quit;
    int n_threads;
    pthread_t *thread;
};

typedef struct starter {
    qn_pool *pool;
    int ith;
} starter;

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Returns once the gate's generation differs from `seen`; what was written before the change is visible. */
static void gate_wait(gate *g, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&g->generation, memory_order_acquire) != seen)
            return;
        pause_cpu();
    }
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->generation) == seen)
        syscall(SYS_futex, &g->generation, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_open(gate *g)
{
    atomic_fetch_add(&g->generation, 1);
    if (atomic_load(&g->sleepers) > 0)
        syscall(SYS_futex, &g->generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void qn_pool_sync(qn_pool *p)
{
    gate *g = &p->barrier;
    if (p->n_threads == 1) {
        atomic_store_explicit(&p->next, 0, memory_order_relaxed);
        return;
    }
    unsigned seen = atomic_load_explicit(&g->generation, memory_order_relaxed);
    if ((int)atomic_fetch_add(&g->arrived, 1) + 1 < p->n_threads) {
        gate_wait(g, seen);
        return;
    }
    /* Everyone has arrived, so nobody takes: the counter restarts before they are let go. */
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    atomic_store_explicit(&g->arrived, 0, memory_order_relaxed);
    gate_open(g);
}

int64_t qn_pool_take(qn_pool *p)
{
    return atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
}

static void *worker(void *arg)
{
    starter s = *(starter *)arg;
    qn_free(arg);
    for (unsigned seen = 0;; seen++) {
        gate_wait(&s.pool->start, seen);
        if (s.pool->quit)
            return NULL;
        s.pool->fn(s.pool->ctx, s.ith);
        qn_pool_sync(s.pool);
    }
}

qn_pool *qn_pool_new(int n_threads)
{
    qn_pool *p = qn_try_alloc(sizeof *p); /* aligned to cache lines, as the gates are */
    if (!p)
        return NULL;
    *p = (qn_pool){ .n_threads = 1 };
    p->thread = qn_alloc_n((size_t)(n_threads > 0 ? n_threads : 1), sizeof *p->thread);
    for (int i = 1; i < n_threads; i++) {
        starter *s = qn_alloc(sizeof *s);
        *s = (starter){ p, i };
        if (pthread_create(&p->thread[i], NULL, worker, s) != 0) {
            qn_free(s);
            qn_log(QN_LOG_WARN, "only %d of %d threads could be started", i, n_threads);
            break;
        }
        p->n_threads = i + 1;
    }
    return p;
}

void qn_pool_free(qn_pool *p)
{
    if (!p)
        return;
    p->quit = true;
    gate_open(&p->start);
    for (int i = 1; i < p->n_threads; i++)
        pthread_join(p->thread[i], NULL);
    qn_free(p->thread);
    qn_free(p);
}

int qn_pool_size(const qn_pool *p)
{
    return p->n_threads;
}

void qn_pool_run(qn_pool *p, void (*fn)(void *ctx, int ith), void *ctx)
{
    p->fn = fn;
    p->ctx = ctx;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    if (p->n_threads > 1)
        gate_open(&p->start);
    fn(ctx, 0);
    qn_pool_sync(p); /* nobody may still be inside fn when the caller goes on */
}
