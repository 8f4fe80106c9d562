/* olmo_hybrid.c - OLMo Hybrid: layers of a gated delta rule, normed before each half, and attention layers in the way of
 * OLMo 2, normed after it. */
#include <stdio.h>

#include "families/family.h"

/* Norms have two names, by who wrote the file. */
static const char *either(qn_build *b, int layer, const char *a, const char *other)
{
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, a);
    return qn_has_tensor(b, name) ? a : other;
}

static qn_val attention_layer(qn_build *b, int i, qn_val x, const qn_attn *attn, const qn_mlp *mlp)
{
    const char *norm = either(b, i, "feedforward_layer_norm", "post_attention_layernorm");
    qn_val h = qn_attention(b, "self_attn", x, attn);
    x = qn_add(b, x, qn_rms_norm(b, norm, h, attn->norm_eps));
    h = qn_gated_mlp(b, "mlp", x, mlp);
    return qn_add(b, x, qn_rms_norm(b, "post_feedforward_layernorm", h, attn->norm_eps));
}

static qn_val delta_layer(qn_build *b, int i, qn_val x, const qn_delta *delta, const qn_mlp *mlp)
{
    const float eps = b->c->norm_eps;
    const char *first = either(b, i, "attention_layer_norm", "input_layernorm");
    const char *second = either(b, i, "feedforward_layer_norm", "post_attention_layernorm");
    x = qn_add(b, x, qn_gated_delta(b, "linear_attn", qn_rms_norm(b, first, x, eps), delta));
    return qn_add(b, x, qn_gated_mlp(b, "mlp", qn_rms_norm(b, second, x, eps), mlp));
}

static void build(qn_build *b, const qn_config *c)
{
    bool has_rope = qn_config_has(c, "rope_parameters") || qn_config_has(c, "rope_theta");
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .qk_norm = QN_QK_FULL,
                     .norm_eps = c->norm_eps };
    if (has_rope)
        attn.rope = c->rope;
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };
    const qn_delta delta = { .n_heads = (int)qn_config_int(c, "linear_num_value_heads", c->n_heads),
                             .n_key_heads =
                                 (int)qn_config_int(c, "linear_num_key_heads", c->n_heads),
                             .k_dim = (int)qn_config_int(c, "linear_key_head_dim", 96),
                             .v_dim = (int)qn_config_int(c, "linear_value_head_dim", 192),
                             .kernel = (int)qn_config_int(c, "linear_conv_kernel_dim", 4),
                             .beta_scale =
                                 qn_config_bool(c, "linear_allow_neg_eigval", true) ? 2 : 1,
                             .gate_act = QN_ACT_SILU,
                             .norm_eps = 1e-5f, /* whatever rms_norm_eps says */
                             .norm = "o_norm",
                             .out = "o_proj" };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        bool full = qn_layer_is_kind(b, i, "full_attention", "linear_attention", i % 4 == 3);
        qn_scope(b, i, "model.layers.%d", i);
        x = full ? attention_layer(b, i, x, &attn, &mlp) : delta_layer(b, i, x, &delta, &mlp);
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_olmo_hybrid = {
    .name = "olmo_hybrid",
    .model_types = (const char *const[]){ "olmo_hybrid", NULL },
    .about = "OLMo Hybrid: gated delta rule and attention",
    .build = build,
};
