/* parity_whole.c - cases of models that read whole texts: embedders and rerankers.
 *
 * Such a case has the ids of several texts ("input_ids_0" ...), which the reference ran one at a time, and of each
 * what came out: a vector, a score, some rows of the body. Here all texts run in one step and each by itself; the
 * bits must be equal. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/parity.h"
#include "pipeline/embed.h"
#include "pipeline/rerank.h"

enum { MAX_TEXTS = 64 };

/* A case while it is judged. */
typedef struct whole {
    const qn_parity_case *c;
    qn_model *model;
    qn_texts texts;
    double bound;
    double cosine; /* smallest between a vector and its golden; 1 before any */
    qn_parity_result *r;
} whole;

static const qn_st_tensor *numbered(const qn_st *st, const char *name, size_t i)
{
    char full[64];
    snprintf(full, sizeof full, "%s_%zu", name, i);
    return qn_st_find(st, full);
}

/* Small integers of either width; NULL when they are none. The caller's (qn_free). */
static int32_t *ints_dup(const qn_st_tensor *t, int32_t *n)
{
    if (!t || (t->layout != QN_I32 && t->layout != QN_I64))
        return NULL;
    size_t size = t->layout == QN_I64 ? 8 : 4, count = t->bytes / size;
    int32_t *v = qn_alloc_n(count + 1, sizeof *v);
    for (size_t i = 0; i < count; i++)
        memcpy(&v[i], (const char *)t->data + i * size, sizeof *v);
    *n = (int32_t)count;
    return v;
}

static bool read_texts(whole *w, const char *inputs)
{
    qn_st *st;
    qn_error err = { 0 };
    if (qn_st_open(&st, inputs, &err) != QN_OK) {
        qn_parity_say(w->r, QN_PARITY_SKIP, "no inputs: %s", err.msg);
        return false;
    }
    for (size_t i = 0; i < MAX_TEXTS; i++) {
        int32_t n, n_segments = 0;
        int32_t *id = ints_dup(numbered(st, "input_ids", i), &n);
        int32_t *segment = ints_dup(numbered(st, "token_type_ids", i), &n_segments);
        if (id)
            qn_texts_add_ids(&w->texts, id, n_segments == n ? segment : NULL, n);
        qn_free(id);
        qn_free(segment);
        if (!id)
            break;
    }
    qn_st_close(st);
    if (w->texts.n == 0)
        qn_parity_say(w->r, QN_PARITY_SKIP, "no input_ids_0");
    return w->texts.n > 0;
}

/* Compares n numbers with the golden `name` of text i, over the golden's spread (a single number: over its size,
 * or 1). False when the case has no such golden. */
static bool compare(whole *w, const char *name, size_t i, const float *x, size_t n)
{
    const qn_st_tensor *t = numbered(w->c->expected, name, i);
    if (!t)
        return false;
    if (t->layout != QN_F32 || t->bytes != n * sizeof *x) {
        qn_parity_say(w->r, QN_PARITY_FAIL, "%s_%zu has other sizes: %zu numbers here", name, i, n);
        return true;
    }
    double sum = 0, squares = 0, worst = 0;
    for (size_t k = 0; k < n; k++) {
        float want;
        memcpy(&want, (const char *)t->data + k * sizeof want, sizeof want);
        sum += want;
        squares += (double)want * want;
        double e = fabs((double)x[k] - want);
        worst = e <= worst ? worst : e; /* a NaN is the largest error there is */
    }
    double mean = sum / (double)n, spread = sqrt(fmax(squares / (double)n - mean * mean, 0));
    worst /= n > 2 ? spread : fmax(1, sqrt(squares / (double)n));
    if (!(worst <= w->r->max_err))
        w->r->max_err = isnan(worst) ? INFINITY : worst;
    w->r->compared = true;
    if (!(worst < w->bound))
        qn_parity_say(w->r, QN_PARITY_FAIL, "%s_%zu: error %.3g, the bound is %.3g", name, i, worst,
                      w->bound);
    return true;
}

static void same_bits(whole *w, size_t i, const float *together, const float *alone, size_t n)
{
    if (memcmp(together, alone, n * sizeof *alone) != 0)
        qn_parity_say(w->r, QN_PARITY_FAIL, "text %zu: other bits in company than alone", i);
}

/* ---- embeddings ---- */

static bool failed(whole *w, int rc, const qn_error *err)
{
    if (rc != QN_OK)
        qn_parity_say(w->r, QN_PARITY_FAIL, "%s", err->msg);
    return rc != QN_OK;
}

/* Cosine with the golden vector of text i. */
static void note_cosine(whole *w, size_t i, const float *x, size_t n)
{
    const qn_st_tensor *t = numbered(w->c->expected, "embedding", i);
    double xy = 0, xx = 0, yy = 0;
    if (!t || t->bytes != n * sizeof *x)
        return;
    for (size_t k = 0; k < n; k++) {
        float y;
        memcpy(&y, (const char *)t->data + k * sizeof y, sizeof y);
        xy += (double)x[k] * y;
        xx += (double)x[k] * x[k];
        yy += (double)y * y;
    }
    w->cosine = fmin(w->cosine, xy / sqrt(xx * yy));
}

