/* gguf_names.c - one row a GGUF architecture: its model_type, its tensors' names and its keys.
 *
 * To add one: a row in `archs`, and rows in the name lists for what it calls differently. Transforms that
 * converters made are stated as config keys, for the family to honour: rope_interleaved says that rows of q
 * and k were permuted so that rotary pairs are neighbours. Gemma's norm weights are stored with 1 added, which
 * holds for every GGUF file and needs no key. */
#include "formats/gguf_names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

typedef struct name_row {
    const char *gguf, *hf;
} name_row;

/* Names outside the layers. */
static const name_row global_names[] = {
    { "token_embd", "model.embed_tokens" },
    { "output_norm", "model.norm" },
    { "output", "lm_head" },
    { NULL, NULL },
};

/* Names inside a layer, after "blk.N.": what nearly all architectures share. */
static const name_row common_names[] = {
    { "attn_norm", "input_layernorm" },    { "attn_q", "self_attn.q_proj" },
    { "attn_k", "self_attn.k_proj" },      { "attn_v", "self_attn.v_proj" },
    { "attn_output", "self_attn.o_proj" }, { "attn_q_norm", "self_attn.q_norm" },
    { "attn_k_norm", "self_attn.k_norm" }, { "ffn_norm", "post_attention_layernorm" },
    { "ffn_gate", "mlp.gate_proj" },       { "ffn_up", "mlp.up_proj" },
    { "ffn_down", "mlp.down_proj" },       { NULL, NULL },
};

/* Mixtral's: the stacks under the name that stacked experts have everywhere here, and the single tensors of old
 * files; "%" stands for a number. */
static const name_row mixtral_names[] = {
    { "ffn_gate_inp", "block_sparse_moe.gate" },
    { "ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj" },
    { "ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj" },
    { "ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj" },
    { "ffn_gate.%", "block_sparse_moe.experts.%.w1" },
    { "ffn_down.%", "block_sparse_moe.experts.%.w2" },
    { "ffn_up.%", "block_sparse_moe.experts.%.w3" },
    { NULL, NULL },
};

static const name_row qwen_moe_names[] = {
    { "ffn_gate_inp", "mlp.gate" },
    { "ffn_gate_exps", "mlp.switch_mlp.gate_proj" },
    { "ffn_up_exps", "mlp.switch_mlp.up_proj" },
    { "ffn_down_exps", "mlp.switch_mlp.down_proj" },
    { "ffn_gate_inp_shexp", "mlp.shared_expert_gate" },
    { "ffn_gate_shexp", "mlp.shared_expert.gate_proj" },
    { "ffn_up_shexp", "mlp.shared_expert.up_proj" },
    { "ffn_down_shexp", "mlp.shared_expert.down_proj" },
    { NULL, NULL },
};

static const name_row sink_moe_names[] = {
    { "post_attention_norm", "post_attention_layernorm" },
    { "attn_sinks", "self_attn.sinks" },
    { "ffn_gate_inp", "mlp.router" },
    { "ffn_gate_exps", "mlp.switch_mlp.gate_proj" },
    { "ffn_up_exps", "mlp.switch_mlp.up_proj" },
    { "ffn_down_exps", "mlp.switch_mlp.down_proj" },
    { NULL, NULL },
};

/* Latent attention, in the two forms that converters gave its second product, and experts beside shared ones. */
static const name_row latent_names[] = {
    { "attn_q_a", "self_attn.q_a_proj" },
    { "attn_q_a_norm", "self_attn.q_a_layernorm" },
    { "attn_q_b", "self_attn.q_b_proj" },
    { "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa" },
    { "attn_kv_a_norm", "self_attn.kv_a_layernorm" },
    { "attn_kv_b", "self_attn.kv_b_proj" },
    { "attn_k_b", "self_attn.embed_q" },
    { "attn_v_b", "self_attn.unembed_out" },
    { "ffn_gate_inp", "mlp.gate" },
    { "exp_probs_b", "mlp.gate.e_score_correction_bias" },
    { "ffn_gate_exps", "mlp.switch_mlp.gate_proj" },
    { "ffn_up_exps", "mlp.switch_mlp.up_proj" },
    { "ffn_down_exps", "mlp.switch_mlp.down_proj" },
    { "ffn_gate_shexp", "mlp.shared_experts.gate_proj" },
    { "ffn_up_shexp", "mlp.shared_experts.up_proj" },
    { "ffn_down_shexp", "mlp.shared_experts.down_proj" },
    { NULL, NULL },
};

