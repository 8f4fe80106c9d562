/* gemma.c - Gemma 1, 2 and 3 (text). Norm weights are stored less one, the embedding is scaled by sqrt(width), the
 * gate is tanh-GELU. Gemma 2 norms each half before and after, alternates windows and caps scores and logits;
 * Gemma 3 norms q and k instead of capping and gives windowed layers rotary positions of their own; as an encoder
 * (EmbeddingGemma) its rows see both ways. VaultGemma is a
 * Gemma 2 without the norms after. */

#include <math.h>
#include <string.h>

#include "families/family.h"

/* Positions of windowed layers: their own base and never scaled. */
static qn_rope local_rope(const qn_config *c)
{
    qn_rope r = qn_rope_of(c, "sliding_attention");
    double theta = qn_config_num(c, "rope_local_base_freq", 10000);
    if (!qn_config_has(c, "rope_parameters")) {
        r.theta = theta;
        r.scaling = NULL;
    }
    return r;
}

/* Attention of a layer; its `rope` and `window` are set layer by layer. */
static qn_attn attention(const qn_config *c, bool is_gemma3)
{
    float width = (float)qn_config_num(c, "query_pre_attn_scalar", c->head_dim);
    return (qn_attn){ .n_heads = c->n_heads,
                      .n_kv_heads = c->n_kv_heads,
                      .head_dim = c->head_dim,
                      .scale = 1 / sqrtf(width),
                      .softcap = (float)qn_config_num(c, "attn_logit_softcapping", 0),
                      .qk_norm = is_gemma3 ? QN_QK_HEAD1 : QN_QK_PLAIN,
                      .norm_eps = c->norm_eps };
}

static void build(qn_build *b, const qn_config *c)
{
    bool is_gemma1 = strcmp(c->model_type, "gemma") == 0;
    bool is_gemma3 = strcmp(c->model_type, "gemma3_text") == 0;
    bool both_ways = is_gemma3 && qn_config_bool(c, "use_bidirectional_attention", false);
    bool norms_after = !is_gemma1 && strcmp(c->model_type, "vaultgemma") != 0;
    qn_attn attn = attention(c, is_gemma3);
    attn.both_ways = both_ways;
    const qn_rope global = qn_rope_of(c, "full_attention");
    const qn_rope local = is_gemma3 ? local_rope(c) : global;
    /* hidden_act of the first files says "gelu" and is not what they were trained with. */
    qn_config_used(c, "hidden_act");
    const char *act = qn_config_str(c, "hidden_activation", "gelu_pytorch_tanh");
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = qn_act_find(act) };

    qn_scope(b, -1, "model");
    qn_val x = qn_scale(b, qn_embed(b, "embed_tokens", c), sqrtf((float)c->d_model));
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = is_gemma1 ? 0 : qn_layer_window(b, i, is_gemma3 ? 6 : 2);
        attn.rope = attn.window > 0 ? local : global;
        if (both_ways && attn.window > 0)
            attn.window = qn_window_each_way(attn.window);
        qn_val h = qn_rms_norm1(b, "input_layernorm", x, c->norm_eps);
        h = qn_attention(b, "self_attn", h, &attn);
        if (norms_after)
            h = qn_rms_norm1(b, "post_attention_layernorm", h, c->norm_eps);
        x = qn_add(b, x, h);
        h = qn_rms_norm1(b, is_gemma1 ? "post_attention_layernorm" : "pre_feedforward_layernorm", x,
                         c->norm_eps);
        h = qn_gated_mlp(b, "mlp", h, &mlp);
        if (norms_after)
            h = qn_rms_norm1(b, "post_feedforward_layernorm", h, c->norm_eps);
        x = qn_add(b, x, h);
    }
    qn_scope(b, -1, "model");
    x = qn_head(b, "lm_head", qn_rms_norm1(b, "norm", x, c->norm_eps), c);
    float cap = (float)qn_config_num(c, "final_logit_softcapping", 0);
    qn_mark_output(b, "logits", qn_softcap(b, x, cap));
}

const qn_family qn_family_gemma = {
    .name = "gemma",
    .model_types = (const char *const[]){ "gemma", "gemma2", "gemma3_text", "vaultgemma", NULL },
    .about = "Gemma 1, 2 and the text models of 3, VaultGemma",
    .tied = true,
    .build = build,
};
