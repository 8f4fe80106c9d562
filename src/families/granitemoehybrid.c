/* granitemoehybrid.c - Granite 4: Mamba-2 layers with an attention layer every few, mostly without positions; every
 * layer has an MLP that all tokens go through, and some models a mixture beside it. Granite's four scalars. */
#include <string.h>

#include "families/common.h"

static qn_val feed_forward(qn_build *b, qn_val x, const qn_config *c)
{
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = c->d_ff,
                         .act = c->act,
                         .score = QN_ROUTE_SOFTMAX_TOPK,
                         .router = "router.layer",
                         .gate_up = "input_linear",
                         .down = "output_linear" };
    qn_mlp shared = { .d_ff = (int)qn_config_int(c, "shared_intermediate_size", 1024),
                      .act = c->act,
                      .gate_up = "input_linear",
                      .down = "output_linear" };
    qn_val y = qn_gated_mlp(b, "shared_mlp", x, &shared);
    return c->n_experts > 0 ? qn_add(b, qn_moe_mlp(b, "block_sparse_moe", x, &moe), y) : y;
}

static void build(qn_build *b, const qn_config *c)
{
    const float residual = (float)qn_config_num(c, "residual_multiplier", 1);
    const char *positions = qn_config_str(c, "position_embedding_type", "nope");
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .scale = (float)qn_config_num(c, "attention_multiplier", 1) };
    if (strcmp(positions, "rope") == 0)
        attn.rope = c->rope;
    const qn_ssm2 ssm = qn_common_ssm2(b);

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    x = qn_scale(b, x, (float)qn_config_num(c, "embedding_multiplier", 1));
    for (int i = 0; i < c->n_layers; i++) {
        bool attends = qn_layer_is_kind(b, i, "attention", "mamba", false);
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = attends ? qn_attention(b, "self_attn", h, &attn) : qn_ssm2_mixer(b, "mamba", h, &ssm);
        x = qn_add(b, x, qn_scale(b, h, residual));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_scale(b, feed_forward(b, h, c), residual));
    }
    qn_scope(b, -1, "model");
    x = qn_head(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
    const double scaling = qn_config_num(c, "logits_scaling", 1);
    qn_mark_output(b, "logits", qn_scale(b, x, (float)(1 / scaling)));
}

const qn_family qn_family_granitemoehybrid = {
    .name = "granitemoehybrid",
    .model_types = (const char *const[]){ "granitemoehybrid", NULL },
    .about = "Granite 4: Mamba 2 and attention, with or without experts",
    .build = build,
};
