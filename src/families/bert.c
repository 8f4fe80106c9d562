/* bert.c - BERT and its kin RoBERTa, XLM-RoBERTa and CamemBERT: encoders with learned positions that norm after
 * each half of a layer. RoBERTa counts positions from behind the padding id and has a classifier of its own. */
#include <string.h>

#include "families/family.h"

/* Sum of what a token, its text of the pair and its place are worth. */
static qn_val embed(qn_build *b, const qn_config *c, const char *root, bool is_bert)
{
    int64_t n_types = qn_config_int(c, "type_vocab_size", 2);
    int64_t skip = is_bert ? 0 : qn_config_int(c, "pad_token_id", 1) + 1;
    qn_scope(b, -1, "%sembeddings", root);
    qn_val x = qn_embed(b, "word_embeddings", c);
    x = qn_add(b, x, qn_table(b, "token_type_embeddings", "segment", n_types, 0));
    x = qn_add(b, x, qn_table(b, "position_embeddings", "pos", c->max_pos, skip));
    return qn_layer_norm(b, "LayerNorm", x, c->norm_eps);
}

/* The head of a classifier, where the checkpoint has one. */
static void classify(qn_build *b, const char *root, qn_val x, const qn_config *c)
{
    bool own_dense = qn_has_tensor(b, "classifier.dense.weight");
    qn_ignore(b, "cls.");
    qn_ignore(b, "lm_head.");
    qn_scope(b, -1, "%s%s", own_dense ? "" : root, own_dense ? "classifier" : "pooler");
    if (!own_dense && !qn_has_tensor(b, "classifier.weight")) {
        qn_ignore(b, b->scope);
        return;
    }
    x = qn_linear(b, "dense", qn_first_rows(b, x), c->d_model);
    x = qn_activate(b, x, QN_ACT_TANH);
    qn_scope(b, -1, "classifier");
    qn_labels(b, own_dense ? "out_proj" : "", x);
}

static void build(qn_build *b, const qn_config *c)
{
    bool is_bert = strcmp(c->model_type, "bert") == 0;
    const char *root =
        qn_root(b, is_bert ? "bert" : "roberta", "embeddings.word_embeddings.weight");
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_heads,
                           .head_dim = c->head_dim,
                           .both_ways = true,
                           .q = "self.query",
                           .k = "self.key",
                           .v = "self.value",
                           .o = "output.dense" };
    const qn_mlp mlp = {
        .d_ff = c->d_ff, .act = c->act, .up = "intermediate.dense", .down = "output.dense"
    };

    qn_val x = embed(b, c, root, is_bert);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "%sencoder.layer.%d", root, i);
        x = qn_add(b, x, qn_attention(b, "attention", x, &attn));
        x = qn_layer_norm(b, "attention.output.LayerNorm", x, c->norm_eps);
        x = qn_add(b, x, qn_plain_mlp(b, "", x, &mlp));
        x = qn_layer_norm(b, "output.LayerNorm", x, c->norm_eps);
    }
    qn_hidden(b, x);
    classify(b, root, x, c);
}

const qn_family qn_family_bert = {
    .name = "bert",
    .model_types = (const char *const[]){ "bert", "roberta", "xlm-roberta", "camembert", NULL },
    .about = "BERT, RoBERTa, XLM-RoBERTa (MiniLM, BGE, E5, Snowflake); cross-encoders",
    .build = build,
};
