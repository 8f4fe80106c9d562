/* parity_case.c - opens a case: reads the prompt and the goldens, and turns the formula into a checkpoint. */
#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/parity.h"
#include "formats/formula.h"

void qn_parity_say(qn_parity_result *r, qn_parity_verdict v, const char *fmt, ...)
{
    if (r->verdict != QN_PARITY_PASS)
        return;
    r->verdict = v;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, ap);
    va_end(ap);
}

/* "llama/a" of ".../llama/a/", "gguf/llama_q8_0" of a file. */
static void name_case(qn_parity_case *c, const char *path)
{
    size_t n = strlen(path), start;
    while (n > 1 && path[n - 1] == '/')
        n--;
    if (n > 5 && memcmp(path + n - 5, ".gguf", 5) == 0)
        n -= 5;
    start = n;
    for (int slashes = 0; start > 0; start--)
        if (path[start - 1] == '/' && ++slashes == 2)
            break;
    snprintf(c->name, sizeof c->name, "%.*s", (int)(n - start), path + start);
}

static qn_ints ints_of(qn_arena *a, const qn_json *list)
{
    qn_ints out = { 0 };
    if (!qn_json_is(list, QN_JSON_ARRAY))
        return out;
    out.v = qn_arena_alloc_n(a, list->n + 1, sizeof *out.v);
    for (uint32_t i = 0; i < list->n; i++) {
        if (!qn_json_is_number(&list->items[i]))
            return (qn_ints){ 0 };
        out.v[out.n++] = (int32_t)qn_json_int(&list->items[i], -1);
    }
    return out;
}

/* What make_checkpoint made: files, and one level of folders (modules). */
static void remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    qn_arena a = { 0 };
    for (struct dirent *e; d && (e = readdir(d));) {
        const char *path = qn_path_join(&a, dir, e->d_name);
        if (e->d_name[0] != '.' && unlink(path) != 0 && qn_is_dir(path))
            remove_folder(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
    qn_arena_free(&a);
}

/* Writes the case's weights into a folder of their own, beside its config. */
static bool make_checkpoint(qn_parity_case *c, const char *path, qn_parity_result *r)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = qn_arena_printf(&c->arena, "%s/quern-parity-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        qn_parity_say(r, QN_PARITY_FAIL, "%s: no temporary folder", dir);
        return false;
    }
    c->model = dir;
    c->made_model = true;
    qn_error err = { 0 };
    if (qn_formula_write_checkpoint(path, dir, &err) == QN_OK)
        return true;
    qn_parity_say(r, QN_PARITY_FAIL, "%s", err.msg);
    return false;
}

/* Cases with pictures, sounds or two texts are other programs' work. */
static bool only_ids(const char *path, qn_parity_case *c)
{
    const char *file = qn_path_join(&c->arena, path, "inputs.safetensors");
    qn_st *in = NULL;
    if (!qn_is_file(file) || qn_st_open(&in, file, NULL) != QN_OK)
        return true;
    bool only = true;
    for (size_t i = 0; i < qn_st_count(in); i++)
        only = only && strcmp(qn_st_at(in, i)->name, "input_ids") == 0;
    qn_st_close(in);
    return only;
}

static bool open_expected(qn_parity_case *c, const char *file, qn_parity_result *r)
{
    qn_error err = { 0 };
    if (qn_st_open(&c->expected, file, &err) != QN_OK) {
        qn_parity_say(r, QN_PARITY_SKIP, "no goldens: %s", err.msg);
        return false;
    }
    if (!qn_st_find(c->expected, "logits_last8")) {
        qn_parity_say(r, QN_PARITY_SKIP, "not a language model's case");
        return false;
    }
    return true;
}

/* The family must be one of ours before a checkpoint is made for it. */
static bool is_known(qn_parity_case *c, const char *path, qn_parity_result *r)
{
    qn_error err = { 0 };
    const qn_json *j =
        qn_json_parse_file(&c->arena, qn_path_join(&c->arena, path, "config.json"), &err);
    const qn_json *text = qn_json_get(j, "text_config");
    const char *type = qn_json_str(qn_json_get(j, "model_type"), "");
    type = qn_json_str(qn_json_get(text, "model_type"), type);
    const qn_family *f;
    if (!j || qn_family_require(&f, type, &err) != QN_OK) {
        qn_parity_say(r, QN_PARITY_SKIP, "%s", err.msg);
        return false;
    }
    static const char *const towers[] = { "vision_config", "audio_config" };
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (qn_json_is(qn_json_get(j, towers[i]), QN_JSON_OBJECT)) {
            qn_parity_say(r, QN_PARITY_SKIP, "%s: not a model of text alone", towers[i]);
            return false;
        }
    return true;
}

