/* phi.c - Phi 1, 1.5 and 2: attention and a plain MLP side by side behind one LayerNorm, biases everywhere, rotary
 * positions on a part of each head. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .rope = c->rope,
                           .o = "dense" };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act, .up = "fc1", .down = "fc2" };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_layer_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        x = qn_add(b, x, qn_plain_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_layer_norm(b, "final_layernorm", x, c->norm_eps), c);
}

const qn_family qn_family_phi = {
    .name = "phi",
    .model_types = (const char *const[]){ "phi", NULL },
    .about = "Phi 1, 1.5 and 2",
    .build = build,
};
