/* gpt_oss.c - GPT-OSS: every other layer windowed, a sink for each head, biases everywhere, and experts whose gate
 * and up stand in turns and are clamped before they meet. The hub's files have the experts as MXFP4 blocks. */
#include "families/family.h"

static qn_val experts(qn_build *b, qn_val x, const qn_config *c)
{
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = c->d_ff,
                         .act = QN_ACT_SILU,
                         .score = QN_ROUTE_SOFTMAX_TOPK,
                         .router = "router",
                         .gate = "experts.%d.gate_proj",
                         .up = "experts.%d.up_proj",
                         .down = "experts.%d.down_proj",
                         .gate_up = "experts.gate_up_proj",
                         .in_turns = true,
                         .inputs_first = true,
                         .limit = (float)qn_config_num(c, "swiglu_limit", 7),
                         .slope = (float)qn_config_num(c, "swiglu_alpha", 1.702),
                         .up_plus_one = true };
    return qn_moe_mlp(b, "mlp", x, &moe);
}

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .rope = c->rope,
                     .sinks = "sinks" };
    /* The experts' activation is fixed, whatever this says. */
    qn_config_used(c, "hidden_act");

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 2);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, experts(b, h, c));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_gpt_oss = {
    .name = "gpt_oss",
    .model_types = (const char *const[]){ "gpt_oss", NULL },
    .about = "GPT-OSS",
    .build = build,
};
