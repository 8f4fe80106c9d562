/* load_path.c - a tokenizer from a file or a model's folder, with the side files that say which tokens
 * begin and end a text, which ones were added later, and how a chat is written. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/internal.h"

/* A token given as "text" or {"content": "text"}. */
static int32_t token_id(const qn_tokenizer *t, const qn_json *v)
{
    const qn_json *s = qn_json_is(v, QN_JSON_OBJECT) ? qn_json_get(v, "content") : v;
    return qn_json_is(s, QN_JSON_STR) ? qn_tokenizer_id(t, s->s, s->n) : -1;
}

static void read_specials(qn_tokenizer *t, const qn_json *root)
{
    static const struct {
        const char *key;
        qn_tok_special which;
    } known[] = {
        { "bos_token", QN_TOK_BOS }, { "eos_token", QN_TOK_EOS }, { "unk_token", QN_TOK_UNK },
        { "pad_token", QN_TOK_PAD }, { "sep_token", QN_TOK_SEP }, { "mask_token", QN_TOK_MASK },
        { "cls_token", QN_TOK_BOS },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int32_t id = token_id(t, qn_json_get(root, known[i].key));
        bool second = strcmp(known[i].key, "cls_token") == 0 && t->special[QN_TOK_BOS] >= 0;
        if (id >= 0 && !second)
            t->special[known[i].which] = id;
    }
}

/* One template, or a list of {"name", "template"}. */
static void read_templates(qn_tokenizer *t, const qn_json *v)
{
    if (qn_json_is(v, QN_JSON_STR))
        qn_tok_add_template(t, "default", v->s);
    for (uint32_t i = 0; qn_json_is(v, QN_JSON_ARRAY) && i < v->n; i++) {
        const char *name = qn_json_str(qn_json_get(&v->items[i], "name"), NULL);
        const char *text = qn_json_str(qn_json_get(&v->items[i], "template"), NULL);
        if (name && text)
            qn_tok_add_template(t, name, text);
    }
}

/* Parses dir/name when it exists; *out stays NULL otherwise. */
static int side_file(qn_arena *a, const char *dir, const char *name, const qn_json **out,
                     qn_error *err)
{
    const char *path = qn_path_join(a, dir, name);
    *out = NULL;
    if (!qn_is_file(path))
        return QN_OK;
    *out = qn_json_parse_file(a, path, err);
    return *out ? QN_OK : QN_ERR_FORMAT;
}

/* add_bos_token and add_eos_token of a slow tokenizer's settings: they count where the tokenizer's own
 * file has no post-processor to say so. */
static void add_ends(qn_tokenizer *t, const qn_json *config)
{
    bool bos = qn_json_bool(qn_json_get(config, "add_bos_token"), false);
    bool eos = qn_json_bool(qn_json_get(config, "add_eos_token"), false);
    if (t->n_post > 1 || (!bos && !eos))
        return;
    qn_ids post = { 0 };
    if (bos && t->special[QN_TOK_BOS] >= 0)
        qn_ids_add(&post, t->special[QN_TOK_BOS]);
    qn_ids_add(&post, QN_POST_TEXT);
    if (eos && t->special[QN_TOK_EOS] >= 0)
        qn_ids_add(&post, t->special[QN_TOK_EOS]);
    qn_free(t->post);
    t->post = post.v;
    t->n_post = post.n;
}

static int jinja_file(qn_tokenizer *t, qn_arena *a, const char *dir, qn_error *err)
{
    const char *path = qn_path_join(a, dir, "chat_template.jinja");
    qn_map map;
    if (!qn_is_file(path))
        return QN_OK;
    int rc = qn_map_open(&map, path, err);
    if (rc != QN_OK)
        return rc;
    qn_tok_add_template(t, "default", qn_arena_strndup(a, map.data, map.size));
    qn_map_close(&map);
    return QN_OK;
}

/* The newest form of a template comes first: the first one of a name counts. */
int qn_tok_load_sidecars(qn_tokenizer *t, const char *dir, qn_error *err)
{
    qn_arena a = { 0 };
    const qn_json *config, *map, *chat;
    int rc = side_file(&a, dir, "tokenizer_config.json", &config, err);
    if (rc == QN_OK)
        rc = side_file(&a, dir, "special_tokens_map.json", &map, err);
    if (rc == QN_OK)
        rc = side_file(&a, dir, "chat_template.json", &chat, err);
    if (rc == QN_OK)
        rc = jinja_file(t, &a, dir, err);
    if (rc == QN_OK) {
        read_specials(t, map);
        read_specials(t, config);
        read_templates(t, qn_json_get(chat, "chat_template"));
        read_templates(t, qn_json_get(config, "chat_template"));
        add_ends(t, config);
    }
    qn_arena_free(&a);
    return rc;
}

static int load_json_file(qn_tokenizer *t, const char *path, qn_error *err)
{
    qn_map map;
    int rc = qn_map_open(&map, path, err);
    if (rc != QN_OK)
        return rc;
    rc = qn_tok_load_json(t, map.data, map.size, err);
    qn_map_close(&map);
    return rc == QN_OK ? rc : qn_fail_in(err, rc, "%s", path);
}

