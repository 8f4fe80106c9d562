/* deepseek.c - DeepSeek 2 and 3 and what is built like them (Kimi K2, Moonlight, GLM-4.7 Flash, Mistral 4,
 * A.X K1, and Youtu without experts): latent attention, a few dense layers, then experts beside shared ones.
 * Version 2 and Mistral score experts with a softmax, the others with a sigmoid and choose with a bias added. */
#include <string.h>

#include "families/family.h"

static bool is_type(const qn_config *c, const char *model_type)
{
    return strcmp(c->model_type, model_type) == 0;
}

/* Version 2 has groups of experts only where the config asks for them by name, and its reference never makes
 * the weights sum to one. */
static void as_version_2(qn_build *b, const qn_config *c, qn_moe *moe)
{
    moe->score = QN_ROUTE_SOFTMAX;
    moe->bias = NULL;
    moe->renorm = false;
    if (strcmp(qn_config_str(c, "topk_method", "greedy"), "greedy") == 0)
        moe->n_groups = 1;
    else
        qn_require(b, "topk_method", "group_limited_greedy");
}

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, true);
    bool softmax = is_type(c, "deepseek_v2") || is_type(c, "mistral4");
    qn_require(b, "scoring_func", softmax ? "softmax" : "sigmoid");
    if (!softmax)
        qn_require(b, "topk_method", "noaux_tc");
    moe.score = QN_ROUTE_SIGMOID;
    moe.bias = "gate.e_score_correction_bias";
    moe.gate_up = "experts.gate_up_proj";
    if (is_type(c, "deepseek_v2"))
        as_version_2(b, c, &moe);
    if (is_type(c, "mistral4")) {
        moe.score = QN_ROUTE_SOFTMAX;
        moe.group_pairs = true;
        moe.bias = NULL;
    }
    const qn_mlp shared = { .d_ff = moe.d_ff * (int)qn_config_int(c, "n_shared_experts", 0),
                            .act = c->act };
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    return shared.d_ff > 0 ? qn_add(b, y, qn_gated_mlp(b, "mlp.shared_experts", x, &shared)) : y;
}

/* The first layer with experts where the config is silent. */
static int first_sparse(const qn_config *c)
{
    if (is_type(c, "deepseek_v2") || is_type(c, "mistral4"))
        return 0;
    bool three =
        is_type(c, "deepseek_v3") || is_type(c, "deepseek_v32") || is_type(c, "glm_moe_dsa");
    return three ? 3 : 1;
}

/* Does the layer use the keys that a layer before it chose? By names, by letters, or by a period. */
static bool shares_keys(const qn_config *c, int layer)
{
    const qn_json *types = qn_config_get(c, "indexer_types");
    const qn_json *pattern = qn_config_get(c, "index_topk_pattern");
    int64_t every = qn_config_int(c, "index_topk_freq", 1);
    int64_t past = layer + 1 - qn_config_int(c, "index_skip_topk_offset", 2);
    types = types ? types : pattern;
    if (qn_json_is(types, QN_JSON_ARRAY))
        return qn_json_eq(qn_json_at(types, (size_t)layer), "shared");
    if (qn_json_is(types, QN_JSON_STR))
        return (uint32_t)layer < types->n && qn_json_str(types, "")[layer] == 'S';
    return every > 1 && past > 0 && past % every != 0;
}

static void build(qn_build *b, const qn_config *c)
{
    qn_val keys = { 0 };
    qn_mla attn = qn_mla_of(c);
    attn.keys = &keys;
    if (is_type(c, "glm_moe_dsa"))
        attn.index_interleaved = qn_config_bool(c, "indexer_rope_interleave", true);
    const bool norms_experts = is_type(c, "axk1");
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.index_shared = attn.index_top_k > 0 && shares_keys(c, i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_mla_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        bool sparse = qn_layer_is_sparse(b, i, first_sparse(c));
        h = sparse ? experts(b, h, c) : qn_gated_mlp(b, "mlp", h, &mlp);
        if (sparse && norms_experts)
            h = qn_rms_norm(b, "post_mlp_layernorm", h, c->norm_eps);
        x = qn_add(b, x, h);
    }
    qn_ignore_prediction_layers(b);
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_deepseek = {
    .name = "deepseek",
    .model_types = (const char *const[]){ "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2",
                                          "glm4_moe_lite", "glm_moe_dsa", "mistral4", "youtu",
                                          "youtu_llm", "axk1", NULL },
    .about = "DeepSeek 2 and 3, Kimi K2, Moonlight, GLM-4.7 Flash and 5, Mistral 4, Youtu: latent "
             "attention",
    .build = build,
};
