/* test_fields.c - no field of a config is read past: every number and switch of every case's config is changed, one at
 * a time, and the model must then compute something else or refuse to load. Fields that may stay without effect
 * are listed here, with the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <fnmatch.h>

#include "engine/encoder.h"
#include "families/case_model.h"

enum { N_TOKENS = 40, MOST = 300 };

/* Changing these need not change the logits of a prompt: */
static const char *const without_effect[] = {
    /* they are about text or training, */
    "*_token_id", "*dropout*", "*pdrop*", "initializer_range", "*aux_loss*", "output_router_logits",
    "seq_aux",
    /* about how to compute and not what, or a limit, */
    "use_cache", "pretraining_tp", "ep_size", "max_position_embeddings", "num_logits_to_keep",
    "chunk_size", "residual_in_fp32", "use_mamba_kernels", "moe_shared_expert_overlap", "n_ctx",
    "n_positions", "slow_but_exact",
    /* about starting values, or heads that are not run, */
    "rescale_prenorm_residual", "time_step_floor", "time_step_max", "num_nextn_predict_layers",
    /* another key says it more exactly, or the family is made like that anyway, */
    "block_dim", "expand", "n_shared_experts", "max_window_layers", "_sliding_window_pattern",
    "sliding_window_size", "layer_switch", "initial_context_length", "experts_per_token",
    "multi_query", "parallel_attn", "rotary_pct", "use_embedding_sharing", "use_gated_activation",
    "use_parallel_*",
    /* or there are no dense layers. */
    "intermediate_size"
};

/* And where nothing predicts tokens, what is about doing that, or about a head that the checkpoint lacks. */
static const char *const without_effect_whole[] = { "tie_word_embeddings", "decoder_bias",
                                                    "classifier_bias",     "sparse_pred*",
                                                    "initializer_*",       "deterministic_*" };

static bool is_in(const char *const *list, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (fnmatch(list[i], key, 0) == 0)
            return true;
    return false;
}

static bool may_be_idle(const qn_json *config, const char *key)
{
    const qn_json *made_by = qn_json_at(qn_json_get(config, "architectures"), 0);
    bool predicts = strstr(qn_json_str(made_by, "CausalLM"), "CausalLM") != NULL;
    return is_in(without_effect, sizeof without_effect / sizeof *without_effect, key) ||
           (!predicts && is_in(without_effect_whole,
                               sizeof without_effect_whole / sizeof *without_effect_whole, key));
}

/* The config with member `at` changed: numbers grow or shrink, switches flip. */
static void put_changed(qn_buf *b, const qn_json *config, uint32_t at)
{
    for (uint32_t i = 0; i < config->n; i++) {
        qn_json v = config->items[i];
        qn_buf_str(b, i ? ", " : "{");
        qn_json_put_str(b, v.key, v.key_len);
        qn_buf_str(b, ": ");
        if (i == at && v.type == QN_JSON_BOOL)
            v.b = !v.b;
        else if (i == at && v.type == QN_JSON_INT)
            v.i = v.i > 4096 ? 7 : v.i + v.i / 2 + 1; /* a wide window must become a narrow one */
        else if (i == at)
            v.d = v.d * 1.5 + 0.125;
        qn_json_put(b, &v);
    }
    qn_buf_str(b, "}");
}

static bool can_change(const qn_json *v)
{
    return v->type == QN_JSON_BOOL || v->type == QN_JSON_INT || v->type == QN_JSON_REAL;
}

/* The last numbers of what a model computes, as many as it has up to MOST; a text that comes whole for those that
 * do not generate. */
static void compute(qn_model *m, const int32_t *token, float out[MOST])
{
    qn_error err = { 0 };
    qn_encoder *e;
    const float *rows;
    bool scores = qn_encoder_has(m, QN_ENCODER_SCORE);
    if (qn_encoder_open(&e, m, scores ? QN_ENCODER_SCORE : QN_ENCODER_HIDDEN, &err) != QN_OK)
        fail_msg("%s", err.msg);
    const qn_passage p = { .id = token, .n = N_TOKENS };
    if (qn_encoder_step(e, &p, 1, &rows, &err) != QN_OK)
        fail_msg("%s", err.msg);
    size_t n = (size_t)qn_encoder_width(e);
    rows += scores ? 0 : (N_TOKENS - 1) * n;
    memcpy(out, rows, (n < MOST ? n : MOST) * sizeof *out);
    qn_encoder_close(e);
}

/* What a model computes of some tokens, NULL when it refuses to load. */
static float *outcome(const char *path)
{
    qn_error err;
    qn_model *m;
    if (load_exact(&m, path, &err) != QN_OK)
        return NULL;
    int32_t token[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++)
        token[i] = (i * 37 + 11) % MOST;
    float *out = qn_alloc_n(MOST, sizeof *out);
    qn_runner *r = NULL;
    const qn_kv_options opt = { .context = 1, .max_seqs = 1, .chunk = 1, .exact = true };
    if (qn_runner_open(&r, m, &opt, NULL) == QN_OK) {
        float *all = run_tokens(m, token, N_TOKENS);
        memcpy(out, all + (size_t)(N_TOKENS - 1) * (size_t)m->config.n_vocab, MOST * sizeof *out);
        qn_free(all);
    } else {
        compute(m, token, out);
    }
    qn_runner_close(r);
    qn_model_unload(m);
    return out;
}

/* Returns how many fields were changed. */
static int check_case(const char *dir, const char *name)
{
    qn_arena a = { 0 };
    const char *path = make_model(&a, dir, name, NULL);
    const char *file = qn_path_join(&a, path, "config.json");
    const qn_json *config = qn_json_parse_file(&a, file, NULL);
    float *plain = outcome(path);
    assert_non_null(plain);
    int n = 0;
    for (uint32_t i = 0; i < config->n; i++) {
        const qn_json *v = &config->items[i];
        bool switched =
            qn_json_get(config, "use_sliding_window") && strstr(v->key, "sliding_window");
        if (!can_change(v) || may_be_idle(config, v->key) ||
            switched) /* a switch and layers may disagree */
            continue;
        qn_buf b = { 0 };
        put_changed(&b, config, i);
        assert_int_equal(qn_write_file(file, b.data, b.len, NULL), QN_OK);
        qn_buf_free(&b);
        float *other = outcome(path);
        if (other && memcmp(plain, other, MOST * sizeof *plain) == 0)
            fail_msg("%s: changing %s changed nothing", name, v->key);
        qn_free(other);
        n++;
    }
    qn_free(plain);
    qn_arena_free(&a);
    return n;
}

static void test_all_cases(void **state)
{
    qn_arena a = { 0 };
    int n_cases = 0, n_fields = 0;
    DIR *families = opendir(QUERN_SOURCE "/tests/golden/cases");
    assert_non_null(families);
    for (struct dirent *f; (f = readdir(families));) {
        if (f->d_name[0] == '.')
            continue;
        DIR *cases = opendir(case_path(&a, f->d_name));
        for (struct dirent *c; cases && (c = readdir(cases));) {
            if (c->d_name[0] == '.')
                continue;
            n_fields += check_case(*state, qn_path_join(&a, f->d_name, c->d_name));
            n_cases++;
        }
        if (cases)
            closedir(cases);
    }
    closedir(families);
    qn_arena_free(&a);
    printf("%d fields of %d configs\n", n_fields, n_cases);
    assert_true(n_cases >= 5 && n_fields > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_cases) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
