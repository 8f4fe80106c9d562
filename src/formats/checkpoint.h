/* checkpoint.h - an opened checkpoint of any format: a config in Hugging Face's terms and named weights.
 *
 * Whatever the files are (a folder of safetensors, plain or MLX-quantised, or GGUF), families see one thing:
 * the JSON config with Hugging Face's keys and tensors under Hugging Face's names. GGUF metadata and names are
 * translated by gguf_names.c. A tensor that was asked for is marked as used; what remains is reported. */
#ifndef QN_FORMATS_CHECKPOINT_H
#define QN_FORMATS_CHECKPOINT_H

#include "base/error.h"
#include "base/json.h"
#include "tensor/weight.h"

typedef struct qn_checkpoint qn_checkpoint;
struct qn_gguf;

/* `path`: a folder or a .gguf file (the first of a split one). Files stay mapped until the close. */
int qn_checkpoint_open(qn_checkpoint **out, const char *path, qn_error *err);
void qn_checkpoint_close(qn_checkpoint *c); /* NULL is fine */

const qn_json *
qn_checkpoint_config(const qn_checkpoint *c); /* config.json, or what GGUF's keys say */
const qn_json *
qn_checkpoint_generation(const qn_checkpoint *c); /* generation_config.json or NULL */
const struct qn_gguf *qn_checkpoint_gguf(const qn_checkpoint *c); /* NULL for a folder */
const char *qn_checkpoint_path(const qn_checkpoint *c);
/* A decoder saved without what surrounds it: its tensors lack the prefix that they are given here. */
bool qn_checkpoint_is_bare(const qn_checkpoint *c);
const char *qn_checkpoint_format(const qn_checkpoint *c); /* "safetensors", "mlx", "gguf" */

/* The weight called `name` ("model.norm.weight"), or NULL. Packed modules come as one weight with scales and
 * biases. The pointer is good until the close. */
const qn_weight *qn_checkpoint_weight(qn_checkpoint *c, const char *name);
/* E tensors "<prefix>.<e>.<suffix>" with equal shapes as one stack [E, N, K]: a view when they lie evenly
 * spaced, else one copy. NULL when the first is absent; an error when a later one is. */
const qn_weight *qn_checkpoint_stack(qn_checkpoint *c, const char *pattern, int n, qn_error *err);
/* `w`, a matrix [K, N] or stack [E, K, N] of plain numbers, as the [N, K] or [E, N, K] that products need: a copy,
 * made once and the checkpoint's. NULL with an error when it is packed or there is no memory. */
const qn_weight *qn_checkpoint_transposed(qn_checkpoint *c, const qn_weight *w, qn_error *err);

/* Rows of a matrix (or elements of a vector) that stand in `runs` runs of equal length: of each run the n rows
 * from `start` on. */
typedef struct qn_row_runs {
    int64_t runs, start, n;
} qn_row_runs;
/* Those rows of `w`, one after the other: a copy, made once and the checkpoint's. NULL with an error when rows
 * share scales with others (FP8 blocks), or there is no memory. */
const qn_weight *qn_checkpoint_picked(qn_checkpoint *c, const qn_weight *w, qn_row_runs r,
                                      qn_error *err);
void qn_checkpoint_ignore(qn_checkpoint *c, const char *name); /* known and not needed */

/* All weights, for `show`, convert and checks. */
size_t qn_checkpoint_count(const qn_checkpoint *c);
const qn_weight *qn_checkpoint_at(const qn_checkpoint *c, size_t i);
/* Name of some tensor that was neither used nor ignored, NULL when there is none. */
const char *qn_checkpoint_unused(const qn_checkpoint *c);

#endif
