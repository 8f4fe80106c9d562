/* trainer.c - see trainer.h. Weights are swapped in the copied graph by pointing its weight nodes at views of
 * the trainer's floats; everything else is the graph pass's work. Batches are ragged steps without padding,
 * all rows out, with no cache: the form that attention has a gradient for. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "graph/grad.h"
#include "ops/ops.h"

/* One weight: a view for the graph, and what the optimiser keeps. */
typedef struct param {
    qn_weight view;
    float *w, *m, *v;
    size_t n;
    qn_val node, grad; /* grad {0}: the loss does not depend on it */
} param;

/* The arrays of a step, grown to the largest batch so far. */
typedef struct rows {
    size_t cap_tok, cap_seq;
    int32_t *token, *seq, *label, *out_row; /* [cap_tok] */
    int32_t *pos;                           /* [QN_MAX_POS_AXES * cap_tok], all axes alike */
    int32_t *q_start, *kv_len, *rope_len;   /* [cap_seq + 1] */
} rows;

struct qn_trainer {
    qn_graph graph; /* forward, loss, gradients */
    qn_backend *be; /* borrowed */
    qn_train_options opt;
    qn_plan_cache *plans;
    const qn_plan *plan; /* of the last run: where its gradients lie */
    param *params;
    size_t n_params;
    qn_val loss;
    int64_t n_vocab;
    int64_t n_updates;
    rows rows;
};

static int copy_weight(param *p, const qn_weight *w, qn_error *err)
{
    int64_t n_rows = qn_weight_rows(w), cols = qn_weight_cols(w);
    size_t bytes;
    p->n = (size_t)qn_weight_elems(w);
    bool fits = qn_mul_size(p->n, sizeof *p->w, &bytes);
    p->w = fits ? qn_try_alloc(bytes) : NULL;
    p->m = fits ? qn_try_alloc(bytes) : NULL;
    p->v = fits ? qn_try_alloc(bytes) : NULL;
    if (!p->w || !p->m || !p->v)
        return qn_fail(err, QN_ERR_MEMORY, "%s: no memory for training", w->name);
    memset(p->m, 0, bytes);
    memset(p->v, 0, bytes);
    for (int64_t r = 0; r < n_rows; r++)
        qn_weight_decode_row(w, r, p->w + r * cols);
    p->view =
        (qn_weight){ .name = w->name ? w->name : "weight", .n_dims = w->n_dims, .layout = QN_F32 };
    p->view.global_scale = 1;
    memcpy(p->view.dim, w->dim, sizeof w->dim);
    p->view.data = p->w;
    return QN_OK;
}

/* Gives every weight of the graph a copy and points its node there. */
static int own_weights(qn_trainer *t, qn_error *err)
{
    qn_graph *g = &t->graph;
    for (int32_t id = 1; id < g->n_nodes; id++)
        t->n_params += g->node[id].op == &qn_op_weight;
    t->params = qn_alloc_n(t->n_params, sizeof *t->params);
    size_t i = 0;
    for (int32_t id = 1; id < g->n_nodes; id++) {
        if (g->node[id].op != &qn_op_weight)
            continue;
        param *p = &t->params[i++];
        int rc = copy_weight(p, ((const qn_attr_weight *)g->node[id].attr)->weight, err);
        if (rc != QN_OK)
            return rc;
        qn_attr_weight attr = { &p->view };
        g->node[id].attr = qn_arena_copy(&g->arena, &attr, sizeof attr);
        g->node[id].shape.dtype = QN_F32;
        p->node = (qn_val){ id };
    }
    return QN_OK;
}

/* Appends the loss and its gradients, and makes them the only outputs. */
static int add_loss(qn_trainer *t, qn_error *err)
{
    qn_graph *g = &t->graph;
    qn_val logits = qn_graph_find_output(g, "logits");
    if (logits.id == 0)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "training needs a model that gives logits");
    t->n_vocab = qn_shape_of(g, logits).dim[1];
    qn_shape shape = { .dim = { -QN_SYM_OUT }, .n_dims = 1, .dtype = QN_I32 };
    qn_attr_cross_entropy attr = { (float)t->opt.smoothing };
    qn_graph_scope(g, -1, "loss");
    t->loss = QN_ADD(g, &qn_op_cross_entropy, &attr, logits, qn_graph_input(g, "label", shape));
    qn_val *wrt = qn_alloc_n(t->n_params, sizeof *wrt), *d = qn_alloc_n(t->n_params, sizeof *d);
    for (size_t i = 0; i < t->n_params; i++)
        wrt[i] = t->params[i].node;
    int rc = qn_graph_grad(g, t->loss, wrt, (int)t->n_params, d, err);
    g->n_outputs = 0;
    qn_graph_output(g, "loss", t->loss);
    for (size_t i = 0; rc == QN_OK && i < t->n_params; i++) {
        t->params[i].grad = d[i];
        if (d[i].id)
            qn_graph_output(g, t->params[i].view.name, d[i]);
    }
    qn_free(wrt);
    qn_free(d);
    return rc;
}

