/* case_model.h - models made of the cases in tests/golden/cases, as they are or with their files edited. */
#ifndef QN_TESTS_CASE_MODEL_H
#define QN_TESTS_CASE_MODEL_H

#include <stdio.h>
#include <string.h>

#include "engine/runner.h"
#include "formats/formula.h"
#include "unit/formats_scratch.h"

/* The first `from` in a file becomes `to`; a list ends with a NULL `from`. */
typedef struct edit {
    const char *file, *from, *to;
} edit;

static inline char *read_text(qn_arena *a, const char *path)
{
    qn_map m = { 0 };
    if (qn_map_open(&m, path, NULL) != QN_OK)
        abort();
    char *text = qn_arena_strndup(a, m.data, m.size);
    qn_map_close(&m);
    return text;
}

static inline const char *case_path(qn_arena *a, const char *name)
{
    return qn_path_join(a, QUERN_SOURCE "/tests/golden/cases", name);
}

/* Makes dir/model of a case; an edit whose `from` is not there is the test's own mistake. */
static inline const char *make_model(qn_arena *a, const char *dir, const char *name,
                                     const edit *edits)
{
    static const char *const files[] = { "config.json", "tensors.json" };
    for (size_t f = 0; f < 2; f++) {
        const char *text = read_text(a, qn_path_join(a, case_path(a, name), files[f]));
        for (const edit *e = edits; e && e->from; e++) {
            if (strcmp(e->file, files[f]) != 0)
                continue;
            const char *at = strstr(text, e->from);
            if (!at)
                abort();
            text =
                qn_arena_printf(a, "%.*s%s%s", (int)(at - text), text, e->to, at + strlen(e->from));
        }
        scratch_write(qn_path_join(a, dir, "case"), files[f], text, strlen(text));
    }
    char *out = qn_path_join(a, dir, "model");
    if (qn_formula_write_checkpoint(qn_path_join(a, dir, "case"), out, NULL) != QN_OK)
        abort();
    return out;
}

static inline int load_exact(qn_model **m, const char *path, qn_error *err)
{
    *err = (qn_error){ 0 };
    return qn_model_load(m, path,
                         &(qn_load_options){ .backend = { .n_threads = 1, .exact = true } }, err);
}

/* Logits after each of n tokens: [n][vocab], the caller's. */
static inline float *run_tokens(qn_model *m, const int32_t *token, int32_t n)
{
    qn_runner *r;
    qn_kv_options opt = { .context = n, .max_seqs = 1, .chunk = n, .exact = true };
    const float *logits = NULL;
    if (qn_runner_open(&r, m, &opt, NULL) != QN_OK)
        abort();
    qn_kv_seq seq = { .cache = qn_runner_cache(r) };
    qn_rows rows = { .seq = &seq, .token = token, .n_tok = n, .rope_len = n };
    if (qn_runner_step(r, &rows, 1, &logits, NULL) != QN_OK)
        abort();
    size_t count = (size_t)n * (size_t)qn_runner_vocab(r);
    float *out = qn_alloc_n(count, sizeof *out);
    memcpy(out, logits, count * sizeof *out);
    qn_kv_release(&seq);
    qn_runner_close(r);
    return out;
}

#endif
