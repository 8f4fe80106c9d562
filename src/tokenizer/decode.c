/* decode.c - ids back to text, one id at a time; decoding a whole list is the same code fed at once.
 *
 * The decoder's steps form a chain. A step takes whole tokens and passes tokens on; from the first step
 * that joins them (Fuse, ByteLevel), what follows sees one token that arrives in parts, so a later step
 * either works on parts or keeps them all until the end. Bytes leave as whole characters; what cannot
 * become one is written as U+FFFD, as a lossy UTF-8 decoder does. */
#include <string.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"

#define BAD_CHAR "\xef\xbf\xbd"

typedef struct step_state {
    size_t index; /* tokens seen */
    qn_buf held;  /* parts, a run of bytes, or the previous token, by kind of step */
    size_t sent;  /* of the run: bytes already passed on */
    size_t strip; /* characters stripped at the start so far */
    bool broken;  /* the run is no UTF-8 */
    bool begun;   /* the start is behind */
} step_state;

struct qn_detok {
    const qn_tokenizer *t;
    bool skip, streaming;
    step_state *state; /* [n_dec] */
    qn_buf tail;       /* bytes that do not yet make a character */
    qn_buf ready;      /* text held back together with what follows it */
    qn_rx_scratch rx;
    qn_buf *out;
};

static void feed(qn_detok *d, size_t i, const char *s, size_t n);
static void feed_part(qn_detok *d, size_t i, const char *s, size_t n);

/* The end of the chain: writes whole characters, keeps a cut one. */
static void emit(qn_detok *d, const char *s, size_t n)
{
    qn_buf_add(&d->tail, s, n);
    const char *p = qn_buf_cstr(&d->tail);
    size_t len = d->tail.len - qn_utf8_partial(p, d->tail.len), at = 0;
    while (at < len) {
        size_t good = qn_utf8_valid(p + at, len - at);
        qn_buf_add(d->out, p + at, good);
        at += good;
        if (at < len) {
            at += (size_t)qn_utf8_bad_run(p + at, len - at);
            qn_buf_str(d->out, BAD_CHAR);
        }
    }
    size_t left = d->tail.len - at;
    if (left)
        memmove(d->tail.data, d->tail.data + at, left);
    d->tail.len = left;
}

static void emit_end(qn_detok *d)
{
    if (d->tail.len) /* one cut character: its bytes are one maximal subpart */
        qn_buf_str(d->out, BAD_CHAR);
    qn_buf_clear(&d->tail);
}

/* Replaces every `from` in s by `to`, into out. An empty `from` is found beside every character, as the
 * reference's string search finds it. */
static void replace_text(const char *s, size_t n, qn_tok_str from, qn_tok_str to, qn_buf *out)
{
    uint32_t cp;
    for (size_t at = 0, len; from.n == 0 && at < n; at += len) {
        len = (size_t)qn_utf8_decode(s + at, n - at, &cp);
        qn_buf_add(out, to.s, to.n);
        qn_buf_add(out, s + at, len);
    }
    if (from.n == 0) {
        qn_buf_add(out, to.s, to.n);
        return;
    }
    while (n >= from.n) {
        const char *at = memmem(s, n, from.s, from.n);
        if (!at)
            break;
        qn_buf_add(out, s, (size_t)(at - s));
        qn_buf_add(out, to.s, to.n);
        n -= (size_t)(at - s) + from.n;
        s = at + from.n;
    }
    qn_buf_add(out, s, n);
}

/* The English spacing that WordPiece-like models undo. */
static void clean_up(qn_buf *text, qn_buf *work)
{
    static const char *const pair[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        qn_tok_str from = { pair[i][0], strlen(pair[i][0]) },
                   to = { pair[i][1], strlen(pair[i][1]) };
        qn_buf_clear(work);
        replace_text(qn_buf_cstr(text), text->len, from, to, work);
        qn_buf swap = *text;
        *text = *work;
        *work = swap;
    }
}

