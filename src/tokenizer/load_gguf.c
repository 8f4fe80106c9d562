/* load_gguf.c - a tokenizer from the metadata of a GGUF file, handed over as a plain view. Four models:
 * "llama" (sentencepiece BPE by score), "gpt2" and "gemma4" (BPE by merges), "bert" (WordPiece with marked
 * word starts) and "t5" (Unigram); any other is refused by name. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "tokenizer/internal.h"

static const uint8_t kind_of[] = { QN_TOKEN_NORMAL,  QN_TOKEN_NORMAL, QN_TOKEN_UNKNOWN,
                                   QN_TOKEN_CONTROL, QN_TOKEN_USER,   QN_TOKEN_UNUSED,
                                   QN_TOKEN_BYTE };

static int load_tokens(qn_tokenizer *t, const qn_tok_gguf *g, uint8_t *kind, qn_error *err)
{
    qn_vocab_init(&t->vocab, g->n_tokens);
    int rc = QN_OK;
    for (size_t i = 0; i < g->n_tokens && rc == QN_OK; i++) {
        const qn_tok_str *s = &g->token[i];
        int32_t type = g->type ? g->type[i] : 1;
        kind[i] = type >= 0 && type <= 6 ? kind_of[type] : QN_TOKEN_NORMAL;
        if (g->score && isnan(g->score[i]))
            return qn_fail(err, QN_ERR_FORMAT, "GGUF: tokenizer.ggml.scores[%zu] is not a number",
                           i);
        /* A text that occurs twice is looked up as the first one. */
        if (qn_vocab_find(&t->vocab, s->s, s->n) >= 0)
            rc = qn_vocab_put_id(&t->vocab, s->s, s->n, (int64_t)i, err);
        else
            rc = qn_vocab_put(&t->vocab, s->s, s->n, (int64_t)i, err);
        if (rc != QN_OK)
            return qn_fail_in(err, rc, "GGUF: tokenizer.ggml.tokens[%zu]", i);
        t->vocab.piece[i].kind = kind[i];
    }
    return rc;
}

/* Control and user-defined tokens are cut out of the text; the mask takes the space before it along in the
 * vocabularies whose original says so. */
static int load_added(qn_tokenizer *t, const qn_tok_gguf *g, const uint8_t *kind, qn_error *err)
{
    bool lstrip =
        g->pre && (strncmp(g->pre, "jina-v2", 7) == 0 || strcmp(g->pre, "modern-bert") == 0 ||
                   strcmp(g->pre, "roberta-bpe") == 0);
    int rc = QN_OK;
    for (size_t i = 0; i < g->n_tokens && rc == QN_OK; i++) {
        bool special = kind[i] == QN_TOKEN_CONTROL || kind[i] == QN_TOKEN_UNKNOWN;
        if ((!special && kind[i] != QN_TOKEN_USER) || g->token[i].n == 0)
            continue;
        qn_added a = {
            .s = g->token[i].s, .n = (uint32_t)g->token[i].n, .id = (int32_t)i, .special = special
        };
        a.lstrip = lstrip && t->special[QN_TOK_MASK] == (int32_t)i;
        rc = qn_added_put(t, &a, err);
    }
    return rc;
}

static int load_merges(qn_tokenizer *t, qn_bpe *b, const qn_tok_gguf *g, qn_error *err)
{
    qn_buf joined = { 0 };
    size_t skipped = 0;
    int rc = QN_OK;
    for (size_t i = 0; i < g->n_merges && rc == QN_OK; i++) {
        const qn_tok_str *m = &g->merge[i];
        /* The first half may itself begin with a space. */
        const char *space = m->n > 1 ? memchr(m->s + 1, ' ', m->n - 1) : NULL;
        if (!space) {
            rc = qn_fail(err, QN_ERR_FORMAT, "GGUF: tokenizer.ggml.merges[%zu] is no pair", i);
            break;
        }
        size_t n_left = (size_t)(space - m->s), n_right = m->n - n_left - 1;
        qn_buf_clear(&joined);
        qn_buf_add(&joined, m->s, n_left);
        qn_buf_add(&joined, space + 1, n_right);
        int32_t left = qn_vocab_find(&t->vocab, m->s, n_left);
        int32_t right = qn_vocab_find(&t->vocab, space + 1, n_right);
        int32_t made = qn_vocab_find(&t->vocab, joined.data, joined.len);
        if (left < 0 || right < 0 || made < 0)
            skipped++;
        else
            qn_bpe_pair(b, left, right, (uint32_t)i, made);
    }
    if (skipped)
        qn_log(QN_LOG_WARN, "GGUF: %zu of %zu merges name tokens the vocabulary lacks", skipped,
               g->n_merges);
    qn_buf_free(&joined);
    return rc;
}

