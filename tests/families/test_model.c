/* test_model.c - loading whole checkpoints: every tensor is needed and used, shapes agree with the config, what a
 * config asks for is done or refused, heads are tied by one rule, end tokens come from the right file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "families/case_model.h"

static qn_arena arena;

static int free_arena(void **state)
{
    (void)state;
    qn_arena_free(&arena);
    return 0;
}

static qn_model *load(void **state, const char *name, const edit *edits)
{
    qn_error err;
    qn_model *m;
    if (load_exact(&m, make_model(&arena, *state, name, edits), &err) != QN_OK)
        fail_msg("%s: %s", name, err.msg);
    return m;
}

/* Loading must fail with this code and a line that holds this text and the path. */
static void refuse(void **state, const char *name, const edit *edits, int code, const char *says)
{
    qn_error err;
    qn_model *m;
    const char *path = make_model(&arena, *state, name, edits);
    assert_int_equal(load_exact(&m, path, &err), code);
    assert_null(m);
    if (!strstr(err.msg, says) || !strstr(err.msg, path))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
}

#define CONFIG(from, to)                                                                           \
    {                                                                                              \
        "config.json", from, to                                                                    \
    }
#define TENSORS(from, to)                                                                          \
    {                                                                                              \
        "tensors.json", from, to                                                                   \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, NULL, NULL                                                                           \
    }

static void test_loads(void **state)
{
    qn_model *m = load(state, "llama/a", NULL);
    assert_string_equal(m->family->name, "llama");
    assert_int_equal(m->config.n_layers, 3);
    assert_int_equal(m->plain.n_kv, 3);
    assert_null(m->tokenizer);
    assert_int_equal(m->n_eos, 1);
    assert_int_equal(m->eos[0], 2);
    qn_model_unload(m);
    qn_model_unload(NULL);
}

static void test_tensors_are_accounted_for(void **state)
{
    refuse(
        state, "llama/a",
        (edit[]){ TENSORS("model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.other.weight"),
                  END },
        QN_ERR_FORMAT, "model.layers.1.mlp.up_proj.weight is missing");
    refuse(state, "llama/a",
           (edit[]){ TENSORS("\"model.norm.weight\"", "\"model.nurm.weight\""), END },
           QN_ERR_FORMAT, "model.norm.weight is missing");
    refuse(state, "llama/a",
           (edit[]){ CONFIG("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2"), END },
           QN_ERR_FORMAT, "model.layers.2.");
    refuse(state, "llama/a",
           (edit[]){ CONFIG("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4"), END },
           QN_ERR_FORMAT, "model.layers.3.input_layernorm.weight is missing");
    refuse(state, "mixtral/a",
           (edit[]){ CONFIG("\"num_local_experts\": 8", "\"num_local_experts\": 9"), END },
           QN_ERR_FORMAT, "model.layers.0.block_sparse_moe");
    refuse(
        state, "mixtral/a",
        (edit[]){ TENSORS("model.layers.0.block_sparse_moe.experts.5.w2", "elsewhere.5.w2"), END },
        QN_ERR_FORMAT, "model.layers.0.block_sparse_moe.experts.5.w2");
}

static void test_shapes_agree(void **state)
{
    static const edit edits[][2] = {
        { CONFIG("\"intermediate_size\": 128", "\"intermediate_size\": 64"), END },
        { CONFIG("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4"), END },
        { CONFIG("\"vocab_size\": 320", "\"vocab_size\": 321"), END },
        { CONFIG("\"hidden_size\": 64", "\"hidden_size\": 128"), END },
        { CONFIG("\"rms_norm_eps\"", "\"head_dim\": 32, \"rms_norm_eps\""), END },
    };
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        refuse(state, "llama/a", edits[i], QN_ERR_FORMAT, "the config makes it");
}