static void byte_level(qn_detok *d, size_t i, const char *s, size_t n)
{
    qn_buf bytes = { 0 };
    size_t at = 0;
    for (uint32_t cp; at < n;) {
        size_t len = (size_t)qn_utf8_decode(s + at, n - at, &cp);
        int byte = cp == UINT32_MAX ? -1 : qn_byte_level_unmap(cp);
        if (byte < 0)
            break;
        qn_buf_char(&bytes, (char)byte);
        at += len;
    }
    bool mapped = at == n; /* a token with any other character is text as it is */
    feed_part(d, i + 1, mapped ? qn_buf_cstr(&bytes) : s, mapped ? bytes.len : n);
    qn_buf_free(&bytes);
}

static void metaspace(qn_detok *d, size_t i, const char *s, size_t n)
{
    const qn_dec *k = &d->t->dec[i];
    bool drop = d->state[i].index == 0 && !k->keep_first;
    qn_buf out = { 0 };
    replace_text(s, n, (qn_tok_str){ k->text, k->n_text }, (qn_tok_str){ " ", drop ? 0 : 1 }, &out);
    feed(d, i + 1, qn_buf_cstr(&out), out.len);
    qn_buf_free(&out);
}

static void wordpiece(qn_detok *d, size_t i, const char *s, size_t n)
{
    const qn_dec *k = &d->t->dec[i];
    qn_buf out = { 0 }, work = { 0 };
    if (d->state[i].index > 0) {
        bool inside = n >= k->n_text && memcmp(s, k->text, k->n_text) == 0;
        if (inside)
            s += k->n_text, n -= k->n_text;
        else
            qn_buf_char(&out, ' ');
    }
    qn_buf_add(&out, s, n);
    if (k->cleanup)
        clean_up(&out, &work);
    feed(d, i + 1, qn_buf_cstr(&out), out.len);
    qn_buf_free(&out);
    qn_buf_free(&work);
}

static void ctc(qn_detok *d, size_t i, const char *s, size_t n)
{
    const qn_dec *k = &d->t->dec[i];
    step_state *st = &d->state[i];
    if (st->index > 0 && st->held.len == n && memcmp(qn_buf_cstr(&st->held), s, n) == 0)
        return;
    qn_buf_clear(&st->held);
    qn_buf_add(&st->held, s, n);
    qn_buf out = { 0 }, work = { 0 };
    replace_text(s, n, (qn_tok_str){ k->text, k->n_text }, (qn_tok_str){ "", 0 }, &out);
    if (k->cleanup) {
        clean_up(&out, &work);
        qn_buf_clear(&work);
        replace_text(qn_buf_cstr(&out), out.len, (qn_tok_str){ k->text2, k->n_text2 },
                     (qn_tok_str){ " ", 1 }, &work);
        qn_buf_clear(&out);
        qn_buf_add(&out, qn_buf_cstr(&work), work.len);
    }
    if (out.len)
        feed(d, i + 1, qn_buf_cstr(&out), out.len);
    qn_buf_free(&out);
    qn_buf_free(&work);
}

/* The suffix becomes a space, but nothing on the last token: one token is held to know which it is. */
static void bpe_held(qn_detok *d, size_t i, bool last)
{
    const qn_dec *k = &d->t->dec[i];
    step_state *st = &d->state[i];
    if (!st->begun)
        return;
    qn_buf out = { 0 };
    replace_text(qn_buf_cstr(&st->held), st->held.len, (qn_tok_str){ k->text, k->n_text },
                 (qn_tok_str){ " ", last ? 0 : 1 }, &out);
    qn_buf_clear(&st->held);
    st->begun = false;
    feed(d, i + 1, qn_buf_cstr(&out), out.len);
    qn_buf_free(&out);
}

static void bpe(qn_detok *d, size_t i, const char *s, size_t n)
{
    step_state *st = &d->state[i];
    bpe_held(d, i, false);
    qn_buf_add(&st->held, s, n);
    st->begun = true;
    /* A token without the suffix is the same wherever it stands. */
    if (!memmem(s, n, d->t->dec[i].text, d->t->dec[i].n_text))
        bpe_held(d, i, true);
}

