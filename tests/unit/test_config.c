/* test_config.c - the config reader: common fields in every spelling, bounds, and the refusal of keys nobody honoured. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "blocks/config.h"

#define SIZES                                                                                      \
    "\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":320,\"num_hidden_layers\":3"

static qn_arena arena;

static int reset(void **state)
{
    (void)state;
    qn_arena_free(&arena);
    return 0;
}

static const qn_json *parse(const char *text)
{
    qn_error err = { 0 };
    const qn_json *v = qn_json_parse(&arena, text, strlen(text), &err);
    if (!v)
        fail_msg("%s: %s", text, err.msg);
    return v;
}

/* A config of model type "x" with the usual sizes and these further keys. */
static qn_config config_of(const char *keys)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"model_type\":\"x\"," SIZES "%s%s}", keys[0] ? "," : "", keys);
    qn_config c;
    qn_error err = { 0 };
    if (qn_config_init(&c, &arena, parse(text), &err) != QN_OK)
        fail_msg("%s: %s", keys, err.msg);
    return c;
}

static void test_derived(void **state)
{
    (void)state;
    qn_config c = config_of("");
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.window, 0);
    assert_int_equal(c.act, QN_ACT_SILU);
    assert_int_equal(c.rope.n_rot, 16);
    assert_true(c.rope.theta == 10000);
    c = config_of("\"head_dim\":32,\"num_key_value_heads\":2,\"sliding_window\":16,"
                  "\"rms_norm_eps\":1e-5,\"hidden_act\":\"gelu_pytorch_tanh\"");
    assert_int_equal(c.head_dim, 32);
    assert_int_equal(c.n_kv_heads, 2);
    assert_int_equal(c.window, 16);
    assert_int_equal(c.act, QN_ACT_GELU_TANH);
    assert_true(c.norm_eps == 1e-5f);
    c = config_of("\"head_dim\":null,\"sliding_window\":null,\"num_key_value_heads\":null");
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.window, 0);
}

static void test_other_spellings(void **state)
{
    (void)state;
    qn_config c;
    qn_error err = { 0 };
    const qn_json *v = parse("{\"model_type\":\"gpt2\",\"n_embd\":48,\"n_layer\":2,\"n_head\":3,"
                             "\"vocab_size\":9,\"n_positions\":128,\"layer_norm_epsilon\":0.01}");
    assert_int_equal(qn_config_init(&c, &arena, v, &err), QN_OK);
    assert_int_equal(c.d_model, 48);
    assert_int_equal(c.n_layers, 2);
    assert_int_equal(c.n_heads, 3);
    assert_int_equal(c.max_pos, 128);
    assert_true(c.norm_eps == 0.01f);
}

static void test_nested(void **state)
{
    (void)state;
    qn_config c;
    qn_error err = { 0 };
    const qn_json *v = parse("{\"model_type\":\"outer\",\"hidden_size\":1,\"text_config\":"
                             "{\"model_type\":\"inner\"," SIZES "}}");
    assert_int_equal(qn_config_init(&c, &arena, v, &err), QN_OK);
    assert_string_equal(c.model_type, "inner");
    assert_int_equal(c.d_model, 64);
    v = parse("{\"model_type\":\"outer\",\"text_config\":{" SIZES "}}");
    assert_int_equal(qn_config_init(&c, &arena, v, &err), QN_OK);
    assert_string_equal(c.model_type, "outer");
}

static void test_bad_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "[]", "object" },
        { "{}", "model_type" },
        { "{\"model_type\":\"x\"}", "hidden_size" },
        { "{\"model_type\":\"x\"," SIZES ",\"hidden_size\":0}", "hidden_size" },
        { "{\"model_type\":\"x\"," SIZES ",\"num_hidden_layers\":1000000000}",
          "num_hidden_layers" },
        { "{\"model_type\":\"x\"," SIZES ",\"num_attention_heads\":\"4\"}", "num_attention_heads" },
        { "{\"model_type\":\"x\"," SIZES ",\"num_key_value_heads\":3}", "num_key_value_heads" },
        { "{\"model_type\":\"x\"," SIZES ",\"num_attention_heads\":65}", "too small" },
        { "{\"model_type\":\"x\"," SIZES ",\"head_dim\":-8}", "head_dim" },
        { "{\"model_type\":\"x\"," SIZES ",\"vocab_size\":2.5}", "vocab_size" },
        { "{\"model_type\":\"x\"," SIZES ",\"rms_norm_eps\":\"tiny\"}", "rms_norm_eps" },
        { "{\"model_type\":\"x\"," SIZES ",\"num_experts\":2,\"num_experts_per_tok\":3}",
          "experts" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_config c;
        qn_error err = { 0 };
        assert_int_equal(qn_config_init(&c, &arena, parse(bad[i].text), &err), QN_ERR_FORMAT);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("%s: %s", bad[i].text, err.msg);
    }
}

