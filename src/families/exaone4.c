/* exaone4.c - EXAONE 4: norms after attention and MLP only, a norm of each head of q and k. The large model
 * windows three of four layers, and the layers that see everything have no positions. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .qk_norm = QN_QK_HEAD,
                     .norm_eps = c->norm_eps };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 4);
        attn.rope = c->window == 0 || attn.window > 0 ? c->rope : (qn_rope){ 0 };
        qn_val h = qn_attention(b, "self_attn", x, &attn);
        x = qn_add(b, x, qn_rms_norm(b, "post_attention_layernorm", h, c->norm_eps));
        h = qn_gated_mlp(b, "mlp", x, &mlp);
        x = qn_add(b, x, qn_rms_norm(b, "post_feedforward_layernorm", h, c->norm_eps));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_exaone4 = {
    .name = "exaone4",
    .model_types = (const char *const[]){ "exaone4", NULL },
    .about = "EXAONE 4",
    .build = build,
};