/* Whether vectors or scores of whole texts are what the reference computed; opens them then. */
static bool is_whole(qn_parity_case *c, const char *path)
{
    const char *file = qn_path_join(&c->arena, path, "expected.safetensors");
    qn_st *st = NULL;
    if (!qn_is_file(file) || qn_st_open(&st, file, NULL) != QN_OK)
        return false;
    c->whole = qn_st_find(st, "embedding_0") || qn_st_find(st, "score_0");
    if (!c->whole) {
        qn_st_close(st);
        return false;
    }
    c->expected = st;
    c->inputs = qn_path_join(&c->arena, path, "inputs.safetensors");
    return true;
}

static bool open_folder(qn_parity_case *c, const char *path, qn_parity_result *r)
{
    qn_error err = { 0 };
    const qn_json *j =
        qn_json_parse_file(&c->arena, qn_path_join(&c->arena, path, "case.json"), &err);
    if (!j) {
        qn_parity_say(r, QN_PARITY_SKIP, "%s", err.msg);
        return false;
    }
    c->prompt = ints_of(&c->arena, qn_json_get(j, "prompt"));
    c->greedy = ints_of(&c->arena, qn_json_get(j, "greedy"));
    c->margins = qn_json_get(j, "margins");
    c->logits_std = qn_json_num(qn_json_get(j, "logits_std"), 0);
    c->token_no = (int32_t)qn_json_int(qn_json_get(j, "token_no"), -1);
    c->token_yes = (int32_t)qn_json_int(qn_json_get(j, "token_yes"), -1);
    c->bf16_over_std = qn_json_num(qn_json_get(j, "bf16_over_std"), 0);
    if (!is_known(c, path, r))
        return false;
    if (is_whole(c, path))
        return make_checkpoint(c, path, r);
    if (c->prompt.n == 0 || !only_ids(path, c)) {
        qn_parity_say(r, QN_PARITY_SKIP, "not a case of text alone");
        return false;
    }
    return open_expected(c, qn_path_join(&c->arena, path, "expected.safetensors"), r) &&
           make_checkpoint(c, path, r);
}

/* Standard deviation and spread of the golden logits, which GGUF cases do not say. */
static void measure(qn_parity_case *c, const qn_st_tensor *t)
{
    size_t n = t->bytes / sizeof(float);
    double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, (const char *)t->data + i * sizeof x, sizeof x);
        sum += x;
        squares += (double)x * x;
        low = fmin(low, x);
        high = fmax(high, x);
    }
    double mean = n ? sum / (double)n : 0;
    c->logits_std = n ? sqrt(fmax(squares / (double)n - mean * mean, 0)) : 0;
    c->logits_spread = n ? high - low : 0;
}

/* X.gguf has X.expected.safetensors beside it, and the rest in gguf_cases.json. */
static bool open_gguf(qn_parity_case *c, const char *path, qn_parity_result *r)
{
    char *stem = qn_arena_strndup(&c->arena, path, strlen(path) - strlen(".gguf"));
    if (!open_expected(c, qn_arena_printf(&c->arena, "%s.expected.safetensors", stem), r))
        return false;
    const char *base = qn_path_base(stem);
    char *dir = qn_arena_strndup(&c->arena, stem, (size_t)(base - stem));
    const qn_json *j =
        qn_json_parse_file(&c->arena, qn_arena_printf(&c->arena, "%sgguf_cases.json", dir), NULL);
    j = qn_json_get(j, base);
    c->greedy = ints_of(&c->arena, qn_json_get(j, "greedy"));
    c->margins = qn_json_get(j, "margins");
    measure(c, qn_st_find(c->expected, "logits_last8"));
    c->model = path;
    c->is_gguf = true;
    const qn_st_tensor *ids = qn_st_find(c->expected, "input_ids");
    if (!ids || (ids->layout != QN_I64 && ids->layout != QN_I32)) {
        qn_parity_say(r, QN_PARITY_SKIP, "no input_ids");
        return false;
    }
    size_t size = ids->layout == QN_I64 ? 8 : 4, n = ids->bytes / size;
    c->prompt.v = qn_arena_alloc_n(&c->arena, n + 1, sizeof *c->prompt.v);
    for (size_t i = 0; i < n; i++) /* small and not negative: the low half is the number */
        memcpy(&c->prompt.v[i], (const char *)ids->data + i * size, sizeof *c->prompt.v);
    c->prompt.n = (int32_t)n;
    return true;
}

bool qn_parity_open(qn_parity_case *c, const char *path, qn_parity_result *r)
{
    *c = (qn_parity_case){ 0 };
    name_case(c, path);
    if (!qn_is_dir(path) && !qn_is_file(path)) {
        qn_parity_say(r, QN_PARITY_FAIL, "%s: no such case", path);
        return false;
    }
    return qn_ends_with(path, ".gguf") ? open_gguf(c, path, r) : open_folder(c, path, r);
}

void qn_parity_close(qn_parity_case *c)
{
    if (c->made_model)
        remove_folder(c->model);
    qn_st_close(c->expected);
    qn_arena_free(&c->arena);
}
