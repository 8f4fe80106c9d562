/* minicpm.c - MiniCPM 1, 2 and, with latent attention, 3: the Llama block scaled for transfer from small to large: the embedding, what each half
 * adds by depth, and the logits by width. */
#include <math.h>
#include <string.h>

#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    const double depth = qn_config_num(c, "scale_depth", 1);
    const float residual = (float)(depth / sqrt(c->n_layers));
    const float logits = (float)(qn_config_num(c, "dim_model_base", c->d_model) / c->d_model);
    const qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    const bool is_3 = strcmp(c->model_type, "minicpm3") == 0;
    qn_mla latent = { 0 };
    if (is_3) {
        latent = qn_mla_of(c);
        latent.rope.interleaved = false;
    }
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    x = qn_scale(b, x, (float)qn_config_num(c, "scale_emb", 1));
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = is_3 ? qn_mla_attention(b, "self_attn", h, &latent)
                 : qn_attention(b, "self_attn", h, &attn);
        x = qn_add(b, x, qn_scale(b, h, residual));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_scale(b, qn_gated_mlp(b, "mlp", h, &mlp), residual));
    }
    qn_scope(b, -1, "model");
    x = qn_scale(b, qn_rms_norm(b, "norm", x, c->norm_eps), logits);
    qn_logits(b, "lm_head", x, c);
}

const qn_family qn_family_minicpm = {
    .name = "minicpm",
    .model_types = (const char *const[]){ "minicpm", "minicpm3", NULL },
    .about = "MiniCPM 1, 2 and 3",
    .tied = true,
    .build = build,
};
