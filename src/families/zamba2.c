/* zamba2.c - Zamba 2: Mamba-2 layers; before some of them a transformer block whose weights several layers share, which
 * sees the stream beside the embedding. Each use of its MLP has thin matrices of its own. */
#include <stdio.h>

#include "families/family.h"

static bool is_hybrid(qn_build *b, const qn_config *c, int layer)
{
    const qn_json *kind = qn_json_at(qn_config_get(c, "layers_block_type"), (size_t)layer);
    if (!qn_json_eq(kind, "hybrid") && !qn_json_eq(kind, "mamba"))
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                      "config: layers_block_type says \"%s\" for layer %d",
                      qn_json_str(kind, "nothing"), layer);
    return qn_json_eq(kind, "hybrid");
}

/* The layer that stores the weights of the n-th use: blocks take turns. */
static int owner_of(qn_build *b, const qn_config *c, int use)
{
    int n_blocks = (int)qn_config_int(c, "num_mem_blocks", 1), seen = 0;
    for (int i = 0; i < c->n_layers && n_blocks > 0; i++)
        if (is_hybrid(b, c, i) && seen++ == use % n_blocks)
            return i;
    return 0;
}

/* The shared block on [stream | embedding], as used for the n-th time. */
static qn_val shared_block(qn_build *b, const qn_config *c, qn_val x, int use)
{
    int dim =
        (int)qn_config_int(c, "attention_head_dim", 2 * c->d_model / (c->n_heads ? c->n_heads : 1));
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = dim,
                     .scale = qn_inverse_root((float)dim / 2) };
    if (qn_config_bool(c, "use_mem_rope", false)) {
        attn.rope = c->rope;
        attn.rope.n_rot = dim;
    }
    char adapter[48];
    snprintf(adapter, sizeof adapter, "gate_up_proj_adapter_list.%d", use);
    const qn_mlp mlp = { .d_ff = c->d_ff,
                         .act = c->act,
                         .gate_up = "gate_up_proj",
                         .adapter = adapter,
                         .adapter_rank = (int)qn_config_int(c, "adapter_rank", 128) };
    qn_scope(b, owner_of(b, c, use), "model.layers.%d.shared_transformer", owner_of(b, c, use));
    qn_val h =
        qn_attention(b, "self_attn", qn_rms_norm(b, "input_layernorm", x, c->norm_eps), &attn);
    return qn_gated_mlp(b, "feed_forward", qn_rms_norm(b, "pre_ff_layernorm", h, c->norm_eps),
                        &mlp);
}

static qn_ssm2 ssm_of(const qn_config *c)
{
    int n_heads = (int)qn_config_int(c, "n_mamba_heads", 8);
    int d_inner = (int)qn_config_int(c, "mamba_expand", 2) * c->d_model;
    qn_config_used(c, "chunk_size"); /* how to compute it, not what */
    return (qn_ssm2){ .n_heads = n_heads,
                      .head_dim = n_heads > 0 ? d_inner / n_heads : 0,
                      .n_groups = (int)qn_config_int(c, "mamba_ngroups", 1),
                      .d_state = (int)qn_config_int(c, "mamba_d_state", 64),
                      .kernel = (int)qn_config_int(c, "mamba_d_conv", 4),
                      .proj_bias = qn_config_bool(c, "add_bias_linear", false),
                      .out_bias = qn_config_bool(c, "add_bias_linear", false),
                      .conv_bias = qn_config_bool(c, "use_conv_bias", true),
                      .dt_min = (float)qn_config_num(c, "time_step_min", 0.001),
                      .norm_eps = 1e-5f /* whatever rms_norm_eps says */ };
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_ssm2 ssm = ssm_of(c);
    const char *const refused[] = { "use_shared_attention_adapter", "use_long_context" };
    for (int i = 0; i < 2; i++)
        if (qn_config_bool(c, refused[i], false))
            qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "config: %s is not supported", refused[i]);

    qn_scope(b, -1, "model");
    qn_val first = qn_embed(b, "embed_tokens", c), x = first;
    for (int i = 0, use = 0; i < c->n_layers; i++) {
        qn_val in = x;
        bool hybrid = is_hybrid(b, c, i);
        if (hybrid)
            in = shared_block(b, c, qn_concat(b, x, first), use++);
        qn_scope(b, i, "model.layers.%d", i);
        if (hybrid)
            in = qn_add(b, x, qn_linear(b, "linear", in, c->d_model));
        if (hybrid)
            qn_scope(b, i, "model.layers.%d.mamba_decoder", i);
        in = qn_rms_norm(b, "input_layernorm", in, c->norm_eps);
        x = qn_add(b, x, qn_ssm2_mixer(b, "mamba", in, &ssm));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "final_layernorm", x, c->norm_eps), c);
}

const qn_family qn_family_zamba2 = {
    .name = "zamba2",
    .model_types = (const char *const[]){ "zamba2", NULL },
    .about = "Zamba 2: Mamba 2 with shared transformer blocks",
    .tied = true,
    .build = build,
};
