/* weight.c - rows of a weight: sizes, views, and the decoding that defines the values. */
#include "tensor/weight.h"

#include <assert.h>

#include "tensor/grouped.h"

int64_t qn_weight_cols(const qn_weight *w)
{
    return w->dim[w->n_dims - 1];
}

/* A stack's experts count as rows one after the other. */
int64_t qn_weight_rows(const qn_weight *w)
{
    int64_t n = 1;
    for (int i = 0; i + 1 < w->n_dims; i++)
        n *= w->dim[i];
    return n;
}

int64_t qn_weight_elems(const qn_weight *w)
{
    return qn_weight_rows(w) * qn_weight_cols(w);
}

/* Codes of grouped layouts fill whole bytes, since a row is whole groups of at least 16. */
size_t qn_weight_row_bytes(const qn_weight *w)
{
    int64_t k = qn_weight_cols(w);
    size_t bytes = 0;
    switch (w->layout) {
    case QN_AFFINE:
        return (size_t)(k * w->bits / 8);
    case QN_GROUP_MXFP4:
    case QN_GROUP_NVFP4:
        return (size_t)(k / 2);
    case QN_GROUP_MXFP8:
    case QN_FP8_BLOCK:
        return (size_t)k;
    default: {
        bool ok = qn_layout_bytes((qn_layout)w->layout, k, &bytes);
        assert(ok);
        return bytes;
    }
    }
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Bytes of one row of scales; 0 for layouts that carry them inside. A short last group has a scale too. */
static size_t scale_row_bytes(const qn_weight *w)
{
    if (!w->scales)
        return 0;
    return (size_t)ceil_div(qn_weight_cols(w), w->group) * (size_t)qn_scale_bytes(w->scale_layout);
}

/* Rows of scales that one matrix of the stack has. */
static int64_t scale_rows(const qn_weight *w)
{
    int64_t n = w->n_dims > 1 ? w->dim[w->n_dims - 2] : 1;
    return w->layout == QN_FP8_BLOCK ? ceil_div(n + w->first_row, w->block_rows) : n;
}

size_t qn_weight_bytes(const qn_weight *w)
{
    int64_t rows = qn_weight_rows(w);
    size_t bytes = (size_t)rows * qn_weight_row_bytes(w);
    if (w->scales && rows > 0) {
        int64_t n = w->n_dims > 1 ? w->dim[w->n_dims - 2] : 1;
        size_t scales = (size_t)(rows / n * scale_rows(w)) * scale_row_bytes(w);
        bytes += scales * (w->biases ? 2 : 1);
    }
    return bytes;
}

/* Which row of scales belongs to row `row` of the flattened weight. */
static int64_t scale_row_of(const qn_weight *w, int64_t row)
{
    if (w->layout != QN_FP8_BLOCK)
        return row;
    int64_t n = w->n_dims > 1 && w->dim[w->n_dims - 2] > 0 ? w->dim[w->n_dims - 2] : 1;
    return row / n * scale_rows(w) + (row % n + w->first_row) / w->block_rows;
}

/* One scale for a run of columns; the last run may be short. */
static void decode_fp8_block(const qn_grouped_row *r, float *out)
{
    qn_layout_get(QN_F8_E4M3)->decode(r->codes, out, r->k);
    for (int64_t i = 0; i < r->k; i++)
        out[i] *= qn_scale_at(r->scale_layout, r->scales, i / r->group);
}

void qn_weight_decode_row(const qn_weight *w, int64_t row, float *out)
{
    assert(row >= 0 && row < qn_weight_rows(w));
    const uint8_t *codes = (const uint8_t *)w->data + (size_t)row * qn_weight_row_bytes(w);
    const qn_layout_info *info = qn_layout_get((qn_layout)w->layout);
    if (info->decode) {
        info->decode(codes, out, qn_weight_cols(w));
        return;
    }
    size_t at = (size_t)scale_row_of(w, row) * scale_row_bytes(w);
    qn_grouped_row r = { .codes = codes,
                         .scales = (const uint8_t *)w->scales + at,
                         .biases = w->biases ? (const uint8_t *)w->biases + at : NULL,
                         .k = qn_weight_cols(w),
                         .group = w->group,
                         .bits = w->bits,
                         .scale_layout = w->scale_layout,
                         .global_scale = w->global_scale };
    switch (w->layout) {
    case QN_AFFINE:
        qn_grouped_decode_affine(&r, out);
        break;
    case QN_GROUP_MXFP4:
        qn_grouped_decode_mxfp4(&r, out);
        break;
    case QN_GROUP_MXFP8:
        qn_grouped_decode_mxfp8(&r, out);
        break;
    case QN_GROUP_NVFP4:
        qn_grouped_decode_nvfp4(&r, out);
        break;
    case QN_FP8_BLOCK:
        decode_fp8_block(&r, out);
        break;
    default:
        assert(!"a layout without a decoder was let through");
    }
}

/* A view that begins `rows` rows further on; scales follow. */
static void advance(qn_weight *w, int64_t rows)
{
    size_t at = (size_t)scale_row_of(w, rows) * scale_row_bytes(w);
    w->data = (const uint8_t *)w->data + (size_t)rows * qn_weight_row_bytes(w);
    if (w->scales)
        w->scales = (const uint8_t *)w->scales + at;
    if (w->biases)
        w->biases = (const uint8_t *)w->biases + at;
}

qn_weight qn_weight_slice_rows(const qn_weight *w, int64_t start, int64_t n)
{
    assert(w->n_dims == 2 && start >= 0 && n >= 0 && start + n <= w->dim[0]);
    qn_weight v = *w;
    advance(&v, start);
    if (w->layout == QN_FP8_BLOCK)
        v.first_row = (int32_t)((start + w->first_row) % w->block_rows);
    v.dim[0] = n;
    return v;
}

qn_weight qn_weight_expert(const qn_weight *w, int64_t e)
{
    assert(w->n_dims == 3 && e >= 0 && e < w->dim[0]);
    qn_weight v = *w;
    advance(&v, e * w->dim[1]);
    v.n_dims = 2;
    v.dim[0] = w->dim[1];
    v.dim[1] = w->dim[2];
    v.dim[2] = 0;
    return v;
}
