/* bamba.c - Bamba: Mamba-2 layers with an attention layer every few; a gated MLP after each. */
#include "families/common.h"

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };
    const qn_ssm2 ssm = qn_common_ssm2(b);

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        bool attends = qn_common_in_list(c, "attn_layer_indices", i);
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = attends ? qn_attention(b, "self_attn", h, &attn) : qn_ssm2_mixer(b, "mamba", h, &ssm);
        x = qn_add(b, x, h);
        h = qn_rms_norm(b, "pre_ff_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "feed_forward", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "final_layernorm", x, c->norm_eps), c);
}

const qn_family qn_family_bamba = {
    .name = "bamba",
    .model_types = (const char *const[]){ "bamba", NULL },
    .about = "Bamba: Mamba 2 and attention",
    .build = build,
};
