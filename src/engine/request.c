/* request.c - making requests, and the bounded queue of events between the engine's thread and a reader. */
#include "engine/request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/prompt.h"

double qn_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

const char *qn_finish_name(qn_finish f)
{
    static const char *const names[] = { "stop", "length", "cancelled", "error" };
    return (unsigned)f < 4 ? names[f] : "error";
}

/* ---- making ---- */

static int check_sampling(const qn_sampling *s, qn_error *err)
{
    /* Written so that NaN fails. */
    if (!(s->temperature >= 0 && s->temperature <= 1e6f))
        return qn_fail(err, QN_ERR_ARGUMENT, "temperature must be 0 or more");
    if (s->top_k < 0)
        return qn_fail(err, QN_ERR_ARGUMENT, "top_k must be 0 (off) or more");
    if (!(s->top_p > 0 && s->top_p <= 1))
        return qn_fail(err, QN_ERR_ARGUMENT, "top_p must be over 0 and at most 1");
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return qn_fail(err, QN_ERR_ARGUMENT, "min_p must be from 0 to 1");
    if (!(s->repetition_penalty > 0 && s->repetition_penalty <= 1e6f))
        return qn_fail(err, QN_ERR_ARGUMENT, "repetition_penalty must be over 0");
    if (s->repetition_window < 0)
        return qn_fail(err, QN_ERR_ARGUMENT, "repetition_window must be 0 (all) or more");
    return QN_OK;
}

static int check_options(const qn_request_options *o, qn_error *err)
{
    if ((o->text != NULL) + (o->chat != NULL) + (o->ids != NULL) != 1)
        return qn_fail(err, QN_ERR_ARGUMENT, "a request needs one prompt: text, chat or ids");
    if (o->n_logprobs < -1 || o->n_logprobs > 20)
        return qn_fail(err, QN_ERR_ARGUMENT, "logprobs must be from 0 to 20");
    for (int i = 0; i < o->n_stop; i++)
        if (!o->stop[i] || !o->stop[i][0])
            return qn_fail(err, QN_ERR_ARGUMENT, "an empty stop text");
    return check_sampling(&o->sampling, err);
}

/* Says how many tokens came and how many fit; nothing is ever cut silently. */
static int check_length(const qn_engine *e, size_t n, qn_error *err)
{
    if (n == 0)
        return qn_fail(err, QN_ERR_ARGUMENT, "the prompt is empty");
    if (n >= (size_t)e->context)
        return qn_fail(
            err, QN_ERR_LIMIT,
            "the prompt has %zu tokens, and %d fit (context %d, one kept for the answer)", n,
            e->context - 1, e->context);
    return QN_OK;
}

static void copy_options(qn_request *r, const qn_request_options *o)
{
    r->sampling = o->sampling;
    if (r->sampling.seed < 0) {
        uint64_t bits = 0;
        if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits)
            bits = (uint64_t)(qn_now_ms() * 1e6);
        r->sampling.seed = (int64_t)(bits >> 11); /* 53 bits: exact in JSON too */
    }
    r->max_tokens = o->max_tokens;
    r->n_logprobs = o->n_logprobs;
    r->ignore_end = o->ignore_end;
    r->notify = o->notify;
    r->notify_ctx = o->notify_ctx;
    r->n_stop = o->n_stop;
    r->stop = qn_alloc_n((size_t)o->n_stop, sizeof *r->stop);
    for (int i = 0; i < o->n_stop; i++)
        r->stop[i] = qn_strdup(o->stop[i]);
}

int qn_request_make(qn_request **out, qn_engine *e, const qn_request_options *opt, qn_error *err)
{
    *out = NULL;
    qn_prompt p = { 0 };
    int rc = check_options(opt, err);
    if (rc == QN_OK)
        rc = qn_prompt_make(&p, e->model, opt, err);
    if (rc == QN_OK)
        rc = check_length(e, p.n, err);
    if (rc != QN_OK) {
        qn_prompt_free(&p);
        return rc;
    }
    qn_request *r = qn_alloc(sizeof *r);
    r->engine = e;
    r->start_ms = qn_now_ms();
    atomic_init(&r->refs, 1);
    pthread_mutex_init(&r->queue.lock, NULL);
    pthread_cond_init(&r->queue.filled, NULL);
    copy_options(r, opt);
    r->token = p.id; /* the prompt's array becomes the sequence's */
    r->n_prompt = r->n_tok = (int32_t)p.n;
    r->cap_tok = p.cap;
    if (e->model->tokenizer)
        r->detok = qn_detok_open(e->model->tokenizer, true);
    qn_reply_init(&r->out, (const char *const *)r->stop, r->n_stop, opt->split_thoughts,
                  p.opens_thought);
    *out = r;
    return QN_OK;
}

void qn_request_lease(qn_request *r, qn_lease *l)
{
    atomic_fetch_add(&l->users, 1);
    r->lease = l;
}

void qn_request_ref(qn_request *r)
{
    atomic_fetch_add(&r->refs, 1);
}

