/* falcon.c - Falcon 7B, 40B, 180B and RW: a plain MLP, beside attention (behind one LayerNorm or two) or after it.
 * Positions are rotary or, in RW, ALiBi. q, k and v are one matrix: all of q and one k and v, or groups of them. */
#include "families/family.h"

static qn_attn attention_of(const qn_config *c, bool is_new)
{
    qn_attn a = { .n_heads = c->n_heads,
                  .n_kv_heads = c->n_heads,
                  .head_dim = c->head_dim,
                  .rope = c->rope,
                  .qkv = "query_key_value",
                  .o = "dense",
                  .bias_key = "bias" };
    if (is_new)
        a.n_kv_heads = c->n_kv_heads;
    else if (qn_config_bool(c, "multi_query", true))
        a.n_kv_heads = 1;
    a.qkv_runs = a.n_kv_heads;
    if (qn_config_bool(c, "alibi", false)) {
        a.rope = (qn_rope){ 0 };
        a.alibi = 8;
        a.alibi_scaled = true;
    }
    return a;
}

/* 40B and 180B norm the two halves' inputs apart; a later smaller one says how many norms it has. */
static bool has_two_norms(const qn_config *c, bool is_new)
{
    return is_new && qn_config_int(c, "num_ln_in_parallel_attn", 2) == 2;
}

static void build(qn_build *b, const qn_config *c)
{
    bool is_new = qn_config_bool(c, "new_decoder_architecture", false);
    bool parallel = qn_config_bool(c, "parallel_attn", true) || is_new;
    bool two = has_two_norms(c, is_new);
    const qn_attn attn = attention_of(c, is_new);
    const char *act = qn_config_str(c, "activation", "gelu");
    const qn_mlp mlp = { .d_ff = c->d_ff > 0 ? c->d_ff : 4 * c->d_model,
                         .act = qn_act_find(act),
                         .up = "dense_h_to_4h",
                         .down = "dense_4h_to_h" };
    float eps = (float)qn_config_num(c, "layer_norm_epsilon", 1e-5);

    qn_scope(b, -1, "transformer");
    qn_val x = qn_embed(b, "word_embeddings", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "transformer.h.%d", i);
        qn_val h = qn_layer_norm(b, two ? "ln_attn" : "input_layernorm", x, eps);
        qn_val y = qn_add(b, x, qn_attention(b, "self_attention", h, &attn));
        if (two)
            h = qn_layer_norm(b, "ln_mlp", x, eps);
        else if (!parallel)
            h = qn_layer_norm(b, "post_attention_layernorm", y, eps);
        x = qn_add(b, y, qn_plain_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "transformer");
    qn_logits(b, "lm_head", qn_layer_norm(b, "ln_f", x, eps), c);
}

const qn_family qn_family_falcon = {
    .name = "falcon",
    .model_types = (const char *const[]){ "falcon", "RefinedWeb", "RefinedWebModel", NULL },
    .about = "Falcon 7B, 40B, 180B, RW",
    .tied = true,
    .build = build,
};
