/* engine.c - the thread: takes requests in, runs a step, hands each row's logits to its sampler, and passes the
 * text on. See engine.h; schedule.c chooses the rows.
 *
 * Everything a request needs lives in the request; the thread keeps only lists. A request leaves the thread
 * by finish(), whatever the reason: its cache goes back, DONE is put, the thread's reference is dropped. */
#include "engine/engine.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "ops/ops.h"

/* ---- opening ---- */

/* Half of the memory that is free now: the other half is for the weights' pages and everyone else. */
static size_t default_cache_bytes(void)
{
    unsigned long long kb = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb ? (size_t)kb * 1024 / 2 : (size_t)1 << 31;
}

/* How many positions a table of learned ones has; INT32_MAX without such a table. */
static int32_t learned_positions(const qn_graph *g)
{
    for (int32_t i = 1; i < g->n_nodes; i++) {
        const qn_node *n = &g->node[i];
        if (n->op == &qn_op_embed && strcmp(qn_node_at(g, n->in[0])->name, "pos") == 0)
            return (int32_t)qn_shape_of(g, n->in[1]).dim[0];
    }
    return INT32_MAX;
}

/* Finds out whether rope frequencies depend on the length of a sequence. */
static void find_rope_border(qn_engine *e, const qn_graph *g)
{
    for (int32_t i = 1; i < g->n_nodes; i++) {
        if (g->node[i].op != &qn_op_rope)
            continue;
        const qn_attr_rope *a = g->node[i].attr;
        if (a->inv_freq_long || a->dynamic_factor != 0) {
            e->rope_border = a->long_after;
            e->rope_by_length = a->dynamic_factor != 0;
        }
    }
}

static int32_t or_default(int value, int32_t fallback)
{
    return value > 0 ? value : fallback;
}

/* Sets the sizes and opens the cache; the context may come out smaller than wished for, never silently when it
 * was asked for. */
static int open_runner(qn_engine *e, const qn_engine_options *o, bool exact, qn_error *err)
{
    int32_t model_max = or_default(e->model->config.max_pos, 4096);
    e->context = or_default(o->context, model_max);
    int32_t learned = learned_positions(&e->model->graph);
    if (e->context > learned)
        return qn_fail(err, QN_ERR_ARGUMENT, "a context of %d: the model has learned %d positions",
                       e->context, learned);
    e->max_running = or_default(o->max_running, 8);
    e->max_waiting = or_default(o->max_waiting, 1024);
    e->chunk = or_default(o->chunk, 512);
    if (e->max_running > QN_MAX_RUNNING)
        return qn_fail(err, QN_ERR_ARGUMENT, "at most %d sequences can run together",
                       QN_MAX_RUNNING);
    if (e->chunk < e->max_running) /* a step must hold one row of each */
        e->chunk = e->max_running;
    size_t bytes = o->cache_bytes ? o->cache_bytes : default_cache_bytes();
    size_t per_page = qn_kv_bytes(&e->model->graph, QN_KV_PAGE, exact);
    /* An explicit budget is room for many sequences, not for one context only. */
    int64_t tokens =
        o->cache_bytes && per_page ? (int64_t)(bytes / per_page) * QN_KV_PAGE : e->context;
    qn_kv_options kv = { .context = e->context,
                         .max_seqs = e->max_running,
                         .chunk = e->chunk,
                         .tokens = tokens,
                         .max_bytes = bytes,
                         .exact = exact };
    int rc = qn_runner_open(&e->runner, e->model, &kv, err);
    if (rc != QN_OK)
        return rc;
    int32_t got = qn_runner_cache(e->runner)->context;
    if (got < e->context && o->context > 0)
        return qn_fail(err, QN_ERR_MEMORY,
                       "a context of %d tokens needs %.1f MB of cache, and %.1f MB may be used",
                       e->context, (double)qn_kv_bytes(&e->model->graph, e->context, exact) / 1e6,
                       (double)bytes / 1e6);
    e->context = got;
    return QN_OK;
}

static void *thread_main(void *arg);

