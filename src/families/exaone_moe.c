/* exaone_moe.c - K-EXAONE, Hunyuan 3, MiMo 2 Flash, Laguna: norms before each half, a few dense layers, then experts
 * chosen by sigmoid scores with a bias. They differ in names, in the positions of windowed and full layers, and in
 * what attention has beside it. */
#include <string.h>

#include "families/family.h"

static bool is_type(const qn_config *c, const char *model_type)
{
    return strcmp(c->model_type, model_type) == 0;
}

/* Names and keys of the experts; the shared one's name, and its width where it is not the experts' own. */
static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, true);
    moe.score = QN_ROUTE_SIGMOID;
    qn_require(b, "scoring_func", "sigmoid");
    qn_require(b, "topk_method", "noaux_tc");
    moe.bias = "e_score_correction_bias";
    const char *shared_name = "mlp.shared_experts";
    qn_mlp shared = { .d_ff = moe.d_ff * (int)qn_config_int(c, "num_shared_experts", 0),
                      .act = c->act };
    if (is_type(c, "hy_v3")) {
        if (!qn_config_bool(c, "moe_router_use_sigmoid", true))
            qn_unsupported(b, "moe_router_use_sigmoid false");
        moe.d_ff = (int)qn_config_int(c, "expert_hidden_dim", moe.d_ff);
        moe.renorm = qn_config_bool(c, "route_norm", true);
        moe.factor = (float)qn_config_num(c, "router_scaling_factor", 1);
        moe.router = "router.gate";
        moe.bias = qn_config_bool(c, "moe_router_enable_expert_bias", true) ? "expert_bias" : NULL;
        shared_name = "mlp.shared_mlp";
    } else if (is_type(c, "laguna")) {
        if (qn_config_bool(c, "moe_apply_router_weight_on_input", false))
            qn_unsupported(b, "moe_apply_router_weight_on_input");
        moe.factor = (float)qn_config_num(c, "moe_routed_scaling_factor", 1);
        moe.router_cap = (float)qn_config_num(c, "moe_router_logit_softcapping", 0);
        moe.bias = "experts.e_score_correction_bias";
        shared.d_ff = (int)qn_config_int(c, "shared_expert_intermediate_size", 0);
        shared_name = "mlp.shared_expert";
    } else if (is_type(c, "mimo_v2_flash")) {
        moe.bias = "gate.e_score_correction_bias";
    }
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    return shared.d_ff > 0 ? qn_add(b, y, qn_gated_mlp(b, shared_name, x, &shared)) : y;
}

/* K-EXAONE: layers that see everything have no positions, unless all do. */
static void as_exaone(const qn_config *c, qn_attn *a)
{
    a->rope = c->window == 0 || a->window > 0 ? c->rope : (qn_rope){ 0 };
}

/* Laguna: heads by the layer, a softplus gate, positions by the kind of layer. */
static void as_laguna(const qn_config *c, int layer, qn_attn *a)
{
    const qn_json *gating = qn_config_get(c, "gating");
    a->n_heads = (int)qn_config_layer_int(c, "num_attention_heads_per_layer", layer, c->n_heads);
    a->gate = "g_proj";
    a->gate_act = QN_ACT_SOFTPLUS;
    a->gate_heads = qn_json_bool(gating, true) && !qn_json_eq(gating, "per-element");
    a->rope = qn_rope_of(c, a->window > 0 ? "sliding_attention" : "full_attention");
}

/* MiMo 2 Flash: windowed layers have their own base and twice the key heads, and sinks; values are narrower. */
static void as_mimo(const qn_config *c, qn_attn *a)
{
    bool windowed = a->window > 0;
    /* The usual key counts the query itself, this one does not. */
    int64_t others = qn_config_int(c, "sliding_window_size", -1);
    if (windowed && others >= 0 && others < INT32_MAX)
        a->window = (int)others + 1;
    a->qk_norm = QN_QK_PLAIN;
    a->v_dim = (int)qn_config_int(c, "v_head_dim", c->head_dim);
    a->v_scale = (float)qn_config_num(c, "attention_value_scale", 1);
    a->n_kv_heads = c->n_kv_heads;
    a->rope = qn_rope_of(c, windowed ? "sliding_attention" : "full_attention");
    a->sinks = NULL;
    const char *sink = windowed ? "add_swa_attention_sink_bias" : "add_full_attention_sink_bias";
    if (qn_config_bool(c, sink, windowed))
        a->sinks = "attention_sink_bias";
    double base = qn_config_num(c, "swa_rope_theta", a->rope.theta);
    if (!windowed)
        return;
    a->rope.theta = base;
    a->n_heads = (int)qn_config_int(c, "swa_num_attention_heads", c->n_heads);
    a->n_kv_heads = (int)qn_config_int(c, "swa_num_key_value_heads", 2 * (int64_t)c->n_kv_heads);
    a->head_dim = (int)qn_config_int(c, "swa_head_dim", c->head_dim);
    a->v_dim = (int)qn_config_int(c, "swa_v_head_dim", a->v_dim);
}

static qn_attn attention_of(qn_build *b, const qn_config *c, int layer)
{
    qn_attn a = { .n_heads = c->n_heads,
                  .n_kv_heads = c->n_kv_heads,
                  .head_dim = c->head_dim,
                  .window = qn_layer_window(b, layer, is_type(c, "exaone_moe") ? 4 : 0),
                  .rope = c->rope,
                  .qk_norm = qn_config_bool(c, "qk_norm", true) ? QN_QK_HEAD : QN_QK_PLAIN,
                  .norm_eps = c->norm_eps };
    if (is_type(c, "exaone_moe"))
        as_exaone(c, &a);
    else if (is_type(c, "laguna"))
        as_laguna(c, layer, &a);
    else if (is_type(c, "mimo_v2_flash"))
        as_mimo(c, &a);
    return a;
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_ignore(b, "mtp.");
    qn_ignore(b, "model.mtp.");
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        const qn_attn attn = attention_of(b, c, i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        h = qn_layer_is_sparse(b, i, 1) ? experts(b, h, c) : qn_gated_mlp(b, "mlp", h, &mlp);
        x = qn_add(b, x, h);
    }
    qn_ignore_prediction_layers(b);
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_exaone_moe = {
    .name = "exaone_moe",
    .model_types = (const char *const[]){ "exaone_moe", "hy_v3", "laguna", "mimo_v2_flash", NULL },
    .about = "K-EXAONE, Hunyuan 3, Laguna, MiMo 2 Flash",
    .build = build,
};
