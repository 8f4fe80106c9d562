/* wkv.c - the generalised delta rule of RWKV 7: what is removed (a) and what is put in its place (b) are chosen
 * apart from the key.
 *
 * For each head, with the state S [d values, d keys]:
 *   S <- S diag(exp(decay)) + (S a) b^T + v k^T       y = S r
 * r, decay (at most 0), k, v, a, b: [R, H*d] -> [R, H*d]. State [H, d, d]. */
#include <math.h>

#include "ops/util.h"

enum { R_IN, DECAY, K_IN, V_IN, A_IN, B_IN, N_IN };

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_wkv *a = n->attr;
    for (int i = 0; i < N_IN; i++)
        if (!qn_is_rows(&in[i]) || !qn_shape_eq(&in[i], &in[0]))
            return qn_refuse(why, "all inputs are f32 of one shape");
    if (a->n_heads <= 0 || a->head_dim <= 0 || a->state < 0 ||
        in[0].dim[1] != (int64_t)a->n_heads * a->head_dim)
        return qn_refuse(why, "the width is not heads times head size");
    out[0] = in[0];
    return true;
}

/* One row of one head; fade [d] is work space. Each value row of S is by itself. */
static void step(const qn_call *c, int64_t at, float *state, float *fade)
{
    int32_t d = ((const qn_attr_wkv *)c->attr)->head_dim;
    const float *in[N_IN];
    float *y = (float *)c->out[0].data + at;
    for (int i = 0; i < N_IN; i++)
        in[i] = (const float *)c->in[i].data + at;
    for (int32_t j = 0; j < d; j++)
        fade[j] = expf(in[DECAY][j]);
    for (int32_t i = 0; i < d; i++, state += d) {
        float removed = 0, sum = 0, v = in[V_IN][i];
        for (int32_t j = 0; j < d; j++)
            removed += state[j] * in[A_IN][j];
        for (int32_t j = 0; j < d; j++) {
            state[j] = state[j] * fade[j] + removed * in[B_IN][j] + v * in[K_IN][j];
            sum += state[j] * in[R_IN][j];
        }
        y[i] = sum;
    }
}

static void ref(const qn_call *c)
{
    const qn_attr_wkv *a = c->attr;
    int64_t size = (int64_t)a->head_dim * a->head_dim, lo, hi;
    float *own = qn_alloc_n((size_t)(size + a->head_dim), sizeof *own);
    qn_ref_part(c, a->n_heads, &lo, &hi);
    for (int32_t s = 0; s < c->batch->n_seq; s++)
        for (int64_t h = lo; h < hi; h++) {
            qn_ref_span span = qn_ref_sequence(c, s, a->state + h * size, size, own);
            for (int64_t r = span.first; r < span.end; r++)
                step(c, r * c->out[0].width + h * a->head_dim, span.state, own + size);
        }
    qn_free(own);
}

const qn_op qn_op_wkv = { .name = "wkv",
                          .attr_size = sizeof(qn_attr_wkv),
                          .min_in = N_IN,
                          .max_in = N_IN,
                          .n_out = 1,
                          .infer = infer,
                          .ref = ref };
