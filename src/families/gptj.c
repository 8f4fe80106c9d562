/* gptj.c - GPT-J and CodeGen: attention and a plain MLP side by side behind one LayerNorm, neighbouring columns of a
 * part of each head rotated, a bias on the logits. CodeGen's q, v and k are one matrix, in four runs. */
#include <string.h>

#include "families/family.h"

static qn_attn attention_of(const qn_config *c)
{
    qn_attn a = { .n_heads = c->n_heads,
                  .n_kv_heads = c->n_heads,
                  .head_dim = c->head_dim,
                  .rope = c->rope,
                  .o = "out_proj" };
    a.rope.n_rot = (int)qn_config_int(c, "rotary_dim", 64);
    a.rope.interleaved = true;
    if (strcmp(c->model_type, "codegen") == 0) {
        a.qkv = "qkv_proj";
        a.qkv_runs = 4;
        a.v_before_k = true;
    }
    return a;
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_attn attn = attention_of(c);
    const qn_mlp mlp = { .d_ff = c->d_ff > 0 ? c->d_ff : 4 * c->d_model,
                         .act = c->hidden_act ? c->act : QN_ACT_GELU_TANH,
                         .up = "fc_in",
                         .down = "fc_out" };
    float eps = (float)qn_config_num(c, "layer_norm_epsilon", 1e-5);

    qn_scope(b, -1, "transformer");
    qn_val x = qn_embed(b, "wte", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "transformer.h.%d", i);
        qn_ignore_part(b, "attn.bias");
        qn_ignore_part(b, "attn.masked_bias");
        qn_ignore_part(b, "attn.causal_mask");
        qn_val h = qn_layer_norm(b, "ln_1", x, eps);
        qn_val y = qn_add(b, x, qn_attention(b, "attn", h, &attn));
        x = qn_add(b, y, qn_plain_mlp(b, "mlp", h, &mlp));
    }
    qn_scope(b, -1, "transformer");
    qn_logits(b, "lm_head", qn_layer_norm(b, "ln_f", x, eps), c);
}

const qn_family qn_family_gptj = {
    .name = "gptj",
    .model_types = (const char *const[]){ "gptj", "codegen", NULL },
    .about = "GPT-J 6B, CodeGen",
    .build = build,
};
