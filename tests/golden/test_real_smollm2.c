/* test_real_smollm2.c - SmolLM2-135M-Instruct Q4_1 through the public interface, against float32 runs of the
 * reference on the same dequantised weights: ids, greedy text, logits, and perplexity in the default mode.
 *
 * The model is $QUERN_TEST_MODEL, or smollm2 in the store; without it there is nothing to test. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "quern.h"

/* Perplexity of this repository's LICENSE: transformers in float32, windows of 512 tokens, second halves. */
static const double license_perplexity = 15.916646;
enum { LICENSE_TOKENS = 2215, WINDOW = 512 };

/* Where the reference's two best logits are nearer than this, rounding may choose either. */
static const double safe_margin = 0.02;

static char *model_path;
static qn_arena arena;
static const qn_json *cases;

static qn_model *open_model(qn_compute compute)
{
    qn_model *m;
    qn_error err = { 0 };
    qn_model_options opt = { .compute = compute };
    if (qn_model_open(&m, model_path, &opt, &err) != QN_OK)
        fail_msg("%s", err.msg);
    return m;
}

static qn_engine *open_engine(qn_model *m)
{
    qn_engine *e;
    qn_error err = { 0 };
    qn_engine_options opt = { .context = 1024 };
    if (qn_engine_open(&e, m, &opt, &err) != QN_OK)
        fail_msg("%s", err.msg);
    return e;
}

/* The prompt of a case as text: its own, or what the chat template makes of its messages. */
static char *prompt_text_dup(qn_model *m, const qn_json *c)
{
    const qn_json *prompt = qn_json_get(c, "prompt");
    if (!qn_json_eq(qn_json_get(c, "kind"), "chat"))
        return qn_strdup(qn_json_str(prompt, ""));
    qn_buf chat = { 0 };
    qn_error err = { 0 };
    qn_buf_str(&chat, "{\"messages\":");
    qn_json_put(&chat, prompt);
    qn_buf_char(&chat, '}');
    char *text = qn_render_dup(m, chat.data, &err);
    if (!text)
        fail_msg("%s", err.msg);
    qn_buf_free(&chat);
    return text;
}

static void ids_and_templates(void **state)
{
    (void)state;
    qn_model *m = open_model(QN_COMPUTE_DEFAULT);
    for (uint32_t i = 0; i < cases->n; i++) {
        const qn_json *c = &cases->items[i], *want = qn_json_get(c, "ids");
        char *text = prompt_text_dup(m, c);
        assert_string_equal(text, qn_json_str(qn_json_get(c, "text"), ""));
        size_t n;
        qn_error err = { 0 };
        int32_t *ids = qn_tokenize_dup(m, text, strlen(text), QN_TOKENIZE_MARKUP, &n, &err);
        assert_int_equal(n, want->n);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(ids[k], qn_json_int(&want->items[k], -1));
        qn_free(ids);
        qn_free(text);
    }
    qn_model_close(m);
}

static int32_t *ids_of(const qn_json *list)
{
    int32_t *ids = qn_alloc_n(list->n, sizeof *ids);
    for (uint32_t i = 0; i < list->n; i++)
        ids[i] = (int32_t)qn_json_int(&list->items[i], -1);
    return ids;
}

/* The ten best logits after the prompt, less the normaliser: what log-probabilities are. */
static void check_logits(const qn_json *c, const qn_token_probs *got)
{
    const qn_json *top = qn_json_get(c, "last_top10");
    double norm = qn_json_num(qn_json_get(c, "last_logsumexp"), 0);
    for (uint32_t i = 0; i < top->n; i++) {
        double want = qn_json_num(qn_json_at(&top->items[i], 1), 0) - norm;
        if (fabs(got->top[i].logprob - want) > 2e-3)
            fail_msg("rank %u: %.5f is not %.5f", i, got->top[i].logprob, want);
    }
}

