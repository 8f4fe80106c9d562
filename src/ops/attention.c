/* attention.c - grouped-query attention: each row of q looks at keys of its own sequence.
 *
 *   t_j = scale * (q . k_j), capped: softcap * tanh(t_j / softcap); then less slope * (own index - j)
 *   p_j = exp(t_j) / (sum_i exp(t_i) + exp(sink))        the sink (one a head) is optional
 *   y   = sum_j p_j v_j                                  j ascending
 * Query head h reads key head h / (n_heads / n_kv_heads). Row r has the index kv_len + (r - q_start) in its
 * sequence and sees the indices j <= see[r], and j > index - window when there is a window, and j / chunk =
 * index / chunk (rounded down) when there are chunks. see[r] may lie past the row's own index: spans that see
 * themselves in both directions. With `both_ways` all of the sequence is such a span, whatever see[r] says, and a
 * window reaches as far ahead as it reaches back: j < index + window.
 * Where the keys of each row were chosen before (key_select.c), it looks at those alone, in the order of the list.
 *
 * With a state, the step's k and v are first stored into their pages, all rows of them, and every key is then
 * read as the cache holds it, the step's own too: so results do not depend on how a prompt was cut. Without a
 * state, or for a layer with QN_NO_CACHE, the rows of the step are all there is, in f32: this is the form that
 * has a gradient, and the one of encoders, whose sequences come whole. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "ops/kv_store.h"
#include "ops/util.h"

/* Head counts and sizes come from configs, widths from weights: both must say the same. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_attention *a = n->attr;
    for (int i = 0; i < 3; i++)
        if (!qn_is_rows(&in[i]) || in[i].dim[0] != in[0].dim[0])
            return qn_refuse(why, "q, k and v are f32 rows of one count");
    if (a->n_heads <= 0 || a->n_kv_heads <= 0 || a->n_heads % a->n_kv_heads != 0)
        return qn_refuse(why, "query heads are no multiple of key heads");
    if (in[0].dim[1] != (int64_t)a->n_heads * a->k_dim ||
        in[1].dim[1] != (int64_t)a->n_kv_heads * a->k_dim ||
        in[2].dim[1] != (int64_t)a->n_kv_heads * a->v_dim || a->v_dim <= 0)
        return qn_refuse(why, "widths are not heads times head sizes");
    if (n->n_in > 3 && !qn_is_opt_vec(&in[3], a->n_heads))
        return qn_refuse(why, "there is one sink a head");
    if (n->n_in > 4 && in[4].n_dims &&
        !(in[4].n_dims == 2 && in[4].dtype == QN_I32 && in[4].dim[0] == in[0].dim[0]))
        return qn_refuse(why, "chosen keys are i32, a list for each row");
    if (a->window < 0 || a->chunk < 0 || a->kv_group < QN_NO_CACHE ||
        a->kv_group >= QN_MAX_KV_GROUPS || (a->both_ways && a->chunk))
        return qn_refuse(why, "window or cache group out of range");
    out[0] = qn_shape2(in[0].dim[0], (int64_t)a->n_heads * a->v_dim, QN_F32);
    return true;
}

qn_attn_span qn_attn_row_span(const qn_call *c, int64_t r)
{
    const qn_attr_attention *a = c->attr;
    const qn_batch *b = c->batch;
    int32_t s = b->seq[r];
    int32_t index = b->kv_len[s] + (int32_t)r - b->q_start[s];
    int32_t first = a->window && index >= a->window ? index - a->window + 1 : 0;
    if (a->chunk && first < index - index % a->chunk)
        first = index - index % a->chunk;
    int32_t last = b->see[r];
    if (a->both_ways) {
        last = b->kv_len[s] + b->q_start[s + 1] - b->q_start[s] - 1;
        if (a->window && last - index >= a->window)
            last = index + a->window - 1;
    }
    return (qn_attn_span){ s, first, last, index };
}

bool qn_attn_is_cached(const qn_call *c)
{
    return c->state && ((const qn_attr_attention *)c->attr)->kv_group != QN_NO_CACHE;
}

int64_t qn_attn_max_span(const qn_call *c, int64_t rows)
{
    int64_t max = 1;
    for (int64_t r = 0; r < rows; r++) {
        qn_attn_span s = qn_attn_row_span(c, r);
        if (s.last - s.first + 1 > max)
            max = s.last - s.first + 1;
    }
    return max;
}

double qn_attn_softmax(double *score, int64_t n, const float *sink)
{
    double max = sink ? *sink : -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        max = fmax(max, score[j]);
    for (int64_t j = 0; j < n; j++) {
        score[j] = exp(score[j] - max);
        sum += score[j];
    }
    double rest = sink ? exp(*sink - max) : 0;
    sum += rest;
    for (int64_t j = 0; j < n; j++)
        score[j] /= sum;
    return rest / sum;
}

/* Work space of one call. */
typedef struct work {
    qn_kv_store k, v;
    double *score, *sum; /* [longest span], [v_dim] */
    float *buf;          /* [max(k_dim, v_dim)] */
} work;

