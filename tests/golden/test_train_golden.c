/* test_train_golden.c - training against PyTorch: losses, every gradient, and three AdamW steps of small models.
 *
 * tests/golden/train/<name>.safetensors and .json are written by tools/train_golden.py from the formula case of the
 * name. Tolerances: losses 1e-5 relative; gradients 1e-4 of the tensor's norm; weights after the
 * steps 2e-5, but for at most 0.1 % of them (or one) where the gradient is so small that Adam's sign is noise. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "engine/model.h"
#include "formats/formula.h"
#include "formats/safetensors.h"
#include "train/trainer.h"

#define CASES    QUERN_SOURCE "/tests/golden/"
#define MAX_SEQS 3

typedef struct golden {
    qn_arena arena;
    qn_st *st;
    const qn_json *note;
    qn_model *model;
    char dir[64]; /* the checkpoint made from the formula */
    qn_train_seq seq[MAX_SEQS];
    double worst_grad, worst_weight;
} golden;

static void check(int rc, const qn_error *err)
{
    if (rc != QN_OK)
        fail_msg("%s", err->msg);
}

/* The 32-bit numbers of a golden array, copied to aligned memory. */
static void *array_of(golden *g, const char *name, int64_t *rows, int64_t *cols)
{
    const qn_st_tensor *t = qn_st_find(g->st, name);
    assert_non_null(t);
    *rows = t->dim[0];
    *cols = t->dim[1];
    return qn_arena_copy(&g->arena, t->data, t->bytes);
}

/* The formula model of tests/golden/cases/<name>, through the normal loader. */
static void model_open(golden *g, const char *name, bool reference)
{
    qn_error err = { 0 };
    *g = (golden){ .dir = "/tmp/quern-train-XXXXXX" };
    assert_non_null(mkdtemp(g->dir));
    char *case_dir = qn_arena_printf(&g->arena, CASES "cases/%s", name);
    check(qn_formula_write_checkpoint(case_dir, g->dir, &err), &err);
    qn_load_options opt = { .no_tokenizer = true };
    opt.backend = (qn_backend_options){ .n_threads = 2, .exact = true, .reference = reference };
    check(qn_model_load(&g->model, g->dir, &opt, &err), &err);
}

/* The same with its golden: arrays, and the batch that it was made from. */
static void golden_open(golden *g, const char *name, bool reference)
{
    qn_error err = { 0 };
    char model[64];
    snprintf(model, sizeof model, "%s/a", name);
    model_open(g, model, reference);
    char *file = qn_arena_printf(&g->arena, CASES "train/%s.safetensors", name);
    check(qn_st_open(&g->st, file, &err), &err);
    g->note = qn_json_parse_file(&g->arena, qn_arena_printf(&g->arena, CASES "train/%s.json", name),
                                 &err);
    assert_non_null(g->note);
    int64_t rows, cols;
    int32_t *id = array_of(g, "input_ids", &rows, &cols);
    int32_t *label = array_of(g, "labels", &rows, &cols);
    assert_int_equal(rows, MAX_SEQS);
    for (int64_t s = 0; s < rows; s++)
        g->seq[s] = (qn_train_seq){ id + s * cols, label + s * cols, (int32_t)cols };
}

static void golden_close(golden *g)
{
    qn_model_unload(g->model);
    qn_st_close(g->st);
    qn_arena a = { 0 };
    const char *const files[] = { "model.safetensors", "config.json", "case.json", "tensors.json" };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(qn_path_join(&a, g->dir, files[i]));
    rmdir(g->dir);
    qn_arena_free(&a);
    qn_arena_free(&g->arena);
}

static qn_trainer *trainer_of(golden *g, double smoothing)
{
    qn_error err = { 0 };
    qn_train_options opt = QN_TRAIN_DEFAULT;
    opt.adamw.lr = qn_json_num(qn_json_get(g->note, "lr"), 0);
    opt.adamw.decay = qn_json_num(qn_json_get(g->note, "weight_decay"), 0);
    opt.max_norm = qn_json_num(qn_json_get(g->note, "clip_norm"), 0);
    opt.smoothing = smoothing;
    qn_trainer *t;
    check(qn_trainer_open(&t, &g->model->plain, g->model->backend, &opt, &err), &err);
    return t;
}

