/* test_rope.c - rotary frequencies of every scaling kind against transformers (tests/golden/rope.json), and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "blocks/config.h"

/* Powers of float32 differ in the last bit between libraries; a ramp multiplies that by a few. */
#define TOLERANCE 1e-6

static qn_json *parse(qn_arena *a, const char *text)
{
    qn_error err = { 0 };
    qn_json *v = qn_json_parse(a, text, strlen(text), &err);
    assert_non_null(v);
    return v;
}

static void check_list(const char *name, const float *got, const qn_json *want, int n)
{
    assert_int_equal(want->n, n);
    for (int i = 0; i < n; i++) {
        double w = qn_json_num(qn_json_at(want, (size_t)i), -1);
        if (fabs(got[i] - w) > TOLERANCE * fabs(w))
            fail_msg("%s: frequency %d is %.9g, not %.9g", name, i, got[i], w);
    }
}

static void test_golden(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    const qn_json *cases = qn_json_parse_file(&a, QUERN_SOURCE "/tests/golden/rope.json", &err);
    assert_non_null(cases);
    assert_true(cases->n >= 10);
    for (uint32_t i = 0; i < cases->n; i++) {
        const qn_json *v = qn_json_at(cases, i);
        const char *name = qn_json_str(qn_json_get(v, "name"), "");
        qn_config c;
        if (qn_config_init(&c, &a, qn_json_get(v, "config"), &err) != QN_OK)
            fail_msg("%s: %s", name, err.msg);
        qn_attr_rope attr;
        if (qn_rope_attr(&attr, &a, &c.rope, c.head_dim, NULL, &err) != QN_OK)
            fail_msg("%s: %s", name, err.msg);
        check_list(name, attr.inv_freq, qn_json_get(v, "inv_freq"), attr.n_freqs);
        const qn_json *longer = qn_json_get(v, "inv_freq_long");
        if (longer)
            check_list(name, attr.inv_freq_long, longer, attr.n_freqs);
        double amplitude = qn_json_num(qn_json_get(v, "amplitude"), 0);
        assert_true(fabs(attr.amplitude - amplitude) < 1e-6);
    }
    qn_arena_free(&a);
}

#define HEAD                                                                                       \
    "{\"model_type\":\"x\",\"hidden_size\":64,\"num_attention_heads\":4,\"vocab_size\":8,"         \
    "\"num_hidden_layers\":1,\"max_position_embeddings\":64,"

static int attr_of(const char *keys, const char *layer_type, qn_attr_rope *attr, qn_arena *a,
                   qn_error *err)
{
    qn_config c;
    char text[1024];
    snprintf(text, sizeof text, HEAD "%s}", keys);
    assert_int_equal(qn_config_init(&c, a, parse(a, text), err), QN_OK);
    qn_rope r = qn_rope_of(&c, layer_type);
    return qn_rope_attr(attr, a, &r, c.head_dim, NULL, err);
}

static void test_spellings(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_attr_rope r;
    const char *nested = "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
                         "\"factor\":4.0,\"rope_theta\":1e6},\"sliding_attention\":"
                         "{\"rope_type\":\"default\",\"rope_theta\":10000.0}}";
    assert_int_equal(attr_of(nested, "full_attention", &r, &a, &err), QN_OK);
    assert_true(r.inv_freq[0] == 0.25f);
    assert_true(fabsf(r.inv_freq[4] - 0.25f / 1000) < 1e-9f);
    assert_int_equal(attr_of(nested, "sliding_attention", &r, &a, &err), QN_OK);
    assert_true(r.inv_freq[0] == 1.0f && fabsf(r.inv_freq[4] - 0.01f) < 1e-9f);

    assert_int_equal(
        attr_of("\"rope_theta\":10000,\"partial_rotary_factor\":0.25", NULL, &r, &a, &err), QN_OK);
    assert_int_equal(r.n_rot, 4);
    assert_int_equal(attr_of("\"rotary_pct\":0.5,\"rotary_emb_base\":100", NULL, &r, &a, &err),
                     QN_OK);
    assert_int_equal(r.n_rot, 8);
    assert_true(fabsf(r.inv_freq[2] - 0.1f) < 1e-7f);
    qn_arena_free(&a);
}

static void test_dynamic_and_lengths(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_attr_rope r;
    assert_int_equal(
        attr_of("\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2.0}", NULL, &r, &a, &err),
        QN_OK);
    assert_true(r.dynamic_theta == 10000 && r.dynamic_factor == 2);
    assert_int_equal(r.long_after, 64);
    qn_arena_free(&a);
}

static void test_stored_factors(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    const float factors[2] = { 2, 8 };
    qn_rope rope = { .theta = 100, .n_rot = 4 };
    qn_attr_rope r;
    assert_int_equal(qn_rope_attr(&r, &a, &rope, 8, factors, &err), QN_OK);
    assert_true(r.inv_freq[0] == 0.5f && fabsf(r.inv_freq[1] - 0.0125f) < 1e-8f);
    qn_arena_free(&a);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *says;
    } bad[] = {
        { "\"rope_scaling\":{\"type\":\"spiral\",\"factor\":2}", "spiral" },
        { "\"rope_scaling\":{\"type\":\"linear\"}", "factor" },
        { "\"rope_scaling\":{\"type\":\"linear\",\"factor\":-1}", "factor" },
        { "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2,\"wobble\":3}", "wobble" },
        { "\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1],\"long_factor\":[1]}",
          "short_factor" },
        { "\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8}", "low_freq_factor" },
        { "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":0}", "factor" },
        { "\"rope_theta\":0", "base" },
        { "\"partial_rotary_factor\":7", "columns" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_arena a = { 0 };
        qn_error err = { 0 };
        qn_attr_rope r;
        assert_int_not_equal(attr_of(bad[i].keys, NULL, &r, &a, &err), QN_OK);
        if (!strstr(err.msg, bad[i].says))
            fail_msg("%s: %s", bad[i].keys, err.msg);
        qn_arena_free(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_dynamic_and_lengths),
        cmocka_unit_test(test_stored_factors),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
