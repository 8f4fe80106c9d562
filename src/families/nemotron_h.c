/* nemotron_h.c - Nemotron-H and Nemotron 3: one mixer a layer, by a pattern of letters or names: Mamba 2, attention
 * without positions, an MLP, or a mixture. MLPs and experts are squared ReLUs without a gate; experts may work in a
 * narrower space. Prediction heads are not run. */
#include <string.h>

#include "families/common.h"

typedef enum kind { SSM, ATTENTION, MLP, EXPERTS, UNKNOWN } kind;

static kind kind_of(qn_build *b, const qn_config *c, int layer)
{
    static const struct {
        const char *name;
        kind kind;
    } names[] = {
        { "mamba", SSM },   { "linear_attention", SSM },
        { "M", SSM },       { "moe", EXPERTS },
        { "E", EXPERTS },   { "mlp", MLP },
        { "-", MLP },       { "attention", ATTENTION },
        { "*", ATTENTION }, { "full_attention", ATTENTION },
    };
    const char *pattern = qn_config_str(c, "hybrid_override_pattern", "");
    const qn_json *list = qn_config_get(c, "layers_block_type");
    list = list ? list : qn_config_get(c, "layer_types");
    const char letter[2] = { strnlen(pattern, QN_MAX_LAYERS) > (size_t)layer ? pattern[layer]
                                                                             : '\0' };
    const char *said = list ? qn_json_str(qn_json_at(list, (size_t)layer), "nothing") : letter;
    size_t n_said = list ? list->n : strlen(pattern);
    if (n_said != (size_t)c->n_layers)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: kinds of %zu layers are given for %d", n_said,
                      c->n_layers);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, said) == 0)
            return names[i].kind;
    qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "config: layer %d is of the unknown kind \"%s\"", layer,
                  said);
    return UNKNOWN;
}

/* Keys of experts are there, with some value, in models that have none. */
static qn_moe moe_of(const qn_config *c, qn_act act)
{
    qn_moe moe = qn_moe_of(c, true);
    moe.act = act;
    moe.plain = true;
    moe.score = QN_ROUTE_SIGMOID;
    moe.bias = "gate.e_score_correction_bias";
    moe.up = "experts.%d.up_proj";
    moe.down = "experts.%d.down_proj";
    moe.d_latent = (int)qn_config_int(c, "moe_latent_size", 0);
    moe.latent_in = "fc1_latent_proj";
    moe.latent_out = "fc2_latent_proj";
    qn_config_used(c, "n_routed_experts");
    qn_config_used(c, "num_experts_per_tok");
    return moe;
}

static qn_ssm2 ssm_of(const qn_config *c)
{
    qn_ssm2 a = {
        .n_heads = (int)qn_config_int(c, "mamba_num_heads", 128),
        .head_dim = (int)qn_config_int(c, "mamba_head_dim", 64),
        .n_groups = (int)qn_config_int(c, "n_groups", qn_config_int(c, "mamba_n_groups", 8)),
        .d_state = (int)qn_config_int(c, "ssm_state_size", 128),
        .kernel = (int)qn_config_int(c, "conv_kernel", qn_config_int(c, "mamba_d_conv", 4)),
        .proj_bias = qn_config_bool(c, "use_bias", false),
        .out_bias = qn_config_bool(c, "use_bias", false),
        .conv_bias = qn_config_bool(c, "use_conv_bias", qn_config_bool(c, "mamba_conv_bias", true)),
        .norm_eps = c->norm_eps
    };
    /* The reference keeps dt above this, whatever time_step_limit says. */
    a.dt_min = (float)qn_config_num(c, "time_step_min", qn_config_num(c, "mamba_dt_min", 0.001));
    qn_config_used(c, "chunk_size"); /* how to compute it, not what */
    qn_config_used(c, "mamba_chunk_size");
    return a;
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_act act = qn_act_find(qn_config_str(c, "mlp_hidden_act", "relu2"));
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = act };
    const qn_moe moe = moe_of(c, act);
    const qn_mlp shared = { .d_ff = (int)qn_config_int(c, "moe_shared_expert_intermediate_size", 0),
                            .act = act };
    const bool has_shared = qn_config_int(c, "n_shared_experts", 1) > 0;
    qn_val y;
    const qn_ssm2 ssm = ssm_of(c);

    qn_ignore(b, "mtp.");
    qn_config_used(c, "moe_shared_expert_overlap"); /* how to compute it, not what */
    qn_config_used(c, "mamba_head_dim");
    qn_scope(b, -1, "backbone");
    qn_val x = qn_embed(b, "embeddings", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "backbone.layers.%d", i);
        qn_val h = qn_rms_norm(b, "norm", x, c->norm_eps);
        switch (kind_of(b, c, i)) {
        case SSM:
            h = qn_ssm2_mixer(b, "mixer", h, &ssm);
            break;
        case ATTENTION:
            h = qn_attention(b, "mixer", h, &attn);
            break;
        case MLP:
            h = qn_plain_mlp(b, "mixer", h, &mlp);
            break;
        default:
            y = qn_moe_mlp(b, "mixer", h, &moe);
            h = has_shared ? qn_add(b, y, qn_plain_mlp(b, "mixer.shared_experts", h, &shared)) : y;
        }
        x = qn_add(b, x, h);
    }
    qn_scope(b, -1, "backbone");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm_f", x, c->norm_eps), c);
}

const qn_family qn_family_nemotron_h = {
    .name = "nemotron_h",
    .model_types = (const char *const[]){ "nemotron_h", NULL },
    .about = "Nemotron-H, Nemotron 3: Mamba 2, attention, MLPs, experts",
    .build = build,
};
