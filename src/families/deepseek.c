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
static void as_version_2(const qn_config *c, qn_moe *moe)
{
    moe->score = QN_ROUTE_SOFTMAX;
    moe->bias = NULL;
    moe->renorm = false;
    if (strcmp(qn_config_str(c, "topk_method", "greedy"), "greedy") == 0)
        moe->n_groups = 1;
}

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, true);
    moe.score = QN_ROUTE_SIGMOID;
    moe.bias = "gate.e_score_correction_bias";
    moe.gate_up = "experts.gate_up_proj";
    if (is_type(c, "deepseek_v2"))
        as_version_2(c, &moe);
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
    return is_type(c, "deepseek_v2") || is_type(c, "mistral4") ? 0
           : is_type(c, "deepseek_v3")                         ? 3
                                                               : 1;
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_mla attn = qn_mla_of(c);
    const bool norms_experts = is_type(c, "axk1");
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
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
    .model_types = (const char *const[]){ "deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite",
                                          "mistral4", "youtu", "youtu_llm", "axk1", NULL },
    .about =
        "DeepSeek 2 and 3, Kimi K2, Moonlight, GLM-4.7 Flash, Mistral 4, Youtu: latent attention",
    .build = build,
};
