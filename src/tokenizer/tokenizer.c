/* tokenizer.c - the handle: opening and closing, the encoding chain, and what can be asked of it.
 * The parts of the chain are in their own files; internal.h says how they meet. */
#include "tokenizer/tokenizer.h"

#include <string.h>

#include "base/file.h"
#include "base/utf8.h"
#include "tokenizer/internal.h"

void qn_ids_add(qn_ids *a, int32_t id)
{
    if (a->n == a->cap)
        QN_GROW(a->v, a->n, a->cap);
    a->v[a->n++] = id;
}

void qn_ids_free(qn_ids *a)
{
    qn_free(a->v);
    *a = (qn_ids){ 0 };
}

qn_scratch *qn_scratch_open(void)
{
    qn_scratch *x = qn_alloc(sizeof *x);
    x->cache = qn_word_cache_open();
    return x;
}

void qn_scratch_close(qn_scratch *x)
{
    if (!x)
        return;
    qn_rx_scratch_free(&x->rx);
    for (int i = 0; i < 2; i++) {
        qn_buf_free(&x->norm[i]);
        qn_buf_free(&x->pre[i]);
        qn_free(x->span[i]);
    }
    qn_buf_free(&x->clean);
    qn_buf_free(&x->word);
    qn_free(x->cps);
    qn_free(x->bpe.sym);
    qn_free(x->bpe.heap);
    qn_free(x->bpe.next);
    qn_free(x->bpe.prev);
    qn_free(x->best);
    qn_free(x->from);
    qn_ids_free(&x->ids);
    qn_word_cache_close(x->cache);
    qn_free(x);
}

/* ---- building ---- */

static qn_tokenizer *fresh(void)
{
    qn_tokenizer *t = qn_alloc(sizeof *t);
    for (int i = 0; i < QN_TOK_N_SPECIAL; i++)
        t->special[i] = -1;
    t->parses = true;
    return t;
}

qn_norm *qn_tok_add_norm(qn_tokenizer *t, qn_norm_op op)
{
    QN_GROW(t->norm, t->n_norm, t->cap_norm);
    t->norm[t->n_norm] = (qn_norm){ .op = op };
    return &t->norm[t->n_norm++];
}

qn_pre *qn_tok_add_pre(qn_tokenizer *t, qn_pre_op op)
{
    QN_GROW(t->pre, t->n_pre, t->cap_pre);
    t->pre[t->n_pre] = (qn_pre){ .op = op, .behavior = QN_ISOLATED };
    return &t->pre[t->n_pre++];
}

qn_dec *qn_tok_add_dec(qn_tokenizer *t, qn_dec_op op)
{
    QN_GROW(t->dec, t->n_dec, t->cap_dec);
    t->dec[t->n_dec] = (qn_dec){ .op = op };
    return &t->dec[t->n_dec++];
}

bool qn_tok_is_byte_piece(const char *s, size_t n, int *byte)
{
    static const char hex[] = "0123456789ABCDEFabcdef";
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || !s[3] || !s[4])
        return false;
    const char *hi = strchr(hex, s[3]), *lo = strchr(hex, s[4]);
    if (!hi || !lo)
        return false;
    long a = hi - hex, b = lo - hex;
    *byte = (int)((a > 15 ? a - 6 : a) * 16 + (b > 15 ? b - 6 : b));
    return true;
}

/* Lays kinds and added texts over the vocabulary and builds the matchers. A kind that a loader has already
 * set stays. */
