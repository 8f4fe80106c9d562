/* falcon_h1.c - Falcon-H1: attention and Mamba 2 side by side on the same normed input, and factors wherever the
 * stream passes. */
#include "families/common.h"

/* Member `i` of a list of factors. */
static float factor(const qn_config *c, const char *key, size_t i)
{
    return (float)qn_json_num(qn_json_at(qn_config_get(c, key), i), 1);
}

static qn_ssm2 ssm_of(qn_build *b, const qn_config *c)
{
    qn_ssm2 a = qn_common_ssm2(b);
    a.out_bias = qn_config_bool(c, "projectors_bias", false);
    bool norm_first = qn_config_bool(c, "mamba_norm_before_gate", true);
    a.out = norm_first ? QN_NORM_THEN_GATE : QN_GATE_THEN_NORM;
    if (!qn_config_bool(c, "mamba_rms_norm", false))
        a.out = QN_GATE_ONLY;
    for (size_t i = 0; i < 5; i++)
        a.scale[i] = factor(c, "ssm_multipliers", i);
    return a;
}

static void build(qn_build *b, const qn_config *c)
{
    const float attn_in = (float)qn_config_num(c, "attention_in_multiplier", 1);
    const float attn_out = (float)qn_config_num(c, "attention_out_multiplier", 1);
    const float ssm_in = (float)qn_config_num(c, "ssm_in_multiplier", 1);
    const float ssm_out = (float)qn_config_num(c, "ssm_out_multiplier", 1);
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .k_scale = (float)qn_config_num(c, "key_multiplier", 1),
                           .rope = c->rope };
    const qn_mlp mlp = { .d_ff = c->d_ff,
                         .act = c->act,
                         .gate_scale = factor(c, "mlp_multipliers", 0) };
    const qn_ssm2 ssm = ssm_of(b, c);

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    x = qn_scale(b, x, (float)qn_config_num(c, "embedding_multiplier", 1));
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        qn_val y = qn_attention(b, "self_attn", qn_scale(b, h, attn_in), &attn);
        qn_val s = qn_ssm2_mixer(b, "mamba", qn_scale(b, h, ssm_in), &ssm);
        y = qn_add(b, qn_scale(b, s, ssm_out), qn_scale(b, y, attn_out));
        x = qn_add(b, x, y);
        h = qn_gated_mlp(b, "feed_forward", qn_rms_norm(b, "pre_ff_layernorm", x, c->norm_eps),
                         &mlp);
        x = qn_add(b, x, qn_scale(b, h, factor(c, "mlp_multipliers", 1)));
    }
    qn_scope(b, -1, "model");
    x = qn_head(b, "lm_head", qn_rms_norm(b, "final_layernorm", x, c->norm_eps), c);
    x = qn_scale(b, x, (float)qn_config_num(c, "lm_head_multiplier", 1));
    qn_mark_output(b, "logits", x);
}

const qn_family qn_family_falcon_h1 = {
    .name = "falcon_h1",
    .model_types = (const char *const[]){ "falcon_h1", NULL },
    .about = "Falcon-H1: attention and Mamba 2 side by side",
    .build = build,
};
