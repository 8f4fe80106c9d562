/* recurrent_gemma.c - RecurrentGemma (Griffin): two layers of gated linear recurrence to one of attention over a window.
 * Norms are stored less one, the embedding is scaled, logits are capped. */
#include <math.h>

#include "families/family.h"

/* block_types is repeated over the layers; the names differ between versions. */
static bool attends(qn_build *b, const qn_config *c, int layer)
{
    const qn_json *types = qn_config_get(c, "block_types");
    if (!qn_json_is(types, QN_JSON_ARRAY) || types->n == 0)
        return layer % 3 == 2;
    const qn_json *kind = &types->items[(uint32_t)layer % types->n];
    bool full = qn_json_eq(kind, "attention") || qn_json_eq(kind, "sliding_attention");
    if (!full && !qn_json_eq(kind, "recurrent") && !qn_json_eq(kind, "linear_attention"))
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED, "config: block_types says \"%s\"",
                      qn_json_str(kind, "nothing"));
    return full;
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .window = (int)qn_config_int(c, "attention_window_size", 2048),
                           .rope = c->rope };
    const qn_lru lru = { .width = (int)qn_config_int(c, "lru_width", c->d_model),
                         .n_heads = c->n_heads,
                         .kernel = (int)qn_config_int(c, "conv1d_width", 4),
                         .act = c->act };
    const qn_mlp mlp = { .d_ff = c->d_ff / 2, .act = c->act };

    qn_config_used(c, "w_init_variance_scale"); /* starting values */
    qn_config_used(c, "final_w_init_variance_scale");
    qn_scope(b, -1, "model");
    qn_val x = qn_embed(b, "embed_tokens", c);
    x = qn_scale(b, x, qn_bf16_round(sqrtf((float)c->d_model)));
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "model.layers.%d", i);
        qn_val h = qn_rms_norm1(b, "temporal_pre_norm", x, c->norm_eps);
        h = attends(b, c, i) ? qn_attention(b, "temporal_block", h, &attn)
                             : qn_lru_mixer(b, "temporal_block", h, &lru);
        x = qn_add(b, x, h);
        h = qn_rms_norm1(b, "channel_pre_norm", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "mlp_block", h, &mlp));
    }
    qn_scope(b, -1, "model");
    x = qn_head(b, "lm_head", qn_rms_norm1(b, "final_norm", x, c->norm_eps), c);
    x = qn_softcap(b, x, (float)qn_config_num(c, "logits_soft_cap", 30));
    qn_mark_output(b, "logits", x);
}

const qn_family qn_family_recurrent_gemma = {
    .name = "recurrent_gemma",
    .model_types = (const char *const[]){ "recurrent_gemma", NULL },
    .about = "RecurrentGemma: gated linear recurrence and local attention",
    .tied = true,
    .build = build,
};