static void strip_token(qn_detok *d, size_t i, const char *s, size_t n)
{
    const qn_dec *k = &d->t->dec[i];
    for (size_t c = 0; c < k->start && n >= k->n_text && memcmp(s, k->text, k->n_text) == 0; c++)
        s += k->n_text, n -= k->n_text;
    for (size_t c = 0;
         c < k->stop && n >= k->n_text && memcmp(s + n - k->n_text, k->text, k->n_text) == 0; c++)
        n -= k->n_text;
    feed(d, i + 1, s, n);
}

static void replace_token(qn_detok *d, size_t i, const char *s, size_t n)
{
    const qn_dec *k = &d->t->dec[i];
    qn_rx_search q = { .text = s, .n = n };
    qn_buf out = { 0 };
    size_t done = 0;
    uint32_t cp;
    bool any = false;
    while (q.from <= n && qn_regex_next(k->re, &d->rx, &q) > 0) {
        q.from = q.e;
        if (q.s == q.e) { /* an empty match: look further on, and none right behind a match */
            q.from += q.e < n ? (size_t)qn_utf8_decode(s + q.e, n - q.e, &cp) : 1;
            if (any && q.s == done)
                continue;
        }
        qn_buf_add(&out, s + done, q.s - done);
        qn_buf_add(&out, k->text, k->n_text);
        done = q.e;
        any = true;
    }
    qn_buf_add(&out, s + done, n - done);
    feed(d, i + 1, qn_buf_cstr(&out), out.len);
    qn_buf_free(&out);
}

/* Passes on what of a run of bytes is certain while streaming: whole characters. Once the run is no UTF-8,
 * each byte not yet passed on is a U+FFFD. */
static void send_run(qn_detok *d, size_t i, bool end)
{
    step_state *st = &d->state[i];
    const char *p = qn_buf_cstr(&st->held) + st->sent;
    size_t n = st->held.len - st->sent, good = qn_utf8_valid(p, n);
    bool cut = good < n && good + qn_utf8_partial(p, n) == n;
    st->broken = st->broken || (good < n && (end || !cut));
    if (!st->broken && good) {
        feed(d, i + 1, p, good);
        st->sent += good;
    }
    for (size_t k = 0; st->broken && k < n; k++) {
        feed(d, i + 1, BAD_CHAR, 3);
        st->sent++;
    }
}

static void end_run(qn_detok *d, size_t i)
{
    step_state *st = &d->state[i];
    if (st->held.len > st->sent)
        send_run(d, i, true);
    qn_buf_clear(&st->held);
    st->sent = 0;
    st->broken = false;
}

static void byte_fallback(qn_detok *d, size_t i, const char *s, size_t n)
{
    int byte;
    if (!qn_tok_is_byte_piece(s, n, &byte)) {
        end_run(d, i);
        feed(d, i + 1, s, n);
        return;
    }
    qn_buf_char(&d->state[i].held, (char)byte);
    /* A run is one token to what follows: it may go in parts only where tokens are joined anyway. */
    bool joined_next = i + 1 == d->t->n_dec || d->t->dec[i + 1].op == QN_DEC_FUSE;
    if (d->streaming && joined_next)
        send_run(d, i, false);
}

/* One whole token into step i. */
static void feed(qn_detok *d, size_t i, const char *s, size_t n)
{
    if (i == d->t->n_dec) {
        emit(d, s, n);
        return;
    }
    switch (d->t->dec[i].op) {
    case QN_DEC_BYTE_LEVEL:
        byte_level(d, i, s, n);
        break;
    case QN_DEC_METASPACE:
        metaspace(d, i, s, n);
        break;
    case QN_DEC_BYTE_FALLBACK:
        byte_fallback(d, i, s, n);
        break;
    case QN_DEC_STRIP:
        strip_token(d, i, s, n);
        break;
    case QN_DEC_REPLACE:
        replace_token(d, i, s, n);
        break;
    case QN_DEC_WORDPIECE:
        wordpiece(d, i, s, n);
        break;
    case QN_DEC_BPE:
        bpe(d, i, s, n);
        break;
    case QN_DEC_CTC:
        ctc(d, i, s, n);
        break;
    case QN_DEC_JOIN:
        if (d->state[i].index > 0)
            emit(d, " ", 1);
        emit(d, s, n);
        break;
    case QN_DEC_FUSE:
    case QN_DEC_BYTES:
    case QN_DEC_SPM:
        feed_part(d, i + 1, s, n);
        break;
    }
    d->state[i].index++;
}

