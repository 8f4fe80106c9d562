/* test_embed.c - embedding and reranking around the model: what the checkpoint's side files say, pooling worked out by
 * hand, texts cut to length, and what is refused. The vectors themselves are held against the reference by the
 * parity runner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "families/case_model.h"
#include "pipeline/embed.h"
#include "pipeline/modules.h"
#include "pipeline/rerank.h"

static const char *scratch;

static void put(const char *name, const char *text)
{
    scratch_write(scratch, name, text, strlen(text));
}

/* Reads the modules of scratch/name, whose rows are 4 wide; "" or the message. */
static const char *read_modules(qn_modules *m, const char *name)
{
    static qn_error err;
    qn_arena a = { 0 };
    err = (qn_error){ 0 };
    int rc = qn_modules_read(m, qn_path_join(&a, scratch, name), 4, &err);
    qn_arena_free(&a);
    return rc == QN_OK ? "" : err.msg;
}

#define TRANSFORMER "{\"type\": \"sentence_transformers.models.Transformer\", \"path\": \"\"}"
#define MODULE(kind, path)                                                                         \
    "{\"type\": \"sentence_transformers.models." kind "\", \"path\": \"" path "\"}"

/* ---- pooling ---- */

static void expect_pooled(unsigned pooling, int32_t n_prompt, bool include, const float *want)
{
    static const float rows[3][2] = { { 1, -2 }, { 3, 4 }, { 8, 1 } };
    const qn_modules m = { .pooling = pooling, .include_prompt = include };
    const qn_passage p = { .n = 3, .n_prompt = n_prompt };
    int32_t width = qn_modules_pooled_width(&m, 2);
    float out[12];
    qn_modules_pool(&m, rows[0], &p, 2, out);
    for (int i = 0; i < width; i++)
        assert_float_equal(out[i], want[i], 1e-6);
}

static void test_pooling(void **state)
{
    (void)state;
    expect_pooled(QN_POOL_CLS, 0, true, (float[]){ 1, -2 });
    expect_pooled(QN_POOL_LAST, 0, true, (float[]){ 8, 1 });
    expect_pooled(QN_POOL_MAX, 0, true, (float[]){ 8, 4 });
    expect_pooled(QN_POOL_MEAN, 0, true, (float[]){ 4, 1 });
    expect_pooled(QN_POOL_MEAN_SQRT, 0, true, (float[]){ 12 / sqrtf(3), 3 / sqrtf(3) });
    expect_pooled(QN_POOL_WEIGHTED, 0, true, (float[]){ 31.0F / 6, 9.0F / 6 });
    expect_pooled(QN_POOL_CLS | QN_POOL_MEAN | QN_POOL_LAST, 0, true,
                  (float[]){ 1, -2, 4, 1, 8, 1 });
    /* A prompt's rows are left out only where the file says so, and never all of them. */
    expect_pooled(QN_POOL_MEAN, 1, true, (float[]){ 4, 1 });
    expect_pooled(QN_POOL_MEAN, 1, false, (float[]){ 5.5F, 2.5F });
    expect_pooled(QN_POOL_MAX, 2, false, (float[]){ 8, 1 });
    expect_pooled(QN_POOL_MEAN, 9, false, (float[]){ 8, 1 });
}

static void test_stages(void **state)
{
    (void)state;
    float w[] = { 1, 2, 0, -1 }, bias[] = { 0, 5 }, ones[] = { 1, 1 };
    const float x[] = { 3, 4 };
    float y[2];
    qn_stage dense = { .kind = QN_STAGE_DENSE, .n_in = 2, .n_out = 2, .w = w, .bias = bias };
    qn_stage_run(&dense, x, y, 2);
    assert_float_equal(y[0], 11, 1e-6);
    assert_float_equal(y[1], 1, 1e-6);
    dense.act = QN_ACT_TANH;
    qn_stage_run(&dense, x, y, 2);
    assert_float_equal(y[1], tanhf(1), 1e-6);
    qn_stage_run(&(qn_stage){ .kind = QN_STAGE_NORMALIZE }, x, y, 2);
    assert_float_equal(y[0], 0.6F, 1e-6);
    qn_stage_run(&(qn_stage){ .kind = QN_STAGE_LAYER_NORM, .w = ones }, x, y, 2);
    assert_float_equal(y[1], 1, 1e-4);
    float zero[] = { 0, 0 };
    qn_unit_length(zero, 2);
    assert_float_equal(zero[0], 0, 0);
}

