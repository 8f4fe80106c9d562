/* glm4_moe.c - GLM-4.5, Solar Open, dots.llm1 and DeepSeek 1: the Llama block with experts, some of which every token
 * goes through, after a few dense layers. All but DeepSeek score with a sigmoid and choose with a bias added. */
#include <string.h>

#include "families/family.h"

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    bool softmax = strcmp(qn_config_str(c, "scoring_func", "sigmoid"), "softmax") == 0;
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = (int)qn_config_int(c, "moe_intermediate_size", 0),
                         .act = c->act,
                         .score = softmax ? QN_ROUTE_SOFTMAX : QN_ROUTE_SIGMOID,
                         .renorm = qn_config_bool(c, "norm_topk_prob", true),
                         .factor = (float)qn_config_num(c, "routed_scaling_factor", 1),
                         .n_groups = (int)qn_config_int(c, "n_group", 1),
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
    bool is_dots = strcmp(c->model_type, "dots1") == 0;
    bool qk_norm = qn_config_bool(c, "use_qk_norm", is_dots);
    int64_t n_dense = qn_config_int(c, "first_k_dense_replace", 0);
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .rope = c->rope,
                     .qk_norm = qk_norm ? QN_QK_HEAD : QN_QK_PLAIN,
                     .norm_eps = c->norm_eps };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 0);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, i < n_dense ? qn_gated_mlp(b, "mlp", h, &mlp) : experts(b, h, c));
    }
    qn_ignore_prediction_layers(b);
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_glm4_moe = {
    .name = "glm4_moe",
    .model_types = (const char *const[]){ "glm4_moe", "solar_open", "dots1", "deepseek", NULL },
    .about = "GLM-4.5, Solar Open, dots.llm1, DeepSeek 1 mixtures",
    .build = build,
};