/* Characters to strip at the start go as they come; those at the end are held while they may be the last. */
static void strip_part(qn_detok *d, size_t i, const char *s, size_t n)
{
    const qn_dec *k = &d->t->dec[i];
    step_state *st = &d->state[i];
    while (!st->begun && st->strip < k->start && n >= k->n_text &&
           memcmp(s, k->text, k->n_text) == 0) {
        s += k->n_text, n -= k->n_text;
        st->strip++;
    }
    if (n == 0)
        return;
    st->begun = true;
    qn_buf_add(&st->held, s, n);
    size_t keep = 0;
    for (size_t c = 0; c < k->stop; c++) {
        size_t end = st->held.len - keep;
        if (end < k->n_text || memcmp(st->held.data + end - k->n_text, k->text, k->n_text) != 0)
            break;
        keep += k->n_text;
    }
    size_t go = st->held.len - keep;
    feed_part(d, i + 1, st->held.data, go);
    memmove(st->held.data, st->held.data + go, keep);
    st->held.len = keep;
}

/* A part of the one joined token into step i. */
static void feed_part(qn_detok *d, size_t i, const char *s, size_t n)
{
    if (i == d->t->n_dec)
        emit(d, s, n);
    else if (d->t->dec[i].op == QN_DEC_FUSE)
        feed_part(d, i + 1, s, n);
    else if (d->t->dec[i].op == QN_DEC_STRIP && d->t->dec[i - 1].op != QN_DEC_BYTE_LEVEL)
        strip_part(d, i, s, n);
    else
        qn_buf_add(&d->state[i].held, s, n);
}

static bool joins(qn_dec_op op)
{
    return op == QN_DEC_FUSE || op == QN_DEC_BYTE_LEVEL;
}

/* What a step kept for the whole token it waited for: made valid text first, as a string must be. */
static void feed_held(qn_detok *d, size_t i)
{
    step_state *st = &d->state[i];
    qn_buf text = { 0 }, *out = d->out;
    qn_buf raw = st->held;
    st->held = (qn_buf){ 0 };
    d->out = &text;
    emit(d, qn_buf_cstr(&raw), raw.len);
    emit_end(d);
    d->out = out;
    feed(d, i, qn_buf_cstr(&text), text.len);
    qn_buf_free(&text);
    qn_buf_free(&raw);
}

static void end_steps(qn_detok *d)
{
    bool joined = false;
    for (size_t i = 0; i < d->t->n_dec; i++) {
        qn_dec_op op = d->t->dec[i].op;
        bool parts = joined && (op == QN_DEC_FUSE ||
                                (op == QN_DEC_STRIP && d->t->dec[i - 1].op != QN_DEC_BYTE_LEVEL));
        if (joined && !parts) {
            feed_held(d, i);
            joined = false; /* what follows got whole tokens */
        }
        if (op == QN_DEC_BYTE_FALLBACK)
            end_run(d, i);
        if (op == QN_DEC_BPE)
            bpe_held(d, i, true);
        joined = joined || joins(op);
    }
    emit_end(d);
    for (size_t i = 0; i < d->t->n_dec; i++) {
        qn_buf_free(&d->state[i].held);
        d->state[i] = (step_state){ 0 };
    }
}

/* sentencepiece: bytes by themselves, one U+FFFD for each that fits nowhere. */
static void spm_bytes(qn_detok *d, bool end)
{
    step_state *st = &d->state[0];
    while (st->held.len) {
        const char *p = st->held.data;
        uint32_t cp;
        size_t len = (size_t)qn_utf8_decode(p, st->held.len, &cp);
        bool cut = cp == UINT32_MAX && qn_utf8_partial(p, st->held.len) == st->held.len;
        if (cut && !end)
            break;
        if (cp == UINT32_MAX)
            emit(d, BAD_CHAR, 3);
        else
            emit(d, p, len);
        st->begun = true;
        memmove(st->held.data, st->held.data + len, st->held.len - len);
        st->held.len -= len;
    }
}

