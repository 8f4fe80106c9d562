/* stablelm.c - StableLM 2: LayerNorm, rotary positions on a quarter of each head. The larger one norms each head of q
 * and k with a weight of its own and runs attention and MLP side by side behind one norm. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    bool parallel = qn_config_bool(c, "use_parallel_residual", false);
    bool qk_norm = qn_config_bool(c, "qk_layernorm", false);
    qn_config_bool(c, "use_qkv_bias", false); /* biases are used as the file has them */
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .rope = c->rope,
                           .qk_norm = qk_norm ? QN_QK_EACH : QN_QK_PLAIN,
                           .norm_eps = c->norm_eps,
                           .q_norm = "q_layernorm",
                           .k_norm = "k_layernorm" };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_layer_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        if (!parallel)
            h = qn_layer_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_layer_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_stablelm = {
    .name = "stablelm",
    .model_types = (const char *const[]){ "stablelm", NULL },
    .about = "StableLM 2, StableLM 3B, Stable Code",
    .build = build,
};