int qn_engine_open(qn_engine **out, qn_model *m, const qn_engine_options *opt, qn_error *err)
{
    static const qn_engine_options defaults;
    *out = NULL;
    qn_engine *e = qn_alloc(sizeof *e);
    e->model = m;
    e->inbox_end = &e->inbox;
    pthread_mutex_init(&e->lock, NULL);
    sem_init(&e->wake, 0, 0);
    find_rope_border(e, &m->graph);
    int rc = open_runner(e, opt ? opt : &defaults, m->exact, err);
    if (rc == QN_OK) {
        qn_sampler_init(&e->sampler, qn_runner_vocab(e->runner));
        e->stats.context = e->context;
        if (pthread_create(&e->thread, NULL, thread_main, e) == 0)
            e->started = true;
        else
            rc = qn_fail(err, QN_ERR_MEMORY, "the engine's thread cannot be started");
    }
    if (rc != QN_OK) {
        qn_engine_close(e);
        return rc;
    }
    *out = e;
    return QN_OK;
}

void qn_engine_close(qn_engine *e)
{
    if (!e)
        return;
    atomic_store(&e->closing, true);
    sem_post(&e->wake);
    if (e->started)
        pthread_join(e->thread, NULL);
    qn_schedule_sweep(e);
    for (qn_lease *l = e->leases; l;) { /* of sessions that were not closed */
        qn_lease *next = l->next;
        qn_kv_release(&l->seq);
        qn_free(l->token);
        qn_free(l);
        l = next;
    }
    qn_runner_close(e->runner);
    qn_sampler_free(&e->sampler);
    sem_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    qn_free(e);
}

void qn_engine_get_stats(qn_engine *e, qn_engine_stats *s)
{
    pthread_mutex_lock(&e->lock);
    *s = e->stats;
    s->n_waiting = e->n_waiting;
    pthread_mutex_unlock(&e->lock);
}

/* ---- from other threads ---- */

int qn_engine_submit(qn_engine *e, qn_request *r, qn_error *err)
{
    int rc = QN_OK;
    pthread_mutex_lock(&e->lock);
    if (e->n_waiting >= e->max_waiting) {
        rc = qn_fail(err, QN_ERR_LIMIT, "%d requests are waiting already", e->n_waiting);
    } else {
        qn_request_ref(r);
        r->next = NULL;
        *e->inbox_end = r;
        e->inbox_end = &r->next;
        e->n_waiting++;
    }
    pthread_mutex_unlock(&e->lock);
    if (rc == QN_OK)
        sem_post(&e->wake);
    return rc;
}

qn_lease *qn_engine_lease(qn_engine *e)
{
    qn_lease *l = qn_alloc(sizeof *l);
    l->seq.cache = qn_runner_cache(e->runner);
    pthread_mutex_lock(&e->lock);
    l->next = e->leases;
    e->leases = l;
    pthread_mutex_unlock(&e->lock);
    return l;
}

void qn_engine_end_lease(qn_engine *e, qn_lease *l)
{
    atomic_store(&l->ended, true); /* pairs with the load in qn_schedule_sweep */
    sem_post(&e->wake);
}

/* ---- one token ---- */

/* Queues what the pipeline let out since the last call. */
static void push_text(qn_request *r)
{
    size_t thought = r->out.reasoning.len - r->reasoning_sent;
    size_t text = r->out.text.len - r->text_sent;
    if (thought > 0)
        qn_request_push(r, (qn_queued){ .kind = QN_EVENT_TEXT, .reasoning = true, .len = thought },
                        r->out.reasoning.data + r->reasoning_sent);
    if (text > 0)
        qn_request_push(r, (qn_queued){ .kind = QN_EVENT_TEXT, .len = text },
                        r->out.text.data + r->text_sent);
    r->reasoning_sent += thought;
    r->text_sent += text;
}

