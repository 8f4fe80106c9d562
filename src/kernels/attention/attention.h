/* attention.h - the attention kernel. attention_avx2.c has the arithmetic, cache.h the way to pages. */
#ifndef QN_KERNELS_ATTENTION_ATTENTION_H
#define QN_KERNELS_ATTENTION_ATTENTION_H

#include "graph/op.h"

void qn_attention_run_avx2(const qn_call *c);
size_t qn_attention_scratch(const qn_call *c);

#endif
