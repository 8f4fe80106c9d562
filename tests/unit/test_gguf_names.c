/* test_gguf_names.c - GGUF files in Hugging Face's terms: configs and names of real files (the kit's) and of made
 * ones for the keys that those lack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "formats/checkpoint.h"
#include "formats/gguf_write.h"
#include "unit/formats_scratch.h"

static qn_checkpoint *opened(const char *path)
{
    qn_checkpoint *c;
    qn_error err = { 0 };
    if (qn_checkpoint_open(&c, path, &err) != QN_OK)
        fail_msg("%s", err.msg);
    return c;
}

static const qn_json *config(const qn_checkpoint *c, const char *key)
{
    return qn_json_path(qn_checkpoint_config(c), key);
}

/* ---- Made files ---- */

typedef struct made {
    qn_gguf_writer w;
    const char *arch;
} made;

static const float zeros[64];

static void tensor(made *m, const char *name, int n_dims, int64_t d0, int64_t d1, int64_t d2)
{
    qn_gguf_put_tensor(&m->w, &(qn_gguf_tensor){ .name = name,
                                                 .n_dims = (uint8_t)n_dims,
                                                 .dim = { d0, d1, d2 },
                                                 .layout = QN_F32,
                                                 .data = zeros });
}

static const char *full_key(const made *m, const char *key)
{
    static char name[100];
    snprintf(name, sizeof name, "%s.%s", m->arch, key);
    return name;
}

static void put(made *m, const char *key, uint32_t v)
{
    qn_gguf_put_u32(&m->w, full_key(m, key), v);
}

/* What every file of the tests has. */
static made begin(const char *arch)
{
    made m = { .arch = arch };
    qn_gguf_put_str(&m.w, "general.architecture", arch);
    put(&m, "context_length", 100);
    put(&m, "embedding_length", 8);
    put(&m, "block_count", 2);
    put(&m, "attention.head_count", 2);
    qn_gguf_put_f32(&m.w, full_key(&m, "attention.layer_norm_rms_epsilon"), 1e-5f);
    tensor(&m, "token_embd.weight", 2, 5, 8, 0);
    return m;
}

static const char *save(made *m, qn_arena *a, void **state)
{
    static int serial;
    qn_error err = { 0 };
    const char *path = qn_path_join(a, *state, qn_arena_printf(a, "%s%d.gguf", m->arch, serial++));
    if (qn_gguf_save(&m->w, path, &err) != QN_OK)
        fail_msg("%s", err.msg);
    qn_gguf_writer_free(&m->w);
    return path;
}

