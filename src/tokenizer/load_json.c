/* load_json.c - tokenizer.json: the vocabulary, the model and the added tokens. The steps around them are
 * in load_steps.c. Every field is read or refused by name; truncation and padding are not for inference. */
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "tokenizer/internal.h"

#define MAX_AFFIX         64   /* each may become byte pieces, for every character */
#define MAX_UNIGRAM_BYTES 4096 /* matching costs text length times the longest piece */

static int missing(qn_error *err, const char *field)
{
    return qn_fail(err, QN_ERR_FORMAT, "tokenizer.json: %s is missing or of the wrong type", field);
}

/* The string of a field that may be null; NULL when it is. */
static const char *optional(const qn_json *v, const char *key)
{
    return qn_json_str(qn_json_get(v, key), NULL);
}

static int load_vocab(qn_tokenizer *t, const qn_json *vocab, qn_error *err)
{
    if (!qn_json_is(vocab, QN_JSON_OBJECT))
        return missing(err, "model.vocab");
    qn_vocab_init(&t->vocab, vocab->n);
    for (uint32_t i = 0; i < vocab->n; i++) {
        const qn_json *v = &vocab->items[i];
        int64_t id = qn_json_int(v, -1);
        if (qn_vocab_put(&t->vocab, v->key, v->key_len, id, err) != QN_OK)
            return qn_fail_in(err, QN_ERR_FORMAT, "tokenizer.json: model.vocab");
    }
    return QN_OK;
}

/* The two halves of a merge rule: ["a", "b"], or "a b" in older files. */
static bool merge_halves(const qn_json *m, qn_tok_str *a, qn_tok_str *b)
{
    if (qn_json_is(m, QN_JSON_ARRAY)) {
        const qn_json *x = qn_json_at(m, 0), *y = qn_json_at(m, 1);
        if (m->n != 2 || !qn_json_is(x, QN_JSON_STR) || !qn_json_is(y, QN_JSON_STR))
            return false;
        *a = (qn_tok_str){ x->s, x->n };
        *b = (qn_tok_str){ y->s, y->n };
        return true;
    }
    if (!qn_json_is(m, QN_JSON_STR))
        return false;
    const char *space = memchr(m->s, ' ', m->n);
    if (!space)
        return false;
    *a = (qn_tok_str){ m->s, (size_t)(space - m->s) };
    *b = (qn_tok_str){ space + 1, m->n - a->n - 1 };
    return !memchr(b->s, ' ', b->n);
}

#define MERGE_BATCH (QN_VOCAB_BATCH / 3)

/* The rules first..first + n; `joined` gets the texts they make. */
static int add_merges(qn_tokenizer *t, qn_bpe *b, const qn_json *list, const uint32_t span[2],
                      size_t n_prefix, qn_error *err)
{
    qn_vocab_key key[QN_VOCAB_BATCH] = { 0 };
    int32_t id[QN_VOCAB_BATCH];
    size_t from[MERGE_BATCH];
    qn_buf joined = { 0 };
    int rc = QN_OK;
    uint32_t n = 0;
    for (; n < span[1] && rc == QN_OK; n++) {
        qn_tok_str x, y;
        if (!merge_halves(&list->items[span[0] + n], &x, &y) || y.n < n_prefix) {
            rc = qn_fail(err, QN_ERR_FORMAT, "tokenizer.json: model.merges[%u] is no pair",
                         span[0] + n);
            break;
        }
        from[n] = joined.len;
        qn_buf_add(&joined, x.s, x.n);
        qn_buf_add(&joined, y.s + n_prefix, y.n - n_prefix);
        key[3 * n] = (qn_vocab_key){ x.s, x.n };
        key[3 * n + 1] = (qn_vocab_key){ y.s, y.n };
        key[3 * n + 2].n = x.n + y.n - n_prefix;
    }
    for (uint32_t i = 0; i < n; i++) /* only now does the buffer stay where it is */
        key[3 * i + 2].s = qn_buf_cstr(&joined) + from[i];
    if (rc == QN_OK)
        qn_vocab_find_batch(&t->vocab, key, 3 * n, id);
    for (uint32_t i = 0; i < n && rc == QN_OK; i++)
        qn_bpe_prefetch(b, id[3 * i], id[3 * i + 1]);
    for (uint32_t i = 0; i < n && rc == QN_OK; i++) {
        const qn_vocab_key *k = &key[3 * i];
        if (id[3 * i] < 0 || id[3 * i + 1] < 0 || id[3 * i + 2] < 0)
            rc = qn_fail(err, QN_ERR_FORMAT,
                         "tokenizer.json: model.merges[%u] \"%.*s %.*s\" is not in the vocabulary",
                         span[0] + i, (int)(k[0].n < 40 ? k[0].n : 40), k[0].s,
                         (int)(k[1].n < 40 ? k[1].n : 40), k[1].s);
        else
            qn_bpe_pair(b, id[3 * i], id[3 * i + 1], span[0] + i, id[3 * i + 2]);
    }
    qn_buf_free(&joined);
    return rc;
}