/* Norms before and after both halves of a layer. */
static const name_row gemma2_names[] = {
    { "ffn_norm", "pre_feedforward_layernorm" },
    { "post_attention_norm", "post_attention_layernorm" },
    { "post_ffw_norm", "post_feedforward_layernorm" },
    { NULL, NULL },
};

typedef enum key_kind { INT, NUM } key_kind;

/* A metadata key after "<arch>." and the config key it becomes. */
typedef struct key_row {
    const char *gguf, *hf;
    key_kind kind;
} key_row;

static const key_row common_keys[] = {
    { "context_length", "max_position_embeddings", INT },
    { "embedding_length", "hidden_size", INT },
    { "block_count", "num_hidden_layers", INT },
    { "feed_forward_length", "intermediate_size", INT },
    { "attention.head_count", "num_attention_heads", INT },
    { "attention.head_count_kv", "num_key_value_heads", INT },
    { "attention.key_length", "head_dim", INT },
    { "attention.layer_norm_rms_epsilon", "rms_norm_eps", NUM },
    { "rope.freq_base", "rope_theta", NUM },
    { "attention.sliding_window", "sliding_window", INT },
    { "attn_logit_softcapping", "attn_logit_softcapping", NUM },
    { "final_logit_softcapping", "final_logit_softcapping", NUM },
    { NULL, NULL, INT },
};

static const key_row mixtral_keys[] = {
    { "expert_count", "num_local_experts", INT },
    { "expert_used_count", "num_experts_per_tok", INT },
    { NULL, NULL, INT },
};

static const key_row qwen_moe_keys[] = {
    { "expert_count", "num_experts", INT },
    { "expert_used_count", "num_experts_per_tok", INT },
    { "expert_feed_forward_length", "moe_intermediate_size", INT },
    { "expert_shared_feed_forward_length", "shared_expert_intermediate_size", INT },
    { NULL, NULL, INT },
};

static const key_row latent_keys[] = {
    { "attention.kv_lora_rank", "kv_lora_rank", INT },
    { "attention.q_lora_rank", "q_lora_rank", INT },
    { "rope.dimension_count", "qk_rope_head_dim", INT },
    { "leading_dense_block_count", "first_k_dense_replace", INT },
    { "expert_count", "n_routed_experts", INT },
    { "expert_used_count", "num_experts_per_tok", INT },
    { "expert_feed_forward_length", "moe_intermediate_size", INT },
    { "expert_shared_count", "n_shared_experts", INT },
    { "expert_weights_scale", "routed_scaling_factor", NUM },
    { "expert_group_count", "n_group", INT },
    { "expert_group_used_count", "topk_group", INT },
    { NULL, NULL, INT },
};

static const key_row gemma3_keys[] = {
    { "rope.freq_base_swa", "rope_local_base_freq", NUM },
    { NULL, NULL, INT },
};

struct qn_gguf_arch {
    const char *name, *model_type;
    const char *moe_type;  /* model_type when there are experts, else NULL */
    const name_row *names; /* looked at before common_names; NULL */
    const key_row *keys;   /* besides common_keys; NULL */
    const char *act_key, *act;
    const char
        *extra; /* members that hold for every file of the architecture, with a leading comma */
    const char *rope_extra; /* the same within rope_scaling, where there is one */
    const char *
        softmax_type; /* of latent attention: model_type when experts are scored so, not by a sigmoid */
    bool permuted;  /* q and k rows were permuted for neighbouring rotary pairs */
    int odd_layers; /* layer count of the one size whose query scale is width / heads, 0 = none */
};

