/* test_real_text.c - real models against float32 runs of the reference on the same (dequantised) weights: logits,
 * loss and greedy text with --compute f32, and the loss of the default mode.
 *
 * The models are not in the repository: "smollm2" and "gemma3" are looked for in the model store, or where
 * QUERN_TEST_SMOLLM2 and QUERN_TEST_GEMMA3 point. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "engine/runner.h"

/* Accumulated float32 rounding of a deep model, in logits of a spread of some 20. */
#define LOGIT_TOLERANCE 5e-3
/* Where the reference's own lead is below this, its next token is a matter of rounding. */
#define SURE_MARGIN 0.02

typedef struct subject {
    qn_model *model;
    qn_runner *runner;
    qn_kv_seq seq;
    double loss; /* of all predicted tokens so far */
    int32_t n_loss;
} subject;

static void open_subject(subject *s, const char *path, bool exact)
{
    qn_error err = { 0 };
    *s = (subject){ 0 };
    qn_load_options load = { .backend = { .exact = exact }, .no_tokenizer = true };
    if (qn_model_load(&s->model, path, &load, &err) != QN_OK)
        fail_msg("%s", err.msg);
    qn_kv_options kv = { .context = 1024, .max_seqs = 1, .chunk = 1024, .exact = exact };
    if (qn_runner_open(&s->runner, s->model, &kv, &err) != QN_OK)
        fail_msg("%s", err.msg);
    s->seq.cache = qn_runner_cache(s->runner);
}

static void close_subject(subject *s)
{
    qn_kv_release(&s->seq);
    qn_runner_close(s->runner);
    qn_model_unload(s->model);
}

static const float *feed(subject *s, const int32_t *ids, int32_t n, int32_t first_out)
{
    qn_error err = { 0 };
    const float *logits;
    const qn_rows rows = {
        .seq = &s->seq, .token = ids, .n_tok = n, .first_out = first_out, .rope_len = 1024
    };
    if (qn_runner_step(s->runner, &rows, 1, &logits, &err) != QN_OK)
        fail_msg("%s", err.msg);
    return logits;
}

static double log_sum_exp(const float *x, int32_t n)
{
    double top = x[0], sum = 0;
    for (int32_t i = 1; i < n; i++)
        top = fmax(top, x[i]);
    for (int32_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

static int32_t argmax(const float *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

/* Sum of the negative log-likelihoods of ids[1..n). */
static double loss_of(const float *logits, int32_t width, const int32_t *ids, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i + 1 < n; i++) {
        const float *row = logits + (size_t)i * (size_t)width;
        sum += log_sum_exp(row, width) - row[ids[i + 1]];
    }
    return sum;
}

static void check_last(const qn_json *c, const float *row, int32_t width)
{
    const qn_json *top = qn_json_get(c, "last_top10");
    for (uint32_t i = 0; top && i < top->n; i++) {
        const qn_json *pair = qn_json_at(top, i);
        int64_t id = qn_json_int(qn_json_at(pair, 0), 0);
        double want = qn_json_num(qn_json_at(pair, 1), 0);
        if (fabs(row[id] - want) > LOGIT_TOLERANCE)
            fail_msg("logit of %d is %.5f, the reference has %.5f", (int)id, row[id], want);
    }
    double want = qn_json_num(qn_json_get(c, "last_logsumexp"), 0);
    assert_true(fabs(log_sum_exp(row, width) - want) < LOGIT_TOLERANCE);
}

static void follow_greedy(subject *s, const qn_json *c, int32_t next)
{
    const qn_json *greedy = qn_json_get(c, "greedy"), *margins = qn_json_get(c, "margins");
    int32_t width = qn_runner_vocab(s->runner);
    for (uint32_t i = 0; greedy && i < greedy->n; i++) {
        int32_t want = (int32_t)qn_json_int(qn_json_at(greedy, i), -1);
        if (next != want && qn_json_num(qn_json_at(margins, i), 1) > SURE_MARGIN)
            fail_msg("greedy token %u is %d, the reference has %d", i, next, want);
        next = argmax(feed(s, &want, 1, 0), width);
    }
}

static void run_case(subject *s, const qn_json *c, bool exact)
{
    const qn_json *list = qn_json_get(c, "ids");
    int32_t n = (int32_t)list->n, width = qn_runner_vocab(s->runner);
    int32_t *ids = qn_alloc_n((size_t)n, sizeof *ids);
    for (int32_t i = 0; i < n; i++)
        ids[i] = (int32_t)qn_json_int(qn_json_at(list, (size_t)i), 0);
    const float *logits = feed(s, ids, n, 0);
    double loss = loss_of(logits, width, ids, n);
    if (exact) {
        const float *last = logits + (size_t)(n - 1) * (size_t)width;
        double mean = loss / (n - 1), want = qn_json_num(qn_json_get(c, "mean_nll"), mean);
        if (fabs(mean - want) > 1e-3)
            fail_msg("loss %.6f, the reference has %.6f", mean, want);
        check_last(c, last, width);
        follow_greedy(s, c, argmax(last, width));
    }
    s->loss += loss;
    s->n_loss += n - 1;
    qn_kv_release(&s->seq);
    qn_free(ids);
}

/* Both modes over all cases of a golden file; false when model or goldens are not here. */
static bool run_model(const char *golden, const char *variable, const char *name)
{
    qn_arena a = { 0 };
    const char *env = getenv(variable);
    char *path = env ? qn_strdup(env) : qn_store_find_dup(name, NULL);
    const qn_json *j = qn_json_parse_file(&a, golden, NULL);
    const qn_json *cases = qn_json_get(j, "cases");
    bool found = path && cases;
    if (found) {
        double loss[2] = { 0, 0 };
        for (int exact = 0; exact < 2; exact++) {
            subject s;
            open_subject(&s, path, exact);
            for (uint32_t i = 0; i < cases->n; i++)
                run_case(&s, qn_json_at(cases, i), exact);
            loss[exact] = s.loss / s.n_loss;
            close_subject(&s);
        }
        printf("%s: mean loss %.5f, default mode %+.5f\n", name, loss[1], loss[0] - loss[1]);
        /* So few tokens see rounding of 8-bit activations as noise; perplexity is measured elsewhere. */
        assert_true(fabs(loss[0] - loss[1]) < 0.02);
    }
    qn_arena_free(&a);
    qn_free(path);
    return found;
}

static void test_smollm2(void **state)
{
    (void)state;
    if (!run_model(QUERN_KIT "/real/smollm2-135m-q4_1.json", "QUERN_TEST_SMOLLM2", "smollm2"))
        skip();
}

static void test_gemma3(void **state)
{
    (void)state;
    if (!run_model(QUERN_KIT "/real/gemma3-270m-q4_k_m.json", "QUERN_TEST_GEMMA3", "gemma3"))
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
