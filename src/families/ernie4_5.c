/* ernie4_5.c - ERNIE 4.5, dense and as mixtures of experts, and Helium: the Llama block with neighbouring columns
 * rotating as pairs. Experts are chosen by softmax scores plus a bias and weighed without it. */
#include "families/family.h"

/* Layers from moe_layer_start_index to moe_layer_end_index, every moe_layer_interval-th of them. */
static bool has_experts(const qn_config *c, int layer)
{
    int64_t first = qn_config_int(c, "moe_layer_start_index", 0);
    int64_t last = qn_config_int(c, "moe_layer_end_index", -1);
    int64_t every = qn_config_int(c, "moe_layer_interval", 1);
    if (qn_config_int(c, "moe_num_experts", 0) == 0 || every < 1)
        return false;
    return layer >= first && (last < 0 || layer <= last) && (layer + 1) % every == 0;
}

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    const qn_moe moe = { .n_experts = (int)qn_config_int(c, "moe_num_experts", 0),
                         .top_k = (int)qn_config_int(c, "moe_k", 2),
                         .d_ff = (int)qn_config_int(c, "moe_intermediate_size", 0),
                         .act = c->act,
                         .score = QN_ROUTE_SOFTMAX,
                         .renorm = true,
                         .router = "gate",
                         .bias = qn_config_bool(c, "moe_use_aux_free", true)
                                     ? "moe_statics.e_score_correction_bias"
                                     : NULL,
                         .gate = "experts.%d.gate_proj",
                         .up = "experts.%d.up_proj",
                         .down = "experts.%d.down_proj" };
    const qn_mlp shared = { .d_ff = moe.d_ff * (int)qn_config_int(c, "moe_num_shared_experts", 0),
                            .act = c->act };
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    return shared.d_ff > 0 ? qn_add(b, y, qn_gated_mlp(b, "mlp.shared_experts", x, &shared)) : y;
}

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    attn.rope.interleaved = true;
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, has_experts(c, i) ? experts(b, h, c) : qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_ernie4_5 = {
    .name = "ernie4_5",
    .model_types = (const char *const[]){ "ernie4_5", "ernie4_5_moe", "helium", NULL },
    .about = "ERNIE 4.5, dense and mixtures; Helium",
    .build = build,
};
