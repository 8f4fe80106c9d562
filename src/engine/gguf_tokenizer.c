/* gguf_tokenizer.c - see gguf_tokenizer.h. Turns metadata values into the plain view that the tokenizer
 * takes: the two folders know nothing of each other. */
#include "engine/gguf_tokenizer.h"

#include <string.h>

#include "base/mem.h"

#define KEY "tokenizer.ggml."

/* An array of strings as views; *n is their number. NULL when the key is absent. */
static qn_tok_str *strings(qn_arena *a, const qn_gguf *g, const char *key, size_t *n, int *rc,
                           qn_error *err)
{
    const qn_gguf_value *v = qn_gguf_get(g, key);
    *n = qn_gguf_array_len(v);
    if (!v)
        return NULL;
    qn_tok_str *s = qn_arena_alloc_n(a, *n + 1, sizeof *s);
    for (size_t i = 0; i < *n && *rc == QN_OK; i++) {
        qn_gguf_str t;
        if (!qn_gguf_array_str(v, i, &t))
            *rc = qn_fail(err, QN_ERR_FORMAT, "GGUF: %s is not an array of strings", key);
        else
            s[i] = (qn_tok_str){ t.p, t.n };
    }
    return s;
}

static char *text(qn_arena *a, const qn_gguf *g, const char *key)
{
    qn_gguf_str s;
    return qn_gguf_string(g, key, &s) ? qn_arena_strndup(a, s.p, s.n) : NULL;
}

static int flag(const qn_gguf *g, const char *key)
{
    return qn_gguf_get(g, key) ? qn_gguf_bool(g, key, false) : -1;
}

/* Scores and types must be there for every token, or not at all. */
static int numbers(qn_arena *a, const qn_gguf *g, size_t n, qn_tok_gguf *view, qn_error *err)
{
    const qn_gguf_value *score = qn_gguf_get(g, KEY "scores"),
                        *type = qn_gguf_get(g, KEY "token_type");
    float *to_score = score ? qn_arena_alloc_n(a, n, sizeof *to_score) : NULL;
    int32_t *to_type = type ? qn_arena_alloc_n(a, n, sizeof *to_type) : NULL;
    for (size_t i = 0; i < n; i++) {
        double s = 0;
        int64_t k = 0;
        if (score && !qn_gguf_array_num(score, i, &s))
            return qn_fail(err, QN_ERR_FORMAT, "GGUF: " KEY "scores has no number %zu", i);
        if (type && !qn_gguf_array_int(type, i, &k))
            return qn_fail(err, QN_ERR_FORMAT, "GGUF: " KEY "token_type has no number %zu", i);
        if (score)
            to_score[i] = (float)s;
        if (type)
            to_type[i] = (int32_t)k;
    }
    view->score = to_score;
    view->type = to_type;
    return QN_OK;
}

int qn_gguf_tokenizer_open(qn_tokenizer **out, const qn_gguf *g, qn_error *err)
{
    qn_arena a = { 0 };
    int rc = QN_OK;
    *out = NULL;
    qn_tok_gguf v = { .model = text(&a, g, KEY "model"),
                      .pre = text(&a, g, KEY "pre"),
                      .chat_template = text(&a, g, "tokenizer.chat_template"),
                      .bos = qn_gguf_int(g, KEY "bos_token_id", -1),
                      .eos = qn_gguf_int(g, KEY "eos_token_id", -1),
                      .eot = qn_gguf_int(g, KEY "eot_token_id", -1),
                      .unk = qn_gguf_int(g, KEY "unknown_token_id", -1),
                      .sep = qn_gguf_int(g, KEY "seperator_token_id", -1),
                      .pad = qn_gguf_int(g, KEY "padding_token_id", -1),
                      .mask = qn_gguf_int(g, KEY "mask_token_id", -1),
                      .add_bos = flag(g, KEY "add_bos_token"),
                      .add_eos = flag(g, KEY "add_eos_token"),
                      .add_sep = flag(g, KEY "add_sep_token"),
                      .add_space_prefix = flag(g, KEY "add_space_prefix"),
                      .remove_extra_whitespaces = flag(g, KEY "remove_extra_whitespaces"),
                      .lowercase = flag(g, KEY "normalizer.lowercase"),
                      .strip_accents = flag(g, KEY "normalizer.strip_accents") };
    if (v.sep < 0)
        v.sep = qn_gguf_int(g, KEY "separator_token_id", -1);
    v.token = strings(&a, g, KEY "tokens", &v.n_tokens, &rc, err);
    v.merge = strings(&a, g, KEY "merges", &v.n_merges, &rc, err);
    const qn_gguf_value *map = qn_gguf_get(g, KEY "precompiled_charsmap");
    v.charsmap = qn_gguf_array_raw(map, QN_GGUF_U8);
    if (!v.charsmap)
        v.charsmap = qn_gguf_array_raw(map, QN_GGUF_I8);
    v.charsmap_bytes = v.charsmap ? qn_gguf_array_len(map) : 0;
    if (rc == QN_OK && !v.model)
        rc = qn_fail(err, QN_ERR_NOT_FOUND, "GGUF: the file holds no tokenizer");
    if (rc == QN_OK)
        rc = numbers(&a, g, v.n_tokens, &v, err);
    if (rc == QN_OK)
        rc = qn_tokenizer_open_gguf(out, &v, err);
    qn_arena_free(&a);
    return rc;
}