int qn_tok_finish(qn_tokenizer *t, bool normalize_added, qn_error *err)
{
    t->n_ids = t->vocab.n_ids;
    for (size_t i = 0; i < t->n_added; i++) {
        if (t->added[i].id < 0 ||
            (size_t)t->added[i].id > 4 * (t->vocab.n_ids + t->n_added) + 100000)
            return qn_fail(err, QN_ERR_FORMAT, "added_tokens: id %d is out of range",
                           t->added[i].id);
        if ((size_t)t->added[i].id >= t->n_ids)
            t->n_ids = (size_t)t->added[i].id + 1;
    }
    t->kind = qn_alloc(t->n_ids);
    t->added_of = qn_alloc_n(t->n_ids, sizeof *t->added_of);
    for (size_t i = 0; i < t->vocab.n_ids; i++)
        t->kind[i] = t->vocab.piece[i].kind;
    for (size_t i = 0; i < t->n_added; i++) {
        const qn_added *a = &t->added[i];
        t->added_of[a->id] = (qn_piece){ a->s, a->n, 0 };
        t->kind[a->id] = a->special ? QN_TOKEN_CONTROL : QN_TOKEN_USER;
    }
    if (t->special[QN_TOK_UNK] >= 0 && (size_t)t->special[QN_TOK_UNK] < t->n_ids &&
        t->kind[t->special[QN_TOK_UNK]] == QN_TOKEN_NORMAL)
        t->kind[t->special[QN_TOK_UNK]] = QN_TOKEN_UNKNOWN;
    qn_added_build(t, normalize_added);
    return QN_OK;
}

static int done(qn_tokenizer **out, qn_tokenizer *t, int rc)
{
    if (rc != QN_OK) {
        qn_tokenizer_close(t);
        t = NULL;
    }
    *out = t;
    return rc;
}

int qn_tokenizer_open_json(qn_tokenizer **out, const char *json, size_t n, qn_error *err)
{
    qn_tokenizer *t = fresh();
    return done(out, t, qn_tok_load_json(t, json, n, err));
}

int qn_tokenizer_open_spm(qn_tokenizer **out, const void *model, size_t n, qn_error *err)
{
    qn_tokenizer *t = fresh();
    return done(out, t, qn_tok_load_spm(t, model, n, err));
}

int qn_tokenizer_open_tiktoken(qn_tokenizer **out, const char *ranks, size_t n, const char *config,
                               size_t n_config, qn_error *err)
{
    qn_tokenizer *t = fresh();
    return done(out, t, qn_tok_load_tiktoken(t, ranks, n, config, n_config, err));
}

int qn_tokenizer_open_gguf(qn_tokenizer **out, const qn_tok_gguf *g, qn_error *err)
{
    qn_tokenizer *t = fresh();
    return done(out, t, qn_tok_load_gguf(t, g, err));
}

int qn_tokenizer_open(qn_tokenizer **out, const char *path, qn_error *err)
{
    qn_tokenizer *t = fresh();
    return done(out, t, qn_tok_load_path(t, path, err));
}

void qn_tokenizer_close(qn_tokenizer *t)
{
    if (!t)
        return;
    if (t->model.close)
        t->model.close(t->model.data);
    for (size_t i = 0; i < t->n_norm; i++)
        qn_regex_close(t->norm[i].re);
    for (size_t i = 0; i < t->n_pre; i++)
        qn_regex_close(t->pre[i].re);
    for (size_t i = 0; i < t->n_dec; i++)
        qn_regex_close(t->dec[i].re);
    qn_free(t->norm);
    qn_free(t->pre);
    qn_free(t->dec);
    qn_free(t->added);
    qn_free(t->added_of);
    qn_free(t->kind);
    qn_free(t->post);
    qn_free(t->pair);
    qn_free(t->pair_segment);
    qn_free(t->template_name);
    qn_free(t->template_text);
    qn_trie_free(&t->raw.trie);
    qn_trie_free(&t->normed.trie);
    qn_trie_free(&t->keep);
    qn_scratch_close(atomic_load(&t->idle));
    qn_vocab_free(&t->vocab);
    qn_arena_free(&t->arena);
    qn_free(t);
}

/* ---- encoding ---- */

/* One piece through the model, by way of the words already seen. */
static int encode_piece(const qn_tokenizer *t, qn_scratch *x, const char *s, size_t n, qn_ids *out)
{
    if (!t->model.cached)
        return t->model.encode(t, x, s, n, out);
    uint64_t hash =
        qn_hash_bytes(s, n) ^ 0x5bd1e995; /* apart from words the model itself remembers */
    if (qn_word_cache_get(x->cache, hash, s, n, out))
        return QN_OK;
    size_t before = out->n;
    int rc = t->model.encode(t, x, s, n, out);
    if (rc == QN_OK)
        qn_word_cache_put(x->cache, hash, (qn_tok_str){ s, n }, out, before);
    return rc;
}

