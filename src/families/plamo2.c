/* plamo2.c - PLaMo 2: a state-space and an attention layer in turns, norms before and after each half. Norm weights are
 * stored less 1, 1/5 or 5^-1.5, by their place. */
#include "families/common.h"

static bool is_ssm(const qn_config *c, int layer)
{
    int64_t step = qn_config_int(c, "mamba_step", 2);
    if (!qn_config_bool(c, "mamba_enabled", true) || step < 2)
        return false;
    if (c->n_layers <= step / 2)
        return layer != c->n_layers - 1;
    return layer % step != step / 2;
}

static void build(qn_build *b, const qn_config *c)
{
    const float after_mixer = 0.2f, after_mlp = 0.08944271909999159f; /* 5^-1.5 */
    const int dim = (int)qn_config_int(c, "hidden_size_per_head", 128);
    const int window = (int)qn_config_int(c, "attention_window_size", 2048);
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = dim,
                     .rope = c->rope,
                     .qkv = "qkv_proj",
                     .qk_norm = QN_QK_OWN,
                     .norm_eps = 1e-6f,
                     .q_norm = "q_weight",
                     .k_norm = "k_weight" };
    attn.rope.n_rot = dim;
    const qn_ssm3 ssm = { .n_heads = (int)qn_config_int(c, "mamba_num_heads", 64),
                          .head_dim = dim,
                          .d_state = (int)qn_config_int(c, "mamba_d_state", 64),
                          .dt_rank = c->d_model / 16 > 64 ? c->d_model / 16 : 64,
                          .kernel = (int)qn_config_int(c, "mamba_d_conv", 4),
                          .norm_eps = c->norm_eps };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = QN_ACT_SILU, .gate_up = "gate_up_proj" };

    qn_config_used(c, "mamba_chunk_size"); /* how to compute it, not what */
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        attn.window = qn_common_in_list(c, "full_attention_idx", i) ? 0 : window;
        qn_scope(b, i, "model.layers.layers.%d", i);
        qn_val h = qn_rms_norm1(b, "pre_mixer_norm", x, c->norm_eps);
        h = is_ssm(c, i) ? qn_ssm3_mixer(b, "mixer", h, &ssm) : qn_attention(b, "mixer", h, &attn);
        x = qn_add(b, x, qn_rms_norm_less(b, "post_mixer_norm", h, c->norm_eps, after_mixer));
        h = qn_gated_mlp(b, "mlp", qn_rms_norm1(b, "pre_mlp_norm", x, c->norm_eps), &mlp);
        x = qn_add(b, x, qn_rms_norm_less(b, "post_mlp_norm", h, c->norm_eps, after_mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm1(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_plamo2 = {
    .name = "plamo2",
    .model_types = (const char *const[]){ "plamo2", NULL },
    .about = "PLaMo 2: state-space layers and attention in turns",
    .tied = true,
    .build = build,
};
