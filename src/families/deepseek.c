/* deepseek.c - DeepSeek 2 and 3 and what is built like them (Kimi K2, Moonlight, GLM-4.7 Flash, A.X K1): latent
 * attention, a few dense layers, then experts beside shared ones. Version 2 scores experts with a softmax, later
 * ones with a sigmoid and choose with a bias added. */
#include <string.h>

#include "families/family.h"

static bool is_v2(const qn_config *c)
{
    return strcmp(c->model_type, "deepseek_v2") == 0;
}

/* Groups of experts count for version 2 only where the config asks for them by name. */
static bool has_groups(const qn_config *c)
{
    const char *method = qn_config_str(c, "topk_method", is_v2(c) ? "greedy" : "noaux_tc");
    return strcmp(method, "greedy") != 0;
}

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    bool softmax = is_v2(c), renorm = qn_config_bool(c, "norm_topk_prob", true);
    int n_groups = (int)qn_config_int(c, "n_group", 1);
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = (int)qn_config_int(c, "moe_intermediate_size", 0),
                         .act = c->act,
                         .score = softmax ? QN_ROUTE_SOFTMAX : QN_ROUTE_SIGMOID,
                         .renorm =
                             renorm && !softmax, /* the reference never does it in version 2 */
                         .factor = (float)qn_config_num(c, "routed_scaling_factor", 1),
                         .n_groups = has_groups(c) ? n_groups : 1,
                         .top_groups = (int)qn_config_int(c, "topk_group", 1),
                         .router = "gate",
                         .bias = softmax ? NULL : "gate.e_score_correction_bias",
                         .gate = "experts.%d.gate_proj",
                         .up = "experts.%d.up_proj",
                         .down = "experts.%d.down_proj" };
    const qn_mlp shared = { .d_ff = moe.d_ff * (int)qn_config_int(c, "n_shared_experts", 0),
                            .act = c->act };
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    return shared.d_ff > 0 ? qn_add(b, y, qn_gated_mlp(b, "mlp.shared_experts", x, &shared)) : y;
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_mla attn = qn_mla_of(c);
    const bool norms_experts = strcmp(c->model_type, "axk1") == 0;
    const int first_sparse = is_v2(c) ? 0 : strcmp(c->model_type, "deepseek_v3") == 0 ? 3 : 1;
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_mla_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        bool sparse = qn_layer_is_sparse(b, i, first_sparse);
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
                                          "axk1", NULL },
    .about = "DeepSeek 2 and 3, Kimi K2, Moonlight, GLM-4.7 Flash, A.X K1: latent attention",
    .build = build,
};
