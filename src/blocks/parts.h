/* parts.h - what blocks share and families do not see: finding weights and checking their shapes. */
#ifndef QN_BLOCKS_PARTS_H
#define QN_BLOCKS_PARTS_H

#include "blocks/blocks.h"

/* Has anything failed so far? Then weights need not be looked up. */
static inline bool qn_failed(const qn_build *b)
{
    return b->g->err.code != QN_OK;
}

/* The full name of `leaf` in block `block` ("" = none) of the current scope; lives as long as the graph. */
const char *qn_part_name(qn_build *b, const char *block, const char *leaf);

/* Nodes that follow are named after this part in dumps. */
void qn_part_enter(qn_build *b, const char *block, const char *leaf);

/* "<name>.weight" or NULL, marked as used. */
const qn_weight *qn_part_find(qn_build *b, const char *name, const char *suffix);

/* A matrix [n, k], or a stack [e, n, k] where e > 0: false, with an error naming the tensor, when w is NULL or
 * shaped otherwise. `name` is for the message of a missing one. */
bool qn_part_fits(qn_build *b, const qn_weight *w, const char *name, int64_t e, int64_t n,
                  int64_t k);
/* The same for a vector [n]. */
bool qn_part_fits_vector(qn_build *b, const qn_weight *w, int64_t n);

/* Rows [start, start + n) of a matrix or elements of a vector, as a weight of its own. */
const qn_weight *qn_part_slice(qn_build *b, const qn_weight *w, int64_t start, int64_t n);

/* A matrix of n equal blocks of rows as a stack of them; w itself when it is none. */
const qn_weight *qn_part_stack(qn_build *b, const qn_weight *w, int64_t n);

/* The one row of a matrix [1, n] as a vector. */
const qn_weight *qn_part_row(qn_build *b, const qn_weight *w);
/* n vectors of `each` elements, "<prefix>.0.weight" ..., as one float32 vector owned by the graph. */
const qn_weight *qn_part_join(qn_build *b, const char *prefix, int n, int64_t each);

/* x w^T + bias for the part's own matrix [n_out, width of x]; *has_bias (may be NULL) says whether one was. */
qn_val qn_part_linear(qn_build *b, const char *block, const char *leaf, qn_val x, int64_t n_out,
                      bool *has_bias);

/* Rows [start, start + n_out) of a matrix [total, width of x] that holds several products of x. */
typedef struct qn_part_rows {
    int64_t total, start, n_out;
    int64_t
        runs; /* the matrix is that many runs of equal length, of each of which n_out / runs rows from `start`
                   * of the run are taken; 0 = one run. Several are copied once, one is a view. */
    bool inputs_first; /* a plain matrix is stored [width of x, total] */
} qn_part_rows;
qn_val qn_part_linear_rows(qn_build *b, const char *block, const char *leaf, qn_val x,
                           qn_part_rows rows);

/* A flag of the config that says whether biases exist must agree with the file. */
void qn_part_check_bias(qn_build *b, const char *key, const char *part, bool has_bias);

/* The block acts on the config's activation; fails for one that is not known. */
void qn_part_use_act(qn_build *b, qn_act act);

/* RMS norm of groups of `group` columns (0 = the whole width). */
qn_val qn_part_norm(qn_build *b, const char *block, const char *leaf, qn_val x,
                    const qn_attr_norm *attr);

/* Rotates every head of x by position; x itself when the rope has nothing to rotate. */
qn_val qn_part_rope(qn_build *b, qn_val x, const qn_rope *rope, int head_dim);
/* The growth of queries with position that the rope's config asks for. */
qn_val qn_part_grow_queries(qn_build *b, qn_val q, const qn_rope *rope);

/* How a gate acts: the fields of qn_moe and qn_mlp of the same names. */
typedef struct qn_gating {
    qn_act act;
    float limit, slope;
    bool limit_after, up_plus_one;
} qn_gating;

/* act(gate) * up with those refinements. */
qn_val qn_part_gated(qn_build *b, const qn_gating *g, qn_val gate, qn_val up);

typedef struct qn_part_shape {
    int64_t rows, cols; /* rows 0: a vector */
} qn_part_shape;

/* A float32 vector or matrix of the graph's own; its numbers are the caller's to fill. */
float *qn_part_fresh(qn_build *b, const char *name, qn_part_shape shape, const qn_weight **out);
/* The numbers of tensor "<block>.<leaf>" (its whole name), stored in whatever shape, as such a weight, each
 * mapped by f (NULL = as it is). */
qn_val qn_part_numbers(qn_build *b, const char *block, const char *leaf, qn_part_shape shape,
                       float (*f)(float));
/* f of the logarithms that state-space models store: -exp(x). */
float qn_part_minus_exp(float x);
/* n such numbers, each repeated `times` times: a vector [n * times]. */
qn_val qn_part_spread(qn_build *b, const char *block, const char *leaf, int64_t n, int64_t times,
                      float (*f)(float));
/* Columns [start, start + width) of x, or of each run of `group` columns. */
qn_val qn_part_split(qn_build *b, qn_val x, int64_t start, int64_t width);
qn_val qn_part_split_groups(qn_build *b, qn_val x, int64_t start, int64_t width, int64_t group);

/* Causal depthwise convolution of x with "<leaf>.weight", its bias if there is one, then `act`. Weights
 * [C, 1, K] and [C, K, 1] are one in memory. */
typedef struct qn_part_conv_of {
    int kernel;
    qn_act act;
    int64_t total,
        start; /* x's channels are those from `start` on of `total`; total 0 = all there are */
} qn_part_conv_of;
qn_val qn_part_conv_rows(qn_build *b, const char *block, const char *leaf, qn_val x,
                         const qn_part_conv_of *of);
qn_val qn_part_conv(qn_build *b, const char *block, const char *leaf, qn_val x, int kernel,
                    qn_act act);

/* The file must hold "<leaf>.bias" exactly if the config says so. */
void qn_part_expect_bias(qn_build *b, const char *block, const char *leaf, bool expected);

/* ALiBi's slopes of n heads (see qn_attn), times `factor`, in the graph's memory; NULL for `most` 0. */
const float *qn_part_slopes(qn_build *b, int n, float most, float factor);

/* 1 when the file's weights of `1 + w` norms hold w, 0 when they hold 1 + w already. */
float qn_part_norm_offset(const qn_build *b);

#endif
