/* delta.c - the gated delta rule: a memory of key-value pairs that fades, and is corrected towards each new pair.
 *
 * For value head h, which reads key head h / (H / Hk), with the state S [dk, dv]:
 *   S <- exp(decay) S                    decay (at most 0) is one number a head, or one for each key channel
 *   S <- S + k (beta (v - S^T k))^T
 *   y  = S^T q
 * q, k [R, Hk*dk], v [R, H*dv], decay [R, H] or [R, H*dk], beta [R, H] -> [R, H*dv]. Norms and scales of q and k
 * are ops before this one. */
#include <math.h>
#include <string.h>

#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_delta *a = n->attr;
    for (int i = 0; i < 5; i++)
        if (!qn_is_rows(&in[i]) || in[i].dim[0] != in[0].dim[0])
            return qn_refuse(why, "all inputs are f32 rows of one count");
    if (a->n_heads <= 0 || a->n_key_heads <= 0 || a->n_heads % a->n_key_heads != 0 || a->state < 0)
        return qn_refuse(why, "value heads are no multiple of key heads");
    int64_t keys = (int64_t)a->n_key_heads * a->k_dim, each = (int64_t)a->n_heads * a->k_dim;
    if (a->k_dim <= 0 || a->v_dim <= 0 || in[0].dim[1] != keys || in[1].dim[1] != keys ||
        in[2].dim[1] != (int64_t)a->n_heads * a->v_dim)
        return qn_refuse(why, "widths are not heads times head sizes");
    if ((in[3].dim[1] != a->n_heads && in[3].dim[1] != each) || in[4].dim[1] != a->n_heads)
        return qn_refuse(why, "decay and beta are one a head, or decay one a key channel");
    out[0] = in[2];
    return true;
}

/* Where head h of row r of input i starts, heads of `dim` columns. */
static const float *head_of(const qn_call *c, int i, int64_t r, int64_t h, int64_t dim)
{
    return (const float *)c->in[i].data + r * c->in[i].width + h * dim;
}

/* One row of one head; delta [dv] is work space. Sums over key channels run in their order. */
static void step(const qn_call *c, int64_t r, int64_t h, float *state, float *delta)
{
    const qn_attr_delta *a = c->attr;
    int64_t key_head = h / (a->n_heads / a->n_key_heads), dv = a->v_dim;
    bool each = c->in[3].width != a->n_heads;
    const float *q = head_of(c, 0, r, key_head, a->k_dim),
                *k = head_of(c, 1, r, key_head, a->k_dim);
    const float *v = head_of(c, 2, r, h, dv), *decay = head_of(c, 3, r, h, each ? a->k_dim : 1);
    float beta = *head_of(c, 4, r, h, 1), keep = expf(decay[0]);
    float *y = (float *)c->out[0].data + r * c->out[0].width + h * dv;
    memset(delta, 0, (size_t)dv * sizeof *delta);
    for (int32_t i = 0; i < a->k_dim; i++) {
        float *s = state + i * dv, fade = each ? expf(decay[i]) : keep;
        for (int64_t j = 0; j < dv; j++) {
            s[j] *= fade;
            delta[j] += s[j] * k[i];
        }
    }
    for (int64_t j = 0; j < dv; j++)
        delta[j] = beta * (v[j] - delta[j]);
    memset(y, 0, (size_t)dv * sizeof *y);
    for (int32_t i = 0; i < a->k_dim; i++) {
        float *s = state + i * dv;
        for (int64_t j = 0; j < dv; j++) {
            s[j] += k[i] * delta[j];
            y[j] += s[j] * q[i];
        }
    }
}

static void ref(const qn_call *c)
{
    const qn_attr_delta *a = c->attr;
    int64_t size = (int64_t)a->k_dim * a->v_dim, lo, hi;
    float *own = qn_alloc_n((size_t)(size + a->v_dim), sizeof *own);
    qn_ref_part(c, a->n_heads, &lo, &hi);
    for (int32_t s = 0; s < c->batch->n_seq; s++)
        for (int64_t h = lo; h < hi; h++) {
            qn_ref_span span = qn_ref_sequence(c, s, a->state + h * size, size, own);
            for (int64_t r = span.first; r < span.end; r++)
                step(c, r, h, span.state, own + size);
        }
    qn_free(own);
}

const qn_op qn_op_delta = { .name = "delta",
                            .attr_size = sizeof(qn_attr_delta),
                            .min_in = 5,
                            .max_in = 5,
                            .n_out = 1,
                            .infer = infer,
                            .ref = ref };
