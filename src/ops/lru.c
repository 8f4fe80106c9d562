/* lru.c - the real-gated linear recurrent unit: each channel is a decaying sum, scaled to keep its size.
 *
 *   a = exp(decay)                                   decay at most 0
 *   S <- a S + sqrt(1 - a^2) x                       y = S
 * The first row of a sequence is taken whole (factor 1): there is nothing before it to make room for.
 * x, decay [R, W] -> [R, W]. State [W]. */
#include <math.h>

#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_lru *a = n->attr;
    if (!qn_is_rows(&in[0]) || !qn_is_rows(&in[1]) || !qn_shape_eq(&in[0], &in[1]) || a->state < 0)
        return qn_refuse(why, "x and decay are f32 of one shape");
    out[0] = in[0];
    return true;
}

static void ref(const qn_call *c)
{
    const qn_attr_lru *a = c->attr;
    int64_t width = c->out[0].width, lo, hi;
    qn_ref_part(c, width, &lo, &hi);
    float *own = qn_alloc_n((size_t)(hi - lo) + 1, sizeof *own);
    for (int32_t s = 0; s < c->batch->n_seq; s++) {
        qn_ref_span span = qn_ref_sequence(c, s, a->state + lo, hi - lo, own);
        bool begins = !c->state || c->batch->kv_len[s] == 0;
        for (int64_t r = span.first; r < span.end; r++) {
            const float *x = (const float *)c->in[0].data + r * width + lo;
            const float *decay = (const float *)c->in[1].data + r * width + lo;
            float *y = (float *)c->out[0].data + r * width + lo;
            for (int64_t i = 0; i < hi - lo; i++) {
                float keep = expf(decay[i]);
                float scale = begins && r == span.first ? 1 : sqrtf(1 - expf(2 * decay[i]));
                y[i] = span.state[i] = keep * span.state[i] + scale * x[i];
            }
        }
    }
    qn_free(own);
}

const qn_op qn_op_lru = { .name = "lru",
                          .attr_size = sizeof(qn_attr_lru),
                          .min_in = 2,
                          .max_in = 2,
                          .n_out = 1,
                          .infer = infer,
                          .ref = ref };
