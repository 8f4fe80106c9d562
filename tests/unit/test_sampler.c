/* test_sampler.c - the sampler against the reference's stages, against closed forms, and its random stream. */
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
#include "engine/sampler.h"

static const qn_sampling plain = { .temperature = 1, .top_p = 1, .repetition_penalty = 1 };
static const qn_history nothing = { 0 };

/* ---- the reference's stages ---- */

/* Sets the option a stage stands for. False for stages this sampler does not have. */
static bool set_stage(qn_sampling *o, const char *stage, double v)
{
    if (!strcmp(stage, "temperature"))
        o->temperature = (float)v;
    else if (!strcmp(stage, "top_k"))
        o->top_k = (int)v;
    else if (!strcmp(stage, "top_p"))
        o->top_p = (float)v;
    else if (!strcmp(stage, "min_p"))
        o->min_p = (float)v;
    else
        return false;
    return true;
}

/* The options of a case; false when it needs a stage we lack, or another order than ours. */
static bool options_of(const qn_json *c, qn_sampling *o)
{
    static const char *const order[] = { "temperature", "top_k", "top_p", "min_p" };
    const char *stage = qn_json_str(qn_json_get(c, "stage"), "");
    const qn_json *params = qn_json_get(c, "params");
    *o = plain;
    if (!strcmp(stage, "repetition_penalty")) {
        o->repetition_penalty = (float)qn_json_num(qn_json_get(params, "penalty"), 1);
        o->repetition_window = (int)qn_json_int(qn_json_get(params, "window"), 0);
        return true;
    }
    if (strcmp(stage, "chain") != 0)
        return set_stage(o, stage, qn_json_num(qn_json_get(params, stage), 0));
    const qn_json *stages = qn_json_get(params, "stages");
    size_t at = 0;
    for (uint32_t i = 0; i < stages->n; i++) {
        const char *name = qn_json_str(qn_json_at(&stages->items[i], 0), "");
        while (at < 4 && strcmp(order[at], name) != 0)
            at++;
        if (at == 4 || !set_stage(o, name, qn_json_num(qn_json_at(&stages->items[i], 1), 0)))
            return false;
    }
    return true;
}

/* What the reference gives token `id`: a list over the vocabulary, or members of what is left. */
static double expected_p(const qn_json *probs, int id)
{
    char key[16];
    snprintf(key, sizeof key, "%d", id);
    if (probs->type == QN_JSON_ARRAY)
        return qn_json_num(qn_json_at(probs, (size_t)id), -1);
    return qn_json_num(qn_json_get(probs, key), 0);
}

static void check_case(qn_sampler *s, const float *logits, qn_history h, const qn_json *c,
                       const qn_sampling *o)
{
    const qn_json *probs = qn_json_get(c, "probs");
    int n = qn_sampler_candidates(s, logits, h, o), kept = 0;
    double *p = calloc((size_t)s->n_vocab, sizeof *p);
    for (int i = 0; i < n; i++) {
        kept += s->candidate[i].p > 0;
        p[s->candidate[i].id] = s->candidate[i].p;
    }
    for (int id = 0; id < s->n_vocab; id++)
        if (fabs(p[id] - expected_p(probs, id)) > 1e-6)
            fail_msg("%s: token %d has p %.9f, not %.9f", qn_json_str(qn_json_get(c, "stage"), ""),
                     id, p[id], expected_p(probs, id));
    if (probs->type == QN_JSON_OBJECT)
        assert_int_equal(kept, probs->n);
    free(p);
}

static int check_file(const char *path)
{
    qn_arena a = { 0 };
    qn_error err = { 0 };
    const qn_json *doc = qn_json_parse_file(&a, path, &err);
    assert_non_null(doc);
    const qn_json *l = qn_json_get(doc, "logits"), *h = qn_json_get(doc, "history");
    const qn_json *cases = qn_json_get(doc, "cases");
    float *logits = calloc(l->n, sizeof *logits);
    int32_t *history = calloc(h->n, sizeof *history);
    for (uint32_t i = 0; i < l->n; i++)
        logits[i] = (float)qn_json_num(&l->items[i], 0);
    for (uint32_t i = 0; i < h->n; i++)
        history[i] = (int32_t)qn_json_int(&h->items[i], 0);
    qn_sampler s;
    qn_sampler_init(&s, (int32_t)l->n);
    int n_checked = 0;
    for (uint32_t i = 0; i < cases->n; i++) {
        qn_sampling o;
        if (!options_of(&cases->items[i], &o))
            continue;
        check_case(&s, logits, (qn_history){ history, h->n }, &cases->items[i], &o);
        n_checked++;
    }
    qn_sampler_free(&s);
    free(logits);
    free(history);
    qn_arena_free(&a);
    return n_checked;
}

