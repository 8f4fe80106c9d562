/* glm.c - GLM-4 (glm, glm4): gate and up in one matrix, neighbouring columns of half of each head rotate. The
 * later files (glm4) also norm what attention and MLP add to the stream. */
#include <string.h>

#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    bool is_glm4 = strcmp(c->model_type, "glm4") == 0;
    qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    attn.rope.interleaved = true;
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act, .gate_up = "gate_up_proj" };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = qn_attention(b, "self_attn", h, &attn);
        if (is_glm4)
            h = qn_rms_norm(b, "post_self_attn_layernorm", h, c->norm_eps);
        x = qn_add(b, x, h);
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        h = qn_gated_mlp(b, "mlp", h, &mlp);
        if (is_glm4)
            h = qn_rms_norm(b, "post_mlp_layernorm", h, c->norm_eps);
        x = qn_add(b, x, h);
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_glm = {
    .name = "glm",
    .model_types = (const char *const[]){ "glm", "glm4", NULL },
    .about = "GLM-4 9B, GLM Edge, GLM-4-0414",
    .build = build,
};
