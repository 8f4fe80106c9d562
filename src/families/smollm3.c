/* smollm3.c - SmolLM3: the Llama block, with no rotary positions in every fourth layer. */
#include "families/family.h"

/* no_rope_layers holds 1 for the layers that do rotate; without it every no_rope_layer_interval-th does not. */
static bool rotates(const qn_config *c, int layer)
{
    const qn_json *list = qn_config_get(c, "no_rope_layers");
    int64_t interval = qn_config_int(c, "no_rope_layer_interval", 4);
    if (list && list->n > 0)
        return qn_json_int(qn_json_at(list, (size_t)layer), 1) != 0;
    return interval <= 0 || (layer + 1) % interval != 0;
}

static void build(qn_build *b, const qn_config *c)
{
    qn_attn attn = { .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = qn_layer_window(b, i, 0);
        attn.rope = rotates(c, i) ? c->rope : (qn_rope){ 0 };
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_smollm3 = {
    .name = "smollm3",
    .model_types = (const char *const[]){ "smollm3", NULL },
    .about = "SmolLM3",
    .tied = true,
    .build = build,
};
