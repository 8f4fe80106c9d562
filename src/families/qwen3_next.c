/* qwen3_next.c - Qwen 3 Next, 3.5, 3.6: three layers of a gated delta rule to one of attention, whose result a gate
 * fades. Norms are stored less one. Next keeps products together head by head, 3.5 apart. Prediction heads are not
 * run. */
#include "families/family.h"

static bool attends(qn_build *b, const qn_config *c, int layer)
{
    int64_t every = qn_config_int(c, "full_attention_interval", 4);
    bool full = every > 0 && (layer + 1) % every == 0;
    return qn_layer_is_kind(b, layer, "full_attention", "linear_attention", full);
}

/* Layers named in mlp_only_layers, and all but every decoder_sparse_step-th one, stay dense. */
static bool has_experts(const qn_config *c, int layer)
{
    int64_t step = qn_config_int(c, "decoder_sparse_step", 1);
    const qn_json *dense = qn_config_get(c, "mlp_only_layers");
    for (uint32_t i = 0; dense && dense->type == QN_JSON_ARRAY && i < dense->n; i++)
        if (qn_json_int(&dense->items[i], -1) == layer)
            return false;
    return c->n_experts > 0 && step > 0 && (layer + 1) % step == 0;
}

static qn_val feed_forward(qn_build *b, int layer, qn_val x, const qn_config *c)
{
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };
    const qn_mlp shared = { .d_ff = (int)qn_config_int(c, "shared_expert_intermediate_size", 512),
                            .act = c->act };
    qn_moe moe = qn_moe_of(c, true);
    moe.gate_up = "experts.gate_up_proj";
    if (!has_experts(c, layer))
        return qn_gated_mlp(b, "mlp", x, &mlp);
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    qn_val gate = qn_activate(b, qn_linear(b, "mlp.shared_expert_gate", x, 1), QN_ACT_SIGMOID);
    return qn_add(b, y, qn_mul(b, qn_gated_mlp(b, "mlp.shared_expert", x, &shared), gate));
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .rope = c->rope,
                           .qk_norm = QN_QK_HEAD1,
                           .norm_eps = c->norm_eps,
                           .gate_in_q = true,
                           .gate_act = QN_ACT_SIGMOID };
    const qn_delta delta = { .n_heads = (int)qn_config_int(c, "linear_num_value_heads", 32),
                             .n_key_heads = (int)qn_config_int(c, "linear_num_key_heads", 16),
                             .k_dim = (int)qn_config_int(c, "linear_key_head_dim", 128),
                             .v_dim = (int)qn_config_int(c, "linear_value_head_dim", 128),
                             .kernel = (int)qn_config_int(c, "linear_conv_kernel_dim", 4),
                             .gate_act = QN_ACT_SILU,
                             .norm_eps = c->norm_eps };

    qn_ignore(b, "mtp.");
    qn_config_used(c, "attn_output_gate");
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm1(b, "input_layernorm", x, c->norm_eps);
        h = attends(b, c, i) ? qn_attention(b, "self_attn", h, &attn)
                             : qn_gated_delta(b, "linear_attn", h, &delta);
        x = qn_add(b, x, h);
        h = qn_rms_norm1(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, feed_forward(b, i, h, c));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm1(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_qwen3_next = {
    .name = "qwen3_next",
    .model_types = (const char *const[]){ "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text",
                                          "qwen3_5", "qwen3_5_moe", NULL },
    .about =
        "Qwen 3 Next, Qwen 3.5 and 3.6: gated delta rule and attention, with or without experts",
    .build = build,
};
