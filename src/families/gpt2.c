/* gpt2.c - GPT-2, GPT-Neo and GPT-BigCode (StarCoder 1, SantaCoder): LayerNorms before each half, learned positions,
 * a plain MLP. GPT-2 stores its matrices inputs first; GPT-Neo has three projections without a scale on the scores and
 * windows on some layers; GPT-BigCode one head of keys for all of queries. */
#include <math.h>
#include <string.h>

#include "families/family.h"

/* GPT-Neo: kinds of layers as [[["global", "local"], 6]], each list so many times, one after the other. */
static bool is_local(qn_build *b, const qn_config *c, int layer)
{
    const qn_json *parts = qn_config_get(c, "attention_types");
    qn_config_used(c, "attention_layers");
    for (size_t i = 0; parts && i < parts->n; i++) {
        const qn_json *kinds = qn_json_at(qn_json_at(parts, i), 0);
        int64_t times = qn_json_int(qn_json_at(qn_json_at(parts, i), 1), 0);
        if (!qn_json_is(kinds, QN_JSON_ARRAY) || kinds->n == 0 || times < 0)
            break;
        if (layer < times * kinds->n)
            return qn_json_eq(qn_json_at(kinds, (size_t)layer % kinds->n), "local");
        layer -= (int)(times * kinds->n);
    }
    qn_graph_fail(b->g, QN_ERR_FORMAT, "config: attention_types does not cover every layer");
    return false;
}

/* What scores are divided by beside sqrt(head_dim): the layer's number, in some. */
static float scale_of(const qn_config *c, int layer)
{
    float scale = 1 / sqrtf((float)c->head_dim);
    if (!qn_config_bool(c, "scale_attn_weights", true))
        scale = 1;
    bool by_layer = qn_config_bool(c, "scale_attn_by_inverse_layer_idx", false);
    return by_layer ? scale / (float)(layer + 1) : scale;
}

static qn_attn attention_of(const qn_config *c)
{
    qn_attn a = { .n_heads = c->n_heads,
                  .n_kv_heads = c->n_heads,
                  .head_dim = c->head_dim,
                  .qkv = "c_attn",
                  .o = "c_proj" };
    if (strcmp(c->model_type, "gpt_bigcode") == 0) {
        bool shared = qn_config_bool(c, "multi_query", true);
        a.n_kv_heads = shared ? 1 : c->n_heads;
        a.qkv_runs = a.n_kv_heads;
    } else if (strcmp(c->model_type, "gpt_neo") == 0) {
        a.qkv = NULL;
        a.o = "out_proj";
    }
    return a;
}

static void build(qn_build *b, const qn_config *c)
{
    bool is_neo = strcmp(c->model_type, "gpt_neo") == 0;
    /* The first files hold the model alone, later ones the model below "transformer". */
    const char *root = qn_has_tensor(b, "transformer.wte.weight") ? "transformer" : "";
    const char *dot = root[0] ? "." : "";
    qn_attn attn = attention_of(c);
    qn_mlp mlp = { .d_ff = c->d_ff > 0 ? c->d_ff : 4 * c->d_model,
                   .act = c->hidden_act ? c->act : QN_ACT_GELU_TANH,
                   .up = "c_fc",
                   .down = "c_proj" };
    float eps = (float)qn_config_num(c, "layer_norm_epsilon", 1e-5);

    qn_scope(b, -1, "%s", root);
    qn_val x = qn_add_positions(b, "wpe", qn_embed(b, "wte", c), 0);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "%s%sh.%d", root, dot, i);
        if (i == 0 && attn.qkv)
            attn.inputs_first = mlp.inputs_first =
                qn_stores_inputs_first(b, "attn.c_attn", 3 * c->d_model, c->d_model);
        qn_ignore_part(b, is_neo ? "attn.attention.bias" : "attn.bias");
        qn_ignore_part(b, is_neo ? "attn.attention.masked_bias" : "attn.masked_bias");
        attn.scale = is_neo ? 1 : scale_of(c, i);
        attn.window = is_neo && is_local(b, c, i) ? (int)qn_config_int(c, "window_size", 256) : 0;
        qn_val h = qn_layer_norm(b, "ln_1", x, eps);
        x = qn_add(b, x, qn_attention(b, is_neo ? "attn.attention" : "attn", h, &attn));
        h = qn_layer_norm(b, "ln_2", x, eps);
        x = qn_add(b, x, qn_plain_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "%s", root);
    qn_logits(b, "lm_head", qn_layer_norm(b, "ln_f", x, eps), c);
}

const qn_family qn_family_gpt2 = {
    .name = "gpt2",
    .model_types = (const char *const[]){ "gpt2", "gpt_neo", "gpt_bigcode", NULL },
    .about = "GPT-2, GPT-Neo, GPT-BigCode (StarCoder 1, SantaCoder)",
    .tied = true,
    .build = build,
};
