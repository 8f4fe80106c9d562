/* minimax_m2.c - MiniMax M2: q and k normed over all heads, a part of each head rotated, experts in every layer
 * chosen by sigmoid scores with a bias. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    bool qk_norm = qn_config_bool(c, "use_qk_norm", true);
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .rope = c->rope,
                     .qk_norm = qk_norm ? QN_QK_FULL : QN_QK_PLAIN,
                     .norm_eps = c->norm_eps };
    attn.rope.n_rot = (int)qn_config_int(c, "rotary_dim", attn.rope.n_rot);
    qn_moe moe = qn_moe_of(c, true);
    moe.d_ff = c->d_ff;
    moe.score = QN_ROUTE_SIGMOID;
    moe.bias = qn_config_bool(c, "use_routing_bias", true) ? "e_score_correction_bias" : NULL;
    moe.gate = "experts.%d.w1";
    moe.up = "experts.%d.w3";
    moe.down = "experts.%d.w2";

    qn_require(b, "scoring_func", "sigmoid");
    qn_require(b, "qk_norm_type", "per_layer");
    qn_ignore(b, "model.mtp.");
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_moe_mlp(b, "block_sparse_moe", h, &moe));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_minimax_m2 = {
    .name = "minimax_m2",
    .model_types = (const char *const[]){ "minimax_m2", NULL },
    .about = "MiniMax M2",
    .build = build,
};
