/* rope_avx2.c - rotary positions: the angles of a row once, then every head of it. */
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/math_ymm.h"
#include "kernels/rows/rows.h"
#include "ops/util.h"

/* Cosines and sines of a row, and the frequencies behind them; n is a multiple of 8. */
typedef struct angles {
    float *freq, *cs, *sn;
    int64_t n;
    int32_t len; /* the rope_len that freq is for; -1 = none yet */
    float amplitude;
} angles;

static void row_angles(const qn_call *c, int64_t r, angles *g)
{
    const qn_attr_rope *a = c->attr;
    const qn_batch *b = c->batch;
    int32_t len = b->rope_len ? b->rope_len[b->seq[r]] : 0;
    if (len != g->len) {
        for (int32_t i = 0; i < a->n_freqs; i++)
            g->freq[i] = qn_rope_inv_freq(a, i, len);
        g->amplitude = qn_rope_amplitude(a, len);
        g->len = len;
    }
    const float *freq = g->freq;
    if (a->axis) { /* positions differ from pair to pair: multiply by them first */
        for (int32_t i = 0; i < a->n_freqs; i++)
            g->cs[i] = freq[i] * (float)b->pos[(int64_t)a->axis[i] * b->n_tok + r];
        freq = g->cs;
    }
    const __m256 pos = _mm256_set1_ps(a->axis ? 1.0F : (float)b->pos[r]);
    const __m256 grow = _mm256_set1_ps(g->amplitude);
    const __m256 turn = _mm256_set1_ps(a->inverse ? -g->amplitude : g->amplitude);
    for (int64_t i = 0; i < g->n; i += 8) {
        __m256 sine, cosine;
        sincos_ymm(_mm256_mul_ps(_mm256_loadu_ps(freq + i), pos), &sine, &cosine);
        _mm256_storeu_ps(g->cs + i, _mm256_mul_ps(cosine, grow));
        _mm256_storeu_ps(g->sn + i, _mm256_mul_ps(sine, turn));
    }
}

static void rotate_halves(const angles *g, const float *x, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        float u = x[i], v = x[i + n];
        y[i] = u * g->cs[i] - v * g->sn[i];
        y[i + n] = v * g->cs[i] + u * g->sn[i];
    }
}

static void rotate_pairs(const angles *g, const float *x, float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        float u = x[2 * i], v = x[2 * i + 1];
        y[2 * i] = u * g->cs[i] - v * g->sn[i];
        y[2 * i + 1] = v * g->cs[i] + u * g->sn[i];
    }
}

void qn_rope_run_avx2(const qn_call *c)
{
    const qn_attr_rope *a = c->attr;
    int64_t width = c->out[0].width, lo, hi;
    angles g = { .n = (a->n_freqs + 7) / 8 * 8, .len = -1 };
    g.freq = (float *)c->scratch + 4 * g.n * c->ith;
    g.cs = g.freq + g.n;
    g.sn = g.cs + g.n;
    memset(g.freq, 0, 3 * (size_t)g.n * sizeof(float));
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        const float *x = (const float *)c->in[0].data + r * width;
        float *y = (float *)c->out[0].data + r * width;
        row_angles(c, r, &g);
        for (int64_t at = 0; at < width; at += a->head_dim) {
            if (a->interleaved)
                rotate_pairs(&g, x + at, y + at, a->n_freqs);
            else
                rotate_halves(&g, x + at, y + at, a->n_freqs);
            if (x != y)
                memcpy(y + at + a->n_rot, x + at + a->n_rot,
                       (size_t)(a->head_dim - a->n_rot) * sizeof *y);
        }
    }
}
