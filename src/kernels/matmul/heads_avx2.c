/* heads_avx2.c - head_linear: every head's part of the rows by its own block of a weight.
 *
 * A head's rows are decoded once into scratch, where all rows of x meet them; threads take whole heads. Sums go
 * over eight lanes in ascending order (a row of w times x) or in ascending order of the block's rows
 * (transposed), whatever the number of rows of x. */
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/math_ymm.h"
#include "ops/util.h"

typedef struct head {
    const float *w; /* [n][k_pad], zeros past k */
    int64_t n, k, k_pad;
    const float *x; /* this head's columns of the first row */
    float *y;
    int64_t x_row, y_row; /* floats from a row to the next */
} head;

static int64_t padded(int64_t k)
{
    return (k + 7) / 8 * 8;
}

static size_t block_bytes(const qn_call *c)
{
    qn_head_block b = qn_head_block_of(c->attr, &c->in[1], 0);
    return ((size_t)(b.n * padded(b.k)) * sizeof(float) + 63) / 64 * 64;
}

size_t qn_head_linear_scratch(const qn_call *c)
{
    return block_bytes(c) * (size_t)c->nth;
}

static void load_block(const qn_tensor *w, const qn_head_block *b, float *out, int64_t k_pad)
{
    for (int64_t i = 0; i < b->n; i++, out += k_pad) {
        if (w->weight)
            qn_weight_decode_row(w->weight, b->row + i, out);
        else
            memcpy(out, (const float *)w->data + (b->row + i) * b->k, (size_t)b->k * sizeof *out);
        for (int64_t j = b->k; j < k_pad; j++)
            out[j] = 0;
    }
}

/* y[i] = x . w[i] for `n` rows of w, at most 4. */
INLINE void dots(const head *h, const float *x, float *y, int64_t i, const int n)
{
    __m256 sum[4];
    for (int l = 0; l < n; l++)
        sum[l] = _mm256_setzero_ps();
    for (int64_t j = 0; j < h->k; j += 8) {
        __m256 v = load_part(x + j, h->k - j);
        for (int l = 0; l < n; l++)
            sum[l] = _mm256_fmadd_ps(v, _mm256_loadu_ps(h->w + (i + l) * h->k_pad + j), sum[l]);
    }
    for (int l = 0; l < n; l++)
        y[i + l] = sum_lanes(sum[l]);
}

static void plain_row(const head *h, const float *x, float *y)
{
    int64_t i = 0;
    for (; i + 4 <= h->n; i += 4)
        dots(h, x, y, i, 4);
    for (; i < h->n; i++)
        dots(h, x, y, i, 1);
}

/* Columns [j, j + 8 n) of y = sum over i of x[i] w[i]. */
INLINE void columns(const head *h, const float *x, float *y, int64_t j, const int n)
{
    __m256 sum[8];
    for (int l = 0; l < n; l++)
        sum[l] = _mm256_setzero_ps();
    for (int64_t i = 0; i < h->n; i++) {
        __m256 v = _mm256_broadcast_ss(x + i);
        for (int l = 0; l < n; l++)
            sum[l] = _mm256_fmadd_ps(v, _mm256_loadu_ps(h->w + i * h->k_pad + j + 8 * l), sum[l]);
    }
    for (int l = 0; l < n; l++)
        store_part(y + j + 8 * l, h->k - j - 8 * l, sum[l]);
}

static void transposed_row(const head *h, const float *x, float *y)
{
    int64_t j = 0;
    for (; j + 64 <= h->k; j += 64)
        columns(h, x, y, j, 8);
    for (; j < h->k; j += 8)
        columns(h, x, y, j, 1);
}

void qn_head_linear_run_avx2(const qn_call *c)
{
    const qn_attr_head_linear *a = c->attr;
    float *block = (float *)(void *)((char *)c->scratch + block_bytes(c) * (size_t)c->ith);
    for (int64_t i = qn_chunk_first(c); i < a->n_heads; i = qn_chunk_next(c, i)) {
        qn_head_block b = qn_head_block_of(a, &c->in[1], (int32_t)i);
        head h = { .w = block, .n = b.n, .k = b.k, .k_pad = padded(b.k) };
        h.x_row = c->in[0].width;
        h.y_row = c->out[0].width;
        h.x = (const float *)c->in[0].data + i * (h.x_row / a->n_heads);
        h.y = (float *)c->out[0].data + i * (h.y_row / a->n_heads);
        load_block(&c->in[1], &b, block, h.k_pad);
        for (int64_t r = 0; r < c->in[0].rows; r++) {
            if (a->transposed)
                transposed_row(&h, h.x + r * h.x_row, h.y + r * h.y_row);
            else
                plain_row(&h, h.x + r * h.x_row, h.y + r * h.y_row);
        }
    }
}
