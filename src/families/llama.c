/* llama.c - Llama 1-3, Mistral, Mixtral: a pre-norm decoder with grouped-query attention and rotary positions.
 * Mistral adds a window, Mixtral changes only the feed-forward, so they live here too; so do models that are
 * Llamas under another name, with biases or windows as their configs say. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .rope = c->rope
    };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = c->d_ff,
                         .act = c->act,
                         .score = QN_ROUTE_SOFTMAX,
                         .renorm = true, /* the chosen experts' weights sum to one */
                         .router = "gate",
                         .gate = "experts.%d.w1",
                         .up = "experts.%d.w3",
                         .down = "experts.%d.w2" };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 0);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        if (c->n_experts > 0)
            h = qn_moe_mlp(b, "block_sparse_moe", h, &moe);
        else
            h = qn_gated_mlp(b, "mlp", h, &mlp);
        x = qn_add(b, x, h);
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_llama = {
    .name = "llama",
    .model_types = (const char *const[]){ "llama", "mistral", "ministral", "ministral3", "mixtral",
                                          "seed_oss", "cwm", "internlm3", NULL },
    .about = "Llama 1-3, Mistral, Ministral, SmolLM 1-2, Seed-OSS, CWM, InternLM 3; Mixtral",
    .build = build,
};
