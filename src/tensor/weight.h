/* weight.h - one tensor of a checkpoint as it lies in memory: a borrowed view, never a copy. */
#ifndef QN_TENSOR_WEIGHT_H
#define QN_TENSOR_WEIGHT_H

#include "tensor/layout.h"

/* A matrix [N, K] or a stack [E, N, K]; vectors have n_dims 1. dim is slowest first, the last one is K. */
typedef struct qn_weight {
    const char *name;
    int64_t dim[4];
    uint8_t n_dims;
    uint8_t layout;       /* qn_layout */
    uint8_t scale_layout; /* of scales and biases: F32, F16, BF16; U8 in GROUP_*; F8_E8M0 */
    uint8_t bits;         /* AFFINE: 1 2 3 4 5 6 8 */
    int32_t group;        /* elements that share a scale along K */
    int32_t block_rows;   /* FP8_BLOCK: rows that share a scale (group is its columns) */
    int32_t first_row; /* FP8_BLOCK: row of the first scale block at which a slice begins, else 0 */
    float global_scale; /* GROUP_NVFP4: factor on the whole tensor, else 1 */
    const void *data;   /* codes or blocks, row by row */
    const void *scales, *biases;
} qn_weight;

int64_t qn_weight_rows(const qn_weight *w); /* product of all dims but the last; 1 for a vector */
int64_t qn_weight_cols(const qn_weight *w); /* K */
int64_t qn_weight_elems(const qn_weight *w);
size_t qn_weight_bytes(const qn_weight *w);     /* all a product must read: codes, scales, biases */
size_t qn_weight_row_bytes(const qn_weight *w); /* of data only */

/* Decodes row `row` (of all rows flattened) to K floats: the definition of the weight's values. */
void qn_weight_decode_row(const qn_weight *w, int64_t row, float *out);

/* A view holds what `w` holds and needs no closing.
 * Rows [start, start + n) of a matrix, or expert e of a stack, as a view of their own. */
qn_weight qn_weight_slice_rows(const qn_weight *w, int64_t start, int64_t n);
qn_weight qn_weight_expert(const qn_weight *w, int64_t e);

#endif
