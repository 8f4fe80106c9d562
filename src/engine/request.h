/* request.h - one prompt and its answer, as the engine and its reader share it.
 *
 * Three kinds of fields: fixed at the start; owned by the engine's thread until DONE; and the event queue, under
 * the request's own lock. Both sides hold a reference, so either may let go first. */
#ifndef QN_ENGINE_REQUEST_H
#define QN_ENGINE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/kv.h"
#include "engine/reply.h"
#include "tokenizer/tokenizer.h"

/* Events a reader may leave untaken before its sequence waits for it. A step makes at most four, and the
 * last place is DONE's. */
enum { QN_QUEUE_LEN = 256, QN_QUEUE_ROOM = 8 };

typedef struct qn_queued {
    qn_event_kind kind;
    bool reasoning;
    int32_t n_done, n_total;
    size_t len;  /* bytes of text, in order in qn_queue.bytes */
    size_t prob; /* TOKEN: index into probs */
} qn_queued;

typedef struct qn_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    qn_queued event[QN_QUEUE_LEN];
    int head, n;
    qn_buf bytes; /* text of the events in the queue */
    size_t taken; /* bytes of it that were taken */
    bool done;    /* DONE was put: the engine has let go of everything the result points to */
} qn_queue;

/* Cache entries that outlive a request: those of a session between its turns. Owned by the engine's thread,
 * but for `ended` and the list link, which is under the engine's lock. */
typedef struct qn_lease {
    struct qn_lease *next;
    qn_kv_seq seq;
    int32_t *token; /* [seq.len] */
    int32_t rope_len;
    bool busy;         /* a request has taken the entries */
    atomic_int users;  /* requests that point here: the engine frees the lease after the last */
    uint64_t used_at;  /* step of its last use: the oldest idle one is given up first */
    atomic_bool ended; /* the session is gone; the engine frees the lease */
} qn_lease;

typedef struct qn_score_job {
    float *logprob; /* the caller's; [n_tok], from `first` on */
    int32_t first;
} qn_score_job;

struct qn_request {
    /* fixed */
    struct qn_engine *engine;
    qn_sampling sampling;
    int64_t max_tokens;
    char **stop;
    int n_stop, n_logprobs;
    bool ignore_end;
    void (*notify)(void *ctx);
    void *notify_ctx;
    qn_lease *lease;    /* NULL without a session; set by qn_request_lease */
    qn_score_job score; /* logprob NULL: an ordinary request */
    int32_t n_prompt;

    /* the engine's thread */
    qn_request *next;
    int32_t *token; /* prompt, then output */
    int32_t n_tok;
    size_t cap_tok;
    qn_kv_seq seq;
    int32_t rope_len, n_cached, n_reasoning;
    uint64_t order; /* of admission: a later one gives way to an earlier one */
    qn_detok *detok;
    qn_buf piece;
    qn_reply out;
    size_t text_sent, reasoning_sent;
    double start_ms, first_step_ms, first_token_ms;
    bool in_step;
    bool has_entries; /* of the lease: they go back there */

    /* shared */
    atomic_int refs;
    atomic_bool cancel;
    qn_queue queue;
    qn_token_probs *probs; /* appended to under queue.lock */
    size_t n_probs, cap_probs;
    qn_result result; /* written before DONE */

    /* the reader */
    qn_buf current;
    qn_token_probs current_probs;
    void (*on_done)(qn_request *r,
                    void *ctx); /* a session takes the answer; called once, when DONE is taken */
    void *on_done_ctx;
    bool done_taken;
};

double qn_now_ms(void); /* monotonic */

/* Checks the options, renders and tokenises the prompt. The request has one reference, the caller's. */
int qn_request_make(qn_request **out, struct qn_engine *e, const qn_request_options *opt,
                    qn_error *err);
void qn_request_lease(qn_request *r, qn_lease *l);
void qn_request_ref(qn_request *r);
void qn_request_unref(qn_request *r);

/* For the engine's thread. */
void qn_request_push(qn_request *r, qn_queued event, const char *text);
bool qn_request_has_room(qn_request *r); /* for the events of another step */

#endif
