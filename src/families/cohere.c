/* cohere.c - Command R and R7B (Cohere 1 and 2): attention and MLP stand side by side behind one LayerNorm
 * without bias, pairs of neighbouring columns rotate, the logits are scaled. Cohere 2 windows three of four
 * layers; the fourth sees everything and has no positions. */
#include <string.h>

#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    bool is_cohere2 = strcmp(c->model_type, "cohere2") == 0;
    qn_attn attn = { .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim };
    qn_rope rope = c->rope;
    rope.interleaved = true;
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };
    /* What these say is how the family is made anyway. */
    qn_config_str(c, "position_embedding_type", "rope_gptj");
    qn_config_bool(c, "use_parallel_block", true);

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = is_cohere2 ? qn_layer_window(b, i, 4) : 0;
        attn.rope = is_cohere2 && attn.window == 0 ? (qn_rope){ 0 } : rope;
        qn_val h = qn_layer_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        x = qn_add(b, x, qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    x = qn_head(b, "lm_head", qn_layer_norm(b, "norm", x, c->norm_eps), c);
    qn_mark_output(b, "logits", qn_scale(b, x, (float)qn_config_num(c, "logit_scale", 0.0625)));
}

const qn_family qn_family_cohere = {
    .name = "cohere",
    .model_types = (const char *const[]){ "cohere", "cohere2", NULL },
    .about = "Command R, Command R7B, Aya text models",
    .tied = true,
    .build = build,
};
