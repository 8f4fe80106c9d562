/* nomic_bert.c - Nomic's BERT: norms after each half as in BERT, but rotary positions, one matrix for q, k and v, and
 * a gated feed-forward. Its configs come in the names of GPT-2 or in those of BERT. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    const char *root = qn_root(b, "bert", "embeddings.word_embeddings.weight");
    const int64_t n_types = qn_config_int(c, "type_vocab_size", 2);
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_heads,
                           .head_dim = c->head_dim,
                           .both_ways = true,
                           .rope = c->rope,
                           .qkv = "Wqkv",
                           .o = "out_proj" };
    const qn_mlp mlp = {
        .d_ff = c->d_ff, .act = c->act, .gate = "fc12", .up = "fc11", .down = "fc2"
    };

    qn_ignore(b, "cls.");
    qn_scope(b, -1, "%sembeddings", root);
    qn_val x = qn_embed(b, "word_embeddings", c);
    x = qn_add(b, x, qn_table(b, "token_type_embeddings", "segment", n_types, 0));
    qn_scope(b, -1, "%semb_ln", root);
    x = qn_layer_norm(b, "", x, c->norm_eps);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "%sencoder.layers.%d", root, i);
        x = qn_layer_norm(b, "norm1", qn_add(b, x, qn_attention(b, "attn", x, &attn)), c->norm_eps);
        x = qn_layer_norm(b, "norm2", qn_add(b, x, qn_gated_mlp(b, "mlp", x, &mlp)), c->norm_eps);
        qn_expect_bias(b, "qkv_proj_bias", "attn.Wqkv");
        qn_expect_bias(b, "mlp_fc1_bias", "mlp.fc11");
        qn_expect_bias(b, "mlp_fc2_bias", "mlp.fc2");
    }
    qn_hidden(b, x);
}

const qn_family qn_family_nomic_bert = {
    .name = "nomic_bert",
    .model_types = (const char *const[]){ "nomic_bert", NULL },
    .about = "Nomic embed text 1 and 1.5: BERT with rotary positions and a gated feed-forward",
    .norm_before_cut = true,
    .build = build,
};
