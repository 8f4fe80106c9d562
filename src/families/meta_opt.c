/* meta_opt.c - OPT: learned positions (whose table begins two rows early), LayerNorms before each half or, in the 350M
 * model, after it, plain MLPs of ReLU; that model also embeds into fewer columns than it computes in. */
#include "families/family.h"

static qn_val attend(qn_build *b, qn_val x, const qn_config *c)
{
    const qn_attn attn = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_heads, .head_dim = c->head_dim, .o = "out_proj"
    };
    return qn_attention(b, "self_attn", x, &attn);
}

static void build(qn_build *b, const qn_config *c)
{
    bool before = qn_config_bool(c, "do_layer_norm_before", true);
    bool last_norm = before && !qn_config_bool(c, "_remove_final_layer_norm", false);
    const float eps = 1e-5f; /* no config says it */
    const qn_mlp mlp = {
        .d_ff = c->d_ff, .act = c->hidden_act ? c->act : QN_ACT_RELU, .up = "fc1", .down = "fc2"
    };
    if (qn_config_int(c, "word_embed_proj_dim", c->d_model) != c->d_model)
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                      "config: word_embed_proj_dim other than hidden_size is not supported");
    const char *root =
        qn_has_tensor(b, "decoder.embed_tokens.weight") ? "decoder" : "model.decoder";

    qn_scope(b, -1, "%s", root);
    qn_val x = qn_add_positions(b, "embed_positions", qn_embed(b, "embed_tokens", c), 2);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "%s.layers.%d", root, i);
        qn_val h = before ? qn_layer_norm(b, "self_attn_layer_norm", x, eps) : x;
        x = qn_add(b, x, attend(b, h, c));
        x = before ? x : qn_layer_norm(b, "self_attn_layer_norm", x, eps);
        h = before ? qn_layer_norm(b, "final_layer_norm", x, eps) : x;
        x = qn_add(b, x, qn_plain_mlp(b, "", h, &mlp));
        x = before ? x : qn_layer_norm(b, "final_layer_norm", x, eps);
    }
    qn_scope(b, -1, "%s", root);
    if (last_norm)
        x = qn_layer_norm(b, "final_layer_norm", x, eps);
    qn_logits(b, "lm_head", x, c);
}

const qn_family qn_family_meta_opt = {
    .name = "meta_opt",
    .model_types = (const char *const[]){ "opt", NULL },
    .about = "OPT 125M to 66B",
    .tied = true,
    .build = build,
};
