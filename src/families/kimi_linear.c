/* kimi_linear.c - Kimi Linear: layers of a delta rule with a decay for each channel, a layer of latent attention without
 * positions every few, experts after the first layers. */
#include <string.h>

#include "families/family.h"

/* Layer numbers in linear_attn_config count from 1. */
static bool attends(qn_build *b, const qn_json *linear, int layer)
{
    const qn_json *full = qn_json_get(linear, "full_attn_layers");
    for (uint32_t i = 0; qn_json_is(full, QN_JSON_ARRAY) && i < full->n; i++)
        if (qn_json_int(&full->items[i], -1) == layer + 1)
            return true;
    if (!full)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: linear_attn_config has no full_attn_layers");
    return false;
}

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = (int)qn_config_int(c, "num_experts_per_token", c->top_k),
                         .d_ff = (int)qn_config_int(c, "moe_intermediate_size", 0),
                         .act = c->act,
                         .score = QN_ROUTE_SIGMOID,
                         .renorm = qn_config_bool(c, "moe_renormalize", true),
                         .factor = (float)qn_config_num(c, "routed_scaling_factor", 1),
                         .n_groups = (int)qn_config_int(c, "num_expert_group", 1),
                         .top_groups = (int)qn_config_int(c, "topk_group", 1),
                         .bias = "gate.e_score_correction_bias",
                         .gate = "experts.%d.w1",
                         .up = "experts.%d.w3",
                         .down = "experts.%d.w2" };
    const qn_mlp shared = { .d_ff = moe.d_ff * (int)qn_config_int(c, "num_shared_experts", 0),
                            .act = c->act };
    const char *score = qn_config_str(c, "moe_router_activation_func", "sigmoid");
    if (strcmp(score, "sigmoid") != 0)
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                      "config: moe_router_activation_func \"%s\" is not supported", score);
    qn_val y = qn_moe_mlp(b, "block_sparse_moe", x, &moe);
    if (shared.d_ff == 0)
        return y;
    return qn_add(b, y, qn_gated_mlp(b, "block_sparse_moe.shared_experts", x, &shared));
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_json *linear = qn_config_get(c, "linear_attn_config");
    const int n_heads = (int)qn_json_int(qn_json_get(linear, "num_heads"), c->n_heads);
    const int dim = (int)qn_json_int(qn_json_get(linear, "head_dim"), 128);
    const qn_delta delta = { .n_heads = n_heads,
                             .n_key_heads = n_heads,
                             .k_dim = dim,
                             .v_dim = dim,
                             .kernel =
                                 (int)qn_json_int(qn_json_get(linear, "short_conv_kernel_size"), 4),
                             .channel_decay = true,
                             .gate_act = QN_ACT_SIGMOID,
                             .norm_eps = c->norm_eps,
                             .norm = "o_norm",
                             .out = "o_proj" };
    qn_mla mla = qn_mla_of(c);
    if (qn_config_bool(c, "mla_use_nope", true))
        mla.rope = (qn_rope){ 0 };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = attends(b, linear, i) ? qn_mla_attention(b, "self_attn", h, &mla)
                                  : qn_gated_delta(b, "self_attn", h, &delta);
        x = qn_add(b, x, h);
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        bool sparse = qn_layer_is_sparse(b, i, 0);
        x = qn_add(b, x, sparse ? experts(b, h, c) : qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_kimi_linear = {
    .name = "kimi_linear",
    .model_types = (const char *const[]){ "kimi_linear", NULL },
    .about = "Kimi Linear: delta rule by channels, latent attention, experts",
    .build = build,
};
