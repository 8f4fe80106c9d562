/* parity_feed.c - feeds the same tokens in one piece, in chunks, token by token, and in company, and demands the
 * same bits each time. */
#include <stdio.h>
#include <string.h>

#include "cli/parity.h"

/* A sequence on its way through the runner: its tokens, how many were fed, and where logits go. */
typedef struct stream {
    qn_kv_seq seq;
    const int32_t *token;
    int32_t n, fed, rope_len;
    float *logits; /* [n][n_vocab]; NULL = not wanted */
} stream;

static stream stream_of(qn_runner *run, const qn_ints *t, int32_t rope_len)
{
    return (stream){
        .seq = { .cache = qn_runner_cache(run) }, .token = t->v, .n = t->n, .rope_len = rope_len
    };
}

/* One step with up to chunk[i] rows of stream i. False with r filled when it fails. */
static bool step(qn_runner *run, stream *s, const int32_t *chunk, int n, qn_parity_result *r)
{
    qn_rows rows[3] = { 0 };
    stream *who[3] = { 0 };
    int n_rows = 0;
    for (int i = 0; i < n; i++) {
        int32_t left = s[i].n - s[i].fed;
        int32_t take = left < chunk[i] ? left : chunk[i];
        if (take == 0)
            continue;
        who[n_rows] = &s[i];
        rows[n_rows++] = (qn_rows){ .seq = &s[i].seq,
                                    .token = s[i].token + s[i].fed,
                                    .n_tok = take,
                                    .first_out = s[i].logits ? 0 : take,
                                    .rope_len = s[i].rope_len };
    }
    const float *logits;
    qn_error err = { 0 };
    if (qn_runner_step(run, rows, n_rows, &logits, &err) != QN_OK) {
        qn_parity_say(r, QN_PARITY_FAIL, "%s", err.msg);
        return false;
    }
    size_t width = (size_t)qn_runner_vocab(run);
    for (int i = 0; i < n_rows; i++) {
        size_t count = (size_t)rows[i].n_tok * width;
        if (who[i]->logits) {
            memcpy(who[i]->logits + (size_t)who[i]->fed * width, logits, count * sizeof *logits);
            logits += count;
        }
        who[i]->fed += rows[i].n_tok;
    }
    return true;
}

/* Feeds all of s[0..n), then gives their pages back. */
static bool feed(qn_runner *run, stream *s, const int32_t *chunk, int n, qn_parity_result *r)
{
    bool ok = true, more = true;
    while (ok && more) {
        more = false;
        for (int i = 0; i < n; i++)
            more = more || s[i].fed < s[i].n;
        ok = !more || step(run, s, chunk, n, r);
    }
    for (int i = 0; i < n; i++)
        qn_kv_release(&s[i].seq);
    return ok;
}

static float *room(const qn_runner *run, int32_t rows)
{
    return qn_alloc_n((size_t)rows * (size_t)qn_runner_vocab(run), sizeof(float));
}

float *qn_parity_prefill(qn_runner *run, const qn_parity_case *c, qn_parity_result *r)
{
    stream s = stream_of(run, &c->prompt, c->prompt.n);
    s.logits = room(run, s.n);
    if (feed(run, &s, &s.n, 1, r))
        return s.logits;
    qn_free(s.logits);
    return NULL;
}

static bool equal(const qn_runner *run, const float *a, const float *b, int32_t rows,
                  const char *how, qn_parity_result *r)
{
    size_t width = (size_t)qn_runner_vocab(run);
    for (int32_t i = 0; i < rows; i++) {
        if (memcmp(a + (size_t)i * width, b + (size_t)i * width, width * sizeof *a) == 0)
            continue;
        qn_parity_say(r, QN_PARITY_FAIL, "row %d differs when fed %s", i, how);
        return false;
    }
    return true;
}

static void alone(qn_runner *run, const qn_parity_case *c, const float *whole, int32_t chunk,
                  qn_parity_result *r)
{
    char how[32];
    snprintf(how, sizeof how, "in chunks of %d", chunk);
    stream s = stream_of(run, &c->prompt, c->prompt.n);
    s.logits = room(run, s.n);
    if (feed(run, &s, &chunk, 1, r))
        equal(run, whole, s.logits, s.n, how, r);
    qn_free(s.logits);
}

/* Between two strangers: the prompt backwards and the second half of it, in chunks of other sizes. */
static void in_company(qn_runner *run, const qn_parity_case *c, const float *whole,
                       const int32_t chunk[3], qn_parity_result *r)
{
    int32_t n = c->prompt.n, *back = qn_alloc_n((size_t)n, sizeof *back);
    for (int32_t i = 0; i < n; i++)
        back[i] = c->prompt.v[n - 1 - i];
    qn_ints half = { c->prompt.v + n / 2, n - n / 2 };
    stream s[3] = { stream_of(run, &(qn_ints){ back, n }, n), stream_of(run, &c->prompt, n),
                    stream_of(run, &half, half.n) };
    s[1].logits = room(run, n);
    s[2].logits = room(run, half.n); /* its rows stand between: they must not be mixed up */
    if (feed(run, s, chunk, 3, r))
        equal(run, whole, s[1].logits, n, "in company", r);
    qn_free(s[1].logits);
    qn_free(s[2].logits);
    qn_free(back);
}

void qn_parity_ways(qn_runner *run, const qn_parity_case *c, const float *whole,
                    qn_parity_result *r)
{
    static const int32_t chunks[] = { 3, 7, 16, 1 };
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
        alone(run, c, whole, chunks[i], r);
    in_company(run, c, whole, (const int32_t[]){ 5, 9, 4 }, r);
    in_company(run, c, whole, (const int32_t[]){ 1, c->prompt.n, 1 }, r);
}

float *qn_parity_decode(qn_runner *run, const qn_parity_case *c, qn_parity_result *r)
{
    int32_t n = c->prompt.n, total = n + c->greedy.n;
    size_t width = (size_t)qn_runner_vocab(run);
    int32_t *token = qn_alloc_n((size_t)total + 1, sizeof *token);
    memcpy(token, c->prompt.v, (size_t)n * sizeof *token);
    memcpy(token + n, c->greedy.v, (size_t)c->greedy.n * sizeof *token);
    qn_ints all = { token, total };
    stream s = stream_of(run, &all, n), whole = stream_of(run, &all, n);
    s.logits = room(run, total);
    whole.logits = room(run, total);
    float *out = NULL;
    if (step(run, &s, &n, 1, r) && feed(run, &s, &(int32_t){ 1 }, 1, r) &&
        feed(run, &whole, &total, 1, r)) {
        equal(run, whole.logits, s.logits, total, "as decoded tokens", r);
        out = room(run, c->greedy.n + 1);
        memcpy(out, s.logits + (size_t)(n - 1) * width,
               (size_t)(c->greedy.n + 1) * width * sizeof *out);
    }
    qn_kv_release(&s.seq);
    qn_free(s.logits);
    qn_free(whole.logits);
    qn_free(token);
    return out;
}
