/* mlp.c - feed-forward blocks with and without a gate. */
#include <math.h>

#include "blocks/parts.h"

/* gate * sigmoid(slope * gate): SiLU, steeper or flatter. */
static qn_val swish(qn_build *b, qn_val gate, float slope)
{
    gate = QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ slope }, gate);
    gate = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ QN_ACT_SILU }, gate);
    return QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ 1 / slope }, gate);
}

qn_val qn_part_gated(qn_build *b, const qn_gating *g, qn_val gate, qn_val up)
{
    if (!isfinite(g->limit) || g->limit < 0 || !isfinite(g->slope))
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: limits of the activation are no numbers");
    if (qn_failed(b))
        return (qn_val){ 0 };
    const qn_attr_clamp above = { .lo = -INFINITY, .hi = g->limit };
    const qn_attr_clamp both = { .lo = -g->limit, .hi = g->limit };
    if (g->limit > 0 && !g->limit_after)
        gate = QN_ADD(b->g, &qn_op_clamp, &above, gate);
    qn_val h = g->slope != 0 ? swish(b, gate, g->slope)
                             : QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)g->act }, gate);
    if (g->limit > 0 && g->limit_after)
        h = QN_ADD(b->g, &qn_op_clamp, &above, h);
    if (g->limit > 0)
        up = QN_ADD(b->g, &qn_op_clamp, &both, up);
    qn_val y = QN_ADD(b->g, &qn_op_mul, NULL, h, up);
    return g->up_plus_one ? QN_ADD(b->g, &qn_op_add, NULL, y, h) : y;
}

/* gate_up of x plus the product of two thin matrices. */
static qn_val adapted(qn_build *b, const char *name, qn_val x, const qn_mlp *m)
{
    int64_t total = 2 * (int64_t)m->d_ff;
    const char *in = qn_arena_printf(&b->g->arena, "%s.0", m->adapter);
    const char *out = qn_arena_printf(&b->g->arena, "%s.1", m->adapter);
    qn_val both = qn_part_linear(b, name, m->gate_up, x, total, NULL);
    qn_val extra = qn_part_linear(b, name, in, x, m->adapter_rank, NULL);
    extra = qn_part_linear(b, name, out, extra, total, NULL);
    return QN_ADD(b->g, &qn_op_add, NULL, both, extra);
}

qn_val qn_gated_mlp(qn_build *b, const char *name, qn_val x, const qn_mlp *m)
{
    qn_val gate, up;
    if (m->gate_up && m->adapter) {
        qn_val both = adapted(b, name, x, m);
        gate = qn_part_split(b, both, 0, m->d_ff);
        up = qn_part_split(b, both, m->d_ff, m->d_ff);
    } else if (m->gate_up) {
        int64_t total = 2 * (int64_t)m->d_ff;
        gate = qn_part_linear_rows(b, name, m->gate_up, x,
                                   (qn_part_rows){ .total = total, .n_out = m->d_ff });
        up = qn_part_linear_rows(
            b, name, m->gate_up, x,
            (qn_part_rows){ .total = total, .start = m->d_ff, .n_out = m->d_ff });
    } else {
        const char *leaf = m->gate ? m->gate : "gate_proj";
        bool has_bias = false;
        gate = qn_part_linear(b, name, leaf, x, m->d_ff, &has_bias);
        qn_part_check_bias(b, "mlp_bias", qn_part_name(b, name, leaf), has_bias);
        up = qn_part_linear(b, name, m->up ? m->up : "up_proj", x, m->d_ff, NULL);
    }
    qn_part_use_act(b, m->act);
    qn_part_enter(b, name, "");
    if (m->gate_scale != 0 && m->gate_scale != 1 && !qn_failed(b))
        gate = QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ m->gate_scale }, gate);
    qn_gating act = { .act = m->act, .limit = m->limit, .limit_after = m->limit_after };
    qn_val h = qn_part_gated(b, &act, gate, up);
    return qn_part_linear(b, name, m->down ? m->down : "down_proj", h, b->c->d_model, NULL);
}

qn_val qn_plain_mlp(qn_build *b, const char *name, qn_val x, const qn_mlp *m)
{
    const char *leaf = m->up ? m->up : "up_proj", *down = m->down ? m->down : "down_proj";
    qn_part_rows rows = { .total = m->d_ff, .n_out = m->d_ff, .inputs_first = m->inputs_first };
    qn_val h = qn_part_linear_rows(b, name, leaf, x, rows);
    bool has_bias = qn_part_find(b, qn_part_name(b, name, leaf), ".bias") != NULL;
    qn_part_check_bias(b, "mlp_bias", qn_part_name(b, name, leaf), has_bias);
    qn_part_use_act(b, m->act);
    qn_part_enter(b, name, "");
    h = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)m->act }, h);
    rows.total = rows.n_out = b->c->d_model;
    return qn_part_linear_rows(b, name, down, h, rows);
}
