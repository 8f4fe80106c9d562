/* rope.c - rotary positions: each pair of columns of a head turns by an angle that grows with the position.
 *
 *   angle = inv_freq[i] * pos,  c = cos(angle) * amplitude,  s = sin(angle) * amplitude
 *   (a, b) -> (a c - b s, b c + a s)
 * for the n_rot / 2 pairs at the start of each head: (2i, 2i + 1) interleaved, else (i, i + n_rot / 2). Other
 * columns stay. `inverse` turns back (s changes sign), which is the transposed map and so the gradient.
 *
 * Which frequencies hold is a matter of the sequence, not of the row, so that a row's values never depend on
 * the chunk it came in: rope_len, fixed when the sequence is admitted, chooses the long table or grows theta
 * (dynamic NTK: theta' = theta * (factor * L / max - (factor - 1)) ^ (n_rot / (n_rot - 2)) for L > max).
 * Angles are products in f32, as the published models were trained with: at position 100000 rounding in
 * double would be a different angle. In place: y may lie on x. */
#include <math.h>

#include "ops/util.h"

/* head_dim and the row must fit, or heads would be rotated across their borders. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_rope *a = n->attr;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, W]");
    if (a->head_dim <= 0 || in[0].dim[1] % a->head_dim != 0)
        return qn_refuse(why, "heads do not fill the row");
    if (a->n_rot < 0 || a->n_rot > a->head_dim || a->n_rot % 2 || a->n_freqs != a->n_rot / 2)
        return qn_refuse(why, "the rotated part is no even share of a head");
    if (a->dynamic_theta > 0 && (a->n_rot <= 2 || a->long_after <= 0))
        return qn_refuse(why, "dynamic frequencies need a length and more than one pair");
    for (int32_t i = 0; a->axis && i < a->n_freqs; i++)
        if (a->axis[i] >= QN_MAX_POS_AXES)
            return qn_refuse(why, "no such position axis");
    out[0] = in[0];
    return true;
}

static void adopt(qn_arena *arena, void *attr)
{
    qn_attr_rope *a = attr;
    size_t bytes = (size_t)a->n_freqs * sizeof(float);
    a->inv_freq = qn_arena_copy(arena, a->inv_freq, bytes);
    if (a->inv_freq_long)
        a->inv_freq_long = qn_arena_copy(arena, a->inv_freq_long, bytes);
    if (a->axis)
        a->axis = qn_arena_copy(arena, a->axis, (size_t)a->n_freqs);
}

float qn_rope_inv_freq(const qn_attr_rope *a, int32_t i, int32_t rope_len)
{
    if (a->inv_freq_long && rope_len > a->long_after)
        return a->inv_freq_long[i];
    if (a->dynamic_theta > 0 && rope_len > a->long_after) {
        double f = a->dynamic_factor, grow = f * rope_len / a->long_after - (f - 1);
        double theta = a->dynamic_theta * pow(grow, (double)a->n_rot / (a->n_rot - 2));
        return 1.0f / powf((float)theta, (float)(2 * i) / (float)a->n_rot);
    }
    return a->inv_freq[i];
}

float qn_rope_amplitude(const qn_attr_rope *a, int32_t rope_len)
{
    return a->inv_freq_long && rope_len > a->long_after ? a->amplitude_long : a->amplitude;
}

/* cos and sin of row r for every pair: [n_freqs] each. */
static void row_angles(const qn_call *c, int64_t r, float *cs, float *sn)
{
    const qn_attr_rope *a = c->attr;
    const qn_batch *b = c->batch;
    int32_t len = b->rope_len ? b->rope_len[b->seq[r]] : 0;
    float amplitude = qn_rope_amplitude(a, len);
    for (int32_t i = 0; i < a->n_freqs; i++) {
        int axis = a->axis ? a->axis[i] : 0;
        float angle = qn_rope_inv_freq(a, i, len) * (float)b->pos[(int64_t)axis * b->n_tok + r];
        cs[i] = cosf(angle) * amplitude;
        sn[i] = sinf(angle) * amplitude * (a->inverse ? -1.0f : 1.0f);
    }
}

static void rotate_head(const qn_attr_rope *a, const float *cs, const float *sn, const float *x,
                        float *y)
{
    for (int32_t i = 0; i < a->n_freqs; i++) {
        int32_t p = a->interleaved ? 2 * i : i, q = a->interleaved ? p + 1 : i + a->n_freqs;
        float u = x[p], v = x[q];
        y[p] = u * cs[i] - v * sn[i];
        y[q] = v * cs[i] + u * sn[i];
    }
    for (int32_t j = a->n_rot; j < a->head_dim; j++)
        y[j] = x[j];
}

static void ref(const qn_call *c)
{
    const qn_attr_rope *a = c->attr;
    int64_t width = c->out[0].width;
    float *cs = qn_alloc_n((size_t)a->n_freqs * 2 + 1, sizeof *cs), *sn = cs + a->n_freqs;
    for (int64_t r = 0; r < c->out[0].rows; r++) {
        const float *x = (const float *)c->in[0].data + r * width;
        float *y = (float *)c->out[0].data + r * width;
        row_angles(c, r, cs, sn);
        for (int64_t at = 0; at < width; at += a->head_dim)
            rotate_head(a, cs, sn, x + at, y + at);
    }
    qn_free(cs);
}

/* A rotation is orthogonal: its transpose turns back by the same angle, with the same amplitude. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    qn_attr_rope a = *(const qn_attr_rope *)qn_node_at(g, self)->attr;
    a.inverse = !a.inverse;
    din[0] = QN_ADD(g, &qn_op_rope, &a, dout[0]);
}

const qn_op qn_op_rope = { .name = "rope",
                           .attr_size = sizeof(qn_attr_rope),
                           .min_in = 1,
                           .max_in = 1,
                           .n_out = 1,
                           .in_place = true,
                           .infer = infer,
                           .ref = ref,
                           .grad = grad,
                           .adopt = adopt };
