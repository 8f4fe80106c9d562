/* rows.h - kernels of the ops that work row by row or element by element. */
#ifndef QN_KERNELS_ROWS_ROWS_H
#define QN_KERNELS_ROWS_ROWS_H

#include "graph/op.h"

void qn_embed_run(const qn_call *c);
void qn_rows_run(const qn_call *c);
void qn_split_run(const qn_call *c);
void qn_join_run(const qn_call *c);

void qn_add_run_avx2(const qn_call *c);
void qn_mul_run_avx2(const qn_call *c);
void qn_scale_run_avx2(const qn_call *c);
void qn_clamp_run_avx2(const qn_call *c);
void qn_expert_sum_run_avx2(const qn_call *c);
void qn_act_run_avx2(const qn_call *c);
void qn_glu_run_avx2(const qn_call *c);
void qn_norm_run_avx2(const qn_call *c);
void qn_add_norm_run_avx2(const qn_call *c);
void qn_rope_run_avx2(const qn_call *c);

/* Room for a vector input that must be decoded (a weight or bias that is neither f32 nor repacked). */
size_t qn_vector_scratch(const qn_call *c); /* add, mul: in[1] */
size_t qn_norm_scratch(const qn_call *c);   /* norm, add_norm: their last two inputs */
size_t qn_rope_scratch(const qn_call *c);   /* cosines and sines of a row, for each thread */

#endif
