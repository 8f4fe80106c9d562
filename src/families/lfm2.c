/* lfm2.c - LFM2 and LFM2.5, dense and as mixtures: gated convolutions over three tokens, with an attention layer every
 * few. The mixture scores experts with a sigmoid and chooses with a bias added. */
#include "families/common.h"

static bool is_attention(qn_build *b, const qn_config *c, int layer)
{
    bool listed =
        !qn_config_has(c, "full_attn_idxs") || qn_common_in_list(c, "full_attn_idxs", layer);
    return qn_layer_is_kind(b, layer, "full_attention", "conv", listed);
}

/* The width that the config means: two thirds of what it says, scaled and rounded up. */
static int dense_width(const qn_config *c)
{
    int64_t said = qn_config_int(c, "block_ff_dim", c->d_ff);
    int64_t step = qn_config_int(c, "block_multiple_of", 256);
    double factor = qn_config_num(c, "block_ffn_dim_multiplier", 1);
    if (!qn_config_bool(c, "block_auto_adjust_ff_dim", !qn_config_has(c, "num_experts")))
        return (int)said;
    int64_t width = (int64_t)(factor * (double)(2 * said / 3));
    return (int)(step > 0 ? (width + step - 1) / step * step : width);
}

static qn_val feed_forward(qn_build *b, int layer, qn_val x, const qn_config *c)
{
    const qn_mlp mlp = {
        .d_ff = dense_width(c), .act = QN_ACT_SILU, .gate = "w1", .up = "w3", .down = "w2"
    };
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = (int)qn_config_int(c, "moe_intermediate_size", 0),
                         .act = QN_ACT_SILU,
                         .score = QN_ROUTE_SIGMOID,
                         .renorm = qn_config_bool(c, "norm_topk_prob", true),
                         .factor = (float)qn_config_num(c, "routed_scaling_factor", 1),
                         .router = "gate",
                         .bias = qn_config_bool(c, "use_expert_bias", true) ? "expert_bias" : NULL,
                         .gate = "experts.%d.w1",
                         .up = "experts.%d.w3",
                         .down = "experts.%d.w2" };
    bool dense = c->n_experts == 0 || layer < qn_config_int(c, "num_dense_layers", 2);
    return dense ? qn_gated_mlp(b, "feed_forward", x, &mlp)
                 : qn_moe_mlp(b, "feed_forward", x, &moe);
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .rope = c->rope,
                           .qk_norm = QN_QK_HEAD,
                           .norm_eps = c->norm_eps,
                           .o = "out_proj",
                           .q_norm = "q_layernorm",
                           .k_norm = "k_layernorm" };
    const qn_short_conv conv = { .kernel = (int)qn_config_int(c, "conv_L_cache", 3),
                                 .bias = qn_config_bool(c, "conv_bias", false) };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "operator_norm", x, c->norm_eps);
        h = is_attention(b, c, i) ? qn_attention(b, "self_attn", h, &attn)
                                  : qn_gated_conv(b, "conv", h, &conv);
        x = qn_add(b, x, h);
        x = qn_add(b, x, feed_forward(b, i, qn_rms_norm(b, "ffn_norm", x, c->norm_eps), c));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "embedding_norm", x, c->norm_eps), c);
}

const qn_family qn_family_lfm2 = {
    .name = "lfm2",
    .model_types = (const char *const[]){ "lfm2", "lfm2_moe", NULL },
    .about = "LFM2, LFM2.5, dense and with experts",
    .tied = true,
    .build = build,
};
