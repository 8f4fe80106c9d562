/* config_check.c - refuses what a config asks for and nobody did.
 *
 * A key nobody reads is usually harmless (dropout, initialisation, tokens). The table lists, by pattern, the
 * keys that are known to change what a model computes, each with the values that mean "nothing special". The
 * first pattern that fits a key decides, so exceptions stand before the rule they are excepted from. */
#include <string.h>

#include "blocks/config.h"

/* Which values of a key are neutral. null always is. */
typedef enum neutral {
    ANYTHING, /* whatever it says, the result is the same */
    NOTHING,  /* present means it must be honoured */
    OFF,      /* false, 0, "", [] and {} */
    ON,       /* true */
    ONE,      /* 1 */
    ONE_OFF,  /* 1 or what OFF allows: counts of groups, optional scales */
    HEAD_DIM, /* the size of a head, or 0 */
    ALL_FULL, /* a list in which every layer is "full_attention" */
    ROPE      /* "rope" */
} neutral;

/* '*' at either end stands for any text. */
static const struct {
    const char *pattern;
    neutral value;
} rules[] = {
    /* Only training looks at these. */
    { "*dropout*", ANYTHING },
    { "*pdrop*", ANYTHING },
    { "*initializer*", ANYTHING },
    { "*jitter*", ANYTHING },
    { "*loss*", ANYTHING },
    { "output_router_logits", ANYTHING },
    { "load_balance*", ANYTHING },
    { "rescale_prenorm_residual", ANYTHING },
    /* How to compute, not what. */
    { "pretraining_tp", ANYTHING },
    { "residual_in_fp32", ANYTHING },
    { "ep_size", ANYTHING },
    { "use_parallel_embedding", ANYTHING },
    { "use_embedding_sharing", ANYTHING }, /* follows tie_word_embeddings */
    /* Only meaningful beside keys that have rules of their own. */
    { "max_window_layers", ANYTHING },
    { "rope_theta", ANYTHING },
    { "*mtp*", ANYTHING }, /* prediction heads: their tensors are accounted for */
    { "num_nextn_predict_layers", ANYTHING },

    { "hidden_act", NOTHING },
    { "hidden_activation", NOTHING },
    { "activation_function", NOTHING },
    { "position_embedding_type", ROPE },
    { "layer_types", ALL_FULL },
    { "query_pre_attn_scalar", HEAD_DIM },
    { "head_dim", HEAD_DIM },
    { "*_head_dim", HEAD_DIM },
    { "no_bias", ON },
    { "is_causal", ON },
    { "use_rmsnorm", ON },
    { "use_rms_norm", OFF },
    { "prenorm", OFF },
    { "causal", OFF },
    { "scale_attn_weights", ON },
    { "do_layer_norm_before", ON },
    { "scale_attn_by_inverse_layer_idx", OFF },

    { "*soft_cap*", OFF },
    { "*softcap*", OFF },
    { "*_cap", OFF },
    { "clip_qkv", OFF },
    { "swiglu_limit*", OFF },
    { "*window*", OFF },
    { "*chunk_size*", OFF },
    { "*sink*", OFF },
    { "*bias*", OFF },
    { "*qk_norm*", OFF },
    { "*qk_layernorm*", OFF },
    { "*post_norm*", OFF },
    { "*alibi*", OFF },
    { "learned_pos_emb", OFF },
    { "*bidirectional*", OFF },
    { "parallel_attn", OFF },
    { "*parallel_residual*", OFF },
    { "*parallel_block*", OFF },
    { "*kv_shared*", OFF },
    { "*k_eq_v*", OFF },
    { "*lora_rank*", OFF },
    { "attn_output_gate", OFF },
    { "*attn_gate*", OFF },
    { "gating", OFF },
    { "*temperature_tuning*", OFF },
    { "activation_sparsity*", OFF },
    { "altup_num_inputs", ONE_OFF },
    { "hidden_size_per_layer_input", OFF },
    { "norm_topk_prob", OFF },
    { "n_group", ONE_OFF },
    { "topk_group", ONE_OFF },
    { "num_expert_group*", ONE_OFF },
    { "num_limited_groups", ONE_OFF },
    { "*expert*", OFF },

    { "*partial_rotary*", ONE },
    { "rotary_pct", ONE },
    { "rotary_emb_fraction", ONE },
    { "rotary_emb_interleaved", OFF },
    { "rotary_dim", HEAD_DIM },
    { "*no_rope*", OFF },
    { "*nope*", OFF },
    { "*rope_interleave*", OFF },
    { "*rope_scaling*", OFF },
    { "*rope_parameters*", OFF },
    { "*rope_theta*", NOTHING },
    { "*base_freq*", NOTHING },

    { "*multiplier*", ONE },
    { "*scaling*", ONE_OFF },
    { "*scale*", ONE_OFF },
};