static size_t find_param(const qn_trainer *t, const char *name)
{
    for (size_t i = 0; i < qn_trainer_count(t); i++)
        if (strcmp(qn_trainer_name(t, i), name) == 0)
            return i;
    fail_msg("no weight %s", name);
    return 0;
}

static void near(const char *what, double got, double want, double tol)
{
    if (!(fabs(got - want) <= tol))
        fail_msg("%s: %.9g, should be %.9g, tolerance %.2g", what, got, want, tol);
}

/* Norm, sum and eight samples of the first gradient of tensor i of the golden's list. */
static void check_gradient(golden *g, const qn_trainer *t, size_t i)
{
    const char *name = qn_json_str(qn_json_at(qn_json_get(g->note, "tensors"), i), "");
    size_t p = find_param(t, name), n = qn_trainer_size(t, p);
    const float *d = qn_trainer_grad(t, p);
    assert_non_null(d);
    int64_t rows, cols;
    const float *norm_sum = (float *)array_of(g, "grad0.norm_sum", &rows, &cols) + i * 2;
    const float *sample = (float *)array_of(g, "grad0.samples", &rows, &cols) + i * 8;
    double square = 0, scale = norm_sum[0] / sqrt((double)n);
    for (size_t k = 0; k < n; k++)
        square += (double)d[k] * d[k];
    near(name, sqrt(square), norm_sum[0], 1e-4 * norm_sum[0]);
    for (size_t k = 0; k < 8; k++) {
        double got = d[k * (n - 1) / 7];
        near(name, got, sample[k], 1e-4 * (scale + fabs((double)sample[k])));
        g->worst_grad = fmax(g->worst_grad, fabs(got - sample[k]) / scale);
    }
}

static void check_weights(golden *g, qn_trainer *t)
{
    int64_t n, cols;
    const float *sample = array_of(g, "after.samples", &n, &cols);
    int64_t off = 0;
    double lr = qn_json_num(qn_json_get(g->note, "lr"), 0);
    for (int64_t i = 0; i < n; i++) {
        const char *name = qn_json_str(qn_json_at(qn_json_get(g->note, "tensors"), (size_t)i), "");
        size_t p = find_param(t, name), size = qn_trainer_size(t, p);
        for (size_t k = 0; k < 8; k++) {
            double want = sample[i * 8 + (int64_t)k];
            double e = fabs(qn_trainer_weight(t, p)[k * (size - 1) / 7] - want);
            off += e > 2e-5;
            near(name, e, 0, 3 * lr);
            g->worst_weight = fmax(g->worst_weight, e);
        }
    }
    assert_true(off <= (n * 8 + 999) / 1000);
}

/* `full`: three steps too, else only the first loss and gradients. */
static void compare(const char *name, bool reference, bool full)
{
    golden g;
    qn_error err = { 0 };
    qn_train_result r;
    golden_open(&g, name, reference);
    const qn_json *losses = qn_json_get(g.note, "losses"),
                  *norms = qn_json_get(g.note, "grad_norms");
    qn_trainer *t = trainer_of(&g, 0);
    for (size_t step = 0; step < losses->n && (full || step == 0); step++) {
        double want = qn_json_num(qn_json_at(losses, step), 0);
        check(qn_trainer_run(t, g.seq, MAX_SEQS, &r, &err), &err);
        near("loss", r.loss, want, 1e-5 * want);
        if (step == 0)
            for (size_t i = 0; i < qn_json_get(g.note, "tensors")->n; i++)
                check_gradient(&g, t, i);
        if (step == norms->n || !full)
            break;
        want = qn_json_num(qn_json_at(norms, step), 0);
        near("gradient norm", r.grad_norm, want, 1e-4 * want);
        check(qn_trainer_step(t, g.seq, MAX_SEQS, &r, &err), &err);
        assert_true(r.updated);
    }
    if (full)
        check_weights(&g, t);
    printf("%s, %s: worst gradient sample %.1e of the norm, worst weight %.1e\n", name,
           reference ? "references" : "kernels", g.worst_grad, g.worst_weight);
    qn_trainer_close(t);
    golden_close(&g);
}

static void test_llama(void **state)
{
    (void)state;
    compare("llama", true, true);
}

static void test_qwen3(void **state)
{
    (void)state;
    compare("qwen3", true, true);
}

/* The fast kernels in f32 give the same gradients. */
static void test_kernels(void **state)
{
    (void)state;
    compare("llama", false, false);
}

