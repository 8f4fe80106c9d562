/* qwen.c - Qwen 2, 2.5 and 3, dense and as mixtures of experts. To the Llama block Qwen 2 adds biases of q, k and
 * v, Qwen 3 a norm of each head of q and k instead; a window may begin at some layer. Mellum 2 is a Qwen 3 mixture
 * whose windowed layers have positions of their own, MiMo a Qwen 2 with prediction heads that are not run. */
#include "families/family.h"

/* Layers named in mlp_only_layers, and all but every decoder_sparse_step-th one, stay dense. */
static bool has_experts(const qn_config *c, int layer)
{
    int64_t step = qn_config_int(c, "decoder_sparse_step", 1);
    const qn_json *dense = qn_config_get(c, "mlp_only_layers");
    for (uint32_t i = 0; dense && dense->type == QN_JSON_ARRAY && i < dense->n; i++)
        if (qn_json_int(&dense->items[i], -1) == layer)
            return false;
    return c->n_experts > 0 && step > 0 && (layer + 1) % step == 0;
}

/* Qwen 2 MoE: an expert that every token goes through, faded in by a gate of its own. */
static qn_val shared_expert(qn_build *b, qn_val x, const qn_config *c)
{
    const qn_mlp mlp = { .d_ff = (int)qn_config_int(c, "shared_expert_intermediate_size", 0),
                         .act = c->act };
    if (mlp.d_ff == 0)
        return (qn_val){ 0 };
    qn_val gate = qn_activate(b, qn_linear(b, "mlp.shared_expert_gate", x, 1), QN_ACT_SIGMOID);
    return qn_mul(b, qn_gated_mlp(b, "mlp.shared_expert", x, &mlp), gate);
}

static qn_val feed_forward(qn_build *b, int layer, qn_val x, const qn_config *c)
{
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };
    const qn_moe moe = { .n_experts = c->n_experts,
                         .top_k = c->top_k,
                         .d_ff = (int)qn_config_int(c, "moe_intermediate_size", 0),
                         .act = c->act,
                         .score = QN_ROUTE_SOFTMAX,
                         .renorm = qn_config_bool(c, "norm_topk_prob", false),
                         .router = "gate",
                         .gate = "experts.%d.gate_proj",
                         .up = "experts.%d.up_proj",
                         .down = "experts.%d.down_proj" };
    if (!has_experts(c, layer))
        return qn_gated_mlp(b, "mlp", x, &mlp);
    qn_val y = qn_moe_mlp(b, "mlp", x, &moe);
    qn_val shared = shared_expert(b, x, c);
    return shared.id ? qn_add(b, y, shared) : y;
}

static void build(qn_build *b, const qn_config *c)
{
    bool is_qwen3 = qn_has_tensor(b, "model.layers.0.self_attn.q_norm.weight");
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .both_ways = !qn_config_bool(c, "is_causal", true), /* embedders made of it */
                     .qk_norm = is_qwen3 ? QN_QK_HEAD : QN_QK_PLAIN,
                     .norm_eps = c->norm_eps };

    qn_ignore(b, "model.mtp_layers.");
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 0);
        attn.rope = qn_rope_of(c, attn.window > 0 ? "sliding_attention" : "full_attention");
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, feed_forward(b, i, h, c));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_qwen = {
    .name = "qwen",
    .model_types =
        (const char *const[]){ "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "mellum", "mimo", NULL },
    .about = "Qwen 2, 2.5, 3; experts with (2) and without (3) a shared one; Mellum 2, MiMo",
    .build = build,
};