static const qn_gguf_arch archs[] = {
    { .name = "llama",
      .model_type = "llama",
      .moe_type = "mixtral",
      .names = mixtral_names,
      .keys = mixtral_keys,
      .act_key = "hidden_act",
      .act = "silu",
      .permuted = true },
    { .name = "qwen2", .model_type = "qwen2", .act_key = "hidden_act", .act = "silu" },
    { .name = "qwen2moe",
      .model_type = "qwen2_moe",
      .names = qwen_moe_names,
      .keys = qwen_moe_keys,
      .act_key = "hidden_act",
      .act = "silu",
      .extra = ",\"norm_topk_prob\":false" },
    { .name = "qwen3", .model_type = "qwen3", .act_key = "hidden_act", .act = "silu" },
    { .name = "qwen3moe",
      .model_type = "qwen3_moe",
      .names = qwen_moe_names,
      .keys = qwen_moe_keys,
      .act_key = "hidden_act",
      .act = "silu",
      .extra = ",\"norm_topk_prob\":true" },
    { .name = "gpt-oss",
      .model_type = "gpt_oss",
      .names = sink_moe_names,
      .keys = mixtral_keys,
      .act_key = "hidden_act",
      .act = "silu",
      .rope_extra = ",\"truncate\":false" },
    { .name = "deepseek2",
      .model_type = "deepseek_v3",
      .softmax_type = "deepseek_v2",
      .names = latent_names,
      .keys = latent_keys,
      .act_key = "hidden_act",
      .act = "silu" },
    { .name = "gemma",
      .model_type = "gemma",
      .act_key = "hidden_activation",
      .act = "gelu_pytorch_tanh" },
    { .name = "gemma2",
      .model_type = "gemma2",
      .names = gemma2_names,
      .act_key = "hidden_activation",
      .act = "gelu_pytorch_tanh",
      .odd_layers = 46 },
    { .name = "gemma3",
      .model_type = "gemma3_text",
      .names = gemma2_names,
      .keys = gemma3_keys,
      .act_key = "hidden_activation",
      .act = "gelu_pytorch_tanh",
      .odd_layers = 62 },
};

enum { N_ARCHS = sizeof archs / sizeof *archs };

const qn_gguf_arch *qn_gguf_arch_of(const qn_gguf *g, const char *path, qn_error *err)
{
    qn_gguf_str name;
    if (!qn_gguf_string(g, "general.architecture", &name)) {
        qn_fail(err, QN_ERR_FORMAT, "%s: key 'general.architecture' is missing", path);
        return NULL;
    }
    for (int i = 0; i < N_ARCHS; i++)
        if (strlen(archs[i].name) == name.n && memcmp(archs[i].name, name.p, name.n) == 0)
            return &archs[i];
    qn_buf known = { 0 };
    for (int i = 0; i < N_ARCHS; i++)
        qn_buf_printf(&known, "%s%s", i ? ", " : "", archs[i].name);
    qn_fail(err, QN_ERR_UNSUPPORTED, "%s: architecture '%.*s' is not supported; known are %s", path,
            name.n < 40 ? (int)name.n : 40, name.p, qn_buf_cstr(&known));
    qn_buf_free(&known);
    return NULL;
}

/* Whether `stem` (n bytes) fits a row's name, in which '%' stands for a number; *num is that number's text. */
static bool stem_fits(const char *row, const char *stem, size_t n, qn_gguf_str *num)
{
    size_t i = 0;
    *num = (qn_gguf_str){ "", 0 };
    for (; *row; row++) {
        if (*row != '%') {
            if (i >= n || stem[i++] != *row)
                return false;
            continue;
        }
        num->p = stem + i;
        while (i < n && stem[i] >= '0' && stem[i] <= '9')
            i++, num->n++;
        if (num->n == 0)
            return false;
    }
    return i == n;
}

/* The row's Hugging Face name with '%' filled in, NULL when no row fits. */
static const char *look_up(const name_row *rows, qn_arena *a, const char *stem, size_t n)
{
    qn_gguf_str num;
    for (; rows && rows->gguf; rows++) {
        if (!stem_fits(rows->gguf, stem, n, &num))
            continue;
        const char *at = strchr(rows->hf, '%');
        if (!at)
            return rows->hf;
        return qn_arena_printf(a, "%.*s%.*s%s", (int)(at - rows->hf), rows->hf, (int)num.n, num.p,
                               at + 1);
    }
    return NULL;
}

