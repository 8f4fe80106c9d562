/* mpt.c - MPT: ALiBi, LayerNorms without biases, q, k and v in one matrix, a plain MLP of GELU four times as wide. */
#include <string.h>

#include "families/family.h"

/* What attn_config may say beyond this is refused by name: it is an object, which the general check does not enter. */
static void check(qn_build *b, const qn_json *attn)
{
    static const char *const off[] = { "prefix_lm", "qk_ln", "qk_gn", "rope",
                                       "attn_uses_sequence_id" };
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (qn_json_bool(qn_json_get(attn, off[i]), false))
            qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "config: attn_config.%s is not supported",
                          off[i]);
    if (qn_json_int(qn_json_get(attn, "sliding_window_size"), -1) > 0)
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                      "config: attn_config.sliding_window_size is not supported");
    if (!qn_json_bool(qn_json_get(attn, "alibi"), true))
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                      "config: attn_config without alibi is not supported");
}

static qn_attn attention_of(qn_build *b, const qn_config *c)
{
    const qn_json *attn = qn_config_get(c, "attn_config");
    check(b, attn);
    const char *kind = qn_json_str(qn_json_get(attn, "attn_type"), "multihead_attention");
    int64_t n_kv = qn_json_int(qn_json_get(attn, "kv_n_heads"), c->n_heads);
    if (strcmp(kind, "multiquery_attention") == 0)
        n_kv = 1;
    if (n_kv < 1 || n_kv > c->n_heads)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: attn_config.kv_n_heads is out of range");
    return (qn_attn){ .n_heads = c->n_heads,
                      .n_kv_heads = (int)n_kv,
                      .head_dim = c->head_dim,
                      .scale = (float)qn_json_num(qn_json_get(attn, "softmax_scale"), 0),
                      .clip = (float)qn_json_num(qn_json_get(attn, "clip_qkv"), 0),
                      .alibi = (float)qn_json_num(qn_json_get(attn, "alibi_bias_max"), 8),
                      .qkv = "Wqkv",
                      .o = "out_proj" };
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = attention_of(b, c);
    /* The reference takes four, whatever expansion_ratio says. */
    const qn_mlp mlp = { .d_ff = 4 * c->d_model, .act = QN_ACT_GELU };
    float eps = (float)qn_config_num(c, "layer_norm_epsilon", 1e-5);
    qn_config_used(c, "learned_pos_emb"); /* ALiBi takes their place */

    qn_scope(b, -1, "transformer");
    qn_val x = qn_embed(b, "wte", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "transformer.blocks.%d", i);
        qn_val h = qn_layer_norm(b, "norm_1", x, eps);
        x = qn_add(b, x, qn_attention(b, "attn", h, &attn));
        h = qn_layer_norm(b, "norm_2", x, eps);
        x = qn_add(b, x, qn_plain_mlp(b, "ffn", h, &mlp));
    }
    qn_scope(b, -1, "transformer");
    qn_logits(b, "lm_head", qn_layer_norm(b, "norm_f", x, eps), c);
}

const qn_family qn_family_mpt = {
    .name = "mpt",
    .model_types = (const char *const[]){ "mpt", NULL },
    .about = "MPT 7B, 30B",
    .tied = true,
    .build = build,
};
