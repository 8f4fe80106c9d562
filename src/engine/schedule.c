/* schedule.c - which sequences are in the next step, with how many rows, and who gives way when pages are short.
 *
 * A sequence has no phase: what it still has to compute is its tokens minus its cache entries. One token left
 * is decoding, more is a prompt (or a recomputation, which is the same). Nothing is reserved for max_tokens;
 * pages are taken as rows come, and the newest sequence is put back when there are none. */
#include <string.h>

#include "engine/engine.h"

static int32_t pending(const qn_request *r)
{
    /* The last token of a text that is only scored predicts nothing. */
    int32_t end = r->score.logprob ? r->n_tok - 1 : r->n_tok;
    return end - r->seq.len;
}

/* ---- leases ---- */

/* Which rope frequencies a length gets: entries are only good for rows of the same class. */
static int32_t rope_class(const qn_engine *e, int32_t len)
{
    if (e->rope_border == 0 || len <= e->rope_border)
        return 0;
    return e->rope_by_length ? len : 1;
}

/* Starts r's sequence with what its session's cache has in common with the prompt. One token at least is
 * computed again, for its logits. */
static void take_lease(qn_engine *e, qn_request *r)
{
    qn_lease *l = r->lease;
    int32_t n = 0, max = r->n_tok - 1 < l->seq.len ? r->n_tok - 1 : l->seq.len;
    if (rope_class(e, l->rope_len) == rope_class(e, r->rope_len))
        while (n < max && l->token[n] == r->token[n])
            n++;
    r->seq = l->seq;
    l->seq = (qn_kv_seq){ .cache = r->seq.cache };
    l->busy = r->has_entries = true;
    r->n_cached = qn_kv_truncate(&r->seq, n);
}

void qn_schedule_release(qn_engine *e, qn_request *r)
{
    qn_lease *l = r->lease;
    if (!r->has_entries) {
        qn_kv_release(&r->seq);
        return;
    }
    l->seq = r->seq;
    r->seq = (qn_kv_seq){ .cache = l->seq.cache };
    l->token = qn_realloc_n(l->token, (size_t)l->seq.len + 1, sizeof *l->token);
    memcpy(l->token, r->token, (size_t)l->seq.len * sizeof *l->token);
    l->rope_len = r->rope_len;
    l->used_at = e->n_steps;
    l->busy = r->has_entries = false;
}

void qn_schedule_sweep(qn_engine *e)
{
    pthread_mutex_lock(&e->lock);
    for (qn_lease **at = &e->leases; *at;) {
        qn_lease *l = *at;
        if (atomic_load(&l->users) > 0 || !atomic_load(&l->ended)) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        qn_kv_release(&l->seq);
        qn_free(l->token);
        qn_free(l);
    }
    pthread_mutex_unlock(&e->lock);
}

/* Gives up the entries of the session that has been idle longest. False when none holds any. */
static bool drop_idle_lease(qn_engine *e)
{
    qn_lease *oldest = NULL;
    pthread_mutex_lock(&e->lock);
    for (qn_lease *l = e->leases; l; l = l->next)
        if (!l->busy && l->seq.len > 0 && (!oldest || l->used_at < oldest->used_at))
            oldest = l;
    pthread_mutex_unlock(&e->lock);
    if (oldest)
        qn_kv_release(&oldest->seq);
    return oldest != NULL;
}

/* ---- giving way ---- */

static void remove_running(qn_engine *e, int32_t i)
{
    memmove(&e->running[i], &e->running[i + 1],
            (size_t)(e->n_running - i - 1) * sizeof *e->running);
    e->n_running--;
}

/* Puts a running sequence back to the front of the queue; it is computed again later, to the same result. */
static void put_back(qn_engine *e, int32_t i)
{
    qn_request *r = e->running[i];
    qn_kv_release(&r->seq);
    remove_running(e, i);
    r->next = e->waiting;
    e->waiting = r;
    pthread_mutex_lock(&e->lock);
    e->n_waiting++;
    e->stats.n_preempted++;
    pthread_mutex_unlock(&e->lock);
}

/* The newest sequence after `r` that is not part of the step yet; -1: none. */
static int32_t find_victim(const qn_engine *e, const qn_request *r)
{
    int32_t newest = -1;
    for (int32_t i = 0; i < e->n_running; i++) {
        const qn_request *other = e->running[i];
        if (other->order > r->order && !other->in_step && other->seq.len > 0 &&
            (newest < 0 || other->order > e->running[newest]->order))
            newest = i;
    }
    return newest;
}