static int load_merges(qn_tokenizer *t, qn_bpe *b, const qn_json *merges, size_t n_prefix,
                       qn_error *err)
{
    if (!qn_json_is(merges, QN_JSON_ARRAY))
        return missing(err, "model.merges");
    const qn_json *first = qn_json_at(merges, 0);
    /* A merges file copied whole begins with a comment. */
    bool comment =
        qn_json_is(first, QN_JSON_STR) && first->n >= 8 && memcmp(first->s, "#version", 8) == 0;
    int rc = QN_OK;
    for (uint32_t i = comment; i < merges->n && rc == QN_OK; i += MERGE_BATCH) {
        uint32_t left = merges->n - i, span[2] = { i, left < MERGE_BATCH ? left : MERGE_BATCH };
        rc = add_merges(t, b, merges, span, n_prefix, err);
    }
    return rc;
}

static int load_bpe(qn_tokenizer *t, const qn_json *m, qn_error *err)
{
    int rc = load_vocab(t, qn_json_get(m, "vocab"), err);
    if (rc != QN_OK)
        return rc;
    const qn_json *merges = qn_json_get(m, "merges");
    qn_bpe_options o = { .unk = optional(m, "unk_token"),
                         .prefix = optional(m, "continuing_subword_prefix"),
                         .suffix = optional(m, "end_of_word_suffix"),
                         .fuse_unk = qn_json_bool(qn_json_get(m, "fuse_unk"), false),
                         .byte_fallback = qn_json_bool(qn_json_get(m, "byte_fallback"), false),
                         .ignore_merges = qn_json_bool(qn_json_get(m, "ignore_merges"), false) };
    if ((o.prefix && strlen(o.prefix) > MAX_AFFIX) || (o.suffix && strlen(o.suffix) > MAX_AFFIX))
        return qn_fail(err, QN_ERR_LIMIT,
                       "tokenizer.json: model: a subword prefix or suffix over %d bytes",
                       MAX_AFFIX);
    /* When mapping bytes is the last thing that happens to the text, symbols are looked up by byte. Byte
     * pieces stand for the bytes of the mapped text, so a model that falls back on them must see that. */
    if (!o.byte_fallback && t->n_pre && t->pre[t->n_pre - 1].op == QN_PRE_BYTE_LEVEL) {
        t->pre[t->n_pre - 1].deferred = true;
        o.raw_bytes = true;
    }
    qn_bpe *b = qn_bpe_open(merges ? merges->n : 0);
    rc = load_merges(t, b, merges, o.prefix ? strlen(o.prefix) : 0, err);
    int attached = qn_bpe_attach(t, b, &o, err); /* owns b from here, whatever happened */
    if (o.unk)
        t->special[QN_TOK_UNK] = qn_vocab_find(&t->vocab, o.unk, strlen(o.unk));
    return rc != QN_OK ? rc : attached;
}