const char *qn_gguf_hf_name(const qn_gguf_arch *arch, qn_arena *a, const char *name)
{
    const char *dot = strrchr(name, '.'); /* before "weight" or "bias" */
    if (!dot)
        return name;
    if (!qn_starts_with(name, "blk.")) {
        const char *hf = look_up(global_names, a, name, (size_t)(dot - name));
        return hf ? qn_arena_printf(a, "%s%s", hf, dot) : name;
    }
    const char *layer = name + strlen("blk.");
    size_t digits = strspn(layer, "0123456789");
    const char *stem = layer + digits + 1;
    if (digits == 0 || layer[digits] != '.' || stem >= dot)
        return name;
    const char *hf = look_up(arch->names, a, stem, (size_t)(dot - stem));
    if (!hf)
        hf = look_up(common_names, a, stem, (size_t)(dot - stem));
    return hf ? qn_arena_printf(a, "model.layers.%.*s.%s%s", (int)digits, layer, hf, dot) : name;
}

/* The config while it is written. */
typedef struct writer {
    const qn_gguf *g;
    const qn_gguf_arch *arch;
    qn_buf b;
} writer;

/* Keys of an architecture begin with its name. */
static const qn_gguf_value *get(const writer *w, const char *key)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", w->arch->name, key);
    return qn_gguf_get(w->g, full);
}

/* Every member follows another one: model_type is always first. */
static void put_key(writer *w, const char *key)
{
    qn_buf_char(&w->b, ',');
    qn_json_put_str(&w->b, key, strlen(key));
    qn_buf_char(&w->b, ':');
}

static void put_int(writer *w, const char *key, int64_t v)
{
    put_key(w, key);
    qn_buf_printf(&w->b, "%lld", (long long)v);
}

static void put_bool(writer *w, const char *key, bool v)
{
    put_key(w, key);
    qn_buf_str(&w->b, v ? "true" : "false");
}

/* The shortest text that reads back as the same float: 1e-05, not 9.99999974e-06. */
static void put_float(writer *w, const char *key, double d)
{
    char text[40];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtof(text, NULL) == (float)d)
            break;
    }
    put_key(w, key);
    qn_buf_str(&w->b, isfinite(d) ? text : "null");
}

/* A number, or the array of one number a layer that some files have. */
static void put_row(writer *w, const key_row *row)
{
    const qn_gguf_value *v = get(w, row->gguf);
    int64_t i;
    double d;
    if (row->kind == NUM && qn_gguf_value_num(v, &d)) {
        put_float(w, row->hf, d);
    } else if (row->kind == INT && qn_gguf_value_int(v, &i)) {
        put_int(w, row->hf, i);
    } else if (qn_gguf_array_int(v, 0, &i)) {
        put_key(w, row->hf);
        for (size_t k = 0; qn_gguf_array_int(v, k, &i); k++)
            qn_buf_printf(&w->b, "%c%lld", k ? ',' : '[', (long long)i);
        qn_buf_char(&w->b, ']');
    }
}

/* Rows whose key the file lacks put nothing. */
static void put_rows(writer *w, const key_row *rows)
{
    for (; rows && rows->gguf; rows++)
        put_row(w, rows);
}

