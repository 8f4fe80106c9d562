/* mamba2.c - Mamba 2: a stream of state-space mixers with scalar decays, no attention and no feed-forward. */
#include "families/common.h"

static void build(qn_build *b, const qn_config *c)
{
    qn_ssm2 ssm = { .n_heads = (int)qn_config_int(c, "num_heads", 128),
                    .head_dim = (int)qn_config_int(c, "head_dim", 64),
                    .n_groups = (int)qn_config_int(c, "n_groups", 8),
                    .d_state = (int)qn_config_int(c, "state_size", 128),
                    .kernel = (int)qn_config_int(c, "conv_kernel", 4),
                    .proj_bias = qn_config_bool(c, "use_bias", false),
                    .out_bias = qn_config_bool(c, "use_bias", false),
                    .conv_bias = qn_config_bool(c, "use_conv_bias", true),
                    .norm_eps = c->norm_eps };
    qn_common_dt_limit(c, &ssm);

    if ((int64_t)ssm.n_heads * ssm.head_dim != qn_config_int(c, "expand", 2) * c->d_model)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: expand does not give %d heads of %d",
                      ssm.n_heads, ssm.head_dim);
    if (c->act == QN_ACT_SILU)
        qn_config_used(c, "hidden_act");
    qn_config_used(c, "chunk_size"); /* how to compute it, not what */
    qn_scope(b, -1, "backbone");
    qn_val x = qn_embed(b, "embeddings", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "backbone.layers.%d", i);
        qn_val h = qn_rms_norm(b, "norm", x, c->norm_eps);
        x = qn_add(b, x, qn_ssm2_mixer(b, "mixer", h, &ssm));
    }
    qn_scope(b, -1, "backbone");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm_f", x, c->norm_eps), c);
}

const qn_family qn_family_mamba2 = {
    .name = "mamba2",
    .model_types = (const char *const[]){ "mamba2", NULL },
    .about = "Mamba 2",
    .build = build,
};