static void push_probs(qn_engine *e, qn_request *r, const float *logits, int32_t id)
{
    qn_token_probs p;
    qn_logprobs(logits, e->sampler.n_vocab, id, r->n_logprobs, &p);
    pthread_mutex_lock(&r->queue.lock);
    QN_GROW(r->probs, r->n_probs, r->cap_probs);
    r->probs[r->n_probs++] = p;
    pthread_mutex_unlock(&r->queue.lock);
    qn_buf_clear(&r->piece);
    if (e->model->tokenizer)
        qn_tokenizer_decode(e->model->tokenizer, &id, 1, false, &r->piece);
    qn_request_push(
        r, (qn_queued){ .kind = QN_EVENT_TOKEN, .len = r->piece.len, .prob = r->n_probs - 1 },
        r->piece.data);
}

static bool is_end(const qn_model *m, int32_t id)
{
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id)
            return true;
    return false;
}

/* What the answer still may hold; max_tokens over it is legal and reserves nothing. */
static bool used_up(const qn_engine *e, const qn_request *r)
{
    int64_t n = r->n_tok - r->n_prompt;
    return r->n_tok >= e->context || (r->max_tokens >= 0 && n >= r->max_tokens);
}

/* Chooses the next token of r by its row's logits. True when the answer is complete, *why saying how. */
static bool next_token(qn_engine *e, qn_request *r, const float *logits, qn_finish *why)
{
    uint64_t drawn = (uint64_t)(r->n_tok - r->n_prompt);
    double u = qn_sampler_draw((uint64_t)r->sampling.seed, drawn);
    qn_history history = { .id = r->token, .n = (size_t)r->n_tok };
    int32_t id = qn_sampler_pick(&e->sampler, logits, history, &r->sampling, u);
    if (drawn == 0)
        r->first_token_ms = qn_now_ms();
    QN_GROW(r->token, r->n_tok, r->cap_tok);
    r->token[r->n_tok++] = id;
    if (r->out.state == QN_REPLY_THOUGHT)
        r->n_reasoning++;
    if (r->n_logprobs >= 0)
        push_probs(e, r, logits, id);
    *why = QN_FINISH_STOP;
    if (is_end(e->model, id) && !r->ignore_end)
        return true;
    qn_buf_clear(&r->piece);
    if (r->detok)
        qn_detok_push(r->detok, id, &r->piece);
    qn_reply_add(&r->out, qn_buf_cstr(&r->piece), r->piece.len);
    push_text(r);
    if (r->out.stopped)
        return true;
    *why = QN_FINISH_LENGTH;
    return used_up(e, r);
}

/* Takes the log-probabilities that the rows of this step give; `start` is the index of the first row. True
 * when the last one is known. */
static bool score_rows(qn_engine *e, qn_request *r, const qn_rows *rows, int32_t start,
                       const float *logits)
{
    int32_t n_vocab = e->sampler.n_vocab;
    for (int32_t t = rows->first_out; t < rows->n_tok; t++, logits += n_vocab) {
        int32_t i = start + t + 1;
        r->score.logprob[i] = (float)qn_logprob_of(logits, n_vocab, r->token[i]);
    }
    return start + rows->n_tok == r->n_tok - 1;
}

/* ---- the end of a request ---- */

static void fill_result(qn_request *r, qn_finish why, const qn_error *err)
{
    double now = qn_now_ms();
    double first_step = r->first_step_ms > 0 ? r->first_step_ms : now;
    double first_token = r->first_token_ms > 0 ? r->first_token_ms : now;
    r->result = (qn_result){ .finish = why,
                             .text = qn_buf_cstr(&r->out.text),
                             .reasoning = qn_buf_cstr(&r->out.reasoning),
                             .prompt_ids = r->token,
                             .output_ids = r->token + r->n_prompt,
                             .probs = r->probs,
                             .n_prompt = r->n_prompt,
                             .n_cached = r->n_cached,
                             .n_output = r->n_tok - r->n_prompt,
                             .n_reasoning = r->n_reasoning,
                             .seed = r->sampling.seed,
                             .queue_ms = first_step - r->start_ms,
                             .first_ms = first_token - r->start_ms,
                             .prefill_ms = first_token - first_step,
                             .decode_ms = now - first_token };
    if (err)
        r->result.error = *err;
}

