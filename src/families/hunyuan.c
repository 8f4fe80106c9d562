/* hunyuan.c - Hunyuan 1, dense and as a mixture (A13B): q and k are normed head by head after they were rotated, by a
 * base enlarged for long contexts. The mixture has a shared expert and gives its numbers layer by layer. */
#include <string.h>

#include "families/family.h"

/* A number for all layers, or a list with one for each. */
static int per_layer(const qn_config *c, const char *key, int layer, int fallback)
{
    int64_t n = qn_config_layer_int(c, key, layer, fallback);
    return n >= 0 && n < 1 << 24 ? (int)n : -1;
}

static qn_val experts(qn_build *b, int layer, qn_val x, const qn_config *c)
{
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = per_layer(c, "moe_topk", layer, 1),
                         .d_ff = per_layer(c, "moe_intermediate_size", layer, c->d_ff),
                         .act = c->act,
                         .score = QN_ROUTE_SOFTMAX,
                         .renorm = true,
                         .router = "gate.wg",
                         .gate = "experts.%d.gate_proj",
                         .up = "experts.%d.up_proj",
                         .down = "experts.%d.down_proj" };
    const qn_mlp shared = { .d_ff = c->d_ff * per_layer(c, "num_shared_expert", layer, 1),
                            .act = c->act };
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    if (!qn_config_bool(c, "use_mixed_mlp_moe", true))
        return y;
    return qn_add(b, y, qn_gated_mlp(b, "mlp.shared_mlp", x, &shared));
}

static void build(qn_build *b, const qn_config *c)
{
    bool is_moe = strcmp(c->model_type, "hunyuan_v1_moe") == 0;
    bool qk_norm = qn_config_bool(c, "use_qk_norm", true);
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .rope = c->rope,
                           .qk_norm = qk_norm ? QN_QK_HEAD : QN_QK_PLAIN,
                           .norm_after_rope = true,
                           .norm_eps = c->norm_eps,
                           .q_norm = "query_layernorm",
                           .k_norm = "key_layernorm" };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, is_moe ? experts(b, i, h, c) : qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_hunyuan = {
    .name = "hunyuan",
    .model_types = (const char *const[]){ "hunyuan_v1_dense", "hunyuan_v1_moe", NULL },
    .about = "Hunyuan 1 dense models and A13B",
    .tied = true,
    .build = build,
};