static void test_smoothing(void **state)
{
    (void)state;
    const char *const names[] = { "llama", "qwen3" };
    for (int i = 0; i < 2; i++) {
        golden g;
        qn_error err = { 0 };
        qn_train_result r;
        golden_open(&g, names[i], true);
        qn_trainer *t = trainer_of(&g, 0.1);
        check(qn_trainer_run(t, g.seq, MAX_SEQS, &r, &err), &err);
        double want = qn_json_num(qn_json_get(g.note, "loss_smoothing_0.1"), 0);
        near("loss", r.loss, want, 1e-5 * want);
        qn_trainer_close(t);
        golden_close(&g);
    }
}

/* Moves weight p by `by` along its gradient's direction (as it was saved) and gives the loss. */
static double moved_loss(golden *g, qn_trainer *t, size_t p, const float *dir, double by)
{
    qn_error err = { 0 };
    qn_train_result r;
    float *w = qn_trainer_weight(t, p);
    size_t n = qn_trainer_size(t, p);
    float *keep = qn_arena_copy(&g->arena, w, n * sizeof *w);
    for (size_t i = 0; i < n; i++)
        w[i] += (float)(by * dir[i]);
    check(qn_trainer_run(t, g->seq, MAX_SEQS, &r, &err), &err);
    memcpy(w, keep, n * sizeof *w);
    return r.loss;
}

/* The slope of the loss along dir: central differences of steps h and h / 2, extrapolated. */
static double slope(golden *g, qn_trainer *t, size_t p, const float *dir, double h)
{
    double d[2];
    for (int i = 0; i < 2; i++, h /= 2)
        d[i] = (moved_loss(g, t, p, dir, h) - moved_loss(g, t, p, dir, -h)) / (2 * h);
    return (4 * d[1] - d[0]) / 3;
}

/* Along a tensor's own gradient the loss grows by that gradient's norm. The tolerance is what rounding of the
 * loss makes of a step. A router may choose otherwise within the large step, where the loss then jumps and says
 * nothing of slopes: the small one decides. Returns the relative error. */
static double check_slope(golden *g, qn_trainer *t, size_t p)
{
    qn_error err = { 0 };
    qn_train_result r;
    check(qn_trainer_run(t, g->seq, MAX_SEQS, &r, &err), &err);
    size_t n = qn_trainer_size(t, p);
    if (!qn_trainer_grad(t, p))
        fail_msg("%s: no gradient", qn_trainer_name(t, p));
    float *dir = qn_arena_copy(&g->arena, qn_trainer_grad(t, p), n * sizeof *dir);
    double norm = 0, want = 0;
    for (size_t i = 0; i < n; i++)
        norm += (double)dir[i] * dir[i];
    norm = sqrt(norm);
    for (size_t i = 0; i < n; i++)
        dir[i] /= (float)norm;
    for (double h = 0.02; h > 1e-3; h /= 8) {
        want = slope(g, t, p, dir, h);
        if (fabs(norm - want) <= 1e-3 * norm + 2e-6 / h)
            return fabs(norm - want) / norm;
    }
    fail_msg("%s: slope %.6g, by differences %.6g", qn_trainer_name(t, p), norm, want);
    return 0;
}

/* Every kind of model there is a small case of: biases, tied heads, windows, caps, norms of q and k, experts. */
static void test_differences(void **state)
{
    (void)state;
    static const char *const cases[] = { "llama/a", "llama/a3", "mistral/a2", "mixtral/a",
                                         "qwen2/a", "gemma2/a", "qwen3/a" };
    static const int32_t ids[] = { 60, 164, 172, 153, 126, 6, 274, 116, 54, 283, 306 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        golden g;
        model_open(&g, cases[i], true);
        for (int s = 0; s < MAX_SEQS; s++) /* short: a difference is four runs */
            g.seq[s] = (qn_train_seq){ ids + s, ids + s, 10 - 3 * s };
        qn_trainer *t = trainer_of(&g, 0);
        double worst = 0;
        for (size_t p = 0; p < qn_trainer_count(t); p++)
            worst = fmax(worst, check_slope(&g, t, p));
        printf("%s by differences: %zu tensors, worst %.1e of a gradient's norm\n", cases[i],
               qn_trainer_count(t), worst);
        qn_trainer_close(t);
        golden_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),       cmocka_unit_test(test_qwen3),
        cmocka_unit_test(test_kernels),     cmocka_unit_test(test_smoothing),
        cmocka_unit_test(test_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
