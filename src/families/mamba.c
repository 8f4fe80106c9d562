/* mamba.c - Mamba and Falcon-Mamba: a stream of state-space mixers, no attention and no feed-forward. Falcon norms
 * dt, B and C, without weights. */
#include <string.h>

#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    int64_t expand = qn_config_int(c, "expand", 2);
    bool is_falcon = strcmp(c->model_type, "falcon_mamba") == 0;
    const qn_json *rank = qn_config_get(c, "time_step_rank"); /* a number, or "auto" */
    const qn_ssm1 ssm = {
        .d_inner = (int)(expand * c->d_model), /* intermediate_size says the same, if anything */
        .d_state = (int)qn_config_int(c, "state_size", 16),
        .dt_rank = (int)qn_json_int(rank, (c->d_model + 15) / 16),
        .kernel = (int)qn_config_int(c, "conv_kernel", 4),
        .proj_bias = qn_config_bool(c, "use_bias", false),
        .conv_bias = qn_config_bool(c, "use_conv_bias", true),
        .bare_eps = is_falcon ? (float)qn_config_num(c, "mixer_rms_eps", 1e-6) : 0,
    };

    if (c->act == QN_ACT_SILU)
        qn_config_used(c, "hidden_act");
    qn_config_used(c, "time_step_scale"); /* starting values of dt_proj */
    qn_scope(b, -1, "backbone");
    qn_val x = qn_embed(b, "embeddings", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "backbone.layers.%d", i);
        qn_val h = qn_rms_norm(b, "norm", x, c->norm_eps);
        x = qn_add(b, x, qn_ssm1_mixer(b, "mixer", h, &ssm));
    }
    qn_scope(b, -1, "backbone");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm_f", x, c->norm_eps), c);
}

const qn_family qn_family_mamba = {
    .name = "mamba",
    .model_types = (const char *const[]){ "mamba", "falcon_mamba", NULL },
    .about = "Mamba, Falcon-Mamba",
    .tied = true,
    .build = build,
};