static void llama_keys_and_names(void **state)
{
    qn_arena a = { 0 };
    made m = begin("llama");
    qn_gguf_put_f32(&m.w, "llama.rope.freq_base", 500000);
    put(&m, "rope.dimension_count", 2);
    put(&m, "attention.sliding_window", 16);
    qn_gguf_put_str(&m.w, "llama.rope.scaling.type", "yarn");
    qn_gguf_put_f32(&m.w, "llama.rope.scaling.factor", 4);
    put(&m, "rope.scaling.original_context_length", 25);
    qn_gguf_put_u32(&m.w, "tokenizer.ggml.bos_token_id", 1);
    qn_gguf_put_u32(&m.w, "tokenizer.ggml.eos_token_id", 2);
    qn_gguf_put_u32(&m.w, "tokenizer.ggml.eot_token_id", 4);
    tensor(&m, "output_norm.weight", 1, 8, 0, 0);
    tensor(&m, "rope_freqs.weight", 1, 2, 0, 0);
    tensor(&m, "blk.0.attn_q.weight", 2, 8, 8, 0);
    tensor(&m, "blk.0.attn_q.bias", 1, 8, 0, 0);
    tensor(&m, "blk.11.ffn_down.weight", 2, 8, 8, 0);
    tensor(&m, "blk.0.mystery.weight", 1, 8, 0, 0);
    tensor(&m, "blk.x.attn_q.weight", 1, 8, 0, 0);
    tensor(&m, "nodot", 1, 8, 0, 0);
    qn_checkpoint *c = opened(save(&m, &a, state));

    assert_string_equal(qn_checkpoint_format(c), "gguf");
    assert_non_null(qn_checkpoint_gguf(c));
    assert_null(qn_checkpoint_generation(c));
    assert_true(qn_json_eq(config(c, "model_type"), "llama"));
    assert_int_equal(qn_json_int(config(c, "hidden_size"), 0), 8);
    assert_int_equal(qn_json_int(config(c, "num_hidden_layers"), 0), 2);
    assert_int_equal(qn_json_int(config(c, "vocab_size"), 0), 5);
    assert_int_equal(qn_json_int(config(c, "sliding_window"), 0), 16);
    assert_true(qn_json_num(config(c, "rms_norm_eps"), 0) ==
                1e-5); /* not the float's tail of digits */
    assert_true(qn_json_num(config(c, "rope_theta"), 0) == 500000);
    assert_true(qn_json_num(config(c, "partial_rotary_factor"), 0) == 0.5);
    assert_true(qn_json_eq(config(c, "rope_scaling.rope_type"), "yarn"));
    assert_int_equal(qn_json_int(config(c, "rope_scaling.original_max_position_embeddings"), 0),
                     25);
    assert_true(qn_json_bool(config(c, "rope_interleaved"), false));
    assert_true(qn_json_bool(config(c, "tie_word_embeddings"), false));
    assert_true(qn_json_bool(config(c, "attention_bias"), false));
    assert_null(config(c, "num_local_experts"));
    assert_null(config(c, "head_dim"));
    assert_int_equal(config(c, "eos_token_id")->n, 2);
    assert_int_equal(qn_json_int(qn_json_at(config(c, "eos_token_id"), 1), 0), 4);

    static const char *const names[] = { "model.embed_tokens.weight",
                                         "model.norm.weight",
                                         "rope_freqs.weight",
                                         "model.layers.0.self_attn.q_proj.weight",
                                         "model.layers.0.self_attn.q_proj.bias",
                                         "model.layers.11.mlp.down_proj.weight",
                                         "blk.0.mystery.weight",
                                         "blk.x.attn_q.weight",
                                         "nodot" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!qn_checkpoint_weight(c, names[i]))
            fail_msg("%s", names[i]);
    }
    assert_null(qn_checkpoint_unused(c));
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

