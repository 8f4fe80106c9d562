/* moe.c - a mixture of experts: a router chooses, each choice is a gated MLP, outputs are added by weight.
 *
 * Experts are one stack [n_experts, n, k] to the ops, however the file stores them: singly, stacked, gate and up
 * in one stack or two. Shared experts are plain MLPs beside this block and the family's affair. */
#include <string.h>

#include "blocks/parts.h"

/* One of the matrices of all experts, with its biases [n_experts, n] where the file has them. */
typedef struct bank {
    const qn_weight *w, *bias;
} bank;

/* "experts.%d.up_proj" -> "experts.up_proj": the name of the stack of what the pattern names singly. */
static const char *stack_name(qn_build *b, const char *pattern)
{
    const char *at = strstr(pattern, "%d.");
    if (!at)
        return pattern;
    return qn_arena_printf(&b->g->arena, "%.*s%s", (int)(at - pattern), pattern, at + 3);
}

/* The stack `name` within the block, with or without ".weight", and its biases. */
static bank find_stack(qn_build *b, const qn_moe *m, const char *block, const char *name,
                       bool inputs_first)
{
    const char *full = qn_part_name(b, block, name);
    bank k = { .w = qn_part_find(b, full, ".weight") };
    bool bare = !k.w;
    if (bare)
        k.w = qn_part_find(b, full, "");
    if (!k.w)
        return k;
    k.bias = qn_part_find(b, full, ".bias");
    if (!k.bias)
        k.bias = qn_part_find(b, full, "_bias");
    k.w = qn_part_stack(b, k.w, m->n_experts);
    /* Packed rows cannot lie across the direction they are summed in. */
    if (bare && inputs_first && qn_layout_get((qn_layout)k.w->layout)->block_elems == 1) {
        qn_error err = { 0 };
        k.w = qn_checkpoint_transposed(b->ck, k.w, &err);
        if (!k.w)
            qn_graph_fail(b->g, err.code, "%s", err.msg);
    }
    return k;
}

/* What the pattern names: single tensors, their stack, or the stack under the name that MLX gives it. */
static bank find_bank(qn_build *b, const qn_moe *m, const char *block, const char *pattern,
                      const char *mlx, bool inputs_first)
{
    bank k = { 0 };
    if (qn_failed(b))
        return k;
    qn_error err = { 0 };
    const char *single =
        qn_arena_printf(&b->g->arena, "%s.weight", qn_part_name(b, block, pattern));
    if (strstr(pattern, "%d"))
        k.w = qn_checkpoint_stack(b->ck, single, m->n_experts, &err);
    if (err.code != QN_OK)
        qn_graph_fail(b->g, err.code, "%s", err.msg);
    if (!k.w)
        k = find_stack(b, m, block, stack_name(b, pattern), inputs_first);
    return k.w || qn_failed(b) ? k : find_stack(b, m, block, mlx, false);
}

/* Every choice's product with its expert: [n_tok, top_k * n]. */
static qn_val multiply(qn_build *b, qn_val x, bank k, qn_val ids, qn_attr_expert_linear attr)
{
    if (qn_failed(b))
        return x;
    qn_val bias = k.bias ? qn_graph_weight(b->g, k.bias) : (qn_val){ 0 };
    return QN_ADD(b->g, &qn_op_expert_linear, &attr, x, qn_graph_weight(b->g, k.w), ids, bias);
}

static bool fits(qn_build *b, bank k, const char *block, const char *pattern, const int64_t dim[3])
{
    const char *name = qn_part_name(b, block, pattern);
    if (!qn_part_fits(b, k.w, name, dim[0], dim[1], dim[2]))
        return false;
    return !k.bias || qn_part_fits(b, k.bias, name, 0, dim[0], dim[1]);
}

/* act(up) of every choice: [n_tok, top_k * d_ff]. */
static qn_val plain(qn_build *b, const char *name, qn_val x, qn_val ids, const qn_moe *m)
{
    const char *up_name = m->up ? m->up : "experts.%d.up_proj";
    const int64_t d = m->d_latent > 0 ? m->d_latent : b->c->d_model;
    bank up = find_bank(b, m, name, up_name, "switch_mlp.fc1", m->inputs_first);
    if (!fits(b, up, name, up_name, (const int64_t[]){ m->n_experts, m->d_ff, d }))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_val h = multiply(b, x, up, ids, (qn_attr_expert_linear){ .top_k = m->top_k });
    return QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)m->act }, h);
}