/* ---- side files ---- */

static void test_no_files_mean_the_mean(void **state)
{
    (void)state;
    qn_modules m;
    put("bare/config.json", "{}");
    assert_string_equal(read_modules(&m, "bare"), "");
    assert_int_equal(m.pooling, QN_POOL_MEAN);
    assert_int_equal(m.n_stages, 0);
    qn_modules_free(&m);
}

static void test_both_spellings_of_pooling(void **state)
{
    (void)state;
    qn_modules m;
    put("p/modules.json",
        "[" TRANSFORMER "," MODULE("Pooling", "1_P") "," MODULE("Normalize", "2") "]");
    put("p/1_P/config.json",
        "{\"pooling_mode_cls_token\": true, \"pooling_mode_max_tokens\": true, "
        "\"include_prompt\": false}");
    put("p/sentence_bert_config.json", "{\"max_seq_length\": 77, \"do_lower_case\": true}");
    put("p/config_sentence_transformers.json",
        "{\"prompts\": {\"q\": \"find: \"}, \"default_prompt_name\": \"q\", \"truncate_dim\": 3}");
    assert_string_equal(read_modules(&m, "p"), "");
    assert_int_equal(m.pooling, QN_POOL_CLS | QN_POOL_MAX);
    assert_int_equal(qn_modules_width(&m, 4), 8);
    assert_false(m.include_prompt);
    assert_true(m.lowercase);
    assert_int_equal(m.max_tokens, 77);
    assert_int_equal(m.dims, 3);
    assert_string_equal(m.default_prompt, "q");
    qn_modules_free(&m);
    put("p/1_P/config.json", "{\"pooling_mode\": [\"mean\", \"lasttoken\"]}");
    assert_string_equal(read_modules(&m, "p"), "");
    assert_int_equal(m.pooling, QN_POOL_MEAN | QN_POOL_LAST);
    assert_true(m.include_prompt);
    qn_modules_free(&m);
}

/* Each broken pooling config or list of modules, and a part of the line it gives. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *modules, *pooling, *says;
    } bad[] = {
        { "{}", "{}", "no list of modules" },
        { "[" TRANSFORMER "]", "{}", "nothing is pooled" },
        { "[" MODULE("CNN", "") "]", "{}", "CNN" },
        { "[" TRANSFORMER "," MODULE("Pooling", "../1_P") "]", "{}", "leaves the folder" },
        { "[" TRANSFORMER "," MODULE("Pooling", "1_P") "]", "{\"pooling_mode\": \"sum\"}", "sum" },
        { "[" TRANSFORMER "," MODULE("Pooling", "1_P") "]", "{}", "no way of pooling" },
        { "[" TRANSFORMER "," MODULE("Pooling", "1_P") "]",
          "{\"pooling_mode\": \"cls\", \"word_embedding_dimension\": 5}", "width 4" },
        { "[" TRANSFORMER "," MODULE("Pooling", "1_P") "]", "{", "1_P/config.json" },
        { "[" TRANSFORMER "," MODULE("Normalize", "1_P") "]", "{}", "Normalize" },
        { "[" TRANSFORMER "," MODULE("Pooling", "1_P") "," MODULE("Dense", "1_P") "]",
          "{\"pooling_mode\": \"cls\"}", "safetensors" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_modules m;
        put("bad/modules.json", bad[i].modules);
        put("bad/1_P/config.json", bad[i].pooling);
        const char *msg = read_modules(&m, "bad");
        if (!strstr(msg, bad[i].says))
            fail_msg("%zu: \"%s\" does not say \"%s\"", i, msg, bad[i].says);
    }
}

/* ---- texts ---- */

