/* load_tiktoken.c - a rank file (one base64 token and its rank a line) and the JSON beside it that holds
 * the pattern and the special tokens. Pieces here are plain bytes. */
#include <string.h>

#include "base/json.h"
#include "tokenizer/internal.h"

static int read_line(qn_tokenizer *t, const char *s, size_t n, size_t line, qn_error *err)
{
    const char *space = memchr(s, ' ', n);
    qn_buf token = { 0 };
    int64_t rank = 0;
    bool ok = space && space + 1 < s + n && qn_tok_base64(s, (size_t)(space - s), &token) &&
              token.len > 0;
    for (const char *p = space ? space + 1 : s; ok && p < s + n; p++) {
        ok = *p >= '0' && *p <= '9' && rank < INT32_MAX;
        rank = rank * 10 + (*p - '0');
    }
    int rc =
        ok ? qn_vocab_put(&t->vocab, token.data, token.len, rank, err)
           : qn_fail(err, QN_ERR_FORMAT, "rank file, line %zu: not a token and its rank", line);
    qn_buf_free(&token);
    return rc;
}

static int read_ranks(qn_tokenizer *t, const char *s, size_t n, qn_error *err)
{
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += s[i] == '\n';
    qn_vocab_init(&t->vocab, lines + 1);
    int rc = QN_OK;
    for (size_t line = 1; n && rc == QN_OK; line++) {
        const char *end = memchr(s, '\n', n);
        size_t len = end ? (size_t)(end - s) : n, used = end ? len + 1 : n;
        if (len && s[len - 1] == '\r')
            len--;
        if (len)
            rc = read_line(t, s, len, line, err);
        s += used;
        n -= used;
    }
    if (rc == QN_OK && t->vocab.n_pieces == 0)
        rc = qn_fail(err, QN_ERR_FORMAT, "rank file: no tokens");
    return rc;
}

static int read_config(qn_tokenizer *t, const char *config, size_t n, qn_error *err)
{
    qn_arena a = { 0 };
    const qn_json *root = qn_json_parse(&a, config, n, err);
    const qn_json *pat = qn_json_get(root, "pat_str"),
                  *special = qn_json_get(root, "special_tokens");
    int rc = root ? QN_OK : QN_ERR_FORMAT;
    if (root && !qn_json_is(pat, QN_JSON_STR))
        rc = qn_fail(err, QN_ERR_FORMAT, "tiktoken config: pat_str is missing");
    if (rc == QN_OK) {
        qn_pre *step = qn_tok_add_pre(t, QN_PRE_SPLIT);
        step->re = qn_regex_open(pat->s, pat->n, QN_RX_PLAIN, err);
        step->behavior = QN_REMOVED; /* what the pattern does not match is dropped */
        step->invert = true;
        rc = step->re ? QN_OK : QN_ERR_FORMAT;
    }
    for (uint32_t i = 0; rc == QN_OK && qn_json_is(special, QN_JSON_OBJECT) && i < special->n;
         i++) {
        const qn_json *v = &special->items[i];
        int64_t id = qn_json_int(v, -1);
        /* Special ids usually follow the ranks; holes before them are fine, but no far away ones. */
        if (id < 0 || (size_t)id > 4 * t->vocab.n_ids + 100000)
            rc = qn_fail(err, QN_ERR_FORMAT, "tiktoken config: special_tokens: id of \"%.60s\"",
                         v->key);
        else
            rc = qn_added_put(
                t, &(qn_added){ v->key, v->key_len, (int32_t)id, true, false, false, false, false },
                err);
    }
    qn_arena_free(&a);
    return rc;
}

int qn_tok_load_tiktoken(qn_tokenizer *t, const char *ranks, size_t n, const char *config,
                         size_t n_config, qn_error *err)
{
    int rc = read_ranks(t, ranks, n, err);
    if (rc == QN_OK)
        rc = read_config(t, config, n_config, err);
    if (rc != QN_OK)
        return rc;
    size_t n_ids = t->vocab.n_ids;
    uint32_t *rank = qn_alloc_n(n_ids, sizeof *rank);
    uint8_t *usable = qn_alloc(n_ids);
    for (size_t i = 0; i < n_ids; i++) {
        rank[i] = (uint32_t)i;
        usable[i] = t->vocab.piece[i].s != NULL;
    }
    qn_bpe *b = qn_bpe_open(4 * n_ids);
    qn_bpe_pairs_by_result(b, &t->vocab, rank, usable);
    qn_free(rank);
    qn_free(usable);
    rc = qn_bpe_attach(t, b, &(qn_bpe_options){ .plain_bytes = true, .ignore_merges = true }, err);
    qn_tok_add_dec(t, QN_DEC_BYTES);
    t->parses = false;
    return rc == QN_OK ? qn_tok_finish(t, false, err) : rc;
}
