/* rwkv7.c - RWKV 7: time mixing by a generalised delta rule, channel mixing by a squared ReLU, both over a blend of each
 * token with the one before. Later layers blend their values with the first layer's. */
#include <string.h>

#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    const qn_time_mix mix = { .head_dim = c->head_dim > 0 ? c->head_dim : 64,
                              .decay_rank = (int)qn_config_int(c, "decay_low_rank_dim", 64),
                              .value_rank = (int)qn_config_int(c, "v_low_rank_dim", 32),
                              .learn_rank = (int)qn_config_int(c, "a_low_rank_dim", 64),
                              .gate_rank = (int)qn_config_int(c, "gate_low_rank_dim", 128),
                              .norm_eps = c->norm_eps };
    qn_val first = { 0 };

    if (!c->hidden_act || strcmp(c->hidden_act, "sqrelu") == 0)
        qn_config_used(c, "hidden_act");
    qn_config_bool(c, "norm_bias", true); /* norms use the biases that the file has */
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embeddings", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        if (i == 0)
            x = qn_layer_norm(b, "pre_norm", x, c->norm_eps);
        qn_val h = qn_layer_norm(b, "attn_norm", x, c->norm_eps);
        x = qn_add(b, x, qn_time_mixer(b, "attn", h, &first, &mix));
        h = qn_layer_norm(b, "ffn_norm", x, c->norm_eps);
        x = qn_add(b, x, qn_channel_mixer(b, "ffn", h, c->d_ff));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_layer_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_rwkv7 = {
    .name = "rwkv7",
    .model_types = (const char *const[]){ "rwkv7", NULL },
    .about = "RWKV 7",
    .build = build,
};
