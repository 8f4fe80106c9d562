/* exaone.c - EXAONE 3 and 3.5: the Llama block under GPT-2's kind of names. */
#include "families/family.h"

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = { .n_heads = c->n_heads,
                           .n_kv_heads = c->n_kv_heads,
                           .head_dim = c->head_dim,
                           .rope = c->rope,
                           .o = "out_proj" };
    const qn_mlp mlp = {
        .d_ff = c->d_ff, .act = c->act, .gate = "c_fc_0", .up = "c_fc_1", .down = "c_proj"
    };

    qn_scope(b, -1, "transformer");
    qn_val x = qn_embed(b, "wte", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "transformer.h.%d", i);
        qn_val h = qn_rms_norm(b, "ln_1", x, c->norm_eps);
        x = qn_add(b, x, qn_attention(b, "attn.attention", h, &attn));
        h = qn_rms_norm(b, "ln_2", x, c->norm_eps);
        x = qn_add(b, x, qn_gated_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "transformer");
    qn_logits(b, "lm_head", qn_rms_norm(b, "ln_f", x, c->norm_eps), c);
}

const qn_family qn_family_exaone = {
    .name = "exaone",
    .model_types = (const char *const[]){ "exaone", NULL },
    .about = "EXAONE 3 and 3.5",
    .build = build,
};