static int load_unigram(qn_tokenizer *t, const qn_json *m, qn_error *err)
{
    const qn_json *vocab = qn_json_get(m, "vocab"), *unk = qn_json_get(m, "unk_id");
    if (!qn_json_is(vocab, QN_JSON_ARRAY))
        return missing(err, "model.vocab");
    qn_unigram_options o = { .unk = (int32_t)qn_json_int(unk, -1),
                             .byte_fallback =
                                 qn_json_bool(qn_json_get(m, "byte_fallback"), false) };
    if (qn_json_is_number(unk) && (o.unk < 0 || (uint32_t)o.unk >= vocab->n))
        return qn_fail(err, QN_ERR_FORMAT,
                       "tokenizer.json: model.unk_id is outside the vocabulary");
    qn_vocab_init(&t->vocab, vocab->n);
    double *score = qn_alloc_n(vocab->n, sizeof *score);
    int rc = QN_OK;
    for (uint32_t i = 0; i < vocab->n && rc == QN_OK; i++) {
        const qn_json *piece = qn_json_at(&vocab->items[i], 0),
                      *s = qn_json_at(&vocab->items[i], 1);
        if (!qn_json_is(piece, QN_JSON_STR) || !qn_json_is_number(s) ||
            piece->n > MAX_UNIGRAM_BYTES)
            rc = qn_fail(err, QN_ERR_FORMAT,
                         "tokenizer.json: model.vocab[%u] is no piece with a score", i);
        else
            rc = qn_vocab_put(&t->vocab, piece->s, piece->n, i, err);
        score[i] = rc == QN_OK ? qn_json_num(s, 0) : 0;
        if (rc == QN_OK && isnan(score[i]))
            rc = qn_fail(err, QN_ERR_FORMAT,
                         "tokenizer.json: model.vocab[%u] has no number as score", i);
    }
    o.score = score;
    if (rc == QN_OK)
        qn_unigram_attach(t, &o);
    t->special[QN_TOK_UNK] = o.unk;
    qn_free(score);
    return rc;
}

static int load_words(qn_tokenizer *t, const qn_json *m, bool pieces, qn_error *err)
{
    int rc = load_vocab(t, qn_json_get(m, "vocab"), err);
    if (rc != QN_OK)
        return rc;
    const char *unk = qn_json_str(qn_json_get(m, "unk_token"), pieces ? "[UNK]" : "<unk>");
    int32_t id = qn_vocab_find(&t->vocab, unk, strlen(unk));
    int64_t most = qn_json_int(qn_json_get(m, "max_input_chars_per_word"), 100);
    if (pieces)
        qn_wordpiece_attach(t, qn_json_str(qn_json_get(m, "continuing_subword_prefix"), "##"),
                            most < 0 ? 0 : (size_t)most, id);
    else
        qn_wordlevel_attach(t, id);
    t->special[QN_TOK_UNK] = id;
    return QN_OK;
}

