/* afmoe.c - Trinity (AFMoE): norms before and after each half, attention faded by a sigmoid gate, positions in
 * windowed layers only, experts chosen by sigmoid scores with a bias beside a shared one. */
#include <math.h>

#include "families/family.h"

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, true);
    moe.score = QN_ROUTE_SIGMOID;
    moe.renorm = qn_config_bool(c, "route_norm", true);
    moe.factor = (float)qn_config_num(c, "route_scale", 1);
    moe.router = "router.gate";
    moe.bias = "expert_bias";
    const qn_mlp shared = { .d_ff = moe.d_ff * (int)qn_config_int(c, "num_shared_experts", 0),
                            .act = c->act };
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    return shared.d_ff > 0 ? qn_add(b, y, qn_gated_mlp(b, "mlp.shared_experts", x, &shared)) : y;
}

static void build(qn_build *b, const qn_config *c)
{
    const int n_dense = (int)qn_config_int(c, "num_dense_layers", 1);
    const int pattern = (int)qn_config_int(c, "global_attn_every_n_layers", 4);
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .qk_norm = QN_QK_HEAD,
                     .norm_eps = c->norm_eps,
                     .gate = "gate_proj",
                     .gate_act = QN_ACT_SIGMOID };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_require(b, "score_func", "sigmoid");
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    if (qn_config_bool(c, "mup_enabled", false))
        x = qn_scale(b, x, sqrtf((float)c->d_model));
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, pattern);
        attn.rope = attn.window > 0 ? c->rope : (qn_rope){ 0 };
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = qn_attention(b, "self_attn", h, &attn);
        x = qn_add(b, x, qn_rms_norm(b, "post_attention_layernorm", h, c->norm_eps));
        h = qn_rms_norm(b, "pre_mlp_layernorm", x, c->norm_eps);
        h = i < n_dense ? qn_gated_mlp(b, "mlp", h, &mlp) : experts(b, h, c);
        x = qn_add(b, x, qn_rms_norm(b, "post_mlp_layernorm", h, c->norm_eps));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_afmoe = {
    .name = "afmoe",
    .model_types = (const char *const[]){ "afmoe", NULL },
    .about = "Trinity (AFMoE)",
    .build = build,
};
