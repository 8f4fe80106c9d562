/* granite.c - Granite 3 (dense): the Llama block with four scalars, on the embedding, the attention scores, what
 * each half adds to the stream, and the logits. HyperCLOVA X also norms what each half adds. */
#include <string.h>

#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    const float residual = (float)qn_config_num(c, "residual_multiplier", 1);
    /* Granite divides by the scaling of the logits, HyperCLOVA X multiplies. */
    const bool divides = strcmp(c->model_type, "granite") == 0;
    const bool norms_after = qn_config_bool(c, "use_post_norm", false);
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .scale = (float)qn_config_num(c, "attention_multiplier", 1),
                           .rope = c->rope };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    x = qn_scale(b, x, (float)qn_config_num(c, "embedding_multiplier", 1));
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = qn_attention(b, "self_attn", h, &attn);
        if (norms_after)
            h = qn_rms_norm(b, "post_norm1", h, c->norm_eps);
        x = qn_add(b, x, qn_scale(b, h, residual));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        h = qn_gated_mlp(b, "mlp", h, &mlp);
        if (norms_after)
            h = qn_rms_norm(b, "post_norm2", h, c->norm_eps);
        x = qn_add(b, x, qn_scale(b, h, residual));
    }
    qn_scope(b, -1, "model");
    x = qn_head(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
    const double scaling = qn_config_num(c, "logits_scaling", 1);
    qn_mark_output(b, "logits", qn_scale(b, x, (float)(divides ? 1 / scaling : scaling)));
}

const qn_family qn_family_granite = {
    .name = "granite",
    .model_types = (const char *const[]){ "granite", "hyperclovax", NULL },
    .about = "Granite 3 dense models, HyperCLOVA X",
    .build = build,
};
