/* util.h - what the op files share: checks for shape rules, and reading inputs as floats for references.
 *
 * References are definitions: they decode weights row by row, sum in double where that is cheap, and may
 * allocate. Nothing here is for fast paths. */
#ifndef QN_OPS_UTIL_H
#define QN_OPS_UTIL_H

#include "ops/ops.h"

/* ---- shape rules ---- */

static inline bool qn_refuse(const char **why, const char *text)
{
    *why = text;
    return false;
}

static inline qn_shape qn_shape1(int64_t n, uint8_t dtype)
{
    return (qn_shape){ .dim = { n }, .n_dims = 1, .dtype = dtype };
}

static inline qn_shape qn_shape2(int64_t rows, int64_t width, uint8_t dtype)
{
    return (qn_shape){ .dim = { rows, width }, .n_dims = 2, .dtype = dtype };
}

bool qn_shape_eq(const qn_shape *a, const qn_shape *b); /* sizes only: layouts may differ */
bool qn_is_rows(const qn_shape *s);           /* f32 [R, W]: a value that rows flow through */
bool qn_is_ids(const qn_shape *s);            /* i32, one or two dims */
bool qn_is_vec(const qn_shape *s, int64_t n); /* [n] of numbers, n >= 0 */
bool qn_is_mat(const qn_shape *s);   /* [N, K] of numbers: a weight or a value of known size */
bool qn_is_stack(const qn_shape *s); /* [E, N, K] of numbers */
bool qn_is_opt_vec(const qn_shape *s, int64_t n); /* absent, or qn_is_vec */

/* ---- references ---- */

static inline bool qn_absent(const qn_tensor *t)
{
    return !t->data && !t->weight;
}

/* Row `row` of t as `width` floats: a pointer into a value, or `buf` filled from a weight. */
const float *qn_ref_row(const qn_tensor *t, int64_t row, int64_t width, float *buf);

/* All n floats of a vector or a matrix, the caller's to qn_free; NULL when t is absent. */
float *qn_ref_floats_dup(const qn_tensor *t, int64_t n);

double qn_ref_dot(const float *a, const float *b, int64_t n); /* ascending, in double */

double qn_act_value(qn_act act, double x);
double qn_act_slope(qn_act act, double x); /* d act / d x; one-sided where there is a corner */

/* Weight and bias of a norm as floats, n of each (a group's or a row's); NULL where absent. */
typedef struct qn_norm_params {
    float *w, *bias;
    int64_t n;
} qn_norm_params;

qn_norm_params qn_norm_params_read(const qn_attr_norm *a, const qn_tensor *w, const qn_tensor *bias,
                                   int64_t width);
void qn_norm_params_free(qn_norm_params *p);

/* y = norm(x) of one row by the definition in norm.c; y may be x. */
void qn_norm_row(const qn_attr_norm *a, const qn_norm_params *p, const float *x, float *y,
                 int64_t width);

/* Does a logit count in the softmax of a sparsemix choice whose own is `max`? See route.c. */
bool qn_route_is_near(const qn_attr_route *a, float max, float logit);

/* The attributes of a split, where 0 stood for the usual thing. */
typedef struct qn_columns {
    int64_t group, step;
} qn_columns;

qn_columns qn_split_columns(const qn_attr_split *a, int64_t width);

/* Rows of head h's block of a weight: see head_linear.c. */
typedef struct qn_head_block {
    int64_t row, n, k; /* first row among all; rows used; columns */
} qn_head_block;

qn_head_block qn_head_block_of(const qn_attr_head_linear *a, const qn_tensor *w, int32_t head);

/* The rows of one sequence in a recurrence, and its state to read and to write. */
typedef struct qn_ref_span {
    int64_t first, end; /* rows [first, end) */
    float *state;
} qn_ref_span;

/* State of sequence s, n floats at `at` of its slot, zeroed where it begins. `own` takes its place where nothing
 * is kept. A thread that does part of the state asks for just that part. */
qn_ref_span qn_ref_sequence(const qn_call *c, int32_t s, int64_t at, int64_t n, float *own);

/* The part [*lo, *hi) of n heads or channels that this thread does: recurrences are defined head by head, so
 * their references serve any number of threads. */
void qn_ref_part(const qn_call *c, int64_t n, int64_t *lo, int64_t *hi);

/* What row r of an attention call sees: cache indices [first, last] of its sequence, and its own index. */
typedef struct qn_attn_span {
    int32_t seq, first, last, index;
} qn_attn_span;

qn_attn_span qn_attn_row_span(const qn_call *c, int64_t r);
bool qn_attn_is_cached(const qn_call *c); /* keys go through pages; else they are the step's rows */
int64_t qn_attn_max_span(const qn_call *c, int64_t rows); /* the longest of all rows */

/* Softmax over n scores, in place, with an optional sink (NULL = none) that takes its share and gives nothing.
 * Returns the sink's share. */
double qn_attn_softmax(double *score, int64_t n, const float *sink);

double qn_log_sum_exp(const float *x, int64_t n);
int64_t qn_count_labels(const int32_t *label, int64_t n); /* those that are not negative */

#endif
