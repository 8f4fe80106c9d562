/* dbrx.c - DBRX: LayerNorms without bias, q, k and v clipped, and experts whose matrices lie one below the other, the
 * last of them by inputs. Attention and experts have config objects of their own. */
#include "families/family.h"

/* torch's LayerNorm has this where nobody says otherwise. */
#define EPS 1e-5f

static qn_moe experts_of(qn_build *b, const qn_config *c)
{
    const qn_json *ffn = qn_config_get(c, "ffn_config");
    qn_moe moe = { .n_experts = (int)qn_json_int(qn_json_get(ffn, "moe_num_experts"), 4),
                   .top_k = (int)qn_json_int(qn_json_get(ffn, "moe_top_k"), 1),
                   .d_ff = (int)qn_json_int(qn_json_get(ffn, "ffn_hidden_size"), 3584),
                   .act = QN_ACT_SILU,
                   .score = QN_ROUTE_SOFTMAX,
                   .router = "router.layer",
                   .gate = "experts.mlp.w1",
                   .up = "experts.mlp.v1",
                   .down = "experts.mlp.w2",
                   .down_inputs_first = true };
    const qn_json *act = qn_json_get(ffn, "ffn_act_fn");
    if (act)
        moe.act = qn_act_find(qn_json_str(qn_json_get(act, "name"), "silu"));
    /* The norm that makes the weights one; its first power is their sum. */
    const qn_json *power = qn_json_get(ffn, "moe_normalize_expert_weights");
    moe.renorm = power && power->type != QN_JSON_NULL;
    if (moe.renorm && qn_json_num(power, 0) != 1)
        qn_unsupported(b, "moe_normalize_expert_weights other than 1");
    return moe;
}

static void build(qn_build *b, const qn_config *c)
{
    const qn_json *sizes = qn_config_get(c, "attn_config");
    qn_attn attn = { .n_heads = c->n_heads,
                     .n_kv_heads = (int)qn_json_int(qn_json_get(sizes, "kv_n_heads"), 1),
                     .head_dim = c->head_dim,
                     .rope = c->rope,
                     .clip = (float)qn_json_num(qn_json_get(sizes, "clip_qkv"), 0),
                     .qkv = "Wqkv",
                     .o = "out_proj" };
    attn.rope.theta = qn_json_num(qn_json_get(sizes, "rope_theta"), 10000);
    const qn_moe moe = experts_of(b, c);

    qn_scope(b, -1, "transformer");
    qn_val x = qn_embed(b, "wte", c);
    for (int i = 0; i < c->n_layers; i++) {
        qn_scope(b, i, "transformer.blocks.%d", i);
        qn_val h = qn_layer_norm(b, "norm_attn_norm.norm_1", x, EPS);
        x = qn_add(b, x, qn_attention(b, "norm_attn_norm.attn", h, &attn));
        h = qn_layer_norm(b, "norm_attn_norm.norm_2", x, EPS);
        x = qn_add(b, x, qn_moe_mlp(b, "ffn", h, &moe));
    }
    qn_scope(b, -1, "transformer");
    qn_logits(b, "lm_head", qn_layer_norm(b, "norm_f", x, EPS), c);
}

const qn_family qn_family_dbrx = {
    .name = "dbrx",
    .model_types = (const char *const[]){ "dbrx", NULL },
    .about = "DBRX",
    .build = build,
};