static void experts_in_stacks_and_one_by_one(void **state)
{
    qn_arena a = { 0 };
    made m = begin("llama");
    put(&m, "expert_count", 2);
    put(&m, "expert_used_count", 1);
    tensor(&m, "blk.0.ffn_gate_inp.weight", 2, 2, 8, 0);
    tensor(&m, "blk.0.ffn_gate_exps.weight", 3, 2, 3, 8);
    tensor(&m, "blk.1.ffn_gate.0.weight", 2, 3, 8, 0);
    tensor(&m, "blk.1.ffn_gate.1.weight", 2, 3, 8, 0);
    tensor(&m, "output.weight", 2, 5, 8, 0);
    qn_checkpoint *c = opened(save(&m, &a, state));
    qn_error err = { 0 };
    assert_true(qn_json_eq(config(c, "model_type"), "mixtral"));
    assert_int_equal(qn_json_int(config(c, "num_local_experts"), 0), 2);
    assert_int_equal(qn_json_int(config(c, "num_experts_per_tok"), 0), 1);
    assert_false(qn_json_bool(config(c, "tie_word_embeddings"), true));
    assert_non_null(qn_checkpoint_weight(c, "lm_head.weight"));
    assert_non_null(qn_checkpoint_weight(c, "model.layers.0.block_sparse_moe.gate.weight"));
    const qn_weight *w =
        qn_checkpoint_weight(c, "model.layers.0.block_sparse_moe.switch_mlp.gate_proj.weight");
    assert_true(w && w->n_dims == 3 && w->dim[0] == 2 && w->dim[1] == 3 && w->dim[2] == 8);
    w = qn_checkpoint_stack(c, "model.layers.1.block_sparse_moe.experts.%d.w1.weight", 2, &err);
    assert_true(w && w->dim[0] == 2 && w->dim[1] == 3);
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

static void keys_of_the_other_architectures(void **state)
{
    qn_arena a = { 0 };
    made m = begin("gemma3");
    put(&m, "attention.key_length", 6);
    put(&m, "attention.value_length", 6);
    put(&m, "attention.sliding_window", 16);
    static const uint8_t pattern[2] = { 1, 0 };
    qn_gguf_put_array(&m.w, "gemma3.attention.sliding_window_pattern", QN_GGUF_BOOL, pattern, 2);
    qn_gguf_put_f32(&m.w, "gemma3.rope.scale_linear", 8);
    tensor(&m, "blk.0.post_ffw_norm.weight", 1, 8, 0, 0);
    tensor(&m, "blk.0.ffn_norm.weight", 1, 8, 0, 0);
    qn_checkpoint *c = opened(save(&m, &a, state));
    assert_true(qn_json_eq(config(c, "model_type"), "gemma3_text"));
    assert_true(qn_json_eq(config(c, "hidden_activation"), "gelu_pytorch_tanh"));
    assert_int_equal(qn_json_int(config(c, "query_pre_attn_scalar"), 0), 6);
    assert_true(qn_json_eq(qn_json_at(config(c, "layer_types"), 0), "sliding_attention"));
    assert_true(qn_json_eq(qn_json_at(config(c, "layer_types"), 1), "full_attention"));
    assert_true(qn_json_eq(config(c, "rope_scaling.rope_type"), "linear"));
    assert_true(qn_json_num(config(c, "rope_scaling.factor"), 0) == 8);
    assert_null(config(c, "rope_interleaved"));
    assert_non_null(qn_checkpoint_weight(c, "model.layers.0.post_feedforward_layernorm.weight"));
    assert_non_null(qn_checkpoint_weight(c, "model.layers.0.pre_feedforward_layernorm.weight"));
    qn_checkpoint_close(c);

    m = begin("gemma2"); /* the one size whose query scale is width / heads */
    put(&m, "attention.key_length", 6);
    m.w.values.len = 0;
    m.w.n_values = 0;
    qn_gguf_put_str(&m.w, "general.architecture", "gemma2");
    put(&m, "block_count", 46);
    put(&m, "embedding_length", 8);
    put(&m, "attention.head_count", 2);
    put(&m, "attention.key_length", 6);
    c = opened(save(&m, &a, state));
    assert_int_equal(qn_json_int(config(c, "query_pre_attn_scalar"), 0), 4);
    qn_checkpoint_close(c);

    m = begin("qwen2moe");
    put(&m, "expert_count", 4);
    put(&m, "expert_feed_forward_length", 3);
    tensor(&m, "blk.0.ffn_gate_shexp.weight", 2, 2, 8, 0);
    static const int32_t per_layer[2] = { 2, 1 };
    qn_gguf_put_array(&m.w, "qwen2moe.attention.head_count_kv", QN_GGUF_I32, per_layer, 2);
    c = opened(save(&m, &a, state));
    assert_int_equal(qn_json_int(config(c, "num_experts"), 0), 4);
    assert_int_equal(qn_json_int(config(c, "moe_intermediate_size"), 0), 3);
    assert_false(qn_json_bool(config(c, "norm_topk_prob"), true));
    assert_int_equal(config(c, "num_key_value_heads")->n, 2);
    assert_non_null(qn_checkpoint_weight(c, "model.layers.0.mlp.shared_expert.gate_proj.weight"));
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

static void files_that_are_no_model(void **state)
{
    static const struct {
        const char *arch, *why;
    } bad[] = { { "wombat\n", "architecture 'wombat ' is not supported; known are llama, " },
                { NULL, "key 'general.architecture' is missing" } };
    qn_arena a = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_gguf_writer w = { 0 };
        if (bad[i].arch)
            qn_gguf_put_str(&w, "general.architecture", bad[i].arch);
        const char *path = qn_path_join(&a, *state, "no.gguf");
        assert_int_equal(qn_gguf_save(&w, path, NULL), QN_OK);
        qn_gguf_writer_free(&w);
        qn_checkpoint *c;
        qn_error err = { 0 };
        assert_true(qn_checkpoint_open(&c, path, &err) < 0);
        if (!strstr(err.msg, bad[i].why))
            fail_msg("%s", err.msg);
    }
    made m = begin("llama");
    static const uint8_t block[36];
    qn_gguf_put_tensor(&m.w, &(qn_gguf_tensor){ .name = "blk.0.attn_q.weight",
                                                .n_dims = 1,
                                                .dim = { 32 },
                                                .layout = QN_Q8_1,
                                                .data = block });
    qn_checkpoint *c;
    qn_error err = { 0 };
    assert_int_equal(qn_checkpoint_open(&c, save(&m, &a, state), &err), QN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "q8_1 is a format of activations"));
    qn_arena_free(&a);
}

