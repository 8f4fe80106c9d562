/* granite.c - Granite 3, dense and as mixtures, with a shared expert or without: the Llama block with four scalars, on
 * the embedding, the attention scores, what each half adds to the stream, and the logits. HyperCLOVA X also norms
 * what each half adds. */
#include <string.h>

#include "families/family.h"

/* Mixtures: gate and up of all experts in one stack, softmax over the chosen, perhaps a shared expert. */
static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, false);
    moe.d_ff = c->d_ff;
    moe.score = QN_ROUTE_SOFTMAX_TOPK;
    moe.router = "router.layer";
    moe.gate_up = "input_linear";
    moe.down = "output_linear";
    const qn_mlp shared = { .d_ff = (int)qn_config_int(c, "shared_intermediate_size", 0),
                            .act = c->act,
                            .gate_up = "input_linear",
                            .down = "output_linear" };
    qn_val y = qn_moe_mlp(b, "block_sparse_moe", x, &moe);
    return shared.d_ff > 0 ? qn_add(b, y, qn_gated_mlp(b, "shared_mlp", x, &shared)) : y;
}

static void build(qn_build *b, const qn_config *c)
{
    const float residual = (float)qn_config_num(c, "residual_multiplier", 1);
    /* Granite divides by the scaling of the logits, HyperCLOVA X multiplies. */
    const bool divides = strcmp(c->model_type, "hyperclovax") != 0;
    const bool is_moe = strncmp(c->model_type, "granitemoe", strlen("granitemoe")) == 0;
    const bool norms_after = qn_config_bool(c, "use_post_norm", false);
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .scale = (float)qn_config_num(c, "attention_multiplier", 1),
                           .rope = c->rope };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    x = qn_scale(b, x, (float)qn_config_num(c, "embedding_multiplier", 1));
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        h = qn_attention(b, "self_attn", h, &attn);
        if (norms_after)
            h = qn_rms_norm(b, "post_norm1", h, c->norm_eps);
        x = qn_add(b, x, qn_scale(b, h, residual));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        h = is_moe ? experts(b, h, c) : qn_gated_mlp(b, "mlp", h, &mlp);
        if (norms_after)
            h = qn_rms_norm(b, "post_norm2", h, c->norm_eps);
        x = qn_add(b, x, qn_scale(b, h, residual));
    }
    qn_scope(b, -1, "model");
    x = qn_head(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
    const double scaling = qn_config_num(c, "logits_scaling", 1);
    qn_mark_output(b, "logits", qn_scale(b, x, (float)(divides ? 1 / scaling : scaling)));
}

const qn_family qn_family_granite = {
    .name = "granite",
    .model_types =
        (const char *const[]){ "granite", "granitemoe", "granitemoeshared", "hyperclovax", NULL },
    .about = "Granite 3, dense and mixtures; HyperCLOVA X",
    .build = build,
};
