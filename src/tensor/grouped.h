/* grouped.h - packed codes with scales in tensors of their own, as MLX and others store them.
 *
 * A row of codes is one bit stream, least significant bit first; `group` elements along a row share a scale
 * (and, for AFFINE, a bias). The functions take one row; weight.c finds the row's parts. */
#ifndef QN_TENSOR_GROUPED_H
#define QN_TENSOR_GROUPED_H

#include "tensor/weight.h"

/* The parts of one row of k elements. */
typedef struct qn_grouped_row {
    const uint8_t *codes, *scales, *biases;
    int64_t k;
    int group, bits;
    uint8_t scale_layout; /* qn_layout */
    float global_scale;
} qn_grouped_row;

void qn_grouped_decode_affine(const qn_grouped_row *r, float *out);
void qn_grouped_decode_mxfp4(const qn_grouped_row *r, float *out);
void qn_grouped_decode_mxfp8(const qn_grouped_row *r, float *out);
void qn_grouped_decode_nvfp4(const qn_grouped_row *r, float *out);

/* Whether `bits` and `group` are ones that AFFINE has: 1 2 3 4 5 6 8 bits, groups of 32, 64 or 128. */
bool qn_affine_valid(int64_t bits, int64_t group);

/* Quantises a row of k floats (k a multiple of `group`) to 2..8 bits exactly as MLX does an array of the
 * scales' dtype (x must already be rounded to it): codes
 * [k * bits / 8 bytes], scales and biases [k / group] in `scale_layout` (F32, F16 or BF16). */
void qn_affine_encode(const float *x, const qn_grouped_row *shape, void *codes, void *scales,
                      void *biases);

/* Bytes of one scale of `l` (F32 4, F16 and BF16 2, one-byte kinds 1), and its value at index i. */
int qn_scale_bytes(qn_layout l);
float qn_scale_at(qn_layout l, const void *scales, int64_t i);

#endif
