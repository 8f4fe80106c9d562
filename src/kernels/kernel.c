/* kernel.c - the table of fast kernels, filled for a CPU level. */
#include "kernels/kernel.h"

#include <assert.h>

#include "base/cpu.h"
#include "kernels/attention/attention.h"
#include "kernels/rows/rows.h"

/* Elements that one thread does in about the time of a barrier: copies and sums, and activations. */
#define SOLO     4096
#define SOLO_ACT 512

#if defined(__x86_64__)
static void add(qn_kernels *t, qn_kernel k)
{
    assert(t->n < QN_MAX_KERNELS);
    t->kernel[t->n++] = k;
}
#endif

void qn_kernels_init(qn_kernels *t, unsigned cpu)
{
    *t = (qn_kernels){ 0 };
#if defined(__x86_64__)
    if (!(cpu & QN_CPU_AVX2))
        return;
    qn_matmul_init(&t->matmul, cpu);
    add(t, (qn_kernel){ &qn_op_linear, qn_linear_run, qn_linear_scratch, 0 });
    add(t, (qn_kernel){ &qn_op_linears, qn_linear_run, qn_linear_scratch, 0 });
    add(t, (qn_kernel){ &qn_op_expert_linear, qn_expert_linear_run, qn_expert_linear_scratch, 0 });
    add(t, (qn_kernel){ &qn_op_head_linear, qn_head_linear_run_avx2, qn_head_linear_scratch, 0 });
    add(t, (qn_kernel){ &qn_op_attention, qn_attention_run_avx2, qn_attention_scratch, 0 });
    add(t, (qn_kernel){ &qn_op_embed, qn_embed_run, NULL, SOLO });
    add(t, (qn_kernel){ &qn_op_rows, qn_rows_run, NULL, SOLO });
    add(t, (qn_kernel){ &qn_op_split, qn_split_run, NULL, SOLO });
    add(t, (qn_kernel){ &qn_op_join, qn_join_run, NULL, SOLO });
    add(t, (qn_kernel){ &qn_op_add, qn_add_run_avx2, qn_vector_scratch, SOLO });
    add(t, (qn_kernel){ &qn_op_mul, qn_mul_run_avx2, qn_vector_scratch, SOLO });
    add(t, (qn_kernel){ &qn_op_scale, qn_scale_run_avx2, NULL, SOLO });
    add(t, (qn_kernel){ &qn_op_clamp, qn_clamp_run_avx2, NULL, SOLO });
    add(t, (qn_kernel){ &qn_op_expert_sum, qn_expert_sum_run_avx2, NULL, SOLO });
    add(t, (qn_kernel){ &qn_op_act, qn_act_run_avx2, NULL, SOLO_ACT });
    add(t, (qn_kernel){ &qn_op_glu, qn_glu_run_avx2, NULL, SOLO_ACT });
    add(t, (qn_kernel){ &qn_op_norm, qn_norm_run_avx2, qn_norm_scratch, SOLO });
    add(t, (qn_kernel){ &qn_op_add_norm, qn_add_norm_run_avx2, qn_norm_scratch, SOLO });
    /* Recurrences are defined head by head, and their references take a thread's share of the heads. */
    static const qn_op *const shared[] = { &qn_op_conv, &qn_op_scan, &qn_op_delta, &qn_op_lru,
                                           &qn_op_wkv };
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        add(t, (qn_kernel){ shared[i], shared[i]->ref, NULL, SOLO_ACT });
    add(t, (qn_kernel){ &qn_op_rope, qn_rope_run_avx2, qn_rope_scratch, SOLO });
#else
    (void)cpu;
#endif
}

const qn_kernel *qn_kernels_find(const qn_kernels *t, const qn_op *op)
{
    for (int i = 0; i < t->n; i++)
        if (t->kernel[i].op == op)
            return &t->kernel[i];
    return NULL;
}