static bool make_room(qn_engine *e, qn_request *r, int32_t n)
{
    while (!qn_kv_reserve(&r->seq, n)) {
        if (drop_idle_lease(e))
            continue;
        int32_t victim = find_victim(e, r);
        if (victim < 0)
            return false;
        put_back(e, victim);
    }
    return true;
}

/* ---- admission ---- */

/* A sequence comes in when its present tokens and one page more are free, so that it is not put back at once;
 * when nothing runs it comes in anyway, since more room will not come. */
static bool can_admit(qn_engine *e, const qn_request *r)
{
    if (e->n_running == 0)
        return true;
    const qn_kv_cache *c = qn_runner_cache(e->runner);
    int64_t need = (int64_t)r->n_tok + QN_KV_PAGE;
    int64_t own = r->lease && !r->lease->busy ? r->lease->seq.len : 0;
    while (qn_kv_free_tokens(c) + own < need)
        if (own || !drop_idle_lease(e))
            return false;
    return true;
}

static void admit(qn_engine *e, qn_request *r)
{
    r->order = ++e->n_admitted;
    r->seq = (qn_kv_seq){ .cache = qn_runner_cache(e->runner) };
    if (r->rope_len == 0)
        r->rope_len = r->n_tok;
    if (r->lease && !r->lease->busy)
        take_lease(e, r);
    e->running[e->n_running++] = r;
}

void qn_schedule_admit(qn_engine *e)
{
    while (e->waiting && e->n_running < e->max_running && can_admit(e, e->waiting)) {
        qn_request *r = e->waiting;
        e->waiting = r->next;
        pthread_mutex_lock(&e->lock);
        e->n_waiting--;
        pthread_mutex_unlock(&e->lock);
        admit(e, r);
    }
}

/* ---- rows ---- */

/* Rows of logits that one step may make for scoring: they are n_vocab floats each. */
static int32_t max_score_rows(const qn_engine *e)
{
    enum { MAX_FLOATS = 4 << 20 };
    int32_t n = MAX_FLOATS / qn_runner_vocab(e->runner);
    return n > 16 ? n : 16;
}

static int32_t first_output(const qn_engine *e, const qn_request *r, int32_t *n)
{
    if (!r->score.logprob) /* only a text's last row says how it goes on */
        return *n == pending(r) ? *n - 1 : *n;
    int32_t first = r->score.first - 1 - r->seq.len;
    first = first < 0 ? 0 : first > *n ? *n : first;
    if (*n - first > max_score_rows(e))
        *n = first + max_score_rows(e);
    return first;
}

static bool add_rows(qn_engine *e, qn_request *r, int32_t n)
{
    int32_t first_out = first_output(e, r, &n);
    if (!make_room(e, r, n))
        return false;
    e->rows[e->n_rows] = (qn_rows){ .seq = &r->seq,
                                    .token = r->token + r->seq.len,
                                    .n_tok = n,
                                    .first_out = first_out,
                                    .rope_len = r->rope_len };
    e->row_of[e->n_rows++] = r;
    r->in_step = true;
    return true;
}

/* A sequence that grew over the border of its rope gets new frequencies, and so all entries anew. */
static void cross_border(qn_engine *e, qn_request *r)
{
    if (e->rope_by_length || rope_class(e, r->n_tok) == rope_class(e, r->rope_len))
        return;
    r->rope_len = r->n_tok;
    qn_kv_truncate(&r->seq, 0);
}

qn_request *qn_schedule_rows(qn_engine *e)
{
    int32_t budget = e->chunk;
    qn_request *stuck = NULL;
    e->n_rows = 0;
    for (int32_t i = 0; i < e->n_running; i++) {
        e->running[i]->in_step = false;
        cross_border(e, e->running[i]);
    }
    for (int pass = 0; pass < 2; pass++) {
        /* make_room may shorten the list behind i, never before it: victims are newer than the one they
         * give way to, and the list is in order of admission. */
        for (int32_t i = 0; i < e->n_running; i++) {
            qn_request *r = e->running[i];
            int32_t n = pending(r);
            bool decodes = n == 1;
            if (r->in_step || decodes != (pass == 0) || !qn_request_has_room(r))
                continue;
            n = n < budget ? n : budget;
            if (n > 0 && add_rows(e, r, n))
                budget -= e->rows[e->n_rows - 1].n_tok;
            else if (n > 0 && !stuck)
                stuck = r;
        }
    }
    /* Only the oldest is without hope: a newer one waits for pages that an older one holds, perhaps for the
     * sake of a reader who takes no events. */
    return e->n_rows == 0 && stuck == e->running[0] ? stuck : NULL;
}
