/* matmul.h - products with weight matrices: panels, tiles, and the table of tiles a CPU level has.
 *
 * A weight is read as panels of `rows` output rows (8 or 16: the lanes of a vector register), interleaved so
 * that one lane is one output row. A tile multiplies one panel with a few rows of activations; each lane adds
 * its products in ascending blocks of K. So the order of float operations behind an output does not depend
 * on how many activation rows there are, or which thread does it, and one tile routine serves prompts and decode.
 *
 * Panels come from repacking at load, or are made on the fly, into the same form. Quantised weights meet
 * activations quantised to int8 in blocks of 32 (one scale a block); plain and exotic layouts, and all of
 * them in exact mode, meet f32 activations. */
#ifndef QN_KERNELS_MATMUL_MATMUL_H
#define QN_KERNELS_MATMUL_MATMUL_H

#include "graph/op.h"

/* Forms of a panel. Each block of 32 columns of a quantised one is stored as written, for R rows at a time;
 * codes lie in dwords of 4 columns of one row, the R rows' dwords side by side. A nibble dword j (0..3) has
 * columns 4j..4j+3 in its low and 16+4j.. in its high halves. */
typedef enum qn_panel {
    QN_PANEL_F32, /* [K][R] */
    QN_PANEL_F16,
    QN_PANEL_BF16,
    QN_PANEL_Q4_0, /* d f16[R], 4 nibble dwords; value d (code - 8) */
    QN_PANEL_Q4_1, /* d f16[R], m f16[R], 4 nibble dwords; d code + m */
    QN_PANEL_Q5_0, /* d f16[R], 4 nibble dwords, fifth bits dword; d (code - 16) */
    QN_PANEL_Q5_1, /* d f16[R], m f16[R], 4 nibble dwords, fifth bits dword */
    QN_PANEL_Q8_0, /* d f16[R], 8 dwords of signed codes */
    QN_PANEL_Q4_K, /* each 8 blocks: d f16[R], dmin f16[R]; each block: sc u8[R], mn u8[R], 4 dwords */
    QN_PANEL_Q5_K, /* as Q4_K, with a fifth bits dword */
    QN_PANEL_Q6_K, /* each 8 blocks: d f16[R]; each block: sc i8[2][R], 4 + 2 dwords; d sc (code - 32) */
    QN_PANEL_IQ4_NL, /* d f16[R], 4 nibble dwords; d table[code] */
    QN_PANEL_MXFP4,  /* e u8[R], 4 nibble dwords; 2^(e - 128) table[code] */
    QN_PANEL_AFFINE4, /* each group: scale[R], bias[R] as the weight stores them; each block: 4 dwords */
    QN_PANEL_AFFINE8, /* the same with 8 dwords of unsigned codes */
    QN_N_PANELS
} qn_panel;

/* A row of quantised activations: K codes, then K/32 of these. */
typedef struct qn_act_block {
    float d, s;      /* value = d * code; s = d * sum of the block's codes */
    int16_t half[2]; /* sums of the codes of each half */
} qn_act_block;

#define QN_ACT_BLOCK 32
#define QN_TILE_X    8  /* most activation rows of one tile call */
#define QN_MAX_ROWS  16 /* most rows of a panel */

static inline size_t qn_act_row_bytes(int64_t k)
{
    return (size_t)(k + k / QN_ACT_BLOCK * (int64_t)sizeof(qn_act_block) + 63) / 64 * 64;
}

/* One call of a tile: out[i][0 .. R) = panel times x[i]. */
typedef struct qn_tile {
    const uint8_t *panel;
    int64_t k;                /* columns */
    int32_t group;            /* AFFINE: columns that share a scale */
    uint8_t scale_layout;     /* AFFINE: F32, F16 or BF16 */
    int32_t n_x;              /* 1 .. QN_TILE_X */
    const void *x[QN_TILE_X]; /* quantised rows, or floats */
    float *out[QN_TILE_X];
} qn_tile;

typedef void (*qn_tile_fn)(const qn_tile *t);

typedef struct qn_matmul_kernels {
    int rows; /* R, the rows of a panel */
    int n_x;  /* activation rows a tile does best at once */
    qn_tile_fn tile[QN_N_PANELS];
    void (*quant)(const float *x, int64_t k, void *row); /* k: a multiple of 32 */
} qn_matmul_kernels;

void qn_matmul_init(qn_matmul_kernels *t, unsigned cpu);

/* How a weight is multiplied: by which form, and whether with quantised activations. */
typedef struct qn_panel_plan {
    qn_panel form;
    bool integer;       /* activations are quantised */
    bool decoded;       /* an F32 panel that must be decoded from another layout */
    size_t panel_bytes; /* one panel of R rows */
    int64_t k, n;       /* columns; rows of one matrix (of one expert) */
    int64_t n_panels;   /* of one matrix */
    int64_t n_matrices; /* experts, else 1 */
} qn_panel_plan;

qn_panel_plan qn_panel_plan_of(const qn_matmul_kernels *t, const qn_weight *w, bool exact);

/* Makes panel `index` (counted through all matrices) of w. Rows past a matrix' end become zeros. `row_buf`
 * (k floats) is used by decoded panels only. */
void qn_panel_pack(const qn_matmul_kernels *t, const qn_panel_plan *p, const qn_weight *w,
                   int64_t index, uint8_t *dst, float *row_buf);

void qn_tiles_avx2(qn_matmul_kernels *t);
void qn_tiles_avxvnni(qn_matmul_kernels *t);
void qn_tiles_avx512(qn_matmul_kernels *t);

/* The ops' kernels. */
void qn_linear_run(const qn_call *c);
size_t qn_linear_scratch(const qn_call *c);
void qn_head_linear_run_avx2(const qn_call *c);
size_t qn_head_linear_scratch(const qn_call *c);
void qn_expert_linear_run(const qn_call *c);
size_t qn_expert_linear_scratch(const qn_call *c);

#endif
