/* ernie4_5.c - ERNIE 4.5 (dense) and Helium: the Llama block with neighbouring columns rotating as pairs. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    attn.rope.interleaved = true;
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_ernie4_5 = {
    .name = "ernie4_5",
    .model_types = (const char *const[]){ "ernie4_5", "helium", NULL },
    .about = "ERNIE 4.5 dense models, Helium",
    .build = build,
};
