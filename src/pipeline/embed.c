/* embed.c - embeddings: prompt, tokens, the model, pooling and what follows it, as the checkpoint's files say. */
#include "pipeline/embed.h"

#include <string.h>

#include "base/utf8.h"
#include "pipeline/modules.h"
#include "tokenizer/unicode.h"

struct qn_embedder {
    qn_model *model;
    qn_encoder *encoder;
    qn_modules modules;
    int32_t limit; /* tokens of a text */
};

int qn_embedder_open(qn_embedder **out, qn_model *m, qn_error *err)
{
    *out = NULL;
    qn_embedder *e = qn_alloc(sizeof *e);
    e->model = m;
    int rc = qn_encoder_open(&e->encoder, m, QN_ENCODER_HIDDEN, err);
    if (rc == QN_OK)
        rc = qn_modules_read(&e->modules, m->path, qn_encoder_width(e->encoder), err);
    if (rc != QN_OK) {
        qn_embedder_close(e);
        return rc;
    }
    e->limit = qn_encoder_limit(e->encoder);
    if (e->modules.max_tokens && e->modules.max_tokens < e->limit)
        e->limit = e->modules.max_tokens;
    *out = e;
    return QN_OK;
}

void qn_embedder_close(qn_embedder *e)
{
    if (!e)
        return;
    qn_encoder_close(e->encoder);
    qn_modules_free(&e->modules);
    qn_free(e);
}

static int32_t full_width(const qn_embedder *e)
{
    return qn_modules_width(&e->modules, qn_encoder_width(e->encoder));
}

int qn_embedder_width(const qn_embedder *e)
{
    int32_t width = full_width(e);
    return e->modules.dims && e->modules.dims < width ? e->modules.dims : width;
}

/* ---- rows to vectors ---- */

/* The first dims numbers at unit length. Families trained for it take the mean off before: that is their norm, whose
 * scale a unit length forgets. */
static void cut(const qn_embedder *e, float *x, int32_t width, int32_t dims)
{
    double mean = 0;
    for (int32_t i = 0; i < width; i++)
        mean += x[i];
    mean /= width;
    for (int32_t i = 0; i < dims && e->model->family->norm_before_cut; i++)
        x[i] = (float)(x[i] - mean);
    qn_unit_length(x, dims);
}

/* space: two vectors of the widest stage. */
static void finish(const qn_embedder *e, const float *rows, const qn_passage *p, int32_t dims,
                   float *space[2], float *out)
{
    const qn_modules *m = &e->modules;
    qn_modules_pool(m, rows, p, qn_encoder_width(e->encoder), space[0]);
    int at = 0;
    for (int32_t i = 0; i < m->n_stages; i++, at = !at)
        qn_stage_run(&m->stage[i], space[at], space[!at], m->stage[i].n_out);
    int32_t width = full_width(e);
    if (dims < width)
        cut(e, space[at], width, dims);
    memcpy(out, space[at], (size_t)dims * sizeof *out);
}

static int32_t widest(const qn_embedder *e)
{
    int32_t most = qn_modules_pooled_width(&e->modules, qn_encoder_width(e->encoder));
    for (int32_t i = 0; i < e->modules.n_stages; i++)
        if (e->modules.stage[i].n_out > most)
            most = e->modules.stage[i].n_out;
    return most;
}

int qn_embedder_run(qn_embedder *e, const qn_passage *p, size_t n, int32_t dims, float *out,
                    qn_error *err)
{
    if (dims == 0)
        dims = full_width(e);
    if (dims < 0 || dims > full_width(e))
        return qn_fail(err, QN_ERR_ARGUMENT, "an embedding has 1 to %d dimensions here, not %d",
                       full_width(e), dims);
    float *memory = qn_alloc_n(2 * (size_t)widest(e), sizeof *memory);
    float *space[2] = { memory, memory + widest(e) };
    int rc = QN_OK;
    for (size_t i = 0; i < n && rc == QN_OK;) {
        size_t group = qn_texts_group(p, n, i);
        const float *rows;
        rc = qn_encoder_step(e->encoder, p + i, (int32_t)group, &rows, err);
        for (size_t end = i + group; i < end && rc == QN_OK; i++) {
            finish(e, rows, &p[i], dims, space, out + i * (size_t)dims);
            rows += (int64_t)p[i].n * qn_encoder_width(e->encoder);
        }
    }
    qn_free(memory);
    return rc;
}

