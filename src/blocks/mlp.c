/* mlp.c - feed-forward blocks with and without a gate. */
#include "blocks/parts.h"

qn_val qn_gated_mlp(qn_build *b, const char *name, qn_val x, const qn_mlp *m)
{
    qn_val gate, up;
    if (m->gate_up) {
        int64_t total = 2 * (int64_t)m->d_ff;
        gate = qn_part_linear_rows(b, name, m->gate_up, x, (qn_part_rows){ total, 0, m->d_ff });
        up = qn_part_linear_rows(b, name, m->gate_up, x, (qn_part_rows){ total, m->d_ff, m->d_ff });
    } else {
        const char *leaf = m->gate ? m->gate : "gate_proj";
        bool has_bias = false;
        gate = qn_part_linear(b, name, leaf, x, m->d_ff, &has_bias);
        qn_part_check_bias(b, "mlp_bias", qn_part_name(b, name, leaf), has_bias);
        up = qn_part_linear(b, name, m->up ? m->up : "up_proj", x, m->d_ff, NULL);
    }
    qn_part_use_act(b, m->act);
    qn_part_enter(b, name, "");
    qn_val h = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)m->act }, gate);
    h = QN_ADD(b->g, &qn_op_mul, NULL, h, up);
    return qn_part_linear(b, name, m->down ? m->down : "down_proj", h, b->c->d_model, NULL);
}

qn_val qn_plain_mlp(qn_build *b, const char *name, qn_val x, const qn_mlp *m)
{
    const char *leaf = m->up ? m->up : "up_proj";
    bool has_bias = false;
    qn_val h = qn_part_linear(b, name, leaf, x, m->d_ff, &has_bias);
    qn_part_check_bias(b, "mlp_bias", qn_part_name(b, name, leaf), has_bias);
    qn_part_use_act(b, m->act);
    qn_part_enter(b, name, "");
    h = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)m->act }, h);
    return qn_part_linear(b, name, m->down ? m->down : "down_proj", h, b->c->d_model, NULL);
}