void qn_request_unref(qn_request *r)
{
    /* The default order pairs every earlier write of the other holder with the free. */
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    for (int i = 0; i < r->n_stop; i++)
        qn_free(r->stop[i]);
    qn_free(r->stop);
    qn_free(r->token);
    qn_free(r->probs);
    qn_detok_close(r->detok);
    qn_buf_free(&r->piece);
    qn_reply_free(&r->out);
    qn_buf_free(&r->queue.bytes);
    qn_buf_free(&r->current);
    pthread_cond_destroy(&r->queue.filled);
    pthread_mutex_destroy(&r->queue.lock);
    qn_free(r);
}

/* ---- the queue ---- */

bool qn_request_has_room(qn_request *r)
{
    pthread_mutex_lock(&r->queue.lock);
    bool room = r->queue.n <= QN_QUEUE_LEN - QN_QUEUE_ROOM;
    pthread_mutex_unlock(&r->queue.lock);
    return room;
}

void qn_request_push(qn_request *r, qn_queued event, const char *text)
{
    qn_queue *q = &r->queue;
    pthread_mutex_lock(&q->lock);
    assert(q->n < QN_QUEUE_LEN && !q->done);
    q->event[(q->head + q->n++) % QN_QUEUE_LEN] = event;
    qn_buf_add(&q->bytes, text, event.len);
    q->done = event.kind == QN_EVENT_DONE;
    pthread_cond_signal(&q->filled);
    if (r->notify) /* under the lock: once DONE was taken no call is under way any more */
        r->notify(r->notify_ctx);
    pthread_mutex_unlock(&q->lock);
}

/* Waits until there is an event or the time is over. Called and returns with the lock held. */
static bool wait_filled(qn_queue *q, int timeout_ms)
{
    if (timeout_ms < 0) {
        while (q->n == 0)
            pthread_cond_wait(&q->filled, &q->lock);
        return true;
    }
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += timeout_ms / 1000;
    t.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    while (q->n == 0 && pthread_cond_timedwait(&q->filled, &q->lock, &t) != ETIMEDOUT)
        ;
    return q->n > 0;
}

/* Takes the next event and copies what it points to out of the engine's reach. *was_full tells that the
 * engine may be waiting for this place. */
static qn_queued take(qn_request *r, bool *was_full)
{
    qn_queue *q = &r->queue;
    qn_queued ev = q->event[q->head];
    *was_full = q->n > QN_QUEUE_LEN - QN_QUEUE_ROOM;
    q->head = (q->head + 1) % QN_QUEUE_LEN;
    q->n--;
    qn_buf_clear(&r->current);
    if (ev.len > 0)
        qn_buf_add(&r->current, q->bytes.data + q->taken, ev.len);
    q->taken += ev.len;
    if (q->taken == q->bytes.len) {
        q->taken = 0;
        qn_buf_clear(&q->bytes);
    }
    if (ev.kind == QN_EVENT_TOKEN)
        r->current_probs = r->probs[ev.prob];
    return ev;
}

static qn_event done_event(const qn_request *r)
{
    return (qn_event){ .kind = QN_EVENT_DONE, .text = "", .result = &r->result };
}

qn_event qn_request_next(qn_request *r, int timeout_ms)
{
    if (r->done_taken)
        return done_event(r);
    bool was_full = false;
    qn_queued ev = { .kind = QN_EVENT_NONE };
    pthread_mutex_lock(&r->queue.lock);
    if (wait_filled(&r->queue, timeout_ms))
        ev = take(r, &was_full);
    /* While DONE is not in the queue the engine lives: its end puts DONE first. */
    if (was_full && !r->queue.done)
        sem_post(&r->engine->wake);
    pthread_mutex_unlock(&r->queue.lock);
    if (ev.kind == QN_EVENT_DONE) {
        r->done_taken = true;
        if (r->on_done)
            r->on_done(r, r->on_done_ctx);
        return done_event(r);
    }
    return (qn_event){ .kind = ev.kind,
                       .text = qn_buf_cstr(&r->current),
                       .len = ev.len,
                       .reasoning = ev.reasoning,
                       .n_done = ev.n_done,
                       .n_total = ev.n_total,
                       .probs = ev.kind == QN_EVENT_TOKEN ? &r->current_probs : NULL };
}

/* ---- public ends ---- */

int qn_request_start(qn_request **out, qn_engine *e, const qn_request_options *opt, qn_error *err)
{
    int rc = qn_request_make(out, e, opt, err);
    if (rc == QN_OK)
        rc = qn_engine_submit(e, *out, err);
    if (rc != QN_OK && *out) {
        qn_request_unref(*out);
        *out = NULL;
    }
    return rc;
}

void qn_request_cancel(qn_request *r)
{
    atomic_store(&r->cancel, true); /* pairs with the load at the start of each step */
    sem_post(&r->engine->wake);     /* safe in a signal handler, as a mutex is not */
}

void qn_request_close(qn_request *r)
{
    if (!r)
        return;
    /* The queue's lock decides whether the engine is still there to be told. */
    pthread_mutex_lock(&r->queue.lock);
    if (!r->queue.done)
        qn_request_cancel(r);
    pthread_mutex_unlock(&r->queue.lock);
    if (!r->done_taken && r->on_done) /* the session must not wait for a turn that nobody reads */
        r->on_done(r, r->on_done_ctx);
    qn_request_unref(r);
}
