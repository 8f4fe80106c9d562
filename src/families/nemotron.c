/* nemotron.c - Nemotron 4 and Minitron, Arcee AFM, Jais 2: MLPs of squared ReLU without a gate. Nemotron's
 * LayerNorm stores its weight less one; Jais has a plain LayerNorm, Arcee an RMS norm. */
#include <string.h>

#include "families/family.h"

typedef qn_val norm_fn(qn_build *b, const char *name, qn_val x, float eps);

static void build(qn_build *b, const qn_config *c)
{
    norm_fn *norm = strcmp(c->model_type, "nemotron") == 0 ? qn_layer_norm1
                    : strcmp(c->model_type, "jais2") == 0  ? qn_layer_norm
                                                           : qn_rms_norm;
    const qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_plain_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_nemotron = {
    .name = "nemotron",
    .model_types = (const char *const[]){ "nemotron", "arcee", "jais2", NULL },
    .about = "Nemotron 4, Minitron; Arcee AFM; Jais 2",
    .build = build,
};
