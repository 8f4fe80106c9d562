/* step3p5.c - Step 3.5: windowed and full layers with their own heads, positions and scaling, a sigmoid gate for each
 * head, norms stored less one, and experts whose activation some layers clamp. */
#include <stdlib.h>
#include <string.h>

#include "families/family.h"

/* The layers with experts, as "3,4,5" or a list; every layer but the first where neither is there. */
static bool has_experts(const qn_config *c, int layer)
{
    const qn_json *list = qn_config_get(c, "moe_layers_enum");
    for (uint32_t i = 0; qn_json_is(list, QN_JSON_ARRAY) && i < list->n; i++)
        if (qn_json_int(&list->items[i], -1) == layer)
            return true;
    if (!qn_json_is(list, QN_JSON_STR))
        return !list && layer > 0;
    const char *text = qn_json_str(list, "");
    for (char *end; *text; text = *end ? end + 1 : end)
        if (strtol(text, &end, 10) == layer && end != text)
            return true;
    return false;
}

static float limit_of(const qn_config *c, const char *key, int layer)
{
    return (float)qn_json_num(qn_json_at(qn_config_get(c, key), (size_t)layer), 0);
}

/* Is `kind` among those that the scaling is for? All are where the config does not say. */
static bool is_scaled(const qn_config *c, const char *kind)
{
    const qn_json *list = qn_config_get(c, "yarn_only_types");
    for (uint32_t i = 0; qn_json_is(list, QN_JSON_ARRAY) && i < list->n; i++)
        if (qn_json_eq(&list->items[i], kind))
            return true;
    return !qn_json_is(list, QN_JSON_ARRAY) || list->n == 0;
}

static qn_attn attention_of(qn_build *b, const qn_config *c, int layer)
{
    qn_attn a = { .n_heads = c->n_heads,
                  .n_kv_heads = (int)qn_config_int(c, "num_attention_groups", c->n_kv_heads),
                  .head_dim = c->head_dim,
                  .window = qn_layer_window(b, layer, 0),
                  .rope = c->rope,
                  .qk_norm = QN_QK_HEAD1,
                  .norm_eps = c->norm_eps,
                  .gate_act = QN_ACT_SIGMOID,
                  .gate_heads = true };
    const qn_json *other = qn_config_get(c, "attention_other_setting");
    const char *kind = a.window > 0 ? "sliding_attention" : "full_attention";
    if (other && qn_json_eq(qn_json_get(other, "attention_type"), kind)) {
        a.n_heads = (int)qn_json_int(qn_json_get(other, "num_attention_heads"), a.n_heads);
        a.n_kv_heads = (int)qn_json_int(qn_json_get(other, "num_attention_groups"), a.n_kv_heads);
        a.head_dim = (int)qn_json_int(qn_json_get(other, "head_dim"), a.head_dim);
    }
    if (qn_config_bool(c, "use_head_wise_attn_gate", false))
        a.gate = "g_proj";
    const qn_json *theta = qn_config_get(c, "rope_theta");
    const qn_json *part = qn_config_get(c, "partial_rotary_factors");
    if (qn_json_is(theta, QN_JSON_ARRAY))
        a.rope.theta = qn_json_num(qn_json_at(theta, (size_t)layer), 0);
    qn_rope_rotate_part(&a.rope, a.head_dim, qn_json_num(qn_json_at(part, (size_t)layer), 1));
    if (!is_scaled(c, kind))
        a.rope.scaling = NULL;
    return a;
}

static qn_val experts(qn_build *b, int layer, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, true);
    moe.n_experts = (int)qn_config_int(c, "moe_num_experts", 0);
    moe.top_k = (int)qn_config_int(c, "moe_top_k", 1);
    moe.score = QN_ROUTE_SIGMOID;
    moe.renorm = qn_config_bool(c, "norm_expert_weight", true);
    moe.factor = (float)qn_config_num(c, "moe_router_scaling_factor", 1);
    moe.bias = "router_bias";
    moe.gate = "gate_proj";
    moe.up = "up_proj";
    moe.down = "down_proj";
    moe.limit = limit_of(c, "swiglu_limits", layer);
    moe.limit_after = true;
    const qn_mlp shared = { .d_ff = (int)qn_config_int(c, "share_expert_dim", moe.d_ff),
                            .act = c->act,
                            .limit = limit_of(c, "swiglu_limits_shared", layer),
                            .limit_after = true };
    qn_val y = qn_moe_mlp(b, "moe", x, &moe);
    return qn_add(b, y, qn_gated_mlp(b, "share_expert", x, &shared));
}

static void build(qn_build *b, const qn_config *c)
{
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        const qn_attn attn = attention_of(b, c, i);
        const qn_mlp mlp = { .d_ff = c->d_ff,
                             .act = c->act,
                             .limit = limit_of(c, "swiglu_limits_shared", i),
                             .limit_after = true };
        qn_val h = qn_rms_norm1(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm1(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, has_experts(c, i) ? experts(b, i, h, c) : qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_ignore_prediction_layers(b);
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm1(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_step3p5 = {
    .name = "step3p5",
    .model_types = (const char *const[]){ "step3p5", NULL },
    .about = "Step 3.5",
    .build = build,
};
