/* starcoder2.c - StarCoder2: LayerNorm, biases everywhere, an MLP without a gate, a window. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act, .up = "c_fc", .down = "c_proj" };

    /* Biases are used as the file has them. */
    qn_config_bool(c, "use_bias", true);

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 0);
        qn_val h = qn_layer_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_layer_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_plain_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_layer_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_starcoder2 = {
    .name = "starcoder2",
    .model_types = (const char *const[]){ "starcoder2", NULL },
    .about = "StarCoder2",
    .tied = true,
    .build = build,
};
