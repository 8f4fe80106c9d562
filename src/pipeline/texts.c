/* texts.c - see texts.h. */
#include "pipeline/texts.h"

#include <string.h>

/* Rows of a step: enough to keep the matrix products busy, few enough that their values stay in tens of MB. */
enum { STEP_ROWS = 2048 };

void qn_texts_free(qn_texts *t)
{
    for (size_t i = 0; i < t->n; i++) {
        qn_free((void *)(uintptr_t)t->v[i].id);
        qn_free((void *)(uintptr_t)t->v[i].segment);
    }
    qn_free(t->v);
    *t = (qn_texts){ 0 };
}

void qn_texts_add_ids(qn_texts *t, const int32_t *id, const int32_t *segment, int32_t n)
{
    size_t bytes = (size_t)n * sizeof *id;
    int32_t *ids = qn_alloc(bytes + sizeof *id), *segments = qn_alloc(bytes + sizeof *id);
    if (n > 0)
        memcpy(ids, id, bytes);
    if (n > 0 && segment)
        memcpy(segments, segment, bytes);
    QN_GROW(t->v, t->n, t->cap);
    t->v[t->n++] = (qn_passage){ .id = ids, .segment = segments, .n = n };
}

/* Tokens that a frame adds to no text at all. */
static int32_t frame_size(const qn_tokenizer *tok, bool pair, qn_error *err)
{
    qn_ids none = { 0 }, out = { 0 }, segment = { 0 };
    int rc = qn_tokenizer_frame(tok, &none, pair ? &none : NULL, &out, &segment, err);
    int32_t n = rc == QN_OK ? (int32_t)out.n : rc;
    qn_ids_free(&out);
    qn_ids_free(&segment);
    return n;
}

/* Room for texts below `limit`; negative with err filled when there is none. */
static int32_t room(const qn_tokenizer *tok, bool pair, int32_t limit, qn_error *err)
{
    int32_t frame = frame_size(tok, pair, err);
    if (frame >= limit)
        return qn_fail(err, QN_ERR_LIMIT, "%d tokens have no room for a text", limit);
    return frame < 0 ? frame : limit - frame;
}

static int encode(const qn_tokenizer *tok, const char *text, qn_ids *out, qn_error *err)
{
    unsigned flags = qn_tokenizer_parses(tok) ? QN_ENCODE_PARSE : 0;
    return qn_tokenizer_encode(tok, text, strlen(text), flags, out, err);
}

static int add_framed(qn_texts *t, const qn_tokenizer *tok, const qn_ids *a, const qn_ids *b,
                      qn_error *err)
{
    qn_ids out = { 0 }, segment = { 0 };
    int rc = qn_tokenizer_frame(tok, a, b, &out, &segment, err);
    if (rc == QN_OK && out.n == 0)
        rc = qn_fail(err, QN_ERR_ARGUMENT, "text %zu has no tokens", t->n + 1);
    if (rc == QN_OK)
        qn_texts_add_ids(t, out.v, segment.v, (int32_t)out.n);
    qn_ids_free(&out);
    qn_ids_free(&segment);
    return rc;
}

int qn_texts_add(qn_texts *t, const qn_tokenizer *tok, const char *text, int32_t limit,
                 qn_error *err)
{
    int32_t most = room(tok, false, limit, err);
    if (most < 0)
        return most;
    qn_ids ids = { 0 };
    int rc = encode(tok, text, &ids, err);
    if (ids.n > (size_t)most)
        ids.n = (size_t)most;
    if (rc == QN_OK)
        rc = add_framed(t, tok, &ids, NULL, err);
    qn_ids_free(&ids);
    return rc;
}

/* Takes from the longer text until both fit; where both are long each gets half. */
static void cut_pair(qn_ids *a, qn_ids *b, size_t most)
{
    qn_ids *few = a->n <= b->n ? a : b, *many = few == a ? b : a;
    if (a->n + b->n <= most)
        return;
    if (few->n > most / 2)
        few->n = most / 2;
    if (many->n > most - few->n)
        many->n = most - few->n;
}

int qn_texts_add_pair(qn_texts *t, const qn_tokenizer *tok, const char *a, const char *b,
                      int32_t limit, qn_error *err)
{
    int32_t most = room(tok, true, limit, err);
    if (most < 0)
        return most;
    qn_ids first = { 0 }, second = { 0 };
    int rc = encode(tok, a, &first, err);
    if (rc == QN_OK)
        rc = encode(tok, b, &second, err);
    cut_pair(&first, &second, (size_t)most);
    if (rc == QN_OK)
        rc = add_framed(t, tok, &first, &second, err);
    qn_ids_free(&first);
    qn_ids_free(&second);
    return rc;
}

size_t qn_texts_group(const qn_passage *p, size_t n, size_t from)
{
    int64_t rows = p[from].n;
    size_t end = from + 1;
    for (; end < n && rows + p[end].n <= STEP_ROWS; end++)
        rows += p[end].n;
    return end - from;
}
