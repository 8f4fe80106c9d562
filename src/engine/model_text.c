/* model_text.c - what a checkpoint says about text: tokenizer, chat template and the ids that end an answer.
 *
 * A GGUF file carries all three in its metadata; a folder has files of the usual names. */
#include <string.h>

#include "base/file.h"
#include "engine/model.h"
#include "formats/gguf.h"
#include "tokenizer/tokenizer.h"

/* ---- ids that end an answer ---- */

static void add_eos(qn_model *m, int64_t id)
{
    if (id < 0 || id >= m->config.n_vocab || m->n_eos == QN_MAX_EOS)
        return;
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id)
            return;
    m->eos[m->n_eos++] = (int32_t)id;
}

/* A number or a list of numbers. False when there is neither. */
static bool add_eos_json(qn_model *m, const qn_json *v)
{
    if (qn_json_is_number(v)) {
        add_eos(m, qn_json_int(v, -1));
        return true;
    }
    if (!qn_json_is(v, QN_JSON_ARRAY))
        return false;
    for (uint32_t i = 0; i < v->n; i++)
        add_eos(m, qn_json_int(&v->items[i], -1));
    return true;
}

/* The generation config overrides the model's, whose text part overrides the whole. A GGUF file names the end
 * of the text and, for chat models, the end of a turn. */
static void collect_eos(qn_model *m)
{
    static const char key[] = "eos_token_id";
    if (!add_eos_json(m, qn_json_get(qn_checkpoint_generation(m->ck), key)) &&
        !add_eos_json(m, qn_json_get(m->config.json, key)))
        add_eos_json(m, qn_json_get(m->config.outer, key));
    const struct qn_gguf *g = qn_checkpoint_gguf(m->ck);
    if (g) {
        add_eos(m, qn_gguf_int(g, "tokenizer.ggml.eos_token_id", -1));
        add_eos(m, qn_gguf_int(g, "tokenizer.ggml.eot_token_id", -1));
        add_eos(m, qn_gguf_int(g, "tokenizer.ggml.eom_token_id", -1));
    }
    if (m->tokenizer && m->n_eos == 0)
        add_eos(m, qn_tokenizer_special(m->tokenizer, QN_TOK_EOS));
    if (m->tokenizer)
        add_eos(m, qn_tokenizer_special(m->tokenizer, QN_TOK_EOT));
}

/* ---- tokenizer ---- */

static const char *gguf_text(qn_arena *a, const struct qn_gguf *g, const char *key)
{
    qn_gguf_str s;
    return qn_gguf_string(g, key, &s) ? qn_arena_strndup(a, s.p, s.n) : NULL;
}

/* Views of the strings of an array; NULL when the key is absent. */
static const qn_tok_str *gguf_texts(qn_arena *a, const struct qn_gguf *g, const char *key,
                                    size_t *n)
{
    const qn_gguf_value *v = qn_gguf_get(g, key);
    *n = qn_gguf_array_len(v);
    qn_tok_str *out = *n ? qn_arena_alloc_n(a, *n, sizeof *out) : NULL;
    for (size_t i = 0; i < *n; i++) {
        qn_gguf_str s = { "", 0 };
        qn_gguf_array_str(v, i, &s);
        out[i] = (qn_tok_str){ s.p, s.n };
    }
    return out;
}

/* Numbers of an array that goes with the n tokens: copied, since files do not align them. */
static const void *gguf_numbers(qn_arena *a, const struct qn_gguf *g, const char *key, size_t n,
                                qn_gguf_type type)
{
    const qn_gguf_value *v = qn_gguf_get(g, key);
    const void *raw = qn_gguf_array_raw(v, type);
    return raw && qn_gguf_array_len(v) == n ? qn_arena_copy(a, raw, n * 4) : NULL;
}

static int gguf_switch(const struct qn_gguf *g, const char *key)
{
    return qn_gguf_get(g, key) ? qn_gguf_bool(g, key, false) : -1;
}

