/* attention_grad.c - the gradient of attention over the rows of the step (no cache), by recomputing.
 *
 * With t_j, p_j as in attention.c, g_j = dout . v_j and G = sum_j p_j g_j:
 *   dv_j += p_j dout
 *   dt_j  = p_j (g_j - G), times 1 - tanh(t / softcap)^2 of the uncapped t when there is a cap
 *   dq   += scale dt_j k_j,  dk_j += scale dt_j q
 *   dsink += -p_sink G             (its value is 0, so its g is 0)
 * q, k, v, sinks?, dout [R, H*dv] -> dq, dk, dv, dsinks [H] when there are sinks. Sums are in double. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "ops/util.h"

/* The forward rule, then dout; results follow the inputs in order. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_node forward = *n;
    forward.n_in = 4;
    qn_shape y;
    if (!qn_op_attention.infer(&forward, in, &y, why))
        return false;
    if (!qn_shape_eq(&y, &in[4]))
        return qn_refuse(why, "dout is like the result");
    for (int i = 0; i < 3; i++)
        out[i] = in[i];
    if (in[3].n_dims)
        out[3] = qn_shape1(in[3].dim[0], QN_F32);
    return true;
}

/* Everything of one call in one place: inputs, sums, and space for one row's scores. */
typedef struct work {
    const qn_call *c;
    double *dq, *dk, *dv, *dsink; /* as q, k, v, and [n_heads] */
    double *p, *slope;            /* [longest span] */
    float *sinks;
} work;

static const float *part(const qn_call *c, int in, int64_t row, int64_t head, int64_t dim)
{
    return (const float *)c->in[in].data + row * c->in[in].width + head * dim;
}

/* Probabilities of row r, head h, and how capped scores follow uncapped ones. Returns the sink's share. */
static double scores(work *w, int64_t r, int32_t h, int64_t first_row, int64_t n)
{
    const qn_attr_attention *a = w->c->attr;
    int32_t kv_head = h / (a->n_heads / a->n_kv_heads);
    const float *q = part(w->c, 0, r, h, a->k_dim);
    qn_attn_span span = qn_attn_row_span(w->c, r);
    for (int64_t j = 0; j < n; j++) {
        double t =
            a->scale * qn_ref_dot(q, part(w->c, 1, first_row + j, kv_head, a->k_dim), a->k_dim);
        double th = a->softcap > 0 ? tanh(t / a->softcap) : 0;
        w->p[j] = a->softcap > 0 ? a->softcap * th : t;
        w->slope[j] = 1 - th * th;
        if (a->slopes)
            w->p[j] += a->slopes[h] * (double)(span.first + j - span.index);
    }
    return qn_attn_softmax(w->p, n, w->sinks ? &w->sinks[h] : NULL);
}

static void add_scaled(double *sum, double f, const float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        sum[i] += f * x[i];
}

static void head_grad(work *w, int64_t r, int32_t h)
{
    const qn_call *c = w->c;
    const qn_attr_attention *a = c->attr;
    qn_attn_span span = qn_attn_row_span(c, r);
    int64_t first = c->batch->q_start[span.seq] + span.first, n = span.last - span.first + 1;
    int32_t kv = h / (a->n_heads / a->n_kv_heads);
    double share = scores(w, r, h, first, n), total = 0;
    const float *dy = part(c, 4, r, h, a->v_dim);
    for (int64_t j = 0; j < n; j++)
        total += w->p[j] * qn_ref_dot(dy, part(c, 2, first + j, kv, a->v_dim), a->v_dim);
    for (int64_t j = 0; j < n; j++) {
        int64_t row = first + j;
        double g = qn_ref_dot(dy, part(c, 2, row, kv, a->v_dim), a->v_dim);
        double dt = a->scale * w->p[j] * (g - total) * w->slope[j];
        add_scaled(w->dv + row * c->in[2].width + kv * a->v_dim, w->p[j], dy, a->v_dim);
        add_scaled(w->dk + row * c->in[1].width + kv * a->k_dim, dt, part(c, 0, r, h, a->k_dim),
                   a->k_dim);
        add_scaled(w->dq + r * c->in[0].width + h * a->k_dim, dt, part(c, 1, row, kv, a->k_dim),
                   a->k_dim);
    }
    w->dsink[h] -= share * total;
}

static void put_floats(const qn_tensor *t, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((float *)t->data)[i] = (float)x[i];
}

/* All sums in one block of doubles: many query rows add to one key, and f32 would lose the small ones.
 * */
static void ref(const qn_call *c)
{
    const qn_attr_attention *a = c->attr;
    int64_t rows = c->in[0].rows, longest = qn_attn_max_span(c, rows);
    int64_t nq = rows * c->in[0].width, nk = rows * c->in[1].width, nv = rows * c->in[2].width;
    for (int32_t s = 0; s < c->batch->n_seq; s++)
        assert(c->batch->kv_len[s] == 0); /* cached keys have no gradient */
    double *sums = qn_alloc_n((size_t)(nq + nk + nv + a->n_heads + 2 * longest), sizeof *sums);
    work w = { .c = c, .dq = sums, .sinks = qn_ref_floats_dup(&c->in[3], a->n_heads) };
    w.dk = w.dq + nq;
    w.dv = w.dk + nk;
    w.dsink = w.dv + nv;
    w.p = w.dsink + a->n_heads;
    w.slope = w.p + longest;
    for (int64_t r = 0; r < rows; r++)
        for (int32_t h = 0; h < a->n_heads; h++)
            head_grad(&w, r, h);
    put_floats(&c->out[0], w.dq, nq);
    put_floats(&c->out[1], w.dk, nk);
    put_floats(&c->out[2], w.dv, nv);
    if (w.sinks)
        put_floats(&c->out[3], w.dsink, a->n_heads);
    qn_free(w.sinks);
    qn_free(sums);
}

static void adopt(qn_arena *arena, void *attr)
{
    qn_op_attention.adopt(arena, attr);
}

const qn_op qn_op_attention_grad = { .name = "attention_grad",
                                     .attr_size = sizeof(qn_attr_attention),
                                     .min_in = 5,
                                     .max_in = 5,
                                     .n_out = 4,
                                     .infer = infer,
                                     .ref = ref,
                                     .adopt = adopt };
