/* gpt_neox.c - GPT-NeoX and Pythia: attention and a plain MLP side by side, each behind a LayerNorm of its own; rotary
 * positions on a part of each head; q, k and v of each head stand together in one matrix. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    bool parallel = qn_config_bool(c, "use_parallel_residual", true);
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_heads,
                     .head_dim = c->head_dim,
                     .rope = c->rope,
                     .qkv = "query_key_value",
                     .qkv_runs = c->n_heads,
                     .o = "dense" };
    if (!qn_config_has(c, "rotary_pct") && !qn_config_has(c, "rope_parameters"))
        attn.rope.n_rot = c->head_dim / 4;
    const qn_mlp mlp = { .d_ff = c->d_ff,
                         .act = c->hidden_act ? c->act : QN_ACT_GELU,
                         .up = "dense_h_to_4h",
                         .down = "dense_4h_to_h" };
    float eps = (float)qn_config_num(c, "layer_norm_eps", 1e-5);

    qn_scope(b, -1, "gpt_neox");
    qn_val x = qn_embed(b, "embed_in", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "gpt_neox.layers.%d", i);
        qn_ignore_part(b, "attention.bias");
        qn_ignore_part(b, "attention.masked_bias");
        qn_val h = qn_layer_norm(b, "input_layernorm", x, eps);
        qn_val y = qn_add(b, x, qn_attention(b, "attention", h, &attn));
        h = qn_layer_norm(b, "post_attention_layernorm", parallel ? x : y, eps);
        x = qn_add(b, y, qn_plain_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "gpt_neox");
    qn_logits(b, "embed_out", qn_layer_norm(b, "final_layer_norm", x, eps), c);
}

const qn_family qn_family_gpt_neox = {
    .name = "gpt_neox",
    .model_types = (const char *const[]){ "gpt_neox", NULL },
    .about = "GPT-NeoX 20B, Pythia, Dolly",
    .build = build,
};
