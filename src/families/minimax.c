/* minimax.c - MiniMax Text-01 and M1: linear attention whose heads forget at fixed rates, an attention layer every few,
 * experts after each. Halves add to what the norm gave, not to the stream before it, each side with a factor. */
#include "families/family.h"

/* What a half makes of the normed input h and of its own result y. */
static qn_val residual(qn_build *b, const qn_config *c, const char *keys[2], qn_val h, qn_val y)
{
    return qn_add(b, qn_scale(b, h, (float)qn_config_num(c, keys[0], 1)),
                  qn_scale(b, y, (float)qn_config_num(c, keys[1], 1)));
}

static void build(qn_build *b, const qn_config *c)
{
    const char *linear_keys[2] = { "linear_attn_alpha_factor", "linear_attn_beta_factor" };
    const char *full_keys[2] = { "full_attn_alpha_factor", "full_attn_beta_factor" };
    const char *mlp_keys[2] = { "mlp_alpha_factor", "mlp_beta_factor" };
    const qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = c->d_ff,
                         .act = c->act,
                         .score = QN_ROUTE_SOFTMAX,
                         .renorm = true,
                         .gate = "experts.%d.w1",
                         .up = "experts.%d.w3",
                         .down = "experts.%d.w2" };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        bool full = qn_layer_is_kind(b, i, "full_attention", "linear_attention", i % 2 != 0);
        const qn_fading fading = {
            .n_heads = c->n_heads, .head_dim = c->head_dim, .act = c->act, .depth = i
        };
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        qn_val y = full ? qn_attention(b, "self_attn", h, &attn)
                        : qn_fading_attention(b, "self_attn", h, &fading);
        x = residual(b, c, full ? full_keys : linear_keys, h, y);
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = residual(b, c, mlp_keys, h, qn_moe_mlp(b, "block_sparse_moe", h, &moe));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_minimax = {
    .name = "minimax",
    .model_types = (const char *const[]){ "minimax", NULL },
    .about = "MiniMax Text-01, M1: linear attention and experts",
    .build = build,
};