static bool fits(const char *pattern, const char *key)
{
    size_t n = strlen(pattern);
    bool open_start = pattern[0] == '*', open_end = pattern[n - 1] == '*';
    const char *text = pattern + open_start;
    size_t len = n - open_start - open_end, key_len = strlen(key);
    if (!open_start)
        return strncmp(key, text, len) == 0 && (open_end || key_len == len);
    if (!open_end)
        return key_len >= len && memcmp(key + key_len - len, text, len) == 0;
    return memmem(key, key_len, text, len) != NULL;
}

static bool is_off(const qn_json *v)
{
    switch (v->type) {
    case QN_JSON_BOOL:
        return !v->b;
    case QN_JSON_STR:
    case QN_JSON_ARRAY:
    case QN_JSON_OBJECT:
        return v->n == 0;
    default:
        return qn_json_num(v, 0) == 0;
    }
}

static bool all_full(const qn_json *v)
{
    if (v->type != QN_JSON_ARRAY)
        return false;
    for (uint32_t i = 0; i < v->n; i++)
        if (!qn_json_eq(&v->items[i], "full_attention"))
            return false;
    return true;
}

static bool is_neutral(const qn_config *c, const qn_json *v, neutral n)
{
    if (v->type == QN_JSON_NULL)
        return true;
    switch (n) {
    case ANYTHING:
        return true;
    case NOTHING:
        return false;
    case OFF:
        return is_off(v);
    case ON:
        return qn_json_bool(v, false);
    case ONE:
        return qn_json_num(v, 0) == 1;
    case ONE_OFF:
        return is_off(v) || qn_json_num(v, 0) == 1;
    case HEAD_DIM:
        return is_off(v) || qn_json_num(v, 0) == c->head_dim;
    case ALL_FULL:
        return all_full(v);
    case ROPE:
        return qn_json_eq(v, "rope");
    }
    return false;
}

static int refuse(const qn_config *c, const qn_json *v, qn_error *err)
{
    qn_buf text = { 0 };
    qn_json_put(&text, v);
    int rc = qn_fail(err, QN_ERR_UNSUPPORTED,
                     "config: %s is %.80s, which changes the result and is not supported for "
                     "model type %s",
                     v->key, qn_buf_cstr(&text), c->model_type);
    qn_buf_free(&text);
    return rc;
}

int qn_config_check(const qn_config *c, qn_error *err)
{
    for (uint32_t i = 0; i < c->json->n; i++) {
        const qn_json *v = &c->json->items[i];
        if (c->state[i] > 1)
            return qn_fail(err, QN_ERR_FORMAT, "config: %s has a value of the wrong type", v->key);
        if (c->state[i] == 1)
            continue;
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
            if (!fits(rules[r].pattern, v->key))
                continue;
            if (!is_neutral(c, v, rules[r].value))
                return refuse(c, v, err);
            break;
        }
    }
    return QN_OK;
}