static void reference_stages(void **state)
{
    (void)state;
    assert_true(check_file(QUERN_SOURCE "/tests/golden/sampling/stages_64.json") >= 18);
    if (qn_is_file(QUERN_KIT "/sampling/stages_320.json"))
        assert_true(check_file(QUERN_KIT "/sampling/stages_320.json") >= 10);
}

/* ---- closed forms ---- */

/* p(i) proportional to 2^-i: every cut can be worked out by hand. */
static void halving(float *logits, int n)
{
    for (int i = 0; i < n; i++)
        logits[i] = (float)(-i * M_LN2);
}

static void cuts_of_halving(void **state)
{
    (void)state;
    float logits[40];
    qn_sampler s;
    qn_sampler_init(&s, 40);
    halving(logits, 40);
    qn_sampling o = plain;
    o.top_p = 0.7f; /* 1/2 + 1/4 crosses it */
    assert_int_equal(qn_sampler_candidates(&s, logits, nothing, &o), 2);
    assert_float_equal(s.candidate[0].p, 2.0 / 3, 1e-6);
    o.top_p = 0.999f; /* 1 - 2^-n >= 0.999 from n = 10 on */
    assert_int_equal(qn_sampler_candidates(&s, logits, nothing, &o), 10);
    o = plain;
    o.min_p = 0.1f; /* 2^-3 is over it, 2^-4 is not */
    assert_int_equal(qn_sampler_candidates(&s, logits, nothing, &o), 4);
    o.temperature = 2; /* p falls by sqrt 2 a step: 2^-(6/2) = 0.125 stays, 2^-3.5 does not */
    assert_int_equal(qn_sampler_candidates(&s, logits, nothing, &o), 7);
    o = plain;
    o.top_k = 3;
    o.top_p = 0.8f; /* of the three left: 4/7 + 2/7 = 0.857 */
    assert_int_equal(qn_sampler_candidates(&s, logits, nothing, &o), 2);
    o = plain;
    assert_int_equal(qn_sampler_candidates(&s, logits, nothing, &o), 40);
    qn_sampler_free(&s);
}

/* A flat distribution makes top-p reach down to the bottom; it must still be exact. */
static void flat_distribution(void **state)
{
    (void)state;
    enum { N = 5000 };
    float *logits = calloc(N, sizeof *logits);
    qn_sampler s;
    qn_sampler_init(&s, N);
    qn_sampling o = plain;
    o.top_p = 0.5f;
    int n = qn_sampler_candidates(&s, logits, nothing, &o);
    assert_int_equal(n, N / 2);
    for (int i = 0; i < n; i++)
        assert_int_equal(s.candidate[i].id, i); /* ties: lower ids first */
    qn_sampler_free(&s);
    free(logits);
}

static void ties_and_bad_logits(void **state)
{
    (void)state;
    const float logits[] = { NAN, 1, 3, 3, -INFINITY, NAN, 3 };
    qn_sampler s;
    qn_sampler_init(&s, 7);
    assert_int_equal(qn_argmax(logits, 7), 2);
    qn_sampling o = plain;
    o.top_k = 2;
    assert_int_equal(qn_sampler_candidates(&s, logits, nothing, &o), 2);
    assert_int_equal(s.candidate[0].id, 2);
    assert_int_equal(s.candidate[1].id, 3);
    o = plain;
    for (int i = 0; i < 200; i++) {
        int32_t id = qn_sampler_pick(&s, logits, nothing, &o, i / 200.0);
        assert_true(id == 1 || id == 2 || id == 3 || id == 6);
    }
    /* the far end of the stream never gives what is impossible */
    assert_int_equal(qn_sampler_pick(&s, logits, nothing, &o, nextafter(1, 0)), 6);
    const float none[] = { NAN, NAN, NAN, NAN, NAN, NAN, NAN };
    assert_int_equal(qn_sampler_pick(&s, none, nothing, &o, 0.5), 0);
    qn_sampler_free(&s);
}