/* act(gate) * up of every choice: [n_tok, top_k * d_ff]. */
static qn_val gated(qn_build *b, const char *name, qn_val x, qn_val ids, const qn_moe *m)
{
    int64_t e = m->n_experts, d = m->d_latent > 0 ? m->d_latent : b->c->d_model, n = m->d_ff;
    qn_attr_expert_linear attr = { .top_k = m->top_k, .x_per_slot = m->scales_input };
    qn_gating act = { .act = m->act,
                      .limit = m->limit,
                      .slope = m->slope,
                      .limit_after = m->limit_after,
                      .up_plus_one = m->up_plus_one };
    bank both = { 0 };
    if (m->gate_up)
        both = find_stack(b, m, name, m->gate_up, m->inputs_first);
    if (both.w) {
        if (!fits(b, both, name, m->gate_up, (const int64_t[]){ e, 2 * n, d }))
            return (qn_val){ 0 };
        qn_part_enter(b, name, "");
        qn_val y = multiply(b, x, both, ids, attr);
        qn_attr_split half = { .width = n, .group = 2 * n, .step = m->in_turns ? 2 : 1 };
        qn_val gate = QN_ADD(b->g, &qn_op_split, &half, y);
        half.start = m->in_turns ? 1 : n;
        return qn_part_gated(b, &act, gate, QN_ADD(b->g, &qn_op_split, &half, y));
    }
    const int64_t dim[3] = { e, n, d };
    if (m->plain)
        return plain(b, name, x, ids, m);
    const char *gate_name = m->gate ? m->gate : "experts.%d.gate_proj";
    const char *up_name = m->up ? m->up : "experts.%d.up_proj";
    bank gate = find_bank(b, m, name, gate_name, "switch_mlp.gate_proj", m->inputs_first);
    bank up = find_bank(b, m, name, up_name, "switch_mlp.up_proj", m->inputs_first);
    if (!fits(b, gate, name, gate_name, dim) || !fits(b, up, name, up_name, dim))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_val g = multiply(b, x, gate, ids, attr);
    return qn_part_gated(b, &act, g, multiply(b, x, up, ids, attr));
}

/* Who goes where: ids [n_tok, top_k] and, as result 1, weights. */
static qn_val route(qn_build *b, const char *name, qn_val x, const qn_moe *m)
{
    int32_t n = m->n_experts + m->n_identity;
    const qn_weight *bias = m->bias ? qn_part_find(b, qn_part_name(b, name, m->bias), "") : NULL;
    if (m->bias && !bias)
        bias = qn_part_find(b, qn_part_name(b, name, m->bias), ".bias");
    if (m->bias && !bias)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s is missing", qn_part_name(b, name, m->bias));
    if (bias && bias->n_dims == 2 && bias->dim[0] == 1) /* a row is as good as a vector */
        bias = qn_part_row(b, bias);
    if (bias && !qn_part_fits_vector(b, bias, n))
        return (qn_val){ 0 };
    qn_val logits = qn_part_linear(b, name, m->router ? m->router : "gate", x, n, NULL);
    logits = qn_softcap(b, logits, m->router_cap);
    qn_attr_route attr = { .n_experts = n,
                           .top_k = m->top_k,
                           .score = m->score,
                           .renorm = m->renorm,
                           .factor = m->factor != 0 ? m->factor : 1,
                           .n_groups = m->n_groups > 1 ? m->n_groups : 0,
                           .top_groups = m->top_groups,
                           .group_pairs = m->group_pairs,
                           .jitter = m->jitter };
    qn_val bias_val = bias ? qn_graph_weight(b->g, bias) : (qn_val){ 0 };
    return QN_ADD(b->g, &qn_op_route, &attr, logits, bias_val);
}

/* x times each choice's weight, choices side by side: [n_tok, top_k * d_model]. */
static qn_val scaled_inputs(qn_build *b, qn_val x, qn_val weights, int top_k)
{
    qn_val all = x;
    for (int k = 1; k < top_k; k++)
        all = QN_ADD(b->g, &qn_op_join, &(qn_attr_join){ 1 }, all, x);
    return QN_ADD(b->g, &qn_op_mul, NULL, all, weights);
}

/* The plain sum of what the choices gave, in rank order. */
static qn_val sum_choices(qn_build *b, qn_val y, int64_t width, int top_k)
{
    qn_val sum = { 0 };
    for (int k = 0; k < top_k; k++) {
        qn_attr_split part = { .start = k * width, .width = width };
        qn_val one = top_k == 1 ? y : QN_ADD(b->g, &qn_op_split, &part, y);
        sum = k == 0 ? one : QN_ADD(b->g, &qn_op_add, NULL, sum, one);
    }
    return sum;
}

