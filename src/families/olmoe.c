/* olmoe.c - OLMoE and FlexOlmo: experts in every layer, q and k normed over all heads together. OLMoE norms before
 * each half, FlexOlmo after it as OLMo 2 does. */
#include <string.h>

#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    bool norms_after = strcmp(c->model_type, "flex_olmo") == 0;
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .rope = c->rope,
                           .qk_norm = QN_QK_FULL,
                           .norm_eps = c->norm_eps };
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = c->d_ff,
                         .act = c->act,
                         .score = QN_ROUTE_SOFTMAX,
                         .renorm = qn_config_bool(c, "norm_topk_prob", false),
                         .router = "gate",
                         .gate = "experts.%d.gate_proj",
                         .up = "experts.%d.up_proj",
                         .down = "experts.%d.down_proj" };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        if (norms_after) {
            qn_val h = qn_attention(b, "self_attn", x, &attn);
            x = qn_add(b, x, qn_rms_norm(b, "post_attention_layernorm", h, c->norm_eps));
            h = qn_moe_mlp(b, "mlp", x, &moe);
            x = qn_add(b, x, qn_rms_norm(b, "post_feedforward_layernorm", h, c->norm_eps));
        } else {
            qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
            x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
            h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
            x = qn_add(b, x, qn_moe_mlp(b, "mlp", h, &moe));
        }
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_olmoe = {
    .name = "olmoe",
    .model_types = (const char *const[]){ "olmoe", "flex_olmo", NULL },
    .about = "OLMoE, FlexOlmo",
    .build = build,
};