/* What the check says of a config whose keys nobody read. */
static int check(const char *keys, qn_error *err)
{
    qn_config c = config_of(keys);
    *err = (qn_error){ 0 };
    return qn_config_check(&c, err);
}

static void test_refused_when_unread(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "\"attn_logit_softcapping\":30.0",
        "\"final_logit_softcapping\":4",
        "\"logit_scale\":0.25",
        "\"logits_scaling\":8",
        "\"embedding_multiplier\":12.0",
        "\"residual_multiplier\":0.22",
        "\"attention_bias\":true",
        "\"mlp_bias\":true",
        "\"use_qk_norm\":true",
        "\"clip_qkv\":8.0",
        "\"alibi\":true",
        "\"partial_rotary_factor\":0.5",
        "\"sliding_window\":16",
        "\"use_sliding_window\":true",
        "\"hidden_act\":\"gelu\"",
        "\"num_local_experts\":8",
        "\"query_pre_attn_scalar\":24",
        "\"layer_types\":[\"sliding_attention\"]",
        "\"no_rope_layers\":[1,0]",
        "\"attention_chunk_size\":64",
        "\"rope_local_base_freq\":10000",
        "\"use_parallel_residual\":true",
        "\"position_embedding_type\":\"alibi\"",
        "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}",
        "\"kv_lora_rank\":32",
        "\"scale_emb\":3",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        qn_error err;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(keys[i] + 1, "\""), keys[i] + 1);
        if (check(keys[i], &err) != QN_ERR_UNSUPPORTED)
            fail_msg("%s was let through", keys[i]);
        if (!strstr(err.msg, name))
            fail_msg("%s: %s", keys[i], err.msg);
    }
}

static void test_neutral(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "\"attn_logit_softcapping\":null",
        "\"logit_scale\":1.0",
        "\"attention_bias\":false",
        "\"sliding_window\":null",
        "\"num_experts\":0",
        "\"use_qk_norm\":false",
        "\"query_pre_attn_scalar\":16",
        "\"rope_scaling\":null",
        "\"partial_rotary_factor\":1.0",
        "\"layer_types\":[\"full_attention\"]",
        "\"attention_dropout\":0.1",
        "\"initializer_range\":0.02",
        "\"router_aux_loss_coef\":0.02",
        "\"pretraining_tp\":2",
        "\"torch_dtype\":\"bfloat16\"",
        "\"num_nextn_predict_layers\":1",
        "\"position_embedding_type\":\"rope\"",
        "\"max_window_layers\":28",
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        qn_error err;
        if (check(keys[i], &err) != QN_OK)
            fail_msg("%s: %s", keys[i], err.msg);
    }
}

static void test_honoured(void **state)
{
    (void)state;
    qn_error err = { 0 };
    qn_config c = config_of("\"logit_scale\":0.25,\"use_qk_norm\":true,\"clip_qkv\":8");
    assert_true(qn_config_num(&c, "logit_scale", 1) == 0.25);
    assert_true(qn_config_bool(&c, "use_qk_norm", false));
    assert_int_equal(qn_config_check(&c, &err), QN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "clip_qkv"));
    assert_int_equal(qn_config_int(&c, "clip_qkv", 0), 8);
    assert_int_equal(qn_config_check(&c, &err), QN_OK);
    assert_true(qn_config_has(&c, "clip_qkv") && !qn_config_has(&c, "nothing"));
    assert_string_equal(qn_config_str(&c, "nothing", "fallback"), "fallback");
}

/* Reading is no excuse for a value of the wrong type: the fallback was used, so the key was not honoured. */
static void test_wrong_type(void **state)
{
    (void)state;
    qn_error err = { 0 };
    qn_config c = config_of("\"attention_bias\":\"yes\"");
    assert_false(qn_config_bool(&c, "attention_bias", false));
    assert_int_equal(qn_config_check(&c, &err), QN_ERR_FORMAT);
    assert_non_null(strstr(err.msg, "attention_bias"));
}

static void test_activations(void **state)
{
    (void)state;
    assert_int_equal(qn_act_find("silu"), QN_ACT_SILU);
    assert_int_equal(qn_act_find("gelu"), QN_ACT_GELU);
    assert_int_equal(qn_act_find("gelu_new"), QN_ACT_GELU_TANH);
    assert_int_equal(qn_act_find("relu2"), QN_ACT_RELU2);
    assert_int_equal(qn_act_find("xielu"), QN_ACT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_derived, reset),
        cmocka_unit_test_teardown(test_other_spellings, reset),
        cmocka_unit_test_teardown(test_nested, reset),
        cmocka_unit_test_teardown(test_bad_sizes, reset),
        cmocka_unit_test_teardown(test_refused_when_unread, reset),
        cmocka_unit_test_teardown(test_neutral, reset),
        cmocka_unit_test_teardown(test_honoured, reset),
        cmocka_unit_test_teardown(test_wrong_type, reset),
        cmocka_unit_test_teardown(test_activations, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
