/* moe.c - a mixture of experts: a router chooses, each choice is a gated MLP, outputs are added by weight.
 *
 * Experts are one stack [n_experts, n, k] to the ops, however the file stores them. Shared experts are plain
 * MLPs beside this block and the family's affair. */
#include "blocks/parts.h"

/* The stack of one of the three matrices: from single tensors by pattern, or stored as a stack already. */
static qn_val experts(qn_build *b, const char *block, const char *pattern, const char *stacked,
                      const int64_t dim[3])
{
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_error err = { 0 };
    const char *name = qn_part_name(b, block, pattern);
    const char *single = qn_arena_printf(&b->g->arena, "%s.weight", name);
    const qn_weight *w = qn_checkpoint_stack(b->ck, single, (int)dim[0], &err);
    if (err.code != QN_OK)
        qn_graph_fail(b->g, err.code, "%s", err.msg);
    if (!w)
        w = qn_part_find(b, qn_part_name(b, block, stacked), ".weight");
    if (!qn_part_fits(b, w, name, dim[0], dim[1], dim[2]))
        return (qn_val){ 0 };
    return qn_graph_weight(b->g, w);
}

/* Who goes where: ids [n_tok, top_k] and, as result 1, weights. */
static qn_val route(qn_build *b, const char *name, qn_val x, const qn_moe *m)
{
    const qn_weight *bias = m->bias ? qn_part_find(b, qn_part_name(b, name, m->bias), "") : NULL;
    if (m->bias && !bias)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s is missing", qn_part_name(b, name, m->bias));
    if (bias && bias->n_dims == 2 && bias->dim[0] == 1) /* a row is as good as a vector */
        bias = qn_part_row(b, bias);
    if (bias && !qn_part_fits_vector(b, bias, m->n_experts))
        return (qn_val){ 0 };
    qn_val logits = qn_part_linear(b, name, m->router, x, m->n_experts, NULL);
    qn_attr_route attr = { .n_experts = m->n_experts,
                           .top_k = m->top_k,
                           .score = m->score,
                           .renorm = m->renorm,
                           .factor = m->factor != 0 ? m->factor : 1,
                           .n_groups = m->n_groups > 1 ? m->n_groups : 0,
                           .top_groups = m->top_groups };
    qn_val bias_val = bias ? qn_graph_weight(b->g, bias) : (qn_val){ 0 };
    return QN_ADD(b->g, &qn_op_route, &attr, logits, bias_val);
}

static void use_keys(qn_build *b, const qn_moe *m)
{
    static const char *const keys[] = { "num_local_experts", "num_experts",
                                        "n_routed_experts",  "num_experts_per_tok",
                                        "experts_per_token", "top_k_experts" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        qn_config_used(b->c, keys[i]);
    qn_part_use_act(b, m->act);
}

qn_val qn_moe_mlp(qn_build *b, const char *name, qn_val x, const qn_moe *m)
{
    if (m->top_k < 1 || m->top_k > m->n_experts)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: %d of %d experts are chosen", m->top_k,
                      m->n_experts);
    int64_t d = b->c->d_model, e = m->n_experts;
    qn_val chosen = route(b, name, x, m);
    qn_val gate_w =
        experts(b, name, m->gate, "switch_mlp.gate_proj", (const int64_t[]){ e, m->d_ff, d });
    qn_val up_w = experts(b, name, m->up, "switch_mlp.up_proj", (const int64_t[]){ e, m->d_ff, d });
    qn_val down_w =
        experts(b, name, m->down, "switch_mlp.down_proj", (const int64_t[]){ e, d, m->d_ff });
    use_keys(b, m);
    if (qn_failed(b))
        return (qn_val){ 0 };

    qn_part_enter(b, name, "");
    qn_attr_expert_linear shared = { .top_k = m->top_k };
    qn_attr_expert_linear own = { .top_k = m->top_k, .x_per_slot = true };
    qn_val gate = QN_ADD(b->g, &qn_op_expert_linear, &shared, x, gate_w, chosen);
    qn_val up = QN_ADD(b->g, &qn_op_expert_linear, &shared, x, up_w, chosen);
    qn_val h = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)m->act }, gate);
    h = QN_ADD(b->g, &qn_op_mul, NULL, h, up); /* [n_tok, top_k * d_ff] */
    qn_val y = QN_ADD(b->g, &qn_op_expert_linear, &own, h, down_w, chosen);
    return QN_ADD(b->g, &qn_op_expert_sum, &(qn_attr_expert_sum){ m->top_k }, y, qn_out(chosen, 1));
}