/* ---- The kit's files ---- */

/* How many tensors of each layout, as the kit lists them. */
static void check_histogram(qn_checkpoint *c, const qn_json *types)
{
    int count[QN_N_LAYOUTS] = { 0 };
    for (size_t i = 0; i < qn_checkpoint_count(c); i++)
        count[qn_checkpoint_at(c, i)->layout]++;
    assert_true(types && types->n > 0);
    for (uint32_t i = 0; i < types->n; i++) {
        char name[20];
        qn_layout l;
        snprintf(name, sizeof name, "%s", types->items[i].key);
        for (char *p = name; *p; p++)
            *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
        assert_true(qn_layout_find(name, &l));
        assert_int_equal(count[l], types->items[i].i);
    }
}

static void files_of_the_kit(void **state)
{
    (void)state;
    if (!qn_is_dir(QUERN_KIT "/gguf"))
        skip();
    qn_arena a = { 0 };
    qn_error err = { 0 };
    const qn_json *cases = qn_json_parse_file(&a, QUERN_KIT "/gguf/gguf_cases.json", &err);
    assert_non_null(cases);
    int n = 0;
    for (uint32_t i = 0; i < cases->n; i++) {
        const qn_json *one = &cases->items[i];
        const char *from = qn_json_str(qn_json_get(one, "from"), NULL);
        if (one->type != QN_JSON_OBJECT)
            continue;
        qn_checkpoint *c = opened(qn_arena_printf(&a, QUERN_KIT "/gguf/%s.gguf", one->key));
        check_histogram(c, qn_json_get(one, "types"));
        n++;
        /* The same numbers as in the config it was made from. */
        const char *path = from ? qn_arena_printf(&a, QUERN_KIT "/%s/config.json", from) : NULL;
        const qn_json *hf = path && qn_is_file(path) ? qn_json_parse_file(&a, path, &err) : NULL;
        const qn_json *mine = qn_checkpoint_config(c);
        for (uint32_t k = 0; hf && k < mine->n; k++) {
            const qn_json *v = &mine->items[k], *w = qn_json_get(hf, v->key);
            bool scale = strcmp(v->key, "query_pre_attn_scalar") == 0 || /* no key in the file */
                         strstr(v->key, "_token_id");
            if (!qn_json_is_number(v) || !qn_json_is_number(w) || scale)
                continue;
            if (qn_json_num(v, 0) != qn_json_num(w, 1))
                fail_msg("%s: %s is %g, not %g", one->key, v->key, qn_json_num(v, 0),
                         qn_json_num(w, 1));
        }
        /* All names were translated. */
        for (size_t k = 0; k < qn_checkpoint_count(c); k++)
            if (qn_starts_with(qn_checkpoint_at(c, k)->name, "blk."))
                fail_msg("%s: no name for %s", one->key, qn_checkpoint_at(c, k)->name);
        qn_checkpoint_close(c);
    }
    assert_int_equal(n, 5);
    qn_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_keys_and_names),
        cmocka_unit_test(experts_in_stacks_and_one_by_one),
        cmocka_unit_test(keys_of_the_other_architectures),
        cmocka_unit_test(files_that_are_no_model),
        cmocka_unit_test(files_of_the_kit),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
