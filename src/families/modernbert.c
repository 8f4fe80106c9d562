/* modernbert.c - ModernBERT: a pre-norm encoder with rotary positions whose layers look near or far, each kind with
 * a base of its own. The first layer has no norm before attention: the embedding was normed just now. */
#include <string.h>

#include "families/family.h"

/* Rotary positions of a kind of layers, named in either generation of configs. */
static qn_rope rope_of(const qn_config *c, const char *kind, const char *key, double theta)
{
    qn_rope r = qn_rope_of(c, kind);
    theta = qn_config_num(c, key, theta);
    if (!qn_config_has(c, "rope_parameters"))
        r.theta = theta;
    return r;
}

/* Dense layer, activation and norm before the classifier, over the first row or the mean of all. */
static void classify(qn_build *b, qn_val x, const qn_config *c)
{
    const char *act = qn_config_str(c, "classifier_activation", "gelu");
    const char *pooling = qn_config_str(c, "classifier_pooling", "cls");
    qn_config_used(c, "decoder_bias");
    qn_scope(b, -1, "%s", "");
    if (!qn_has_tensor(b, "classifier.weight")) {
        qn_config_used(c, "classifier_bias");
        qn_ignore(b, "head.");
        qn_ignore(b, "decoder.");
        return;
    }
    x = strcmp(pooling, "mean") == 0 ? qn_mean_rows(b, x) : qn_first_rows(b, x);
    x = qn_activate(b, qn_linear(b, "head.dense", x, c->d_model), qn_act_find(act));
    qn_expect_bias(b, "classifier_bias", "head.dense");
    qn_labels(b, "classifier", qn_layer_norm(b, "head.norm", x, c->norm_eps));
}

static void build(qn_build *b, const qn_config *c)
{
    const char *root = qn_root(b, "model", "embeddings.tok_embeddings.weight");
    const qn_rope global = rope_of(c, "full_attention", "global_rope_theta", 160000);
    const qn_rope local = rope_of(c, "sliding_attention", "local_rope_theta", 10000);
    const int window = qn_window_each_way(qn_config_int(c, "local_attention", 128));
    const int64_t every = qn_config_int(c, "global_attn_every_n_layers", 3);
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_heads,
                     .head_dim = c->head_dim,
                     .both_ways = true,
                     .qkv = "Wqkv",
                     .o = "Wo" };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act, .gate_up = "Wi", .down = "Wo" };

    qn_scope(b, -1, "%sembeddings", root);
    qn_val x = qn_layer_norm(b, "norm", qn_embed(b, "tok_embeddings", c), c->norm_eps);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "%slayers.%d", root, i);
        bool is_local = qn_layer_is_kind(b, i, "sliding_attention", "full_attention",
                                         every > 0 && i % every != 0);
        attn.window = is_local ? window : 0;
        attn.rope = is_local ? local : global;
        qn_val h = i == 0 ? x : qn_layer_norm(b, "attn_norm", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "attn", h, &attn));
        h = qn_layer_norm(b, "mlp_norm", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "mlp", h, &mlp));
        qn_expect_bias(b, "attention_bias", "attn.Wqkv");
        qn_expect_bias(b, "mlp_bias", "mlp.Wi");
        qn_expect_bias(b, "norm_bias", "mlp_norm");
    }
    qn_scope(b, -1, "%sfinal_norm", root);
    x = qn_layer_norm(b, "", x, c->norm_eps);
    qn_hidden(b, x);
    classify(b, x, c);
}

const qn_family qn_family_modernbert = {
    .name = "modernbert",
    .model_types = (const char *const[]){ "modernbert", NULL },
    .about = "ModernBERT (GTE, Nomic embed on it): near and far layers, rotary; cross-encoders",
    .build = build,
};
