/* runner.c - see runner.h. The arrays of a step are kept between steps and only grow, so that the decode loop
 * allocates nothing. */
#include "engine/runner.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"

enum { MAX_PLANS = 32 }; /* sizes come in powers of two; prompts and decoding need about a dozen */

/* One array of the step, as large as the largest step so far. */
typedef struct array {
    int32_t *v;
    size_t cap;
} array;

struct qn_runner {
    qn_model *model;
    qn_kv_cache *cache;
    qn_plan_cache *plans;
    qn_val logits;   /* the graph's output */
    int32_t n_vocab; /* width of the logits; the embedding may hold other counts */
    array token, seq, pos, see, q_start, kv_len, rope_len, state_slot, out_row;
    array table[QN_MAX_KV_GROUPS];
};

static int32_t *sized(array *a, size_t n)
{
    if (n > a->cap) {
        a->cap = n + n / 2;
        a->v = qn_realloc_n(a->v, a->cap, sizeof *a->v);
    }
    return a->v;
}

/* Rows that see later ones cannot come one after the other. */
static bool looks_ahead(const qn_graph *g)
{
    for (int32_t i = 1; i < g->n_nodes; i++)
        if (g->node[i].op == &qn_op_attention &&
            ((const qn_attr_attention *)g->node[i].attr)->both_ways)
            return true;
    return false;
}

int qn_runner_open(qn_runner **out, qn_model *m, const qn_kv_options *opt, qn_error *err)
{
    *out = NULL;
    qn_val logits = qn_graph_find_output(&m->graph, "logits");
    if (!logits.id || looks_ahead(&m->graph))
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s: not a model that predicts text", m->path);
    qn_runner *r = qn_alloc(sizeof *r);
    qn_shape shape = qn_shape_of(&m->graph, logits);
    r->model = m;
    r->logits = logits;
    r->n_vocab = (int32_t)qn_shape_width(&shape);
    r->plans = qn_plan_cache_new(&m->graph, MAX_PLANS);
    int rc = qn_kv_open(&r->cache, m->backend, &m->graph, opt, err);
    if (rc != QN_OK) {
        qn_runner_close(r);
        return rc;
    }
    *out = r;
    return QN_OK;
}

void qn_runner_close(qn_runner *r)
{
    if (!r)
        return;
    array *const all[] = { &r->token,  &r->seq,      &r->pos,        &r->see,    &r->q_start,
                           &r->kv_len, &r->rope_len, &r->state_slot, &r->out_row };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        qn_free(all[i]->v);
    for (int i = 0; i < QN_MAX_KV_GROUPS; i++)
        qn_free(r->table[i].v);
    qn_plan_cache_free(r->plans);
    qn_kv_close(r->cache);
    qn_free(r);
}

qn_kv_cache *qn_runner_cache(qn_runner *r)
{
    return r->cache;
}

int32_t qn_runner_vocab(const qn_runner *r)
{
    return r->n_vocab;
}

/* Checks the rows and has the cache make room for them. Pages that were reserved stay with their sequences
 * when a later one gets none: they are used by its next step or given back with it. */
static int admit(qn_runner *r, const qn_rows *rows, int32_t n, qn_batch *b, qn_error *err)
{
    int32_t limit = r->model->config.n_vocab;
    for (int32_t i = 0; i < n; i++) {
        for (int32_t t = 0; t < rows[i].n_tok; t++)
            if (rows[i].token[t] < 0 || rows[i].token[t] >= limit)
                return qn_fail(err, QN_ERR_ARGUMENT, "token %d is outside the vocabulary of %d",
                               rows[i].token[t], limit);
        if (!qn_kv_reserve(rows[i].seq, rows[i].n_tok))
            return qn_fail(err, QN_ERR_LIMIT, "the key/value cache has no room for %d more tokens",
                           rows[i].n_tok);
        b->n_tok += rows[i].n_tok;
        b->n_out += rows[i].n_tok - rows[i].first_out;
        for (int32_t g = 0; g < r->cache->state.n_kv; g++)
            if (rows[i].seq->table[g].n > b->max_pages)
                b->max_pages = rows[i].seq->table[g].n;
    }
    b->n_seq = n;
    return QN_OK;
}

