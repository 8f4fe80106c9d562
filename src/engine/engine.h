/* engine.h - the one thread that owns a model's cache and runs its requests, step by step. The calls are public
 * (quern.h); this is what request.c, session.c and tests see of it. */
#ifndef QN_ENGINE_ENGINE_H
#define QN_ENGINE_ENGINE_H

#include <semaphore.h>

#include "engine/request.h"
#include "engine/runner.h"
#include "engine/sampler.h"

enum { QN_MAX_RUNNING = 256 };

struct qn_engine {
    /* fixed */
    qn_model *model;
    int32_t context, max_running, max_waiting, chunk;
    /* Rope frequencies change when a sequence outgrows this length (longrope, dynamic scaling); 0 = never.
     * With `rope_by_length` they change with every length beyond it. */
    int32_t rope_border;
    bool rope_by_length;

    /* any thread */
    pthread_mutex_t lock; /* inbox, n_waiting, leases' list, stats */
    sem_t wake;           /* posted for new work, cancels, and room in a full queue */
    qn_request *inbox, **inbox_end;
    int32_t n_waiting;
    qn_lease *leases;
    qn_engine_stats stats;
    atomic_bool closing;
    pthread_t thread;
    bool started;

    /* the engine's thread */
    qn_runner *runner;
    qn_sampler sampler;
    qn_request *waiting; /* first come first served; those put back stand in front */
    qn_request *running[QN_MAX_RUNNING];
    int32_t n_running;
    uint64_t n_admitted;
    uint64_t n_steps;
    qn_rows rows[QN_MAX_RUNNING]; /* of the step being made */
    qn_request *row_of[QN_MAX_RUNNING];
    int32_t n_rows;
};

typedef struct qn_engine qn_engine;

/* Hands a request to the thread, which takes a reference. QN_ERR_LIMIT when too many wait. */
int qn_engine_submit(qn_engine *e, qn_request *r, qn_error *err);

/* A lease for a session, and its end; the engine frees it when no request uses it. */
qn_lease *qn_engine_lease(qn_engine *e);
void qn_engine_end_lease(qn_engine *e, qn_lease *l);

/* ---- schedule.c: what the next step is made of ---- */

/* Takes waiting requests into running as cache and places allow. */
void qn_schedule_admit(qn_engine *e);
/* Fills e->rows: decoding sequences first, then prompts in order of admission, at most e->chunk rows. Puts the
 * newest sequences back when pages are short. Returns the request that can never go on, or NULL. */
qn_request *qn_schedule_rows(qn_engine *e);
/* Gives back what a request holds of the cache, keeping it for its session. */
void qn_schedule_release(qn_engine *e, qn_request *r);
/* Frees the leases of sessions that ended. */
void qn_schedule_sweep(qn_engine *e);

#endif