/* ---- texts ---- */

static void list_prompts(const qn_json *prompts, qn_buf *out)
{
    for (uint32_t i = 0; prompts && i < prompts->n; i++)
        qn_buf_printf(out, "%s%s", i ? ", " : "", prompts->items[i].key);
}

char *qn_embedder_prompts_dup(const qn_embedder *e)
{
    qn_buf b = { 0 };
    qn_buf_str(&b, "");
    if (e->modules.prompts)
        qn_json_put(&b, e->modules.prompts);
    else
        qn_buf_str(&b, "{}");
    return b.data;
}

/* The text of the prompt called `name`, or of the default; "" for none. NULL with err filled for an unknown one. */
static const char *find_prompt(const qn_embedder *e, const char *name, qn_error *err)
{
    const qn_modules *m = &e->modules;
    if (!name && !m->default_prompt)
        return "";
    const char *text = qn_json_str(qn_json_get(m->prompts, name ? name : m->default_prompt), NULL);
    if (text)
        return text;
    qn_buf known = { 0 };
    list_prompts(m->prompts, &known);
    qn_fail(err, QN_ERR_NOT_FOUND, "%s: there is no prompt \"%s\"; there are: %.300s",
            e->model->path, name ? name : m->default_prompt,
            known.len ? qn_buf_cstr(&known) : "none");
    qn_buf_free(&known);
    return NULL;
}

/* Appends s in lower case, character by character. */
static void add_lower(qn_buf *b, const char *s)
{
    size_t n = strlen(s);
    for (size_t at = 0; at < n;) {
        uint32_t cp;
        int len = qn_utf8_decode(s + at, n - at, &cp);
        char c[4];
        if (len <= 0)
            break;
        qn_buf_add(b, c, (size_t)qn_utf8_encode(qn_uni_to_lower(cp), c));
        at += (size_t)len;
    }
}

/* How many tokens the prompt has by itself, without the end that the frame gives it. */
static int prompt_tokens(const qn_embedder *e, const char *prompt, int32_t *n, qn_error *err)
{
    *n = 0;
    if (e->modules.include_prompt || !*prompt)
        return QN_OK;
    qn_texts t = { 0 };
    int rc = qn_texts_add(&t, e->model->tokenizer, prompt, e->limit, err);
    if (rc == QN_OK) {
        *n = t.v[0].n;
        if (qn_tokenizer_kind(e->model->tokenizer, t.v[0].id[*n - 1]) == QN_TOKEN_CONTROL)
            --*n;
    }
    qn_texts_free(&t);
    return rc;
}

static int add_texts(const qn_embedder *e, qn_texts *t, const char *const *text, size_t n,
                     const char *prompt, qn_error *err)
{
    qn_buf b = { 0 };
    int rc = QN_OK;
    for (size_t i = 0; i < n && rc == QN_OK; i++) {
        qn_buf_clear(&b);
        qn_buf_str(&b, prompt);
        qn_buf_str(&b, text[i]);
        if (e->modules.lowercase) {
            qn_buf lower = { 0 };
            add_lower(&lower, qn_buf_cstr(&b));
            qn_buf_free(&b);
            b = lower;
        }
        rc = qn_texts_add(t, e->model->tokenizer, qn_buf_cstr(&b), e->limit, err);
    }
    qn_buf_free(&b);
    return rc;
}

int qn_embed_texts(qn_embedder *e, const char *const *text, size_t n, const qn_embed_options *opt,
                   float *out, qn_error *err)
{
    static const qn_embed_options defaults;
    opt = opt ? opt : &defaults;
    if (!e->model->tokenizer)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s has no tokenizer", e->model->path);
    const char *prompt = find_prompt(e, opt->prompt, err);
    if (!prompt)
        return QN_ERR_NOT_FOUND;
    int32_t n_prompt;
    int rc = prompt_tokens(e, prompt, &n_prompt, err);
    qn_texts t = { 0 };
    if (rc == QN_OK)
        rc = add_texts(e, &t, text, n, prompt, err);
    for (size_t i = 0; i < t.n; i++)
        t.v[i].n_prompt = n_prompt;
    if (rc == QN_OK)
        rc = qn_embedder_run(e, t.v, n, opt->dims ? opt->dims : qn_embedder_width(e), out, err);
    qn_texts_free(&t);
    return rc;
}