/* Goldens that name a number of dimensions: "embedding_dims32_0". */
static void compare_cuts(whole *w, qn_embedder *e)
{
    qn_error err = { 0 };
    for (size_t k = 0; k < qn_st_count(w->c->expected); k++) {
        int dims = 0;
        unsigned i = 0;
        char name[64];
        if (sscanf(qn_st_at(w->c->expected, k)->name, "embedding_dims%d_%u", &dims, &i) != 2 ||
            i >= w->texts.n || dims < 1 || dims > qn_embedder_width(e))
            continue;
        snprintf(name, sizeof name, "embedding_dims%d", dims);
        float *x = qn_alloc_n((size_t)dims, sizeof *x);
        if (!failed(w, qn_embedder_run(e, &w->texts.v[i], 1, dims, x, &err), &err))
            compare(w, name, i, x, (size_t)dims);
        qn_free(x);
    }
}

static void run_embedder(whole *w)
{
    qn_error err = { 0 };
    qn_embedder *e;
    if (failed(w, qn_embedder_open(&e, w->model, &err), &err))
        return;
    size_t n = w->texts.n, width = (size_t)qn_embedder_width(e);
    float *x = qn_alloc_n((n + 1) * width, sizeof *x), *alone = x + n * width;
    int rc = qn_embedder_run(e, w->texts.v, n, 0, x, &err);
    for (size_t i = 0; i < n && !failed(w, rc, &err); i++) {
        rc = qn_embedder_run(e, &w->texts.v[i], 1, 0, alone, &err);
        same_bits(w, i, x + i * width, alone, width);
        compare(w, "embedding", i, alone, width);
        note_cosine(w, i, alone, width);
    }
    if (rc == QN_OK)
        compare_cuts(w, e);
    qn_free(x);
    qn_embedder_close(e);
}

/* The body's first and last row of each text. */
static void run_body(whole *w)
{
    qn_error err = { 0 };
    qn_encoder *e;
    if (failed(w, qn_encoder_open(&e, w->model, QN_ENCODER_HIDDEN, &err), &err))
        return;
    size_t width = (size_t)qn_encoder_width(e);
    float *ends = qn_alloc_n(2 * width, sizeof *ends);
    for (size_t i = 0; i < w->texts.n; i++) {
        const float *rows;
        const qn_passage *p = &w->texts.v[i];
        if (failed(w, qn_encoder_step(e, p, 1, &rows, &err), &err))
            break;
        memcpy(ends, rows, width * sizeof *ends);
        memcpy(ends + width, rows + (size_t)(p->n - 1) * width, width * sizeof *ends);
        compare(w, "hidden_first_last", i, ends, 2 * width);
    }
    qn_free(ends);
    qn_encoder_close(e);
}

/* ---- scores ---- */

static void run_reranker(whole *w)
{
    qn_error err = { 0 };
    qn_reranker *k;
    if (failed(w, qn_reranker_open(&k, w->model, &err), &err))
        return;
    if (w->c->token_yes >= 0)
        qn_reranker_set_words(k, w->c->token_no, w->c->token_yes);
    size_t n = w->texts.n, each = qn_reranker_is_judge(k) ? 2 : 1;
    float *score = qn_alloc_n(n + 1, sizeof *score), *raw = qn_alloc_n((n + 1) * each, sizeof *raw);
    int rc = qn_reranker_run(k, w->texts.v, n, score, raw, &err);
    for (size_t i = 0; i < n && !failed(w, rc, &err); i++) {
        rc = qn_reranker_run(k, &w->texts.v[i], 1, score + n, raw + n * each, &err);
        same_bits(w, i, raw + i * each, raw + n * each, each);
        compare(w, "score", i, score + i, 1);
        compare(w, each == 2 ? "logits_no_yes" : "logits", i, raw + i * each, each);
    }
    qn_free(score);
    qn_free(raw);
    qn_reranker_close(k);
}

void qn_parity_whole(const qn_parity_case *c, qn_model *m, bool exact, qn_parity_result *r)
{
    whole w = { .c = c,
                .model = m,
                .bound = fmax(exact ? 1e-3 : 5e-2, exact ? 0 : 2 * c->bf16_over_std),
                .cosine = 1,
                .r = r };
    if (read_texts(&w, c->inputs)) {
        if (numbered(c->expected, "embedding", 0))
            run_embedder(&w);
        else
            run_reranker(&w);
        if (numbered(c->expected, "hidden_first_last", 0))
            run_body(&w);
        if (numbered(c->expected, "embedding", 0))
            r->cosine = w.cosine;
    }
    qn_texts_free(&w.texts);
}