/* Ends a request that is in none of the lists any more, and drops the thread's reference. */
static void finish(qn_engine *e, qn_request *r, qn_finish why, const qn_error *err)
{
    qn_schedule_release(e, r);
    if (r->lease) {
        atomic_fetch_sub(&r->lease->users, 1); /* the sweep on this thread reads it */
        r->lease = NULL;
    }
    if (!r->out.stopped) {
        qn_buf_clear(&r->piece);
        if (r->detok)
            qn_detok_flush(r->detok, &r->piece);
        qn_reply_add(&r->out, qn_buf_cstr(&r->piece), r->piece.len);
        qn_reply_end(&r->out);
        push_text(r);
    }
    fill_result(r, why, err);
    qn_request_push(r, (qn_queued){ .kind = QN_EVENT_DONE }, NULL);
    qn_request_unref(r);
}

static void finish_running(qn_engine *e, qn_request *r, qn_finish why, const qn_error *err)
{
    int32_t n = 0;
    for (int32_t i = 0; i < e->n_running; i++)
        if (e->running[i] != r)
            e->running[n++] = e->running[i];
    assert(n == e->n_running - 1);
    e->n_running = n;
    finish(e, r, why, err);
}

/* ---- the thread ---- */

static void take_inbox(qn_engine *e)
{
    qn_request **end = &e->waiting;
    while (*end)
        end = &(*end)->next;
    pthread_mutex_lock(&e->lock);
    *end = e->inbox;
    e->inbox = NULL;
    e->inbox_end = &e->inbox;
    pthread_mutex_unlock(&e->lock);
}

