/* bailing.c - Ling (Bailing MoE) 1 and 2: q, k and v in one matrix, names of its own, a few dense layers, then experts
 * beside shared ones. Version 2 norms q and k and scores with a sigmoid in groups. */
#include <string.h>

#include "families/family.h"

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, true);
    bool sigmoid = strcmp(qn_config_str(c, "score_function", "softmax"), "sigmoid") == 0;
    moe.score = sigmoid ? QN_ROUTE_SIGMOID : QN_ROUTE_SOFTMAX;
    moe.bias =
        qn_config_bool(c, "moe_router_enable_expert_bias", false) ? "gate.expert_bias" : NULL;
    moe.group_pairs = true;
    const qn_mlp shared = { .d_ff = (int)qn_config_int(c, "moe_shared_expert_intermediate_size",
                                                       moe.d_ff) *
                                    (int)qn_config_int(c, "num_shared_experts", 0),
                            .act = c->act };
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    return shared.d_ff > 0 ? qn_add(b, y, qn_gated_mlp(b, "mlp.shared_experts", x, &shared)) : y;
}

static void build(qn_build *b, const qn_config *c)
{
    bool qk_norm = qn_config_bool(c, "use_qk_norm", false);
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .rope = c->rope,
                     .qk_norm = qk_norm ? QN_QK_HEAD : QN_QK_PLAIN,
                     .norm_eps = c->norm_eps,
                     .qkv = "query_key_value",
                     .o = "dense",
                     .q_norm = "query_layernorm",
                     .k_norm = "key_layernorm" };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "word_embeddings", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "attention", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        h = qn_layer_is_sparse(b, i, 0) ? experts(b, h, c) : qn_gated_mlp(b, "mlp", h, &mlp);
        x = qn_add(b, x, h);
    }
    qn_ignore_prediction_layers(b);
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_bailing = {
    .name = "bailing",
    .model_types = (const char *const[]){ "bailing_moe", "bailing_moe_v2", NULL },
    .about = "Ling 1 and 2 (Bailing MoE)",
    .build = build,
};