/* The oldest files name no type: it shows in the fields. */
static const char *model_type(const qn_json *m)
{
    const char *type = optional(m, "type");
    if (type)
        return type;
    if (qn_json_get(m, "merges"))
        return "BPE";
    if (qn_json_is(qn_json_get(m, "vocab"), QN_JSON_ARRAY))
        return "Unigram";
    return qn_json_get(m, "max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

static int load_model(qn_tokenizer *t, const qn_json *m, qn_error *err)
{
    if (!qn_json_is(m, QN_JSON_OBJECT))
        return missing(err, "model");
    const char *type = model_type(m);
    if (strcmp(type, "BPE") == 0)
        return load_bpe(t, m, err);
    if (strcmp(type, "Unigram") == 0)
        return load_unigram(t, m, err);
    if (strcmp(type, "WordPiece") == 0 || strcmp(type, "WordLevel") == 0)
        return load_words(t, m, strcmp(type, "WordPiece") == 0, err);
    return qn_fail(err, QN_ERR_UNSUPPORTED, "tokenizer.json: model.type \"%.60s\" is not known",
                   type);
}

/* The id an added token gets: the vocabulary's, else the next free one. The file's own "id" says the same
 * in every file that a program wrote; where it does not, the reference ignores it, and so do we. */
static int32_t added_id(const qn_tokenizer *t, const qn_vocab *seen, const char *s, size_t n,
                        int32_t most)
{
    int32_t id = qn_vocab_find(seen, s, n);
    if (id < 0)
        id = qn_vocab_find(&t->vocab, s, n);
    if (id >= 0)
        return id;
    int32_t size = (int32_t)t->vocab.n_pieces;
    return most >= size || (size == 0 && most >= 0) ? most + 1 : size;
}

static int load_added(qn_tokenizer *t, const qn_json *list, qn_error *err)
{
    if (list && !qn_json_is(list, QN_JSON_ARRAY) && !qn_json_is(list, QN_JSON_NULL))
        return missing(err, "added_tokens");
    uint32_t n = qn_json_is(list, QN_JSON_ARRAY) ? list->n : 0;
    qn_vocab seen;
    qn_vocab_init(&seen, n + t->vocab.n_ids);
    int32_t most = -1;
    int rc = QN_OK;
    for (int special = 1; special >= 0 && rc == QN_OK; special--) {
        for (uint32_t i = 0; i < n && rc == QN_OK; i++) {
            const qn_json *v = &list->items[i], *text = qn_json_get(v, "content");
            if (!qn_json_is(text, QN_JSON_STR))
                rc = missing(err, "added_tokens content");
            else if (special && text->n) { /* ids in the file's order, whatever the kind */
                int32_t id = added_id(t, &seen, text->s, text->n, most);
                most = id > most ? id : most;
                rc = qn_vocab_put(&seen, text->s, text->n, id, err);
            }
            bool is_special = qn_json_bool(qn_json_get(v, "special"), false);
            if (rc != QN_OK || !text->n || is_special != (special == 1))
                continue;
            qn_added a = { .s = text->s,
                           .n = text->n,
                           .special = is_special,
                           .single_word = qn_json_bool(qn_json_get(v, "single_word"), false),
                           .lstrip = qn_json_bool(qn_json_get(v, "lstrip"), false),
                           .rstrip = qn_json_bool(qn_json_get(v, "rstrip"), false),
                           .normalized = qn_json_bool(qn_json_get(v, "normalized"), !is_special) };
            a.id = -1;
            rc = qn_added_put(t, &a, err);
        }
    }
    for (size_t i = 0; i < t->n_added; i++)
        t->added[i].id = qn_vocab_find(&seen, t->added[i].s, t->added[i].n);
    qn_vocab_free(&seen);
    return rc;
}

int qn_tok_load_json(qn_tokenizer *t, const char *json, size_t n, qn_error *err)
{
    qn_arena a = { 0 };
    const qn_json *root = qn_json_parse(&a, json, n, err);
    int rc = root ? QN_OK : QN_ERR_FORMAT;
    if (root && !qn_json_is(root, QN_JSON_OBJECT))
        rc = qn_fail(err, QN_ERR_FORMAT, "tokenizer.json: not an object");
    if (rc == QN_OK)
        rc = qn_tok_load_steps(t, root, err);
    if (rc == QN_OK)
        rc = load_model(t, qn_json_get(root, "model"), err);
    if (rc == QN_OK)
        rc = load_added(t, qn_json_get(root, "added_tokens"), err);
    if (rc == QN_OK)
        rc = qn_tok_load_post(t, qn_json_get(root, "post_processor"), err);
    if (rc == QN_OK)
        rc = qn_tok_load_decoder(t, qn_json_get(root, "decoder"), err);
    if (rc == QN_OK)
        rc = qn_tok_finish(t, true, err);
    qn_arena_free(&a);
    return rc;
}