static bool str_is(qn_gguf_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* GGUF's factor on the attention temperature. For YaRN it multiplies the standard temperature, while the config
 * key replaces it; elsewhere they are the same. */
static void put_attention_factor(writer *w, qn_gguf_str type)
{
    double factor = 1, scale = 1;
    if (!qn_gguf_value_num(get(w, "rope.scaling.attn_factor"), &factor))
        qn_gguf_value_num(get(w, "rope.scaling.yarn_attn_factor"), &factor);
    if (factor == 1)
        return;
    qn_gguf_value_num(get(w, "rope.scaling.factor"), &scale);
    if (str_is(type, "yarn") && scale > 1)
        factor *= 0.1 * log(scale) + 1;
    put_float(w, "attention_factor", factor);
}

/* YaRN's factor on the scores of latent attention: a tenth of the config's number, which stands there twice, so
 * that the positions themselves get none. */
static void put_score_factor(writer *w)
{
    double tenth;
    if (!w->arch->softmax_type ||
        !qn_gguf_value_num(get(w, "rope.scaling.yarn_log_multiplier"), &tenth))
        return;
    put_float(w, "mscale", 10 * tenth);
    put_float(w, "mscale_all_dim", 10 * tenth);
}

/* rope.scaling.* as the object that configs have. "none" and absence give no object. */
static void put_rope_scaling(writer *w)
{
    static const key_row rows[] = {
        { "rope.scaling.factor", "factor", NUM },
        { "rope.scaling.original_context_length", "original_max_position_embeddings", INT },
        { "rope.scaling.yarn_beta_fast", "beta_fast", NUM },
        { "rope.scaling.yarn_beta_slow", "beta_slow", NUM },
        { NULL, NULL, INT },
    };
    qn_gguf_str type;
    double factor;
    if (qn_gguf_value_str(get(w, "rope.scaling.type"), &type)) {
        if (str_is(type, "none"))
            return;
        put_key(w, "rope_scaling");
        qn_buf_str(&w->b, "{\"rope_type\":");
        qn_json_put_str(&w->b, type.p, type.n);
        put_rows(w, rows);
        put_attention_factor(w, type);
        put_score_factor(w);
        qn_buf_printf(&w->b, "%s}", w->arch->rope_extra ? w->arch->rope_extra : "");
    } else if (qn_gguf_value_num(get(w, "rope.scale_linear"), &factor) && factor != 1) {
        put_key(w, "rope_scaling"); /* what old files said it with */
        qn_buf_str(&w->b, "{\"rope_type\":\"linear\"");
        put_float(w, "factor", factor);
        qn_buf_char(&w->b, '}');
    }
}

/* How the experts of latent families are scored: 1 a softmax, 2 a sigmoid; old files do not say, and are of the
 * version that has the first. */
static bool is_softmax(const writer *w)
{
    int64_t scoring = 1;
    qn_gguf_value_int(get(w, "expert_gating_func"), &scoring);
    return w->arch->softmax_type && scoring == 1;
}

/* Latent attention: sizes of a head before its keys and values became latent rows, which the usual keys describe,
 * and how its experts are chosen. */
static void put_latent(writer *w)
{
    int64_t key = 0, value = 0, rot = 0, norm = 0, groups = 0;
    if (!qn_gguf_value_int(get(w, "attention.key_length_mla"), &key))
        qn_gguf_value_int(get(w, "attention.key_length"), &key);
    if (!qn_gguf_value_int(get(w, "attention.value_length_mla"), &value))
        qn_gguf_value_int(get(w, "attention.value_length"), &value);
    qn_gguf_value_int(get(w, "rope.dimension_count"), &rot);
    put_int(w, "qk_nope_head_dim", key > rot ? key - rot : 0);
    put_int(w, "v_head_dim", value);
    qn_gguf_value_int(get(w, "expert_weights_norm"), &norm);
    put_bool(w, "norm_topk_prob", norm != 0);
    qn_gguf_value_int(get(w, "expert_group_count"), &groups);
    put_key(w, "topk_method");
    qn_buf_str(&w->b, !is_softmax(w) ? "\"noaux_tc\""
                      : groups > 1   ? "\"group_limited_greedy\""
                                     : "\"greedy\"");
}

/* Sizes of a head: what is rotated, what values have, what the query is scaled by. */
static void put_head_sizes(writer *w)
{
    int64_t width = 0, heads = 0, dim = 0, v_dim = 0, rot = 0, layers = 0;
    qn_gguf_value_int(get(w, "embedding_length"), &width);
    qn_gguf_value_int(get(w, "attention.head_count"), &heads);
    if (!qn_gguf_value_int(get(w, "attention.key_length"), &dim) && heads > 0)
        dim = width / heads;
    if (dim <= 0)
        return;
    if (qn_gguf_value_int(get(w, "attention.value_length"), &v_dim) && v_dim != dim)
        put_int(w, "v_head_dim", v_dim);
    if (qn_gguf_value_int(get(w, "rope.dimension_count"), &rot) && rot != dim)
        put_float(w, "partial_rotary_factor", (double)rot / (double)dim);
    if (w->arch->odd_layers) {
        qn_gguf_value_int(get(w, "block_count"), &layers);
        bool odd = layers == w->arch->odd_layers && heads > 0;
        put_int(w, "query_pre_attn_scalar", odd ? width / heads : dim);
    }
}

/* Which layers have no window: every n-th, or a list with one flag a layer. */
static void put_window_pattern(writer *w)
{
    const qn_gguf_value *v = get(w, "attention.sliding_window_pattern");
    int64_t i;
    if (qn_gguf_value_int(v, &i)) {
        put_int(w, "sliding_window_pattern", i);
    } else if (qn_gguf_array_int(v, 0, &i)) {
        put_key(w, "layer_types");
        for (size_t k = 0; qn_gguf_array_int(v, k, &i); k++)
            qn_buf_printf(&w->b, "%c\"%s\"", k ? ',' : '[',
                          i ? "sliding_attention" : "full_attention");
        qn_buf_char(&w->b, ']');
    }
}

/* Rows of the embedding are the vocabulary: what the keys say may be short of padding. */
static void put_vocab(writer *w)
{
    const qn_gguf_tensor *embed = qn_gguf_tensor_find(w->g, "token_embd.weight");
    int64_t n;
    if (embed && embed->n_dims == 2)
        put_int(w, "vocab_size", embed->dim[0]);
    else if (qn_gguf_value_int(get(w, "vocab_size"), &n))
        put_int(w, "vocab_size", n);
    else
        put_int(w, "vocab_size",
                (int64_t)qn_gguf_array_len(qn_gguf_get(w->g, "tokenizer.ggml.tokens")));
}

/* Ids that begin and end a text; several may end one. */
static void put_special_ids(writer *w)
{
    static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
                                        "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    int64_t id;
    int n = 0;
    if (qn_gguf_value_int(qn_gguf_get(w->g, "tokenizer.ggml.bos_token_id"), &id))
        put_int(w, "bos_token_id", id);
    put_key(w, "eos_token_id");
    qn_buf_char(&w->b, '[');
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (qn_gguf_value_int(qn_gguf_get(w->g, ends[i]), &id))
            qn_buf_printf(&w->b, "%s%lld", n++ ? "," : "", (long long)id);
    qn_buf_char(&w->b, ']');
}

const qn_json *qn_gguf_hf_config(const qn_gguf_arch *arch, const qn_gguf *g, qn_arena *a,
                                 qn_error *err)
{
    writer w = { .g = g, .arch = arch };
    int64_t experts = 0;
    qn_gguf_value_int(get(&w, "expert_count"), &experts);
    bool moe = experts > 0 && arch->moe_type;
    const char *type = moe ? arch->moe_type : arch->model_type;
    qn_buf_printf(&w.b, "{\"model_type\":\"%s\"", is_softmax(&w) ? arch->softmax_type : type);
    put_rows(&w, common_keys);
    if (experts > 0 || !arch->moe_type)
        put_rows(&w, arch->keys);
    if (arch->softmax_type)
        put_latent(&w);
    else
        put_head_sizes(&w);
    put_rope_scaling(&w);
    put_window_pattern(&w);
    put_vocab(&w);
    put_special_ids(&w);
    put_key(&w, arch->act_key);
    qn_json_put_str(&w.b, arch->act, strlen(arch->act));
    put_bool(&w, "tie_word_embeddings", !qn_gguf_tensor_find(g, "output.weight"));
    if (arch->permuted)
        put_bool(&w, "rope_interleaved", true);
    if (arch->permuted && qn_gguf_tensor_find(g, "blk.0.attn_q.bias"))
        put_bool(&w, "attention_bias", true);
    qn_buf_printf(&w.b, "%s}", arch->extra ? arch->extra : "");
    qn_json *config = qn_json_parse(a, w.b.data, w.b.len, err);
    qn_buf_free(&w.b);
    return config;
}
