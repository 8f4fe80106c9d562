/* phi3.c - Phi-3, 3.5 and 4 (text): the Llama block with q, k, v in one matrix and gate and up in another. Long
 * contexts use longrope, of which later models rotate only a part of each head. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .rope = c->rope,
                     .qkv = "qkv_proj" };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act, .gate_up = "gate_up_proj" };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 0);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_phi3 = {
    .name = "phi3",
    .model_types = (const char *const[]){ "phi3", NULL },
    .about = "Phi-3, Phi-3.5, Phi-4 text models",
    .build = build,
};