static void add_literal(qn_tokenizer *t, bool decode, const char *from, const char *to)
{
    qn_regex *re = qn_regex_open_literal(from, strlen(from));
    if (decode) {
        qn_dec *d = qn_tok_add_dec(t, QN_DEC_REPLACE);
        d->re = re;
        d->text = to;
        d->n_text = strlen(to);
    } else {
        qn_norm *s = qn_tok_add_norm(t, QN_NORM_REPLACE);
        s->re = re;
        s->text = to;
        s->n_text = strlen(to);
    }
}

/* Marks back to spaces, bytes to text, one token, and the space in front gone when encoding adds it. */
static void decode_marks(qn_tokenizer *t, bool bytes, bool strip)
{
    add_literal(t, true, QN_TOK_SPACE, " ");
    if (bytes)
        qn_tok_add_dec(t, QN_DEC_BYTE_FALLBACK);
    qn_tok_add_dec(t, QN_DEC_FUSE);
    if (strip) {
        qn_dec *d = qn_tok_add_dec(t, QN_DEC_STRIP);
        d->text = " ";
        d->n_text = 1;
        d->start = 1;
    }
}

static int load_bpe(qn_tokenizer *t, const qn_tok_gguf *g, bool spm, int *add_bos, qn_error *err)
{
    qn_bpe_options o = { 0 };
    int rc = qn_tok_gguf_pre(t, spm ? "gemma4" : g->pre, &o, add_bos, err);
    if (rc != QN_OK)
        return rc;
    if (!g->merge)
        return qn_fail(err, QN_ERR_FORMAT, "GGUF: tokenizer.ggml.merges is missing");
    qn_bpe *b = qn_bpe_open(g->n_merges);
    rc = load_merges(t, b, g, err);
    int attached = qn_bpe_attach(t, b, &o, err);
    if (o.byte_fallback) {
        add_literal(t, false, " ", QN_TOK_SPACE);
        decode_marks(t, true, false);
    } else {
        qn_tok_add_dec(t, QN_DEC_BYTE_LEVEL);
    }
    return rc != QN_OK ? rc : attached;
}

static int load_llama(qn_tokenizer *t, const qn_tok_gguf *g, const uint8_t *kind, qn_error *err)
{
    if (!g->score)
        return qn_fail(err, QN_ERR_FORMAT, "GGUF: tokenizer.ggml.scores is missing");
    bool prefix = g->add_space_prefix != 0; /* absent means yes */
    if (prefix) {
        qn_norm *s = qn_tok_add_norm(t, QN_NORM_PREPEND);
        s->text = QN_TOK_SPACE;
        s->n_text = 3;
    }
    add_literal(t, false, " ", QN_TOK_SPACE);
    decode_marks(t, true, prefix);
    return qn_tok_attach_spm_bpe(t, g->score, kind, true, err);
}

static int load_t5(qn_tokenizer *t, const qn_tok_gguf *g, const uint8_t *kind, qn_error *err)
{
    if (!g->score)
        return qn_fail(err, QN_ERR_FORMAT, "GGUF: tokenizer.ggml.scores is missing");
    qn_norm *s = qn_tok_add_norm(t, QN_NORM_SPM);
    s->dummy_prefix = g->add_space_prefix > 0;
    s->squeeze = g->remove_extra_whitespaces > 0;
    s->escape = true;
    int rc = QN_OK;
    if (g->charsmap_bytes)
        rc = qn_charsmap_init(&s->map, &t->arena, g->charsmap, g->charsmap_bytes, err);
    double *score = qn_alloc_n(g->n_tokens, sizeof *score);
    for (size_t i = 0; i < g->n_tokens; i++)
        score[i] = g->score[i];
    qn_unigram_attach(
        t, &(qn_unigram_options){
               .score = score, .unk = t->special[QN_TOK_UNK], .spm = true, .kind = kind });
    qn_free(score);
    decode_marks(t, false, s->dummy_prefix);
    return rc;
}

static void load_bert(qn_tokenizer *t, const qn_tok_gguf *g)
{
    qn_norm *s = qn_tok_add_norm(t, QN_NORM_BERT);
    s->clean = s->cjk = true;
    s->lower = g->lowercase != 0;
    s->accents = g->strip_accents < 0 ? s->lower : g->strip_accents > 0;
    qn_tok_add_pre(t, QN_PRE_SPACES)->behavior = QN_REMOVED;
    qn_tok_add_pre(t, QN_PRE_PUNCT);
    qn_phantom_attach(t, t->special[QN_TOK_UNK]);
    decode_marks(t, false, true);
}