static int64_t gguf_id(const struct qn_gguf *g, const char *key)
{
    return qn_gguf_int(g, key, -1);
}

#define KEY(name) "tokenizer.ggml." name

static int open_gguf(qn_model *m, const struct qn_gguf *g, qn_error *err)
{
    qn_arena a = { 0 };
    qn_tok_gguf v = {
        .model = gguf_text(&a, g, KEY("model")),
        .pre = gguf_text(&a, g, KEY("pre")),
        .chat_template = gguf_text(&a, g, "tokenizer.chat_template"),
        .bos = gguf_id(g, KEY("bos_token_id")),
        .eos = gguf_id(g, KEY("eos_token_id")),
        .eot = gguf_id(g, KEY("eot_token_id")),
        .unk = gguf_id(g, KEY("unknown_token_id")),
        .sep = gguf_id(g, KEY("seperator_token_id")), /* spelt so in the format */
        .pad = gguf_id(g, KEY("padding_token_id")),
        .mask = gguf_id(g, KEY("mask_token_id")),
        .add_bos = gguf_switch(g, KEY("add_bos_token")),
        .add_eos = gguf_switch(g, KEY("add_eos_token")),
        .add_sep = gguf_switch(g, KEY("add_sep_token")),
        .add_space_prefix = gguf_switch(g, KEY("add_space_prefix")),
        .remove_extra_whitespaces = gguf_switch(g, KEY("remove_extra_whitespaces")),
        .lowercase = gguf_switch(g, KEY("normalizer.lowercase")),
        .strip_accents = gguf_switch(g, KEY("normalizer.strip_accents")),
    };
    v.token = gguf_texts(&a, g, KEY("tokens"), &v.n_tokens);
    v.merge = gguf_texts(&a, g, KEY("merges"), &v.n_merges);
    v.score = gguf_numbers(&a, g, KEY("scores"), v.n_tokens, QN_GGUF_F32);
    v.type = gguf_numbers(&a, g, KEY("token_type"), v.n_tokens, QN_GGUF_I32);
    const qn_gguf_value *map = qn_gguf_get(g, KEY("precompiled_charsmap"));
    v.charsmap = qn_gguf_array_raw(map, QN_GGUF_U8);
    if (!v.charsmap)
        v.charsmap = qn_gguf_array_raw(map, QN_GGUF_I8);
    v.charsmap_bytes = v.charsmap ? qn_gguf_array_len(map) : 0;

    int rc = QN_OK;
    if (v.model && strcmp(v.model, "none") != 0 && v.n_tokens > 0)
        rc = qn_tokenizer_open_gguf(&m->tokenizer, &v, err);
    qn_arena_free(&a);
    return rc;
}

/* Files that say a folder has a tokenizer; without any of them it simply has none. */
static bool has_tokenizer_file(qn_arena *a, const char *dir)
{
    static const char *const names[] = { "tokenizer.json", "tokenizer.model",
                                         "spiece.model",   "sentencepiece.bpe.model",
                                         "vocab.json",     "vocab.txt",
                                         "tiktoken.model", "qwen.tiktoken" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (qn_is_file(qn_path_join(a, dir, names[i])))
            return true;
    return false;
}

int qn_model_load_text(qn_model *m, bool no_tokenizer, qn_error *err)
{
    int rc = QN_OK;
    const struct qn_gguf *g = qn_checkpoint_gguf(m->ck);
    if (no_tokenizer)
        rc = QN_OK;
    else if (g)
        rc = open_gguf(m, g, err);
    else if (has_tokenizer_file(&m->arena, m->path))
        rc = qn_tokenizer_open(&m->tokenizer, m->path, err);
    if (rc != QN_OK)
        return qn_fail_in(err, rc, "%s", m->path);
    collect_eos(m);
    return QN_OK;
}

void qn_model_unload_text(qn_model *m)
{
    qn_tokenizer_close(m->tokenizer);
}