static int encode_plain(const qn_tokenizer *t, qn_scratch *x, qn_tok_text in, qn_ids *out)
{
    const char *text;
    if (in.n == 0)
        return QN_OK;
    int at = qn_pretokenize(t, x, in, &text), rc = QN_OK;
    for (size_t i = 0; i < x->n_span[at] && rc == QN_OK; i++)
        rc = encode_piece(t, x, text + x->span[at][i].start, x->span[at][i].n, out);
    return rc;
}

/* The rest of `s` from `from` on, up to `to`. */
static qn_tok_text part(qn_tok_text s, size_t from, size_t to)
{
    return (qn_tok_text){ s.p + from, to - from, s.zero > from ? s.zero - from : 0 };
}

/* Text between tokens of the first kind: normalized, then cut at tokens of the second kind. */
static int encode_between(const qn_tokenizer *t, qn_scratch *x, qn_tok_text in, bool parse,
                          qn_ids *out)
{
    if (in.n == 0)
        return QN_OK;
    qn_tok_text s = qn_normalize(t, x, in);
    qn_cutter c = { .m = &t->normed, .s = { s.p, s.n }, .parse = parse };
    int rc = QN_OK;
    while (rc == QN_OK && qn_added_next(t, &c)) {
        if (c.start > c.done)
            rc = encode_plain(t, x, part(s, c.done, c.start), out);
        if (c.id >= 0)
            qn_ids_add(out, c.id);
    }
    if (rc == QN_OK && c.done < s.n)
        rc = encode_plain(t, x, part(s, c.done, s.n), out);
    return rc;
}

static int encode_text(const qn_tokenizer *t, qn_scratch *x, qn_tok_str text, bool parse,
                       qn_ids *out)
{
    uint32_t cp;
    size_t first = text.n ? (size_t)qn_utf8_decode(text.s, text.n, &cp) : 0;
    qn_tok_text s = { text.s, text.n, first };
    qn_cutter c = { .m = &t->raw, .s = text, .parse = parse };
    int rc = QN_OK;
    while (rc == QN_OK && qn_added_next(t, &c)) {
        if (c.start > c.done)
            rc = encode_between(t, x, part(s, c.done, c.start), parse, out);
        if (c.id >= 0)
            qn_ids_add(out, c.id);
    }
    if (rc == QN_OK && c.done < s.n)
        rc = encode_between(t, x, part(s, c.done, s.n), parse, out);
    return rc;
}

/* Malformed UTF-8 becomes U+FFFD before anything looks at it. */
static qn_tok_str clean(qn_scratch *x, const char *text, size_t n)
{
    size_t good = qn_utf8_valid(text, n);
    if (good == n)
        return (qn_tok_str){ text, n };
    qn_buf_clear(&x->clean);
    for (size_t at = 0; at < n;) {
        good = qn_utf8_valid(text + at, n - at);
        qn_buf_add(&x->clean, text + at, good);
        at += good;
        if (at < n) {
            at += (size_t)qn_utf8_bad_run(text + at, n - at);
            qn_buf_str(&x->clean, "\xef\xbf\xbd");
        }
    }
    return (qn_tok_str){ x->clean.data, x->clean.len };
}

static int encode_with(const qn_tokenizer *t, qn_scratch *x, qn_tok_str text, unsigned flags,
                       qn_ids *out)
{
    bool parse = flags & QN_ENCODE_PARSE;
    x->failed = false;
    qn_tok_str s = clean(x, text.s, text.n);
    if (!(flags & QN_ENCODE_SPECIAL) || !t->post)
        return encode_text(t, x, s, parse, out);
    int rc = QN_OK;
    for (size_t i = 0; i < t->n_post && rc == QN_OK; i++) {
        if (t->post[i] == QN_POST_TEXT)
            rc = encode_text(t, x, s, parse, out);
        else
            qn_ids_add(out, t->post[i]);
    }
    return rc;
}