/* What a model's converter left out, by the format's rules. */
static void set_specials(qn_tokenizer *t, const qn_tok_gguf *g)
{
    bool bert = strcmp(g->model, "bert") == 0, llama = strcmp(g->model, "llama") == 0;
    bool t5 = strcmp(g->model, "t5") == 0;
    const int64_t given[QN_TOK_N_SPECIAL] = {
        [QN_TOK_BOS] = g->bos, [QN_TOK_EOS] = g->eos, [QN_TOK_EOT] = g->eot,  [QN_TOK_UNK] = g->unk,
        [QN_TOK_PAD] = g->pad, [QN_TOK_SEP] = g->sep, [QN_TOK_MASK] = g->mask
    };
    int64_t fallback[QN_TOK_N_SPECIAL] = { -1, -1, -1, -1, -1, -1, -1 };
    fallback[QN_TOK_BOS] = bert ? 101 : llama ? 1 : -1;
    fallback[QN_TOK_EOS] = llama ? 2 : t5 ? 1 : -1;
    fallback[QN_TOK_UNK] = bert ? 100 : llama ? 0 : t5 ? 2 : -1;
    fallback[QN_TOK_SEP] = bert ? 102 : -1;
    for (int i = 0; i < QN_TOK_N_SPECIAL; i++) {
        int64_t id = given[i] >= 0 ? given[i] : fallback[i];
        t->special[i] = id >= 0 && (uint64_t)id < g->n_tokens ? (int32_t)id : -1;
    }
}

static void set_post(qn_tokenizer *t, const qn_tok_gguf *g, int bos_by_pre)
{
    bool bert = strcmp(g->model, "bert") == 0, llama = strcmp(g->model, "llama") == 0;
    bool bos = g->add_bos >= 0 ? g->add_bos > 0 : llama || bos_by_pre > 0;
    bool eos = g->add_eos >= 0 ? g->add_eos > 0 : strcmp(g->model, "t5") == 0;
    qn_ids post = { 0 };
    if ((bos || bert) && t->special[QN_TOK_BOS] >= 0)
        qn_ids_add(&post, t->special[QN_TOK_BOS]);
    qn_ids_add(&post, QN_POST_TEXT);
    if (eos && !bert && t->special[QN_TOK_EOS] >= 0)
        qn_ids_add(&post, t->special[QN_TOK_EOS]);
    else if ((bert || g->add_sep > 0) && t->special[QN_TOK_SEP] >= 0)
        qn_ids_add(&post, t->special[QN_TOK_SEP]);
    t->post = post.v;
    t->n_post = post.n;
}

int qn_tok_load_gguf(qn_tokenizer *t, const qn_tok_gguf *g, qn_error *err)
{
    if (!g->model || !g->token || g->n_tokens == 0 || g->n_tokens > INT32_MAX)
        return qn_fail(err, QN_ERR_FORMAT,
                       "GGUF: tokenizer.ggml.model or tokenizer.ggml.tokens is missing");
    uint8_t *kind = qn_alloc(g->n_tokens);
    int bos_by_pre = 0;
    set_specials(t, g);
    int rc = load_tokens(t, g, kind, err);
    if (rc != QN_OK)
        ;
    else if (strcmp(g->model, "llama") == 0)
        rc = load_llama(t, g, kind, err);
    else if (strcmp(g->model, "gpt2") == 0 || strcmp(g->model, "gemma4") == 0)
        rc = load_bpe(t, g, *g->model != 'g' || g->model[1] != 'p', &bos_by_pre, err);
    else if (strcmp(g->model, "bert") == 0)
        load_bert(t, g);
    else if (strcmp(g->model, "t5") == 0)
        rc = load_t5(t, g, kind, err);
    else
        rc = qn_fail(err, QN_ERR_UNSUPPORTED,
                     "GGUF: tokenizer.ggml.model \"%.60s\" is not supported", g->model);
    if (rc == QN_OK)
        rc = load_added(t, g, kind, err);
    set_post(t, g, bos_by_pre);
    if (g->chat_template)
        qn_tok_add_template(t, "default", g->chat_template);
    qn_free(kind);
    return rc == QN_OK ? qn_tok_finish(t, false, err) : rc;
}
