/* kernel.c - the table of fast kernels, filled for a CPU level. */
#include "kernels/kernel.h"

#include <assert.h>

#include "base/cpu.h"

static void add(qn_kernels *t, qn_kernel k)
{
    assert(t->n < QN_MAX_KERNELS);
    t->kernel[t->n++] = k;
}

void qn_kernels_init(qn_kernels *t, unsigned cpu)
{
    *t = (qn_kernels){ 0 };
    if (!(cpu & QN_CPU_AVX2))
        return;
    qn_matmul_init(&t->matmul, cpu);
    add(t, (qn_kernel){ .op = &qn_op_linear, .run = qn_linear_run, .scratch = qn_linear_scratch });
    add(t, (qn_kernel){ .op = &qn_op_linears, .run = qn_linear_run, .scratch = qn_linear_scratch });
}

const qn_kernel *qn_kernels_find(const qn_kernels *t, const qn_op *op)
{
    for (int i = 0; i < t->n; i++)
        if (t->kernel[i].op == op)
            return &t->kernel[i];
    return NULL;
}
