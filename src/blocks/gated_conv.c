/* gated_conv.c - a short causal convolution between two gates, all three made of the same input. */
#include "blocks/parts.h"

qn_val qn_gated_conv(qn_build *b, const char *name, qn_val x, const qn_short_conv *a)
{
    int64_t d = b->c->d_model;
    const char *in = a->in ? a->in : "in_proj";
    qn_part_expect_bias(b, name, in, a->bias);
    qn_val h = qn_part_linear(b, name, in, x, 3 * d, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_val u = qn_part_split(b, h, 0, d), v = qn_part_split(b, h, d, d);
    qn_val y = QN_ADD(b->g, &qn_op_mul, NULL, u, qn_part_split(b, h, 2 * d, d));
    y = qn_part_conv(b, name, a->conv ? a->conv : "conv", y, a->kernel, QN_ACT_NONE);
    qn_part_enter(b, name, "");
    y = QN_ADD(b->g, &qn_op_mul, NULL, y, v);
    return qn_part_linear(b, name, a->out ? a->out : "out_proj", y, d, NULL);
}