static const char words[] =
    "{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"x\",8],\"sep\":[\"y\",9]},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1,\"b\":2,\"c\":3},\"merges\":[]}}";

static void expect_ids(const qn_passage *p, const char *want)
{
    qn_buf got = { 0 };
    for (int32_t i = 0; i < p->n; i++)
        qn_buf_printf(&got, "%d", p->id[i]);
    assert_string_equal(qn_buf_cstr(&got), want);
    qn_buf_free(&got);
}

/* What is too long loses its end, and keeps what the tokenizer puts round it. */
static void test_texts_are_cut_inside_their_frame(void **state)
{
    (void)state;
    qn_error err = { 0 };
    qn_tokenizer *t;
    qn_texts texts = { 0 };
    assert_int_equal(qn_tokenizer_open_json(&t, words, strlen(words), &err), QN_OK);
    assert_int_equal(qn_texts_add(&texts, t, "abc", 9, &err), QN_OK);
    assert_int_equal(qn_texts_add(&texts, t, "abcabc", 4, &err), QN_OK);
    assert_int_equal(qn_texts_add_pair(&texts, t, "aaaa", "bbbbbb", 9, &err), QN_OK);
    assert_int_equal(qn_texts_add_pair(&texts, t, "a", "bbbbbb", 9, &err), QN_OK);
    assert_int_equal(qn_texts_add_pair(&texts, t, "aaaaaa", "b", 9, &err), QN_OK);
    assert_int_equal(qn_texts_add(&texts, t, "a", 2, &err), QN_ERR_LIMIT);
    assert_int_equal(texts.n, 5);
    expect_ids(&texts.v[0], "81239");
    expect_ids(&texts.v[1], "8129");
    expect_ids(&texts.v[2], "811192229");
    expect_ids(&texts.v[3], "819222229");
    expect_ids(&texts.v[4], "811111929");
    assert_int_equal(texts.v[3].segment[2], 0);
    assert_int_equal(texts.v[3].segment[3], 1);
    qn_texts_free(&texts);
    qn_tokenizer_close(t);
}

static void test_groups_hold_at_least_one(void **state)
{
    (void)state;
    const qn_passage p[] = { { .n = 5000 }, { .n = 1000 }, { .n = 1000 }, { .n = 1000 } };
    assert_int_equal(qn_texts_group(p, 4, 0), 1);
    assert_int_equal(qn_texts_group(p, 4, 1), 2);
    assert_int_equal(qn_texts_group(p, 4, 3), 1);
}

/* ---- models ---- */

static qn_model *open_case(qn_arena *a, const char *name)
{
    qn_error err;
    qn_model *m;
    if (load_exact(&m, make_model(a, qn_path_join(a, scratch, name), name, NULL), &err) != QN_OK)
        fail_msg("%s", err.msg);
    return m;
}

static void test_an_encoder_refuses_what_it_cannot_read(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_model *m = open_case(&a, "bert_embed/a");
    qn_encoder *e;
    const float *rows;
    int32_t id[65] = { 0 }, segment[65] = { 0 };
    assert_int_equal(qn_encoder_open(&e, m, QN_ENCODER_SCORE, &err), QN_ERR_UNSUPPORTED);
    assert_int_equal(qn_encoder_open(&e, m, QN_ENCODER_HIDDEN, &err), QN_OK);
    assert_int_equal(qn_encoder_limit(e), 64);
    qn_passage p = { .id = id, .segment = segment, .n = 65 };
    assert_int_equal(qn_encoder_step(e, &p, 1, &rows, &err), QN_ERR_LIMIT);
    p.n = 0;
    assert_int_equal(qn_encoder_step(e, &p, 1, &rows, &err), QN_ERR_ARGUMENT);
    p.n = 64;
    segment[63] = 2;
    assert_int_equal(qn_encoder_step(e, &p, 1, &rows, &err), QN_ERR_ARGUMENT);
    segment[63] = 1;
    id[5] = 320;
    assert_int_equal(qn_encoder_step(e, &p, 1, &rows, &err), QN_ERR_ARGUMENT);
    id[5] = 319;
    assert_int_equal(qn_encoder_step(e, &p, 1, &rows, &err), QN_OK);
    assert_int_equal(qn_encoder_step(e, &p, 0, &rows, &err), QN_OK);
    assert_null(rows);
    qn_encoder_close(e);
    qn_model_unload(m);
    qn_arena_free(&a);
}