/* Ends what was cancelled, and all there is when the engine closes. */
static void reap(qn_engine *e, bool all)
{
    for (int32_t i = e->n_running - 1; i >= 0; i--)
        if (all || atomic_load(&e->running[i]->cancel))
            finish_running(e, e->running[i], QN_FINISH_CANCELLED, NULL);
    for (qn_request **at = &e->waiting; *at;) {
        qn_request *r = *at;
        if (!all && !atomic_load(&r->cancel)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        pthread_mutex_lock(&e->lock);
        e->n_waiting--;
        pthread_mutex_unlock(&e->lock);
        r->seq.cache = qn_runner_cache(e->runner); /* it may never have been admitted */
        finish(e, r, QN_FINISH_CANCELLED, NULL);
    }
}

/* Nothing to say: a limit of 0 tokens ends before any work. */
static bool finish_empty(qn_engine *e)
{
    for (int32_t i = 0; i < e->n_running; i++) {
        qn_request *r = e->running[i];
        if (r->max_tokens == 0 && !r->score.logprob) {
            finish_running(e, r, QN_FINISH_LENGTH, NULL);
            return true;
        }
    }
    return false;
}

static void report_progress(qn_request *r, int32_t n_done)
{
    bool reports = r->n_tok == r->n_prompt && n_done < r->n_prompt;
    if (reports && qn_request_has_room(r))
        qn_request_push(
            r, (qn_queued){ .kind = QN_EVENT_PROGRESS, .n_done = n_done, .n_total = r->n_prompt },
            NULL);
}

/* Hands the logits of the step to the sequences. */
static void take_step(qn_engine *e, const float *logits)
{
    for (int32_t i = 0; i < e->n_rows; i++) {
        const qn_rows *rows = &e->rows[i];
        qn_request *r = e->row_of[i];
        int32_t start = r->seq.len - rows->n_tok;
        qn_finish why = QN_FINISH_LENGTH;
        bool done = false;
        if (r->score.logprob)
            done = score_rows(e, r, rows, start, logits);
        else if (rows->first_out < rows->n_tok)
            done = next_token(e, r, logits, &why);
        if (logits) /* NULL when no row of the step wanted any */
            logits += (size_t)(rows->n_tok - rows->first_out) * (size_t)e->sampler.n_vocab;
        if (done)
            finish_running(e, r, why, NULL);
        else
            report_progress(r, r->seq.len);
    }
}

static void note_stats(qn_engine *e, int32_t n_rows)
{
    const qn_kv_cache *c = qn_runner_cache(e->runner);
    int64_t used = 0, total = 0;
    for (int32_t g = 0; g < c->state.n_kv; g++) {
        used += c->pages[g].n_pages - c->pages[g].n_free;
        total += c->pages[g].n_pages;
    }
    pthread_mutex_lock(&e->lock);
    e->stats.n_running = e->n_running;
    e->stats.pages_used = used;
    e->stats.pages_total = total;
    e->stats.n_steps += n_rows > 0;
    e->stats.n_rows += n_rows;
    pthread_mutex_unlock(&e->lock);
}

/* Runs the rows that were scheduled. A step that fails ends the sequences that were in it, not the engine. */
static void run_step(qn_engine *e)
{
    qn_error err = { 0 };
    const float *logits;
    double now = qn_now_ms();
    int32_t n_rows = 0;
    for (int32_t i = 0; i < e->n_rows; i++) {
        n_rows += e->rows[i].n_tok;
        if (e->row_of[i]->first_step_ms == 0)
            e->row_of[i]->first_step_ms = now;
    }
    e->n_steps++;
    if (qn_runner_step(e->runner, e->rows, e->n_rows, &logits, &err) == QN_OK)
        take_step(e, logits);
    else
        for (int32_t i = 0; i < e->n_rows; i++)
            finish_running(e, e->row_of[i], QN_FINISH_ERROR, &err);
    note_stats(e, n_rows);
}

/* The oldest sequence found no pages with the whole cache to itself: what it has said so far is its answer. */
static void finish_stuck(qn_engine *e, qn_request *r)
{
    qn_error err = { 0 };
    if (r->n_tok > r->n_prompt) {
        finish_running(e, r, QN_FINISH_LENGTH, NULL);
        return;
    }
    qn_fail(&err, QN_ERR_LIMIT, "the key/value cache cannot hold the prompt's %d tokens",
            r->n_prompt);
    finish_running(e, r, QN_FINISH_ERROR, &err);
}

static void *thread_main(void *arg)
{
    qn_engine *e = arg;
    for (;;) {
        bool closing = atomic_load(&e->closing);
        take_inbox(e);
        reap(e, closing);
        qn_schedule_sweep(e);
        if (closing)
            break;
        qn_schedule_admit(e);
        if (finish_empty(e))
            continue;
        qn_request *stuck = qn_schedule_rows(e);
        if (stuck) {
            finish_stuck(e, stuck);
        } else if (e->n_rows > 0) {
            run_step(e);
        } else {
            /* Idle, or every reader is behind: any submit, cancel or taken event posts. */
            note_stats(e, 0);
            sem_wait(&e->wake);
        }
    }
    note_stats(e, 0);
    return NULL;
}

/* ---- scoring ---- */

static int score_error(const qn_result *r, qn_error *err)
{
    if (r->finish == QN_FINISH_ERROR)
        return qn_fail(err, r->error.code, "%s", r->error.msg);
    if (r->finish == QN_FINISH_CANCELLED)
        return qn_fail(err, QN_ERR_CANCELLED, "the engine was closed");
    return QN_OK;
}

int qn_engine_score(qn_engine *e, const int32_t *ids, size_t n, size_t first, float *logprob,
                    qn_error *err)
{
    if (first < 1 || n < 2 || first >= n)
        return qn_fail(err, QN_ERR_ARGUMENT, "scoring needs a token before the first scored one");
    qn_request_options opt;
    qn_request *r;
    qn_request_defaults(e->model, &opt);
    opt.ids = ids;
    opt.n_ids = n;
    int rc = qn_request_make(&r, e, &opt, err);
    if (rc != QN_OK)
        return rc;
    r->score = (qn_score_job){ .logprob = logprob, .first = (int32_t)first };
    rc = qn_engine_submit(e, r, err);
    while (rc == QN_OK && qn_request_next(r, -1).kind != QN_EVENT_DONE)
        ;
    if (rc == QN_OK)
        rc = score_error(&r->result, err);
    qn_request_unref(r);
    return rc;
}
