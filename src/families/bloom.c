/* bloom.c - BLOOM: ALiBi instead of positions, a LayerNorm on the embedding, plain MLPs of tanh-GELU. The residual may
 * be taken after the norms. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    bool after = qn_config_bool(c, "apply_residual_connection_post_layernorm", false);
    const char *root = qn_has_tensor(b, "transformer.word_embeddings.weight") ? "transformer" : "";
    const char *dot = root[0] ? "." : "";
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_heads,
                           .head_dim = c->head_dim,
                           .alibi = 8,
                           .qkv = "query_key_value",
                           .qkv_runs = c->n_heads,
                           .o = "dense" };
    const qn_mlp mlp = { .d_ff = 4 * c->d_model,
                         .act = QN_ACT_GELU_TANH,
                         .up = "dense_h_to_4h",
                         .down = "dense_4h_to_h" };
    float eps = (float)qn_config_num(c, "layer_norm_epsilon", 1e-5);

    qn_scope(b, -1, "%s", root);
    qn_val x =
        qn_layer_norm(b, "word_embeddings_layernorm", qn_embed(b, "word_embeddings", c), eps);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "%s%sh.%d", root, dot, i);
        qn_val h = qn_layer_norm(b, "input_layernorm", x, eps);
        x = qn_add(b, after ? h : x, qn_attention(b, "self_attention", h, &attn));
        h = qn_layer_norm(b, "post_attention_layernorm", x, eps);
        x = qn_add(b, after ? h : x, qn_plain_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "%s", root);
    qn_logits(b, "lm_head", qn_layer_norm(b, "ln_f", x, eps), c);
}

const qn_family qn_family_bloom = {
    .name = "bloom",
    .model_types = (const char *const[]){ "bloom", NULL },
    .about = "BLOOM, BLOOMZ",
    .tied = true,
    .build = build,
};