/* Positions count from behind the padding id, so two rows of the table are never used. */
static void test_learned_positions_limit_the_length(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    qn_encoder *e;
    qn_model *m = open_case(&a, "xlm_roberta_rerank/a");
    assert_int_equal(qn_encoder_open(&e, m, QN_ENCODER_SCORE, NULL), QN_OK);
    assert_int_equal(qn_encoder_limit(e), 78);
    qn_encoder_close(e);
    qn_model_unload(m);
    qn_arena_free(&a);
}

/* A model whose rows see later ones cannot generate, though it has all a generator has. */
static void test_what_looks_ahead_does_not_generate(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_runner *r;
    const qn_kv_options opt = { .context = 8, .max_seqs = 1, .chunk = 8 };
    static const char *const cases[] = { "gemma3_embed/a", "bert_embed/a" };
    for (size_t i = 0; i < 2; i++) {
        qn_model *m = open_case(&a, cases[i]);
        assert_int_equal(qn_runner_open(&r, m, &opt, &err), QN_ERR_UNSUPPORTED);
        qn_model_unload(m);
    }
    qn_arena_free(&a);
}

static void test_jobs_refuse_other_models(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_model *m = open_case(&a, "bert_embed/a2");
    qn_reranker *r;
    qn_embedder *e;
    float x[96];
    const int32_t id[] = { 5, 6 };
    const qn_passage p = { .id = id, .n = 2 };
    assert_int_equal(qn_reranker_open(&r, m, &err), QN_ERR_UNSUPPORTED);
    assert_int_equal(qn_embedder_open(&e, m, &err), QN_OK);
    assert_int_equal(qn_embedder_width(e), 96);
    assert_int_equal(qn_embed_texts(e, &(const char *){ "text" }, 1, NULL, x, &err),
                     QN_ERR_UNSUPPORTED); /* no tokenizer */
    assert_int_equal(qn_embedder_run(e, &p, 1, 97, x, &err), QN_ERR_ARGUMENT);
    assert_int_equal(qn_embedder_run(e, &p, 1, 7, x, &err), QN_OK);
    double sum = 0;
    for (int i = 0; i < 7; i++)
        sum += (double)x[i] * x[i];
    assert_float_equal(sum, 1, 1e-6);
    qn_embedder_close(e);
    qn_model_unload(m);
    m = open_case(&a, "qwen3_rerank/a"); /* predicts, but has no words to judge with */
    assert_int_equal(qn_reranker_open(&r, m, &err), QN_OK);
    assert_true(qn_reranker_is_judge(r));
    assert_int_equal(qn_reranker_run(r, &p, 1, x, NULL, &err), QN_ERR_UNSUPPORTED);
    qn_reranker_close(r);
    qn_model_unload(m);
    qn_arena_free(&a);
}

static int open_scratch(void **state)
{
    int rc = scratch_open(state);
    scratch = *state;
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_no_files_mean_the_mean),
        cmocka_unit_test(test_both_spellings_of_pooling),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_texts_are_cut_inside_their_frame),
        cmocka_unit_test(test_groups_hold_at_least_one),
        cmocka_unit_test(test_an_encoder_refuses_what_it_cannot_read),
        cmocka_unit_test(test_learned_positions_limit_the_length),
        cmocka_unit_test(test_what_looks_ahead_does_not_generate),
        cmocka_unit_test(test_jobs_refuse_other_models),
    };
    return cmocka_run_group_tests(tests, open_scratch, scratch_close);
}
