/* cohere.c - Command R, R7B and mixtures (Cohere 1 and 2): attention and MLP stand side by side behind one LayerNorm
 * without bias, pairs of neighbouring columns rotate, the logits are scaled. Cohere 2 windows three of four
 * layers; the fourth sees everything and has no positions. */
#include <string.h>

#include "families/family.h"

/* Mixtures: the best logits are chosen, then scored; shared experts are added or averaged in. */
static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, true);
    bool sigmoid = strcmp(qn_config_str(c, "expert_selection_fn", "softmax"), "sigmoid") == 0;
    bool average =
        strcmp(qn_config_str(c, "shared_expert_combination_strategy", "average"), "average") == 0;
    moe.d_ff = c->d_ff;
    moe.score = sigmoid ? QN_ROUTE_SIGMOID : QN_ROUTE_SOFTMAX_TOPK;
    const qn_mlp shared = { .d_ff = c->d_ff * (int)qn_config_int(c, "num_shared_experts", 0),
                            .act = c->act };
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    if (shared.d_ff == 0)
        return y;
    y = qn_add(b, y, qn_gated_mlp(b, "mlp.shared_experts", x, &shared));
    return qn_scale(b, y, average ? 0.5f : 1);
}

/* Mixtures with an epsilon of RMS norms have those. */
static qn_val norm(qn_build *b, const char *name, qn_val x, const qn_config *c)
{
    bool rms = c->n_experts > 0 && qn_config_num(c, "rms_norm_eps", 0) > 0;
    return rms ? qn_rms_norm(b, name, x, c->norm_eps) : qn_layer_norm(b, name, x, c->norm_eps);
}

/* The dense layers that a mixture begins with have a pattern of windows of their own. */
static void attention_kind(qn_build *b, int layer, qn_attn *a, qn_rope rope)
{
    const qn_config *c = b->c;
    int n_dense = c->n_experts > 0 ? (int)qn_config_int(c, "first_k_dense_replace", 0) : 0;
    int64_t pattern = qn_config_int(c, "prefix_dense_sliding_window_pattern", 1);
    bool prefix = layer < n_dense;
    if (prefix && !qn_config_has(c, "layer_types"))
        a->window = pattern > 0 && (layer + 1) % pattern != 0 ? c->window : 0;
    else
        a->window =
            qn_layer_window(b, qn_config_has(c, "layer_types") ? layer : layer - n_dense, 4);
    bool rotates =
        a->window > 0 || (c->n_experts > 0 && !qn_layer_is_sparse(b, layer, 0) && pattern == 1);
    a->rope = rotates ? rope : (qn_rope){ 0 };
}

static void build(qn_build *b, const qn_config *c)
{
    bool is_cohere2 = strncmp(c->model_type, "cohere2", strlen("cohere2")) == 0;
    bool is_moe = strcmp(c->model_type, "cohere2_moe") == 0;
    qn_attn attn = { .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim };
    qn_rope rope = c->rope;
    rope.interleaved = true;
    const qn_mlp mlp = { .d_ff = (int)qn_config_int(c, "prefix_dense_intermediate_size", c->d_ff),
                         .act = c->act };
    /* What these say is how the family is made anyway. */
    qn_config_str(c, "position_embedding_type", "rope_gptj");
    qn_config_bool(c, "use_parallel_block", true);

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.rope = rope;
        if (is_cohere2)
            attention_kind(b, i, &attn, rope);
        qn_val h = norm(b, "input_layernorm", x, c);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        bool sparse = is_moe && qn_layer_is_sparse(b, i, 0);
        x = qn_add(b, x, sparse ? experts(b, h, c) : qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    x = qn_head(b, "lm_head", norm(b, "norm", x, c), c);
    qn_mark_output(b, "logits", qn_scale(b, x, (float)qn_config_num(c, "logit_scale", 0.0625)));
}

const qn_family qn_family_cohere = {
    .name = "cohere",
    .model_types = (const char *const[]){ "cohere", "cohere2", "cohere2_moe", NULL },
    .about = "Command R, Command R7B, Aya text models, Command mixtures",
    .tied = true,
    .build = build,
};