/* The keys a row looks at: all of its span, or those of a list that ends at its width or at -1. */
typedef struct keys {
    int32_t seq, first;
    const int32_t *list;
    int64_t n;
} keys;

static keys keys_of(const qn_call *c, int64_t r)
{
    qn_attn_span span = qn_attn_row_span(c, r);
    keys k = { .seq = span.seq, .first = span.first, .n = span.last - span.first + 1 };
    if (qn_absent(&c->in[4]))
        return k;
    k.list = (const int32_t *)c->in[4].data + r * c->in[4].width;
    for (k.n = 0; k.n < c->in[4].width && k.list[k.n] >= 0;)
        k.n++;
    return k;
}

static int32_t key_at(const keys *k, int64_t j)
{
    return k->list ? k->list[j] : k->first + (int32_t)j;
}

static void attend(const qn_call *c, const work *w, int64_t r, int32_t h, const float *sink)
{
    const qn_attr_attention *a = c->attr;
    keys seen = keys_of(c, r);
    int32_t kv_head = h / (a->n_heads / a->n_kv_heads);
    const float *q = (const float *)c->in[0].data + r * c->in[0].width + (int64_t)h * a->k_dim;
    float *y = (float *)c->out[0].data + r * c->out[0].width + (int64_t)h * a->v_dim;
    for (int64_t j = 0; j < seen.n; j++) {
        const float *k = qn_kv_entry(c, &w->k, seen.seq, key_at(&seen, j), kv_head, w->buf);
        double t = a->scale * qn_ref_dot(q, k, a->k_dim);
        w->score[j] = a->softcap > 0 ? a->softcap * tanh(t / a->softcap) : t;
        if (a->slopes)
            w->score[j] += a->slopes[h] * (double)(key_at(&seen, j) - qn_attn_row_span(c, r).index);
    }
    qn_attn_softmax(w->score, seen.n, sink);
    memset(w->sum, 0, (size_t)a->v_dim * sizeof *w->sum);
    for (int64_t j = 0; j < seen.n; j++) {
        const float *v = qn_kv_entry(c, &w->v, seen.seq, key_at(&seen, j), kv_head, w->buf);
        for (int32_t i = 0; i < a->v_dim; i++)
            w->sum[i] += w->score[j] * v[i];
    }
    for (int32_t i = 0; i < a->v_dim; i++)
        y[i] = (float)w->sum[i];
}

static void ref(const qn_call *c)
{
    const qn_attr_attention *a = c->attr;
    int64_t rows = c->out[0].rows;
    work w = { .k = qn_kv_store_of(c, a->kv_group, a->kv_slot, QN_KV_KEYS),
               .v = qn_kv_store_of(c, a->kv_group, a->kv_slot, QN_KV_VALUES) };
    w.k.dim = a->k_dim;
    w.v.dim = a->v_dim;
    if (qn_attn_is_cached(c)) {
        qn_kv_store_rows(c, &w.k, &c->in[1], a->n_kv_heads);
        qn_kv_store_rows(c, &w.v, &c->in[2], a->n_kv_heads);
    }
    w.score = qn_alloc_n((size_t)qn_attn_max_span(c, rows), sizeof *w.score);
    w.sum = qn_alloc_n((size_t)a->v_dim, sizeof *w.sum);
    w.buf = qn_alloc_n((size_t)a->k_dim + (size_t)a->v_dim, sizeof *w.buf);
    float *sinks = qn_ref_floats_dup(&c->in[3], a->n_heads);
    for (int64_t r = 0; r < rows; r++)
        for (int32_t h = 0; h < a->n_heads; h++)
            attend(c, &w, r, h, sinks ? &sinks[h] : NULL);
    qn_free(sinks);
    qn_free(w.score);
    qn_free(w.sum);
    qn_free(w.buf);
}

/* Sinks get a gradient only where there are sinks, so the results follow the inputs one to one. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    if (n.n_in > 4 && n.in[4].id) {
        qn_graph_fail(g, QN_ERR_UNSUPPORTED, "%s: attention to chosen keys has no gradient",
                      n.name);
        return;
    }
    qn_val d =
        QN_ADD(g, &qn_op_attention_grad, n.attr, n.in[0], n.in[1], n.in[2], n.in[3], dout[0]);
    for (int k = 0; k < n.n_in; k++)
        if (n.in[k].id)
            din[k] = qn_out(d, k);
}

static void adopt(qn_arena *arena, void *attr)
{
    qn_attr_attention *a = attr;
    if (a->slopes)
        a->slopes = qn_arena_copy(arena, a->slopes, (size_t)a->n_heads * sizeof *a->slopes);
}

const qn_op qn_op_attention = { .name = "attention",
                                .attr_size = sizeof(qn_attr_attention),
                                .min_in = 3,
                                .max_in = 5,
                                .n_out = 1,
                                .infer = infer,
                                .ref = ref,
                                .grad = grad,
                                .adopt = adopt };
