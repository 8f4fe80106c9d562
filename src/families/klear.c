/* klear.c - Klear: Qwen 3's attention, experts chosen by sigmoid scores with a bias, and a shared one; each token says
 * by a softmax how much it takes of either. */
#include "families/family.h"

static bool has_experts(const qn_config *c, int layer)
{
    int64_t step = qn_config_int(c, "decoder_sparse_step", 1);
    const qn_json *dense = qn_config_get(c, "mlp_only_layers");
    for (uint32_t i = 0; dense && dense->type == QN_JSON_ARRAY && i < dense->n; i++)
        if (qn_json_int(&dense->items[i], -1) == layer)
            return false;
    return c->n_experts > 0 && step > 0 && (layer + 1) % step == 0;
}

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    qn_moe moe = qn_moe_of(c, true);
    moe.score = QN_ROUTE_SIGMOID;
    moe.bias = "expert_bias";
    const qn_mlp shared = { .d_ff = moe.d_ff * (int)qn_config_int(c, "n_shared_experts", 1),
                            .act = c->act };
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    qn_val z = qn_gated_mlp(b, "mlp.shared_experts", x, &shared);
    return qn_blend(b, y, z, qn_linear(b, "mlp.coefficient", x, 2));
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .rope = c->rope,
                           .qk_norm = QN_QK_HEAD,
                           .norm_eps = c->norm_eps };
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

const qn_family qn_family_klear = {
    .name = "klear",
    .model_types = (const char *const[]){ "Klear", "klear", NULL },
    .about = "Klear",
    .build = build,
};