bool qn_layer_is_sparse(qn_build *b, int layer, int first)
{
    const qn_json *types = qn_config_get(b->c, "mlp_layer_types");
    const qn_json *every = qn_config_get(b->c, "moe_layer_freq");
    int64_t n_dense = qn_config_int(b->c, "first_k_dense_replace", first);
    if (types) {
        const qn_json *kind = qn_json_at(types, (size_t)layer);
        if (!qn_json_eq(kind, "sparse") && !qn_json_eq(kind, "dense"))
            qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                          "config: mlp_layer_types says \"%s\" for layer %d of %d",
                          qn_json_str(kind, "nothing"), layer, b->c->n_layers);
        return qn_json_eq(kind, "sparse");
    }
    if (qn_json_is(every, QN_JSON_ARRAY))
        return qn_json_int(qn_json_at(every, (size_t)layer), 0) != 0;
    int64_t period = qn_json_int(every, 1);
    if (period < 1)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: moe_layer_freq is no period");
    return b->c->n_experts > 0 && layer >= n_dense && period > 0 && layer % period == 0;
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

/* Files may hold experts for the choices that are none. */
static void ignore_identities(qn_build *b, const char *block, const qn_moe *m)
{
    const char *pattern[] = { m->gate, m->up, m->down };
    const char *usual[] = { "gate_proj", "up_proj", "down_proj" };
    for (int e = m->n_experts; e < m->n_experts + m->n_identity; e++)
        for (int i = 0; i < 3 && !pattern[i]; i++) {
            const char *leaf = qn_arena_printf(&b->g->arena, "experts.%d.%s.weight", e, usual[i]);
            qn_checkpoint_ignore(b->ck, qn_part_name(b, block, leaf));
        }
}

qn_moe qn_moe_of(const qn_config *c, bool renorm)
{
    return (qn_moe){ .n_experts = c->n_experts,
                     .top_k = c->top_k,
                     .act = c->act,
                     .d_ff = (int)qn_config_int(c, "moe_intermediate_size", 0),
                     .renorm = qn_config_bool(c, "norm_topk_prob", renorm),
                     .factor = (float)qn_config_num(c, "routed_scaling_factor", 1),
                     .n_groups = (int)qn_config_int(c, "n_group", 1),
                     .top_groups = (int)qn_config_int(c, "topk_group", 1) };
}

qn_val qn_moe_mlp(qn_build *b, const char *name, qn_val x, const qn_moe *m)
{
    if (m->n_identity < 0 || m->top_k < 1 || m->top_k > m->n_experts + m->n_identity)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: %d of %d experts are chosen", m->top_k,
                      m->n_experts);
    qn_val ids = route(b, name, x, m), weights = qn_out(ids, 1), share = { 0 };
    use_keys(b, m);
    if (qn_failed(b))
        return (qn_val){ 0 };
    if (m->n_identity > 0) {
        ignore_identities(b, name, m);
        qn_attr_identity_experts attr = { .n_experts = m->n_experts };
        ids = QN_ADD(b->g, &qn_op_identity_experts, &attr, ids, weights);
        weights = qn_out(ids, 1);
        share = qn_out(ids, 2);
    }
    int64_t width = m->d_latent > 0 ? m->d_latent : b->c->d_model;
    if (m->d_latent > 0)
        x = qn_part_linear(b, name, m->latent_in, x, width, NULL);
    qn_val in = m->scales_input ? scaled_inputs(b, x, weights, m->top_k) : x;
    qn_val h = gated(b, name, in, ids, m);
    const char *down_name = m->down ? m->down : "experts.%d.down_proj";
    bank down =
        find_bank(b, m, name, down_name, m->plain ? "switch_mlp.fc2" : "switch_mlp.down_proj",
                  m->inputs_first || m->down_inputs_first);
    const int64_t dim[3] = { m->n_experts, width, m->d_ff };
    if (qn_failed(b) || !fits(b, down, name, down_name, dim))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    h = multiply(b, h, down, ids, (qn_attr_expert_linear){ .top_k = m->top_k, .x_per_slot = true });
    if (m->scales_input)
        return sum_choices(b, h, b->c->d_model, m->top_k);
    qn_val y = QN_ADD(b->g, &qn_op_expert_sum, &(qn_attr_expert_sum){ m->top_k }, h, weights);
    if (m->d_latent > 0)
        return qn_part_linear(b, name, m->latent_out, y, b->c->d_model, NULL);
    if (!share.id)
        return y;
    return QN_ADD(b->g, &qn_op_add, NULL, y, QN_ADD(b->g, &qn_op_mul, NULL, x, share));
}
