/* encoder.c - see encoder.h. The arrays of a step are made anew for each: a step is long against that. */
#include "engine/encoder.h"

#include <string.h>

enum {
    MAX_PLANS = 16,
    ANY_LENGTH = 1 << 20 /* where neither config nor tables limit a text */
};

struct qn_encoder {
    qn_model *model;
    qn_plan_cache *plans;
    qn_encoder_want want;
    qn_val output;
    int32_t width, limit, n_segments;
};

static const char *const names[] = { "hidden", "score", "logits" };

bool qn_encoder_has(const qn_model *m, qn_encoder_want want)
{
    return qn_graph_find_output(&m->graph, names[want]).id != 0;
}

/* Tables that a number of the step looks into bound that number: learned positions, kinds of segments. */
static int32_t table_limit(const qn_graph *g, const char *input, int32_t most)
{
    for (int32_t i = 1; i < g->n_nodes; i++) {
        const qn_node *n = &g->node[i];
        if (n->op != &qn_op_embed)
            continue;
        const qn_node *id = qn_node_at(g, n->in[0]), *table = qn_node_at(g, n->in[1]);
        if (id->op == &qn_op_input && strcmp(id->name, input) == 0 && table->shape.dim[0] < most)
            most = (int32_t)table->shape.dim[0];
    }
    return most;
}

int qn_encoder_open(qn_encoder **out, qn_model *m, qn_encoder_want want, qn_error *err)
{
    *out = NULL;
    if (!qn_encoder_has(m, want))
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s: a model of type %s has no output %s", m->path,
                       m->config.model_type, names[want]);
    qn_encoder *e = qn_alloc(sizeof *e);
    e->model = m;
    e->want = want;
    e->output = qn_graph_find_output(&m->graph, names[want]);
    qn_shape shape = qn_shape_of(&m->graph, e->output);
    e->width = (int32_t)qn_shape_width(&shape);
    e->limit =
        m->config.max_pos > 0 && m->config.max_pos < ANY_LENGTH ? m->config.max_pos : ANY_LENGTH;
    e->limit = table_limit(&m->graph, "pos", e->limit);
    e->n_segments = table_limit(&m->graph, "segment", INT32_MAX);
    e->plans = qn_plan_cache_new(&m->graph, MAX_PLANS);
    *out = e;
    return QN_OK;
}

void qn_encoder_close(qn_encoder *e)
{
    if (!e)
        return;
    qn_plan_cache_free(e->plans);
    qn_free(e);
}

int32_t qn_encoder_width(const qn_encoder *e)
{
    return e->width;
}

int32_t qn_encoder_limit(const qn_encoder *e)
{
    return e->limit;
}

static int check_text(const qn_encoder *e, const qn_passage *p, qn_error *err)
{
    if (p->n < 1)
        return qn_fail(err, QN_ERR_ARGUMENT, "a text without tokens has no place in a step");
    if (p->n > e->limit)
        return qn_fail(err, QN_ERR_LIMIT, "a text of %d tokens: the model takes %d", p->n,
                       e->limit);
    for (int32_t i = 0; i < p->n; i++) {
        if (p->id[i] < 0 || p->id[i] >= e->model->config.n_vocab)
            return qn_fail(err, QN_ERR_ARGUMENT, "token %d is outside the vocabulary of %d",
                           p->id[i], e->model->config.n_vocab);
        if (p->segment && (p->segment[i] < 0 || p->segment[i] >= e->n_segments))
            return qn_fail(err, QN_ERR_ARGUMENT, "segment %d: the model knows %d kinds",
                           p->segment[i], e->n_segments);
    }
    return QN_OK;
}

/* The arrays of one step, in one arena. */
typedef struct step {
    qn_arena arena;
    int32_t *token, *seq, *pos, *see, *segment, *q_start, *kv_len, *rope_len, *out_row;
} step;

static int32_t *ints(step *s, size_t n)
{
    return qn_arena_alloc_n(&s->arena, n + 1, sizeof(int32_t));
}

static void make_arrays(step *s, size_t n_tok, size_t n_seq)
{
    int32_t **const by_row[] = { &s->token, &s->seq, &s->see, &s->segment };
    int32_t **const by_text[] = { &s->q_start, &s->kv_len, &s->rope_len, &s->out_row };
    for (size_t i = 0; i < sizeof by_row / sizeof *by_row; i++)
        *by_row[i] = ints(s, n_tok);
    for (size_t i = 0; i < sizeof by_text / sizeof *by_text; i++)
        *by_text[i] = ints(s, n_seq);
    s->pos = ints(s, n_tok * QN_MAX_POS_AXES);
}

/* Writes text number `id` into rows from `row` on. Causal rows see up to themselves; attention that looks both
 * ways does not ask. */
static void put_text(step *s, const qn_passage *p, int32_t id, int32_t row, int32_t n_tok)
{
    memcpy(s->token + row, p->id, (size_t)p->n * sizeof *p->id);
    if (p->segment)
        memcpy(s->segment + row, p->segment, (size_t)p->n * sizeof *p->segment);
    for (int32_t i = 0; i < p->n; i++) {
        s->seq[row + i] = id;
        s->see[row + i] = i;
        for (int32_t axis = 0; axis < QN_MAX_POS_AXES; axis++)
            s->pos[axis * n_tok + row + i] = i;
    }
    s->q_start[id] = row;
    s->q_start[id + 1] = row + p->n;
    s->rope_len[id] = p->n;
}

static qn_batch fill(const qn_encoder *e, step *s, const qn_passage *text, int32_t n, int32_t n_tok)
{
    make_arrays(s, (size_t)n_tok, (size_t)n);
    for (int32_t i = 0, row = 0; i < n; row += text[i++].n) {
        put_text(s, &text[i], i, row, n_tok);
        /* A classifier reads the first row of a text, the next token follows from the last. */
        s->out_row[i] = e->want == QN_ENCODER_LOGITS ? row + text[i].n - 1 : row;
    }
    return (qn_batch){ .n_tok = n_tok,
                       .n_seq = n,
                       .n_out = e->want == QN_ENCODER_HIDDEN ? 0 : n,
                       .token = s->token,
                       .seq = s->seq,
                       .pos = s->pos,
                       .see = s->see,
                       .q_start = s->q_start,
                       .kv_len = s->kv_len,
                       .rope_len = s->rope_len,
                       .out_row = s->out_row,
                       .segment = s->segment };
}

int qn_encoder_step(qn_encoder *e, const qn_passage *text, int32_t n, const float **rows,
                    qn_error *err)
{
    qn_backend *be = e->model->backend;
    int64_t n_tok = 0;
    *rows = NULL;
    for (int32_t i = 0; i < n; i++) {
        int rc = check_text(e, &text[i], err);
        if (rc != QN_OK)
            return rc;
        n_tok += text[i].n;
    }
    if (n_tok == 0)
        return QN_OK;
    if (n_tok > INT32_MAX / QN_MAX_POS_AXES)
        return qn_fail(err, QN_ERR_LIMIT, "%lld tokens are too many for a step", (long long)n_tok);
    step s = { 0 };
    qn_batch b = fill(e, &s, text, n, (int32_t)n_tok);
    const qn_plan *plan = qn_plan_cache_get(e->plans, &b, err);
    int rc = plan ? be->run(be, plan, &b, NULL, err) : QN_ERR_MEMORY;
    if (rc == QN_OK)
        *rows = be->output(be, plan, e->output);
    qn_arena_free(&s.arena);
    return rc;
}
