/* copy.c - kernels that only move numbers: embed, rows, split; and the scratch sizes of this folder. */
#include <assert.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/rows/rows.h"

void qn_embed_run(const qn_call *c)
{
    const int32_t *id = c->in[0].data;
    const qn_tensor *table = &c->in[1];
    int64_t width = c->out[0].width, lo, hi;
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        float *y = (float *)c->out[0].data + r * width;
        assert(id[r] >= 0 && id[r] < table->rows);
        if (table->weight)
            qn_weight_decode_row(table->weight, id[r], y);
        else
            memcpy(y, (const float *)table->data + id[r] * width, (size_t)width * sizeof *y);
    }
}

void qn_rows_run(const qn_call *c)
{
    const float *x = c->in[0].data;
    const int32_t *row = c->in[1].data;
    float *y = c->out[0].data;
    int64_t width = c->out[0].width, lo, hi;
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        assert(row[r] >= 0 && row[r] < c->in[0].rows);
        memcpy(y + r * width, x + row[r] * width, (size_t)width * sizeof *y);
    }
}

void qn_split_run(const qn_call *c)
{
    const qn_attr_split *a = c->attr;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    int64_t lo, hi;
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t r = lo; r < hi; r++)
        memcpy(y + r * a->width, x + r * c->in[0].width + a->start, (size_t)a->width * sizeof *y);
}

size_t qn_vector_scratch(const qn_call *c)
{
    return (size_t)(c->out[0].width * c->nth) * sizeof(float);
}

size_t qn_norm_scratch(const qn_call *c)
{
    return 2 * qn_vector_scratch(c);
}

size_t qn_rope_scratch(const qn_call *c)
{
    const qn_attr_rope *a = c->attr;
    size_t n = (size_t)(a->n_freqs + 7) / 8 * 8;
    return 4 * n * sizeof(float) * (size_t)c->nth;
}