int qn_trainer_open(qn_trainer **out, const qn_graph *graph, qn_backend *be,
                    const qn_train_options *opt, qn_error *err)
{
    *out = NULL;
    qn_trainer *t = qn_alloc(sizeof *t);
    t->be = be;
    t->opt = opt ? *opt : QN_TRAIN_DEFAULT;
    int rc = qn_graph_expand(graph, &t->graph, err);
    if (rc == QN_OK)
        rc = own_weights(t, err);
    if (rc == QN_OK)
        rc = add_loss(t, err);
    if (rc != QN_OK) {
        qn_trainer_close(t);
        return rc;
    }
    t->plans = qn_plan_cache_new(&t->graph, 4);
    *out = t;
    return QN_OK;
}

static void rows_free(rows *r)
{
    qn_free(r->token);
    qn_free(r->seq);
    qn_free(r->pos);
    qn_free(r->label);
    qn_free(r->out_row);
    qn_free(r->q_start);
    qn_free(r->kv_len);
    qn_free(r->rope_len);
}

void qn_trainer_close(qn_trainer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_params && t->params; i++) {
        qn_free(t->params[i].w);
        qn_free(t->params[i].m);
        qn_free(t->params[i].v);
    }
    qn_free(t->params);
    qn_plan_cache_free(t->plans);
    rows_free(&t->rows);
    qn_graph_free(&t->graph);
    qn_free(t);
}

/* ---- a batch ---- */

static void grow_rows(rows *r, size_t n_tok, size_t n_seq)
{
    if (n_tok > r->cap_tok) {
        r->cap_tok = n_tok;
        r->token = qn_realloc_n(r->token, n_tok, sizeof *r->token);
        r->seq = qn_realloc_n(r->seq, n_tok, sizeof *r->seq);
        r->label = qn_realloc_n(r->label, n_tok, sizeof *r->label);
        r->out_row = qn_realloc_n(r->out_row, n_tok, sizeof *r->out_row);
        r->pos = qn_realloc_n(r->pos, n_tok * QN_MAX_POS_AXES, sizeof *r->pos);
    }
    if (n_seq > r->cap_seq) {
        r->cap_seq = n_seq;
        r->q_start = qn_realloc_n(r->q_start, n_seq + 1, sizeof *r->q_start);
        r->kv_len = qn_realloc_n(r->kv_len, n_seq, sizeof *r->kv_len);
        r->rope_len = qn_realloc_n(r->rope_len, n_seq, sizeof *r->rope_len);
    }
}

static int check_seqs(const qn_trainer *t, const qn_train_seq *seqs, int32_t n_seqs, size_t *n_tok,
                      qn_error *err)
{
    *n_tok = 0;
    for (int32_t s = 0; s < n_seqs; s++) {
        for (int32_t i = 0; i < seqs[s].n; i++)
            if (seqs[s].id[i] < 0 || seqs[s].id[i] >= t->n_vocab || seqs[s].label[i] >= t->n_vocab)
                return qn_fail(err, QN_ERR_ARGUMENT,
                               "example %d: token %d is not in the vocabulary", s, i);
        *n_tok += (size_t)(seqs[s].n > 0 ? seqs[s].n : 0);
    }
    if (*n_tok == 0 || *n_tok > INT32_MAX / QN_MAX_POS_AXES)
        return qn_fail(err, QN_ERR_ARGUMENT, "a batch of %zu tokens", *n_tok);
    return QN_OK;
}