static void test_config_is_honoured_or_refused(void **state)
{
    static const struct {
        const char *key;
        int code;
    } extra[] = {
        { "\"attn_logit_softcapping\": 30.0", QN_ERR_UNSUPPORTED },
        { "\"logit_scale\": 0.5", QN_ERR_UNSUPPORTED },
        { "\"use_qk_norm\": true", QN_ERR_UNSUPPORTED },
        { "\"no_rope_layers\": [1, 1, 0]", QN_ERR_UNSUPPORTED },
        { "\"attention_bias\": true", QN_ERR_FORMAT },
        { "\"mlp_bias\": true", QN_ERR_FORMAT },
    };
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        char to[128], says[64];
        snprintf(to, sizeof to, "%s, \"rms_norm_eps\"", extra[i].key);
        snprintf(says, sizeof says, "%.*s", (int)strcspn(extra[i].key + 1, "\""), extra[i].key + 1);
        refuse(state, "llama/a", (edit[]){ CONFIG("\"rms_norm_eps\"", to), END }, extra[i].code,
               says);
    }
    refuse(state, "llama/a", (edit[]){ CONFIG("\"silu\"", "\"xielu\""), END }, QN_ERR_UNSUPPORTED,
           "xielu");
    refuse(state, "llama/a",
           (edit[]){ CONFIG("\"rope_scaling\": null", "\"rope_scaling\": {\"type\": \"spiral\"}"),
                     END },
           QN_ERR_UNSUPPORTED, "spiral");
}

/* What published configs carry besides must not keep a model from loading. */
static void test_published_keys(void **state)
{
    static const struct {
        const char *name, *keys;
    } rows[] = {
        { "llama/a",
          "\"_name_or_path\": \"x\", \"is_llama_config\": true, \"rope_interleaved\": false, "
          "\"transformers.js_config\": {\"dtype\": \"q4\"}, \"auto_map\": {\"a\": \"b\"}, "
          "\"attention_bias\": false, \"mlp_bias\": false, \"head_dim\": 16, "
          "\"unsloth_fixed\": true, \"torch_dtype\": \"bfloat16\"" },
        { "mixtral/a", "\"router_jitter_noise\": 0.0, \"max_window_layers\": 28" },
        { "qwen3/a",
          "\"layer_types\": [\"full_attention\", \"full_attention\", \"full_attention\"], "
          "\"dtype\": \"bfloat16\"" },
        { "gemma3_text/a2",
          "\"use_bidirectional_attention\": false, \"query_pre_attn_scalar\": 16" },
        { "cohere2/a", "\"cache_implementation\": \"hybrid\", \"model_max_length\": 8192, "
                       "\"rope_scaling\": null" },
        { "phi3/a2", "\"full_attn_mod\": 1, \"interpolate_factor\": 1, \"lm_head_bias\": false" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char to[512];
        snprintf(to, sizeof to, "{%s,", rows[i].keys);
        qn_model_unload(load(state, rows[i].name, (edit[]){ CONFIG("{", to), END }));
    }
}

static void test_unknown_family(void **state)
{
    refuse(state, "llama/a",
           (edit[]){ CONFIG("\"model_type\": \"llama\"", "\"model_type\": \"lama\""), END },
           QN_ERR_UNSUPPORTED, "near: llama");
    refuse(state, "llama/a",
           (edit[]){ CONFIG("\"model_type\": \"llama\"", "\"model_type\": \"zzzzzz\""), END },
           QN_ERR_UNSUPPORTED, "\"zzzzzz\" is not supported");
}

/* Every change that must change the result does. */
static void test_fields_change_the_result(void **state)
{
    static const edit edits[][2] = {
        { CONFIG("\"rope_theta\": 10000.0", "\"rope_theta\": 500.0"), END },
        { CONFIG("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0.5"), END },
        { CONFIG("\"silu\"", "\"gelu\""), END },
        { CONFIG("\"use_cache\"", "\"sliding_window\": 4, \"use_cache\""), END },
        { CONFIG("\"use_cache\"", "\"partial_rotary_factor\": 0.5, \"use_cache\""), END },
        { CONFIG("\"rope_scaling\": null",
                 "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}"),
          END },
    };
    const int32_t token[] = { 5, 17, 300, 4, 99, 5, 200, 31 };
    qn_model *m = load(state, "llama/a", NULL);
    float *plain = run_tokens(m, token, 8);
    qn_model_unload(m);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        m = load(state, "llama/a", edits[i]);
        float *other = run_tokens(m, token, 8);
        double most = 0;
        for (int k = 0; k < 320; k++) {
            double d = other[7 * 320 + k] - plain[7 * 320 + k];
            most = d * d > most ? d * d : most;
        }
        if (most < 1e-6)
            fail_msg("%s changed nothing", edits[i][0].to);
        qn_free(other);
        qn_model_unload(m);
    }
    qn_free(plain);
}

