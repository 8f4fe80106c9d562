/* jamba.c - Jamba: Mamba layers with an attention layer every few that knows no positions, and a mixture of experts in
 * place of every few MLPs. The chosen experts' weights are not made to sum to one. */
#include "families/family.h"

/* Layers offset, offset + period, ... */
static bool is_every(const qn_config *c, int layer, const char *period, const char *offset)
{
    int64_t step = qn_config_int(c, period, 1);
    return step > 0 && layer % step == qn_config_int(c, offset, 0);
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .norm_eps = c->norm_eps };
    const qn_json *rank = qn_config_get(c, "mamba_dt_rank"); /* a number, or "auto" */
    const qn_ssm1 ssm = { .d_inner = (int)qn_config_int(c, "mamba_expand", 2) * c->d_model,
                          .d_state = (int)qn_config_int(c, "mamba_d_state", 16),
                          .dt_rank = (int)qn_json_int(rank, (c->d_model + 15) / 16),
                          .kernel = (int)qn_config_int(c, "mamba_d_conv", 4),
                          .proj_bias = qn_config_bool(c, "mamba_proj_bias", false),
                          .conv_bias = qn_config_bool(c, "mamba_conv_bias", true),
                          .dt_norm = "dt_layernorm",
                          .b_norm = "b_layernorm",
                          .c_norm = "c_layernorm",
                          .norm_eps = c->norm_eps };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = c->d_ff,
                         .act = c->act,
                         .score = QN_ROUTE_SOFTMAX,
                         .router = "router",
                         .gate = "experts.%d.gate_proj",
                         .up = "experts.%d.up_proj",
                         .down = "experts.%d.down_proj" };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        bool attends = is_every(c, i, "attn_layer_period", "attn_layer_offset");
        bool expert = is_every(c, i, "expert_layer_period", "expert_layer_offset");
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = attends ? qn_attention(b, "self_attn", h, &attn) : qn_ssm1_mixer(b, "mamba", h, &ssm);
        x = qn_add(b, x, h);
        h = qn_rms_norm(b, "pre_ff_layernorm", x, c->norm_eps);
        if (expert && c->n_experts > 1)
            h = qn_moe_mlp(b, "feed_forward", h, &moe);
        else
            h = qn_gated_mlp(b, "feed_forward", h, &mlp);
        x = qn_add(b, x, h);
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "final_layernorm", x, c->norm_eps), c);
}

const qn_family qn_family_jamba = {
    .name = "jamba",
    .model_types = (const char *const[]){ "jamba", NULL },
    .about = "Jamba: Mamba, attention without positions, experts",
    .build = build,
};