/* Writes the rows of one sequence, from row `row` and output `out` on. */
static void put_rows(qn_runner *r, const qn_rows *s, int32_t id, int32_t row, int32_t out,
                     int32_t n_tok)
{
    memcpy(r->token.v + row, s->token, (size_t)s->n_tok * sizeof *s->token);
    for (int32_t t = 0; t < s->n_tok; t++) {
        int32_t index = s->seq->len + t;
        r->seq.v[row + t] = id;
        r->see.v[row + t] = index;
        /* A text's position is the same on every axis. */
        for (int32_t axis = 0; axis < QN_MAX_POS_AXES; axis++)
            r->pos.v[axis * n_tok + row + t] = index;
        if (t >= s->first_out)
            r->out_row.v[out++] = row + t;
    }
    r->q_start.v[id] = row;
    r->kv_len.v[id] = s->seq->len;
    r->rope_len.v[id] = s->rope_len;
    r->state_slot.v[id] = s->seq->state_slot;
}

/* Copies the page tables into one rectangle a group; what a sequence has fewer of is filled with page 0. */
static void put_tables(qn_runner *r, const qn_rows *rows, qn_batch *b)
{
    for (int32_t g = 0; g < r->cache->state.n_kv; g++) {
        size_t width = (size_t)b->max_pages;
        int32_t *to = sized(&r->table[g], (size_t)b->n_seq * width);
        for (int32_t i = 0; i < b->n_seq; i++, to += width) {
            const qn_kv_table *t = &rows[i].seq->table[g];
            size_t n = (size_t)t->n;
            if (n > 0)
                memcpy(to, t->page, n * sizeof *to);
            memset(to + n, 0, (width - n) * sizeof *to);
        }
        b->page_table[g] = r->table[g].v;
    }
}

static void fill(qn_runner *r, const qn_rows *rows, qn_batch *b)
{
    size_t n_tok = (size_t)b->n_tok, n_seq = (size_t)b->n_seq;
    b->token = sized(&r->token, n_tok);
    b->seq = sized(&r->seq, n_tok);
    b->see = sized(&r->see, n_tok);
    b->pos = sized(&r->pos, n_tok * QN_MAX_POS_AXES);
    b->out_row = sized(&r->out_row, (size_t)b->n_out + 1);
    b->q_start = sized(&r->q_start, n_seq + 1);
    b->kv_len = sized(&r->kv_len, n_seq);
    b->rope_len = sized(&r->rope_len, n_seq);
    b->state_slot = sized(&r->state_slot, n_seq);
    int32_t row = 0, out = 0;
    for (int32_t i = 0; i < b->n_seq; i++) {
        put_rows(r, &rows[i], i, row, out, b->n_tok);
        row += rows[i].n_tok;
        out += rows[i].n_tok - rows[i].first_out;
    }
    r->q_start.v[b->n_seq] = row;
    assert(row == b->n_tok && out == b->n_out);
    put_tables(r, rows, b);
}

int qn_runner_step(qn_runner *r, const qn_rows *rows, int32_t n, const float **logits,
                   qn_error *err)
{
    qn_backend *be = r->model->backend;
    qn_batch b = { 0 };
    *logits = NULL;
    int rc = admit(r, rows, n, &b, err);
    if (rc != QN_OK || b.n_tok == 0)
        return rc;
    fill(r, rows, &b);
    const qn_plan *plan = qn_plan_cache_get(r->plans, &b, err);
    if (!plan)
        return err ? err->code : QN_ERR_MEMORY;
    rc = be->run(be, plan, &b, &r->cache->state, err);
    if (rc != QN_OK)
        return rc;
    for (int32_t i = 0; i < n; i++)
        qn_kv_commit(rows[i].seq, rows[i].n_tok);
    if (b.n_out > 0)
        *logits = be->output(be, plan, r->logits);
    return QN_OK;
}
