/* test_real_embed.c - a real embedding model, all-MiniLM-L6-v2, from text to vector against the reference's vectors.
 *
 * The model is not in the repository: it is looked for where QUERN_TEST_MINILM points, or as "minilm" in the store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "quern.h"

#define GOLDEN QUERN_KIT "/real/minilm-l6-v2"

enum { MAX_SENTENCES = 16 };

static char *model_path;

typedef struct goldens {
    qn_arena arena;
    const qn_json *sentences;
    const char *text[MAX_SENTENCES];
    size_t n;
    qn_st *vectors; /* "embedding_0" ... */
} goldens;

static void open_goldens(goldens *g)
{
    qn_error err = { 0 };
    *g = (goldens){ 0 };
    const qn_json *j = qn_json_parse_file(&g->arena, GOLDEN "/golden.json", &err);
    assert_non_null(j);
    g->sentences = qn_json_get(j, "sentences");
    assert_int_equal(qn_st_open(&g->vectors, GOLDEN "/expected.safetensors", &err), QN_OK);
    for (; g->n < g->sentences->n && g->n < MAX_SENTENCES; g->n++)
        g->text[g->n] = qn_json_str(qn_json_get(&g->sentences->items[g->n], "text"), "");
    assert_true(g->n >= 3);
}

static void close_goldens(goldens *g)
{
    qn_st_close(g->vectors);
    qn_arena_free(&g->arena);
}

static double cosine(const float *a, const float *b, int n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

/* The golden vector of sentence i: one row of a matrix, or a tensor of its own. */
static void golden_vector(const goldens *g, size_t i, int width, float *out)
{
    const qn_st_tensor *t = qn_st_at(g->vectors, 0);
    size_t row = (size_t)width * sizeof *out, at = i * row;
    if (qn_st_count(g->vectors) > 1) {
        char name[32];
        snprintf(name, sizeof name, "embedding_%zu", i);
        t = qn_st_find(g->vectors, name);
        at = 0;
    }
    assert_non_null(t);
    assert_true(t->bytes >= at + row);
    memcpy(out, (const char *)t->data + at, row);
}

static void check_mode(const goldens *g, qn_compute compute)
{
    qn_error err = { 0 };
    qn_model *m;
    qn_embedder *e = NULL;
    const qn_model_options opt = { .n_threads = 2, .compute = compute };
    if (qn_model_open(&m, model_path, &opt, &err) != QN_OK ||
        qn_embedder_open(&e, m, &err) != QN_OK)
        fail_msg("%s", err.msg);
    int width = qn_embedder_width(e);
    size_t row = (size_t)width * sizeof(float);
    float *x = qn_alloc_n(g->n + 2, row), *alone = x + g->n * (size_t)width, *want = alone + width;
    if (qn_embed_texts(e, g->text, g->n, NULL, x, &err) != QN_OK)
        fail_msg("%s", err.msg);
    double least = 1;
    for (size_t i = 0; i < g->n; i++) {
        golden_vector(g, i, width, want);
        least = fmin(least, cosine(x + i * (size_t)width, want, width));
        assert_int_equal(qn_embed_texts(e, &g->text[i], 1, NULL, alone, &err), QN_OK);
        assert_memory_equal(alone, x + i * (size_t)width, row);
    }
    printf("cosine with the reference, least of %zu: %.8f\n", g->n, least);
    assert_true(least > 0.9999);
    qn_free(x);
    qn_embedder_close(e);
    qn_model_close(m);
}

static void test_vectors(void **state)
{
    (void)state;
    goldens g;
    open_goldens(&g);
    check_mode(&g, QN_COMPUTE_F32);
    check_mode(&g, QN_COMPUTE_DEFAULT);
    close_goldens(&g);
}

/* The ids, special tokens among them, are the reference's. */
static void test_ids(void **state)
{
    (void)state;
    goldens g;
    qn_error err = { 0 };
    qn_tokenizer *t;
    open_goldens(&g);
    assert_int_equal(qn_tokenizer_load(&t, model_path, &err), QN_OK);
    for (size_t i = 0; i < g.n; i++) {
        const qn_json *want = qn_json_get(&g.sentences->items[i], "ids");
        size_t n;
        int32_t *ids =
            qn_tokenizer_ids_dup(t, g.text[i], strlen(g.text[i]), QN_TOKENIZE_SPECIAL, &n, &err);
        assert_int_equal(n, want->n);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(ids[k], qn_json_int(&want->items[k], -1));
        qn_free(ids);
    }
    qn_tokenizer_close(t);
    close_goldens(&g);
}

int main(void)
{
    const char *set = getenv("QUERN_TEST_MINILM");
    model_path = set ? qn_strdup(set) : qn_store_find_dup("minilm", NULL);
    if (!model_path || !qn_is_dir(model_path) || !qn_is_file(GOLDEN "/golden.json")) {
        puts("skipped: no MiniLM model or no kit");
        return 77;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ids),
                                        cmocka_unit_test(test_vectors) };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    qn_free(model_path);
    return rc;
}