static void check_greedy(const qn_json *c, const qn_result *res)
{
    const qn_json *greedy = qn_json_get(c, "greedy"), *margins = qn_json_get(c, "margins");
    for (uint32_t i = 0; i < greedy->n; i++) {
        assert_true((int)i < res->n_output);
        if (res->output_ids[i] == qn_json_int(&greedy->items[i], -1))
            continue;
        if (qn_json_num(&margins->items[i], 0) > safe_margin)
            fail_msg("token %u is %d, not %d", i, res->output_ids[i],
                     (int)qn_json_int(&greedy->items[i], -1));
        return; /* a tie went the other way; the rest is another text */
    }
}

static void check_case(qn_model *m, qn_engine *e, const qn_json *c)
{
    const qn_json *list = qn_json_get(c, "ids");
    int32_t *ids = ids_of(list);
    qn_error err = { 0 };
    qn_request *r;
    qn_request_options o;
    qn_request_defaults(m, &o);
    o.ids = ids;
    o.n_ids = list->n;
    o.max_tokens = qn_json_get(c, "greedy")->n;
    o.sampling.temperature = 0;
    o.n_logprobs = 10;
    if (qn_request_start(&r, e, &o, &err) != QN_OK)
        fail_msg("%s", err.msg);
    qn_event ev;
    while ((ev = qn_request_next(r, -1)).kind != QN_EVENT_DONE)
        ;
    check_logits(c, &ev.result->probs[0]);
    check_greedy(c, ev.result);
    qn_request_close(r);

    float *logprob = qn_alloc_n(list->n, sizeof *logprob);
    assert_int_equal(qn_engine_score(e, ids, list->n, 1, logprob, &err), QN_OK);
    double nll = 0;
    for (uint32_t i = 1; i < list->n; i++)
        nll -= logprob[i];
    assert_float_equal(nll / (list->n - 1), qn_json_num(qn_json_get(c, "mean_nll"), 0), 1e-3);
    qn_free(logprob);
    qn_free(ids);
}

static void exact_mode_equals_reference(void **state)
{
    (void)state;
    qn_model *m = open_model(QN_COMPUTE_F32);
    qn_engine *e = open_engine(m);
    for (uint32_t i = 0; i < cases->n; i++)
        check_case(m, e, &cases->items[i]);
    qn_engine_close(e);
    qn_model_close(m);
}

static void default_mode_perplexity(void **state)
{
    (void)state;
    static float logprob[WINDOW];
    qn_map map;
    qn_error err = { 0 };
    size_t n, n_scored = 0;
    double nll = 0;
    qn_model *m = open_model(QN_COMPUTE_DEFAULT);
    qn_engine *e = open_engine(m);
    assert_int_equal(qn_map_open(&map, QUERN_SOURCE "/LICENSE", &err), QN_OK);
    int32_t *ids = qn_tokenize_dup(m, map.data, map.size, 0, &n, &err);
    assert_int_equal(n, LICENSE_TOKENS);
    for (size_t w = 0; w < n / WINDOW; w++) {
        const int32_t *window = ids + w * WINDOW;
        assert_int_equal(qn_engine_score(e, window, WINDOW, WINDOW / 2 + 1, logprob, &err), QN_OK);
        for (int i = WINDOW / 2 + 1; i < WINDOW; i++, n_scored++)
            nll -= logprob[i];
    }
    double perplexity = exp(nll / (double)n_scored);
    print_message("perplexity %.4f, the reference's %.4f\n", perplexity, license_perplexity);
    assert_true(fabs(perplexity / license_perplexity - 1) < 0.005);
    qn_map_close(&map);
    qn_free(ids);
    qn_engine_close(e);
    qn_model_close(m);
}

int main(void)
{
    const char *path = QUERN_SOURCE "/tests/golden/real/smollm2-135m-q4_1.json";
    const char *given = getenv("QUERN_TEST_MODEL");
    qn_error err = { 0 };
    model_path = qn_store_find_dup(given && *given ? given : "smollm2", &err);
    if (!model_path) {
        printf("skipped: %s\n", err.msg);
        return 77;
    }
    const qn_json *doc = qn_json_parse_file(&arena, path, &err);
    cases = qn_json_get(doc, "cases");
    if (!cases) {
        printf("%s\n", err.msg);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_templates),
        cmocka_unit_test(exact_mode_equals_reference),
        cmocka_unit_test(default_mode_perplexity),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    qn_arena_free(&arena);
    qn_free(model_path);
    return failures;
}
