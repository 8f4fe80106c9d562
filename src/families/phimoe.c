/* phimoe.c - Phi-3.5 MoE: LayerNorms and biases throughout, and two experts chosen one after the other, each weighed
 * among those that came near it (sparsemixer). */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    qn_moe moe = qn_moe_of(c, false);
    moe.d_ff = c->d_ff;
    moe.score = QN_ROUTE_SPARSEMIX;
    moe.jitter = (float)qn_config_num(c, "router_jitter_noise", 0.01);
    moe.gate = "experts.%d.w1";
    moe.up = "experts.%d.w3";
    moe.down = "experts.%d.w2";

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 0);
        qn_val h = qn_layer_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_layer_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_moe_mlp(b, "block_sparse_moe", h, &moe));
    }
    if (qn_config_bool(c, "lm_head_bias", false) != qn_has_tensor(b, "lm_head.bias"))
        qn_unsupported(b, "an lm_head_bias other than the file's");
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_layer_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_phimoe = {
    .name = "phimoe",
    .model_types = (const char *const[]){ "phimoe", NULL },
    .about = "Phi-3.5 MoE",
    .build = build,
};