static void penalty_window(void **state)
{
    (void)state;
    const float logits[] = { 2, -2, 1, 0.5f };
    const int32_t said[] = { 0, 1, 1, 2 };
    qn_sampler s;
    qn_sampler_init(&s, 4);
    qn_sampling o = plain;
    o.temperature = 0;
    o.repetition_penalty = 4;
    assert_int_equal(qn_sampler_pick(&s, logits, (qn_history){ said, 4 }, &o, 0), 0); /* a tie */
    o.repetition_penalty = 8; /* 2/8 and 1/8 fall below 0.5 */
    assert_int_equal(qn_sampler_pick(&s, logits, (qn_history){ said, 4 }, &o, 0), 3);
    o.repetition_window = 3; /* token 0 is out of sight again */
    assert_int_equal(qn_sampler_pick(&s, logits, (qn_history){ said, 4 }, &o, 0), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(s.seen[i], 0);
    qn_sampler_free(&s);
}

/* ---- the stream ---- */

static void stream_is_uniform(void **state)
{
    (void)state;
    enum { N = 100000, BINS = 50 };
    int bin[BINS] = { 0 };
    for (int i = 0; i < N; i++) {
        double u = qn_sampler_draw(42, (uint64_t)i);
        assert_true(u >= 0 && u < 1);
        bin[(int)(u * BINS)]++;
    }
    double chi = 0, want = (double)N / BINS;
    for (int i = 0; i < BINS; i++)
        chi += (bin[i] - want) * (bin[i] - want) / want;
    assert_true(chi <
                85.4); /* 49 degrees of freedom, p = 0.001; the seed is fixed, so it is no gamble */
    assert_true(qn_sampler_draw(1, 5) == qn_sampler_draw(1, 5));
    assert_true(qn_sampler_draw(1, 5) != qn_sampler_draw(2, 5));
}

static void picks_follow_probabilities(void **state)
{
    (void)state;
    enum { N = 50000 };
    const float logits[] = { 0, 1, 2, -1 };
    double sum = exp(0) + exp(1) + exp(2) + exp(-1);
    int count[4] = { 0 };
    qn_sampler s;
    qn_sampler_init(&s, 4);
    for (int i = 0; i < N; i++)
        count[qn_sampler_pick(&s, logits, nothing, &plain, qn_sampler_draw(7, (uint64_t)i))]++;
    for (int i = 0; i < 4; i++)
        assert_float_equal(count[i] / (double)N, exp(logits[i]) / sum, 0.01);
    qn_sampler_free(&s);
}

static void logprobs(void **state)
{
    (void)state;
    float logits[40];
    halving(logits, 40);
    double z = 2 - pow(2, -39);
    qn_token_probs p;
    qn_logprobs(logits, 40, 7, 5, &p);
    assert_int_equal(p.n_top, 5);
    assert_float_equal(p.chosen.logprob, -7 * M_LN2 - log(z), 1e-5);
    assert_float_equal(qn_logprob_of(logits, 40, 7), p.chosen.logprob, 1e-5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(p.top[i].id, i);
        assert_float_equal(p.top[i].logprob, -i * M_LN2 - log(z), 1e-5);
    }
    const float ties[] = { 1, 2, 2, 1, 2 };
    qn_logprobs(ties, 5, 0, 3, &p);
    assert_int_equal(p.top[0].id, 1);
    assert_int_equal(p.top[1].id, 2);
    assert_int_equal(p.top[2].id, 4);
    qn_logprobs(ties, 5, 0, 0, &p);
    assert_int_equal(p.n_top, 0);
    qn_logprobs(ties, 5, 0, 20, &p);
    assert_int_equal(p.n_top, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_stages),
        cmocka_unit_test(cuts_of_halving),
        cmocka_unit_test(flat_distribution),
        cmocka_unit_test(ties_and_bad_logits),
        cmocka_unit_test(penalty_window),
        cmocka_unit_test(stream_is_uniform),
        cmocka_unit_test(picks_follow_probabilities),
        cmocka_unit_test(logprobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
