/* kernel.c - the table of fast kernels, filled for a CPU level. */
#include "kernels/kernel.h"

void qn_kernels_init(qn_kernels *t, unsigned cpu)
{
    *t = (qn_kernels){ 0 };
    (void)cpu;
}

const qn_kernel *qn_kernels_find(const qn_kernels *t, const qn_op *op)
{
    for (int i = 0; i < t->n; i++)
        if (t->kernel[i].op == op)
            return &t->kernel[i];
    return NULL;
}
