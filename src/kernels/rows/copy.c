/* copy.c - kernels that only move numbers: embed, rows, split, join; and the scratch sizes of this folder. */
#include <assert.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/rows/rows.h"
#include "ops/util.h"

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
    qn_columns k = qn_split_columns(a, c->in[0].width);
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    int64_t per_row = c->in[0].width / k.group, lo, hi;
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t g = lo * per_row; g < hi * per_row; g++) {
        const float *from = x + g * k.group + a->start;
        if (k.step == 1)
            memcpy(y + g * a->width, from, (size_t)a->width * sizeof *y);
        for (int64_t j = 0; k.step != 1 && j < a->width; j++)
            y[g * a->width + j] = from[j * k.step];
    }
}

void qn_join_run(const qn_call *c)
{
    int64_t groups = ((const qn_attr_join *)c->attr)->groups, lo, hi;
    int64_t wa = c->in[0].width / groups, wb = c->in[1].width / groups;
    float *y = c->out[0].data;
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t g = lo * groups; g < hi * groups; g++) {
        memcpy(y + g * (wa + wb), (const float *)c->in[0].data + g * wa, (size_t)wa * sizeof *y);
        memcpy(y + g * (wa + wb) + wa, (const float *)c->in[1].data + g * wb,
               (size_t)wb * sizeof *y);
    }
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
