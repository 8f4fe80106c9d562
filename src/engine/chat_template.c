/* chat_template.c - finds the chat template of a model, without its weights, and renders requests that
 * are JSON text. The language itself is tokenizer/template.h. */
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "tokenizer/template.h"

typedef struct source {
    const char *text; /* NULL: none found */
    size_t n;
    const char *bos, *eos;
} source;

/* ---- model folders ---- */

/* A special token is its text, or an object that holds it. */
static const char *token_text(const qn_json *v)
{
    return qn_json_str(qn_json_is(v, QN_JSON_OBJECT) ? qn_json_get(v, "content") : v, NULL);
}

/* "chat_template" is one text, or a list of named ones of which "default" counts. */
static void take_template(source *s, const qn_json *v)
{
    for (size_t i = 0; qn_json_is(v, QN_JSON_ARRAY) && i < v->n; i++)
        if (qn_json_eq(qn_json_get(&v->items[i], "name"), "default")) {
            v = qn_json_get(&v->items[i], "template");
            break;
        }
    if (!qn_json_is(v, QN_JSON_STR))
        return;
    s->text = v->s;
    s->n = v->n;
}

static const qn_json *parse_in(qn_arena *a, const char *dir, const char *name, int *rc,
                               qn_error *err)
{
    const char *path = qn_path_join(a, dir, name);
    if (*rc != QN_OK || !qn_is_file(path))
        return NULL;
    const qn_json *j = qn_json_parse_file(a, path, err);
    if (!j)
        *rc = err ? err->code : QN_ERR_FORMAT;
    return j;
}

/* A file of its own wins over the tokenizer's config, as in the reference. */
static int find_in_folder(qn_arena *a, const char *dir, qn_map *file, source *s, qn_error *err)
{
    int rc = QN_OK;
    const qn_json *config = parse_in(a, dir, "tokenizer_config.json", &rc, err);
    const qn_json *map = parse_in(a, dir, "special_tokens_map.json", &rc, err);
    s->bos = token_text(qn_json_get(config, "bos_token"));
    s->eos = token_text(qn_json_get(config, "eos_token"));
    if (!s->bos)
        s->bos = token_text(qn_json_get(map, "bos_token"));
    if (!s->eos)
        s->eos = token_text(qn_json_get(map, "eos_token"));
    take_template(s, qn_json_get(config, "chat_template"));
    take_template(s,
                  qn_json_get(parse_in(a, dir, "chat_template.json", &rc, err), "chat_template"));
    const char *own = qn_path_join(a, dir, "chat_template.jinja");
    if (rc == QN_OK && qn_is_file(own)) {
        rc = qn_map_open(file, own, err);
        s->text = file->data;
        s->n = file->size;
    }
    return rc;
}

/* ---- GGUF ---- */

static const char *gguf_token(qn_arena *a, const qn_gguf *g, const char *key)
{
    qn_gguf_str s;
    int64_t id = qn_gguf_int(g, key, -1);
    const qn_gguf_value *tokens = qn_gguf_get(g, "tokenizer.ggml.tokens");
    if (id < 0 || !qn_gguf_array_str(tokens, (size_t)id, &s))
        return NULL;
    return qn_arena_strndup(a, s.p, s.n);
}

static int find_in_gguf(qn_arena *a, const char *path, source *s, qn_error *err)
{
    qn_gguf *g;
    qn_gguf_str text;
    int rc = qn_gguf_open(&g, path, err);
    if (rc != QN_OK)
        return rc;
    if (qn_gguf_string(g, "tokenizer.chat_template", &text)) {
        s->text = qn_arena_strndup(a, text.p, text.n);
        s->n = text.n;
    }
    s->bos = gguf_token(a, g, "tokenizer.ggml.bos_token_id");
    s->eos = gguf_token(a, g, "tokenizer.ggml.eos_token_id");
    qn_gguf_close(g);
    return QN_OK;
}

int qn_template_load(qn_template **out, const char *path, qn_error *err)
{
    qn_arena a = { 0 };
    qn_map file = { 0 };
    source s = { 0 };
    qn_error local;
    int rc;
    *out = NULL;
    err = err ? err : &local;
    if (qn_is_dir(path)) {
        rc = find_in_folder(&a, path, &file, &s, err);
    } else if (qn_ends_with(path, ".gguf")) {
        rc = find_in_gguf(&a, path, &s, err);
    } else {
        rc = qn_map_open(&file, path, err);
        s.text = file.data;
        s.n = file.size;
    }
    if (rc == QN_OK && !s.text)
        rc = qn_fail(err, QN_ERR_NOT_FOUND, "%s: the model has no chat template", path);
    else if (rc == QN_OK && (rc = qn_template_open(out, s.text, s.n, err)) != QN_OK)
        qn_fail_in(err, rc, "%s", path);
    if (rc == QN_OK)
        qn_template_set_tokens(*out, s.bos, s.eos);
    qn_map_close(&file);
    qn_arena_free(&a);
    return rc;
}

/* ---- requests as text ---- */

char *qn_template_json_dup(const qn_template *t, const char *chat, size_t n, const char *now,
                           qn_error *err)
{
    qn_arena a = { 0 };
    qn_rendering out = { 0 };
    qn_buf json = { 0 };
    qn_error local;
    const qn_template_options opt = { .now = now };
    err = err ? err : &local;
    int rc = QN_ERR_FORMAT;
    const qn_json *request = qn_json_parse(&a, chat, n, err);
    if (request)
        rc = qn_template_render(t, request, &opt, &out, err);
    if (rc != QN_OK && out.text.len == 0)
        qn_buf_str(&out.text, err->msg);
    if (rc == QN_OK)
        err->code = QN_OK;
    qn_buf_str(&json, rc == QN_OK ? "{\"text\":" : "{\"error\":");
    qn_json_put_str(&json, qn_buf_cstr(&out.text), out.text.len);
    qn_buf_str(&json, "}");
    qn_rendering_free(&out);
    qn_arena_free(&a);
    return json.data;
}