/* One token of a side file; `v` holds its switches, or is only its id. */
static int put_beside(qn_tokenizer *t, qn_tok_str text, int64_t id, const qn_json *v, qn_error *err)
{
    if (id < 0 || id > INT32_MAX)
        return qn_fail(err, QN_ERR_FORMAT, "added token \"%.60s\": its id is no id", text.s);
    return qn_added_put(
        t,
        &(qn_added){ .s = text.s,
                     .n = (uint32_t)text.n,
                     .id = (int32_t)id,
                     .special = qn_json_bool(qn_json_get(v, "special"), false),
                     .single_word = qn_json_bool(qn_json_get(v, "single_word"), false),
                     .lstrip = qn_json_bool(qn_json_get(v, "lstrip"), false),
                     .rstrip = qn_json_bool(qn_json_get(v, "rstrip"), false) },
        err);
}

/* Tokens that a sentencepiece model's folder keeps beside it: {"32000": {"content": ...}} in
 * tokenizer_config.json, and in older folders {"<text>": 32000} in added_tokens.json. They come before the
 * model's own, so that they count for a text that both name. */
static int added_beside(qn_tokenizer *t, const char *dir, qn_error *err)
{
    qn_arena a = { 0 };
    const qn_json *config, *older;
    int rc = side_file(&a, dir, "tokenizer_config.json", &config, err);
    if (rc == QN_OK)
        rc = side_file(&a, dir, "added_tokens.json", &older, err);
    const qn_json *list = rc == QN_OK ? qn_json_get(config, "added_tokens_decoder") : NULL;
    bool newer = qn_json_is(list, QN_JSON_OBJECT);
    for (uint32_t i = 0; newer && i < list->n && rc == QN_OK; i++) {
        const qn_json *v = &list->items[i], *text = qn_json_get(v, "content");
        char *end;
        int64_t id = strtoll(v->key, &end, 10);
        if (!qn_json_is(text, QN_JSON_STR) || end == v->key || *end)
            rc = qn_fail(err, QN_ERR_FORMAT,
                         "%s/tokenizer_config.json: added_tokens_decoder: \"%.60s\" is malformed",
                         dir, v->key);
        else if (text->n)
            rc = put_beside(t, (qn_tok_str){ text->s, text->n }, id, v, err);
    }
    for (uint32_t i = 0; rc == QN_OK && !newer && qn_json_is(older, QN_JSON_OBJECT) && i < older->n;
         i++) {
        const qn_json *v = &older->items[i];
        if (v->key_len)
            rc = put_beside(t, (qn_tok_str){ v->key, v->key_len }, qn_json_int(v, -1), NULL, err);
    }
    qn_arena_free(&a);
    return rc;
}

static int load_spm_file(qn_tokenizer *t, const char *path, const char *dir, qn_error *err)
{
    qn_map map;
    int rc = qn_map_open(&map, path, err);
    if (rc != QN_OK)
        return rc;
    rc = added_beside(t, dir, err);
    if (rc == QN_OK)
        rc = qn_tok_load_spm(t, map.data, map.size, err);
    qn_map_close(&map);
    return rc == QN_OK ? rc : qn_fail_in(err, rc, "%s", path);
}

/* The pattern of a rank file stands in tiktoken_config.json beside it. */
static int load_tiktoken_file(qn_tokenizer *t, const char *path, const char *dir, qn_error *err)
{
    qn_arena a = { 0 };
    qn_map ranks = { 0 }, config = { 0 };
    int rc = qn_map_open(&ranks, path, err);
    if (rc == QN_OK)
        rc = qn_map_open(&config, qn_path_join(&a, dir, "tiktoken_config.json"), err);
    if (rc == QN_OK) {
        rc = qn_tok_load_tiktoken(t, ranks.data, ranks.size, config.data, config.size, err);
        if (rc != QN_OK)
            qn_fail_in(err, rc, "%s", path);
    }
    qn_map_close(&ranks);
    qn_map_close(&config);
    qn_arena_free(&a);
    return rc;
}

static bool is_rank_file(const char *path)
{
    return qn_ends_with(path, ".tiktoken") || strcmp(qn_path_base(path), "tiktoken.model") == 0;
}

static int load_file(qn_tokenizer *t, const char *path, const char *dir, qn_error *err)
{
    if (is_rank_file(path))
        return load_tiktoken_file(t, path, dir, err);
    if (qn_ends_with(path, ".model"))
        return load_spm_file(t, path, dir, err);
    return load_json_file(t, path, err);
}

static int load_folder(qn_tokenizer *t, qn_arena *a, const char *dir, qn_error *err)
{
    static const char *const name[] = { "tokenizer.json", "tokenizer.model", "spiece.model",
                                        "sentencepiece.bpe.model", "tiktoken.model" };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        const char *path = qn_path_join(a, dir, name[i]);
        if (!qn_is_file(path))
            continue;
        int rc = load_file(t, path, dir, err);
        return rc == QN_OK ? qn_tok_load_sidecars(t, dir, err) : rc;
    }
    return qn_fail(err, QN_ERR_NOT_FOUND,
                   "%s: no tokenizer.json, tokenizer.model or tiktoken.model in it", dir);
}

int qn_tok_load_path(qn_tokenizer *t, const char *path, qn_error *err)
{
    qn_arena a = { 0 };
    int rc;
    if (qn_is_dir(path)) {
        rc = load_folder(t, &a, path, err);
    } else {
        const char *base = qn_path_base(path);
        const char *dir = base == path ? "." : qn_arena_strndup(&a, path, (size_t)(base - path));
        rc = load_file(t, path, dir, err);
    }
    qn_arena_free(&a);
    return rc;
}
