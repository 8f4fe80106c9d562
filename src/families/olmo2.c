/* olmo2.c - OLMo 2 and 3: norms come after attention and MLP instead of before, and q and k are normed over all
 * heads together. OLMo 3 gives three of four layers a window; those do not scale their positions. */
#include <string.h>

#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    bool is_olmo3 = strcmp(c->model_type, "olmo3") == 0;
    const qn_rope global = qn_rope_of(c, "full_attention");
    qn_rope local = qn_rope_of(c, "sliding_attention");
    local.scaling = NULL;
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = c->n_kv_heads,
                     .head_dim = c->head_dim,
                     .qk_norm = QN_QK_FULL,
                     .norm_eps = c->norm_eps };
    const qn_mlp mlp = { .d_ff = c->d_ff, .act = c->act };

    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        attn.window = is_olmo3 ? qn_layer_window(b, i, 4) : 0;
        attn.rope = attn.window > 0 ? local : global;
        qn_val h = qn_attention(b, "self_attn", x, &attn);
        x = qn_add(b, x, qn_rms_norm(b, "post_attention_layernorm", h, c->norm_eps));
        h = qn_gated_mlp(b, "mlp", x, &mlp);
        x = qn_add(b, x, qn_rms_norm(b, "post_feedforward_layernorm", h, c->norm_eps));
    }
    qn_scope(b, -1, "model");
    qn_logits(b, "lm_head", qn_rms_norm(b, "norm", x, c->norm_eps), c);
}

const qn_family qn_family_olmo2 = {
    .name = "olmo2",
    .model_types = (const char *const[]){ "olmo2", "olmo3", NULL },
    .about = "OLMo 2 and 3",
    .build = build,
};
