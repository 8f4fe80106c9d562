/* llama4.c - Llama 4 (text): most layers see chunks of the sequence by rotated, then normed q and k; the others see
 * everything, have no positions, and sharpen late queries. One expert of each layer gets its input times the
 * router's sigmoid, beside a shared one. */
#include "families/family.h"

static bool has_experts(const qn_config *c, int layer)
{
    int64_t step = qn_config_int(c, "interleave_moe_layer_step", 1);
    const qn_json *list = qn_config_get(c, "moe_layers");
    if (!list)
        return step > 0 && (layer + 1) % step == 0;
    for (uint32_t i = 0; list->type == QN_JSON_ARRAY && i < list->n; i++)
        if (qn_json_int(&list->items[i], -1) == layer)
            return true;
    return false;
}

/* 1 in the list means that the layer does rotate. */
static bool has_positions(const qn_config *c, int layer)
{
    const qn_json *list = qn_config_get(c, "no_rope_layers");
    int64_t every = qn_config_int(c, "no_rope_layer_interval", 4);
    if (qn_json_is(list, QN_JSON_ARRAY) && list->n > 0)
        return qn_json_int(qn_json_at(list, (size_t)layer), 1) != 0;
    return every < 1 || (layer + 1) % every != 0;
}

static qn_attn attention_of(qn_build *b, const qn_config *c, int layer)
{
    qn_attn a = { .n_heads = c->n_heads,
                  .n_kv_heads = c->n_kv_heads,
                  .head_dim = c->head_dim,
                  .norm_after_rope = true,
                  .norm_eps = c->norm_eps };
    bool rotates = has_positions(c, layer), norms = qn_config_bool(c, "use_qk_norm", true);
    /* A chunk size of null means that there are no chunks; absence means the usual size. */
    bool chunked = rotates && (!qn_json_get(c->json, "attention_chunk_size") ||
                               qn_config_has(c, "attention_chunk_size"));
    if (qn_layer_is_kind(b, layer, "chunked_attention", "full_attention", chunked))
        a.chunk = (int)qn_config_int(c, "attention_chunk_size", 8192);
    if (rotates) {
        a.rope = c->rope;
        a.rope.interleaved = true;
        a.qk_norm = norms ? QN_QK_BARE : QN_QK_PLAIN;
    } else if (qn_config_bool(c, "attn_temperature_tuning", true)) {
        a.query_growth.beta = (float)qn_config_num(c, "attn_scale", 0.1);
        a.query_growth.period = (float)qn_config_num(c, "floor_scale", 8192);
        a.query_growth.shift = 1;
    }
    return a;
}

static qn_val feed_forward(qn_build *b, int layer, qn_val x, const qn_config *c)
{
    const qn_mlp dense = { .d_ff = (int)qn_config_int(c, "intermediate_size_mlp", c->d_ff),
                           .act = c->act };
    const qn_mlp shared = { .d_ff = c->d_ff, .act = c->act };
    qn_moe moe = qn_moe_of(c, false);
    moe.d_ff = c->d_ff;
    moe.score = QN_ROUTE_SIGMOID;
    moe.scales_input = true;
    moe.router = "router";
    moe.gate_up = "experts.gate_up_proj";
    moe.inputs_first = true;
    if (!has_experts(c, layer))
        return qn_gated_mlp(b, "feed_forward", x, &dense);
    qn_val y = qn_gated_mlp(b, "feed_forward.shared_expert", x, &shared);
    return qn_add(b, y, qn_moe_mlp(b, "feed_forward", x, &moe));
}

static void build(qn_build *b, const qn_config *c)
{
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        const qn_attn attn = attention_of(b, c, i);
        qn_val h = qn_rms_norm(b, "input_layernorm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "self_attn", h, &attn));
        h = qn_rms_norm(b, "post_attention_layernorm", x, c->norm_eps);
        x = qn_add(b, x, feed_forward(b, i, h, c));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_llama4 = {
    .name = "llama4",
    .model_types = (const char *const[]){ "llama4_text", NULL },
    .about = "Llama 4 text models",
    .build = build,
};
