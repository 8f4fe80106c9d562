/* longcat.c - LongCat Flash: each layer is two of attention and dense MLP, and experts that start from the first
 * attention's result and join at the end of the layer. Some choices are no experts but give back their input. */
#include <math.h>

#include "families/family.h"

/* Latent rows are scaled to the variance that rows of the model's width would have. */
static float widened(const qn_config *c, const char *key, int rank)
{
    return qn_config_bool(c, key, true) && rank > 0 ? sqrtf((float)c->d_model / (float)rank) : 1;
}

static void build(qn_build *b, const qn_config *c)
{
    qn_mla attn = qn_mla_of(c);
    attn.q_scale = widened(c, "mla_scale_q_lora", attn.q_rank);
    attn.kv_scale = widened(c, "mla_scale_kv_lora", attn.kv_rank);
    qn_moe moe = qn_moe_of(c, false);
    moe.top_k = (int)qn_config_int(c, "moe_topk", 12);
    moe.d_ff = (int)qn_config_int(c, "expert_ffn_hidden_size", moe.d_ff);
    moe.n_identity = (int)qn_config_int(c, "zero_expert_num", 0);
    moe.score = QN_ROUTE_SOFTMAX;
    moe.router = "router.classifier";
    moe.bias = "router.e_score_correction_bias";
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_require(b, "zero_expert_type", "identity");
    qn_require(b, "attention_method", "MLA");
    qn_ignore(b, "model.mtp.");
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm.0", x, c->norm_eps);
        x = qn_add(b, x, qn_mla_attention(b, "self_attn.0", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm.0", x, c->norm_eps);
        qn_val shortcut = qn_moe_mlp(b, "mlp", h, &moe);
        x = qn_add(b, x, qn_gated_mlp(b, "mlps.0", h, &mlp));
        h = qn_rms_norm(b, "input_layernorm.1", x, c->norm_eps);
        x = qn_add(b, x, qn_mla_attention(b, "self_attn.1", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm.1", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "mlps.1", h, &mlp));
        x = qn_add(b, x, shortcut);
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_longcat = {
    .name = "longcat",
    .model_types = (const char *const[]){ "longcat_flash", NULL },
    .about =
        "LongCat Flash: two attentions a layer, a shortcut of experts, some of them the identity",
    .build = build,
};