int qn_tokenizer_encode(const qn_tokenizer *t, const char *text, size_t n, unsigned flags,
                        qn_ids *out, qn_error *err)
{
    if (n > UINT32_MAX / 4)
        return qn_fail(err, QN_ERR_LIMIT, "text of %zu bytes is too long to encode at once", n);
    /* Whoever takes the idle scratch owns it until the exchange that puts it back. */
    qn_tokenizer *shared = (qn_tokenizer *)t;
    qn_scratch *x = atomic_exchange_explicit(&shared->idle, NULL, memory_order_acq_rel);
    if (!x)
        x = qn_scratch_open();
    size_t before = out->n;
    int rc = encode_with(t, x, (qn_tok_str){ text, n }, flags, out);
    if (rc == QN_OK && x->failed)
        rc = qn_fail(err, QN_ERR_LIMIT,
                     "tokenizer: a pattern exceeded its matching limit on this text");
    else if (rc == QN_ERR_FORMAT)
        qn_fail(err, rc, "tokenizer: the text needs an unknown token, and the vocabulary has none");
    else if (rc != QN_OK)
        qn_fail(err, rc, "tokenizer: a stretch of text without a break is too long");
    if (rc != QN_OK)
        out->n = before;
    qn_scratch *none = NULL;
    if (!atomic_compare_exchange_strong_explicit(&shared->idle, &none, x, memory_order_acq_rel,
                                                 memory_order_acquire))
        qn_scratch_close(x);
    return rc;
}

/* ---- questions ---- */

size_t qn_tokenizer_n_vocab(const qn_tokenizer *t)
{
    return t->n_ids;
}

const char *qn_tokenizer_piece(const qn_tokenizer *t, int32_t id, size_t *n)
{
    *n = 0;
    if (id < 0 || (size_t)id >= t->n_ids)
        return NULL;
    const qn_piece *p = &t->added_of[id];
    if (!p->s && (size_t)id < t->vocab.n_ids)
        p = &t->vocab.piece[id];
    *n = p->s ? p->n : 0;
    return p->s;
}

int32_t qn_tokenizer_id(const qn_tokenizer *t, const char *piece, size_t n)
{
    for (size_t i = 0; i < t->n_added; i++)
        if (t->added[i].n == n && memcmp(t->added[i].s, piece, n) == 0)
            return t->added[i].id;
    return qn_vocab_find(&t->vocab, piece, n);
}

qn_token_kind qn_tokenizer_kind(const qn_tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->n_ids ? (qn_token_kind)t->kind[id] : QN_TOKEN_UNUSED;
}

int32_t qn_tokenizer_special(const qn_tokenizer *t, qn_tok_special which)
{
    return t->special[which];
}

/* The text is somewhere in the list, so a token "before" it is one that comes first. */
bool qn_tokenizer_adds_bos(const qn_tokenizer *t)
{
    return t->n_post > 1 && t->post[0] >= 0 && t->post[0] == t->special[QN_TOK_BOS];
}

bool qn_tokenizer_adds_eos(const qn_tokenizer *t)
{
    return t->n_post > 1 && t->post[t->n_post - 1] >= 0 &&
           t->post[t->n_post - 1] == t->special[QN_TOK_EOS];
}

bool qn_tokenizer_parses(const qn_tokenizer *t)
{
    return t->parses;
}

const char *qn_tokenizer_kind_name(const qn_tokenizer *t)
{
    return t->model.name;
}

void qn_tok_add_template(qn_tokenizer *t, const char *name, const char *text)
{
    t->template_name = qn_realloc_n(t->template_name, t->n_templates + 1, sizeof *t->template_name);
    t->template_text = qn_realloc_n(t->template_text, t->n_templates + 1, sizeof *t->template_text);
    t->template_name[t->n_templates] = qn_arena_strdup(&t->arena, name);
    t->template_text[t->n_templates++] = qn_arena_strdup(&t->arena, text);
}

const char *qn_tokenizer_chat_template(const qn_tokenizer *t, const char *name)
{
    for (size_t i = 0; i < t->n_templates; i++)
        if (strcmp(t->template_name[i], name ? name : "default") == 0)
            return t->template_text[i];
    return NULL;
}