static bool same_logits(void **state, const char *name, const edit *one, const edit *two)
{
    const int32_t token[] = { 9, 8, 7, 6 };
    qn_model *m = load(state, name, one);
    float *x = run_tokens(m, token, 4);
    qn_model_unload(m);
    m = load(state, name, two);
    float *y = run_tokens(m, token, 4);
    qn_model_unload(m);
    bool same = memcmp(x, y, 4 * 320 * sizeof *x) == 0;
    qn_free(x);
    qn_free(y);
    return same;
}

static void test_tied_heads(void **state)
{
    const edit tied[] = { CONFIG("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"),
                          END };
    const edit tied_without_head[] = { tied[0],
                                       TENSORS(
                                           "{\"name\":\"lm_head.weight\",\"dtype\":\"BF16\","
                                           "\"shape\":[320,64],\"lo\":-0.216506,\"hi\":0.216506},",
                                           ""),
                                       END };
    const edit silent_without_head[] = {
        CONFIG("\"tie_word_embeddings\": false", "\"use_cache\": true"), tied_without_head[1], END
    };
    const edit silent[] = { silent_without_head[0], END };
    const edit untied_without_head[] = { tied_without_head[1], END };
    /* A head beside a tied flag is ignored; without a flag, a missing head is a tied one. */
    assert_true(same_logits(state, "llama/a", tied, tied_without_head));
    assert_true(same_logits(state, "llama/a", tied, silent_without_head));
    assert_true(same_logits(state, "llama/a", silent, NULL));
    assert_false(same_logits(state, "llama/a", tied, NULL));
    refuse(state, "llama/a", untied_without_head, QN_ERR_FORMAT, "lm_head.weight is missing");
}

static void test_end_tokens(void **state)
{
    qn_error err;
    qn_model *m;
    const char *path = make_model(
        &arena, *state, "llama/a",
        (edit[]){ CONFIG("\"eos_token_id\": 2", "\"eos_token_id\": [2, 5, 2, 999]"), END });
    assert_int_equal(load_exact(&m, path, &err), QN_OK);
    assert_int_equal(m->n_eos, 2); /* each once, and only ids that exist */
    assert_int_equal(m->eos[1], 5);
    qn_model_unload(m);
    scratch_write(path, "generation_config.json", "{\"eos_token_id\": 7}", 19);
    assert_int_equal(load_exact(&m, path, &err), QN_OK);
    assert_int_equal(m->n_eos, 1);
    assert_int_equal(m->eos[0], 7);
    qn_model_unload(m);
    qn_arena a = { 0 };
    remove(qn_path_join(&a, path, "generation_config.json"));
    qn_arena_free(&a);
}

static void test_windows(void **state)
{
    qn_model *m =
        load(state, "llama/a",
             (edit[]){ CONFIG("\"use_cache\"", "\"sliding_window\": 6, \"layer_types\": "
                                               "[\"full_attention\", \"sliding_attention\", "
                                               "\"full_attention\"], \"use_cache\""),
                       END });
    assert_int_equal(m->plain.kv[0].window, 0);
    assert_int_equal(m->plain.kv[1].window, 6);
    assert_int_equal(m->plain.kv[2].group, m->plain.kv[0].group);
    assert_int_not_equal(m->plain.kv[1].group, m->plain.kv[0].group);
    qn_model_unload(m);
    refuse(
        state, "llama/a",
        (edit[]){ CONFIG("\"use_cache\"", "\"layer_types\": [\"full_attention\"], \"use_cache\""),
                  END },
        QN_ERR_UNSUPPORTED, "layer_types");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_loads, free_arena),
        cmocka_unit_test_teardown(test_tensors_are_accounted_for, free_arena),
        cmocka_unit_test_teardown(test_shapes_agree, free_arena),
        cmocka_unit_test_teardown(test_config_is_honoured_or_refused, free_arena),
        cmocka_unit_test_teardown(test_published_keys, free_arena),
        cmocka_unit_test_teardown(test_unknown_family, free_arena),
        cmocka_unit_test_teardown(test_fields_change_the_result, free_arena),
        cmocka_unit_test_teardown(test_tied_heads, free_arena),
        cmocka_unit_test_teardown(test_end_tokens, free_arena),
        cmocka_unit_test_teardown(test_windows, free_arena),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
