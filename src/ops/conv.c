/* conv.c - causal depthwise convolution: each channel is a weighted sum of its last K rows.
 *
 *   y[r, c] = bias[c] + sum_j w[c, j] x[r - K + 1 + j, c]    j ascending
 * x [R, C], w [C, K], bias [C]? -> [R, C]. Rows before the step come from the state, [K - 1, C] with the oldest
 * first; rows before the sequence are zeros. The sum is f32 from the bias on, so that the row order and not the
 * cut of a prompt decides every rounding. */
#include <string.h>

#include "ops/util.h"

static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_conv *a = n->attr;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, C]");
    if (a->kernel < 2 || !qn_is_mat(&in[1]) || in[1].dim[0] != in[0].dim[1] ||
        in[1].dim[1] != a->kernel)
        return qn_refuse(why, "w is [C, K], K at least 2");
    if (n->n_in > 2 && !qn_is_opt_vec(&in[2], in[0].dim[1]))
        return qn_refuse(why, "the bias is [C]");
    if (a->state < 0)
        return qn_refuse(why, "no such state");
    out[0] = in[0];
    return true;
}

/* What one thread works with: its channels [lo, hi), their weights as [K, hi - lo], and the width C. */
typedef struct work {
    int64_t lo, n, width;
    int32_t kernel;
    const float *w, *bias;
} work;

/* Row r of x, or of the state for rows before the step. `at` counts from the sequence's first row here. */
static const float *row_at(const work *k, const float *x, const float *state, int64_t at)
{
    return at >= 0 ? x + at * k->width + k->lo : state + (at + k->kernel - 1) * k->width + k->lo;
}

static void conv_row(const work *k, const float *x, const float *state, int64_t r, float *y)
{
    if (k->bias)
        memcpy(y, k->bias + k->lo, (size_t)k->n * sizeof *y);
    else
        memset(y, 0, (size_t)k->n * sizeof *y);
    for (int32_t j = 0; j < k->kernel; j++) {
        const float *from = row_at(k, x, state, r - k->kernel + 1 + j), *w = k->w + j * k->n;
        for (int64_t i = 0; i < k->n; i++)
            y[i] += w[i] * from[i];
    }
}

/* The last K - 1 rows become the state, oldest first: what moves inside it moves to the front. */
static void keep_rows(const work *k, const float *x, float *state, int64_t n_rows)
{
    for (int32_t i = 0; i < k->kernel - 1; i++)
        memmove(state + i * k->width + k->lo, row_at(k, x, state, n_rows - k->kernel + 1 + i),
                (size_t)k->n * sizeof *x);
}

static void ref(const qn_call *c)
{
    const qn_attr_conv *a = c->attr;
    work k = { .width = c->out[0].width, .kernel = a->kernel };
    int64_t hi, state_size = (a->kernel - 1) * k.width;
    qn_ref_part(c, k.width, &k.lo, &hi);
    k.n = hi - k.lo;
    float *own = qn_alloc_n((size_t)state_size, sizeof *own);
    float *w = qn_alloc_n((size_t)(k.n * a->kernel) + 1, sizeof *w);
    float *bias = qn_ref_floats_dup(&c->in[2], k.width);
    float *taps = qn_ref_floats_dup(&c->in[1], k.width * a->kernel);
    for (int64_t i = 0; i < k.n; i++)
        for (int32_t j = 0; j < a->kernel; j++)
            w[j * k.n + i] = taps[(k.lo + i) * a->kernel + j];
    k.w = w;
    k.bias = bias;
    for (int32_t s = 0; s < c->batch->n_seq; s++) {
        bool begins = !c->state || c->batch->kv_len[s] == 0;
        qn_ref_span span = qn_ref_sequence(c, s, a->state, 0, own);
        const float *x = (const float *)c->in[0].data + span.first * k.width;
        float *y = (float *)c->out[0].data + span.first * k.width + k.lo;
        /* Other threads have other channels of the same rows, so each clears its own. */
        for (int32_t i = 0; begins && i < a->kernel - 1; i++)
            memset(span.state + i * k.width + k.lo, 0, (size_t)k.n * sizeof *x);
        for (int64_t r = 0; r < span.end - span.first; r++, y += k.width)
            conv_row(&k, x, span.state, r, y);
        keep_rows(&k, x, span.state, span.end - span.first);
    }
    qn_free(taps);
    qn_free(bias);
    qn_free(w);
    qn_free(own);
}

const qn_op qn_op_conv = { .name = "conv",
                           .attr_size = sizeof(qn_attr_conv),
                           .min_in = 2,
                           .max_in = 3,
                           .n_out = 1,
                           .infer = infer,
                           .ref = ref };