/* sentencepiece: control pieces vanish, unknown ones show as a double question mark, and the space that
 * was put in front of the text goes. */
static void spm_push(qn_detok *d, int32_t id, const char *s, size_t n)
{
    const qn_dec *k = &d->t->dec[0];
    step_state *st = &d->state[0];
    qn_token_kind kind = qn_tokenizer_kind(d->t, id);
    int byte;
    if (kind == QN_TOKEN_BYTE && qn_tok_is_byte_piece(s, n, &byte)) {
        qn_buf_char(&st->held, (char)byte);
        spm_bytes(d, false);
        return;
    }
    spm_bytes(d, true);
    if (kind == QN_TOKEN_CONTROL)
        return;
    if (kind == QN_TOKEN_UNKNOWN) {
        emit(d, " \xe2\x81\x87 ", 5);
        st->begun = true;
        return;
    }
    if (!st->begun && k->strip_bos && n >= 3 && memcmp(s, QN_TOK_SPACE, 3) == 0) {
        s += 3, n -= 3;
        st->begun = !k->strip_all;
    }
    st->begun = st->begun || n > 0;
    qn_buf out = { 0 };
    replace_text(s, n, (qn_tok_str){ QN_TOK_SPACE, 3 }, (qn_tok_str){ " ", 1 }, &out);
    emit(d, qn_buf_cstr(&out), out.len);
    qn_buf_free(&out);
}

qn_detok *qn_detok_open(const qn_tokenizer *t, bool skip_special)
{
    qn_detok *d = qn_alloc(sizeof *d);
    d->t = t;
    d->skip = skip_special;
    d->streaming = true;
    d->state = qn_alloc_n(t->n_dec, sizeof *d->state);
    return d;
}

void qn_detok_push(qn_detok *d, int32_t id, qn_buf *out)
{
    size_t n;
    const char *s = qn_tokenizer_piece(d->t, id, &n);
    if (!s || (d->skip && qn_tokenizer_kind(d->t, id) == QN_TOKEN_CONTROL))
        return;
    d->out = d->streaming ? &d->ready : out;
    if (d->t->n_dec && d->t->dec[0].op == QN_DEC_SPM)
        spm_push(d, id, s, n);
    else
        feed(d, 0, s, n);
    /* A token whose last character is cut (or broken) is given out as a whole once that is settled. */
    size_t have = d->ready.len;
    bool unsettled =
        d->tail.len > 0 || (have >= 3 && memcmp(d->ready.data + have - 3, BAD_CHAR, 3) == 0);
    if (d->streaming && !unsettled) {
        qn_buf_add(out, qn_buf_cstr(&d->ready), have);
        qn_buf_clear(&d->ready);
    }
}

void qn_detok_flush(qn_detok *d, qn_buf *out)
{
    d->out = out;
    qn_buf_add(out, qn_buf_cstr(&d->ready), d->ready.len);
    qn_buf_clear(&d->ready);
    if (d->t->n_dec && d->t->dec[0].op == QN_DEC_SPM)
        spm_bytes(d, true);
    end_steps(d);
}

void qn_detok_close(qn_detok *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->t->n_dec; i++)
        qn_buf_free(&d->state[i].held);
    qn_free(d->state);
    qn_buf_free(&d->tail);
    qn_buf_free(&d->ready);
    qn_rx_scratch_free(&d->rx);
    qn_free(d);
}

void qn_tokenizer_decode(const qn_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                         qn_buf *out)
{
    qn_detok *d = qn_detok_open(t, skip_special);
    d->streaming = false;
    for (size_t i = 0; i < n; i++)
        qn_detok_push(d, ids[i], out);
    qn_detok_flush(d, out);
    qn_detok_close(d);
}