static void add_seq(rows *r, const qn_train_seq *seq, int32_t s, int32_t n_tok)
{
    int32_t at = r->q_start[s];
    for (int32_t i = 0; i < seq->n; i++, at++) {
        r->token[at] = seq->id[i];
        r->seq[at] = s;
        r->out_row[at] = at;
        r->label[at] = i + 1 < seq->n ? seq->label[i + 1] : -1;
        for (int32_t a = 0; a < QN_MAX_POS_AXES; a++)
            r->pos[a * n_tok + at] = i;
    }
    r->kv_len[s] = 0;
    r->rope_len[s] = seq->n;
    r->q_start[s + 1] = at;
}

/* Sequences one after the other, all rows out. Their places are their positions, so pos serves as see. */
static qn_batch make_batch(rows *r, const qn_train_seq *seqs, int32_t n_seqs, size_t n_tok)
{
    grow_rows(r, n_tok, (size_t)n_seqs);
    r->q_start[0] = 0;
    for (int32_t s = 0; s < n_seqs; s++)
        add_seq(r, &seqs[s], s, (int32_t)n_tok);
    return (qn_batch){ .n_tok = (int32_t)n_tok,
                       .n_seq = n_seqs,
                       .n_out = (int32_t)n_tok,
                       .token = r->token,
                       .seq = r->seq,
                       .pos = r->pos,
                       .see = r->pos,
                       .q_start = r->q_start,
                       .kv_len = r->kv_len,
                       .rope_len = r->rope_len,
                       .out_row = r->out_row,
                       .label = r->label };
}

/* ---- runs and steps ---- */

/* The norm of all gradients together; not finite when any number is not. */
static double grad_norm(const qn_trainer *t)
{
    double sum = 0;
    for (size_t i = 0; i < t->n_params; i++) {
        const float *g = qn_trainer_grad(t, i);
        for (size_t k = 0; g && k < t->params[i].n; k++)
            sum += (double)g[k] * g[k];
    }
    return sqrt(sum);
}

int qn_trainer_run(qn_trainer *t, const qn_train_seq *seqs, int32_t n_seqs, qn_train_result *r,
                   qn_error *err)
{
    size_t n_tok;
    *r = (qn_train_result){ 0 };
    int rc = check_seqs(t, seqs, n_seqs, &n_tok, err);
    if (rc != QN_OK)
        return rc;
    qn_batch b = make_batch(&t->rows, seqs, n_seqs, n_tok);
    t->plan = qn_plan_cache_get(t->plans, &b, err);
    if (!t->plan)
        return err ? err->code : QN_ERR_LIMIT;
    rc = t->be->run(t->be, t->plan, &b, NULL, err);
    if (rc != QN_OK) {
        t->plan = NULL; /* nothing to read */
        return rc;
    }
    for (size_t i = 0; i < n_tok; i++)
        r->n_labels += t->rows.label[i] >= 0;
    r->loss = t->be->output(t->be, t->plan, t->loss)[0];
    r->grad_norm = grad_norm(t);
    return QN_OK;
}

int qn_trainer_step(qn_trainer *t, const qn_train_seq *seqs, int32_t n_seqs, qn_train_result *r,
                    qn_error *err)
{
    int rc = qn_trainer_run(t, seqs, n_seqs, r, err);
    /* A poisoned batch must not reach the weights: one NaN there ends the training. */
    if (rc != QN_OK || r->n_labels == 0 || !isfinite(r->loss) || !isfinite(r->grad_norm))
        return rc;
    double scale = qn_clip_scale(r->grad_norm, t->opt.max_norm);
    t->n_updates++;
    for (size_t i = 0; i < t->n_params; i++) {
        param *p = &t->params[i];
        qn_adamw_slice s = { p->w, p->m, p->v, qn_trainer_grad(t, i), p->n };
        if (s.g)
            qn_adamw_update(&t->opt.adamw, &s, t->n_updates, scale);
    }
    r->updated = true;
    return QN_OK;
}

size_t qn_trainer_count(const qn_trainer *t)
{
    return t->n_params;
}

const char *qn_trainer_name(const qn_trainer *t, size_t i)
{
    return t->params[i].view.name;
}

size_t qn_trainer_size(const qn_trainer *t, size_t i)
{
    return t->params[i].n;
}

float *qn_trainer_weight(qn_trainer *t, size_t i)
{
    return t->params[i].w;
}

const float *qn_trainer_grad(const qn_trainer *t, size_t i)
{
    if (!t->plan || t->params[i].grad.id == 0)
        return NULL;
    return t->be->output(t->be, t->plan, t->params[i].grad);
}
