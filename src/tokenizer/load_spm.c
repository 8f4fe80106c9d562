/* load_spm.c - a bare sentencepiece model: the pieces, the trainer's and the normalizer's settings of its
 * protobuf, read by hand since only a dozen fields matter. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/internal.h"

/* A message being read: every length is checked against what is left. */
typedef struct proto {
    const unsigned char *p, *end;
    bool bad;
} proto;

static uint64_t varint(proto *m)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (m->p >= m->end)
            break;
        unsigned char c = *m->p++;
        v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return v;
    }
    m->bad = true;
    return 0;
}

/* One field: its number, and its value as an integer, or as bytes in *sub. */
static int field(proto *m, uint64_t *value, proto *sub)
{
    uint64_t key = varint(m), n = 0;
    *sub = (proto){ 0 };
    *value = 0;
    switch (key & 7) {
    case 0:
        *value = varint(m);
        break;
    case 1:
        n = 8;
        break;
    case 2:
        n = varint(m);
        break;
    case 5:
        n = 4;
        break;
    default:
        m->bad = true;
    }
    if (m->bad || n > (uint64_t)(m->end - m->p)) {
        m->bad = true;
        return 0;
    }
    *sub = (proto){ .p = m->p, .end = m->p + n };
    m->p += n;
    if ((key & 7) == 5)
        *value = sub->p[0] | (uint32_t)sub->p[1] << 8 | (uint32_t)sub->p[2] << 16 |
                 (uint32_t)sub->p[3] << 24;
    return key >> 3 > INT32_MAX ? 0 : (int)(key >> 3);
}

/* The numbers of the piece types in the file. */
enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER, PIECE_UNUSED, PIECE_BYTE };

typedef struct model {
    qn_tokenizer *t;
    float *score;
    uint8_t *kind;
    size_t n, cap, cap_kind;
    int type; /* 1 Unigram, 2 BPE, 3 word, 4 char */
    bool byte_fallback, suffixed, dummy_prefix, squeeze, escape;
    int64_t unk, bos, eos, pad;
    proto map;
} model;

static int read_piece(model *m, proto p, qn_error *err)
{
    static const uint8_t kind_of[] = { QN_TOKEN_NORMAL,  QN_TOKEN_NORMAL, QN_TOKEN_UNKNOWN,
                                       QN_TOKEN_CONTROL, QN_TOKEN_USER,   QN_TOKEN_UNUSED,
                                       QN_TOKEN_BYTE };
    proto text = { 0 }, sub;
    float score = 0;
    uint64_t value, type = PIECE_NORMAL;
    while (p.p < p.end && !p.bad) {
        int f = field(&p, &value, &sub);
        if (f == 1)
            text = sub;
        if (f == 2)
            memcpy(&score, &(uint32_t){ (uint32_t)value }, 4);
        if (f == 3)
            type = value;
    }
    size_t n = (size_t)(text.end - text.p);
    if (p.bad || type < PIECE_NORMAL || type > PIECE_BYTE || n == 0 || n > 4096 || isnan(score))
        return qn_fail(err, QN_ERR_FORMAT, "sentencepiece model: piece %zu is malformed", m->n);
    QN_GROW(m->score, m->n, m->cap);
    QN_GROW(m->kind, m->n, m->cap_kind);
    m->score[m->n] = score;
    m->kind[m->n] = kind_of[type];
    int rc = qn_vocab_put(&m->t->vocab, (const char *)text.p, n, (int64_t)m->n, err);
    if (rc == QN_OK)
        m->t->vocab.piece[m->n].kind = kind_of[type];
    m->n++;
    return rc;
}

static void read_trainer(model *m, proto p)
{
    uint64_t v;
    proto sub;
    while (p.p < p.end && !p.bad) {
        switch (field(&p, &v, &sub)) {
        case 3:
            m->type = (int)v;
            break;
        case 24:
            m->suffixed = v != 0;
            break;
        case 35:
            m->byte_fallback = v != 0;
            break;
        case 40:
            m->unk = (int32_t)v;
            break;
        case 41:
            m->bos = (int32_t)v;
            break;
        case 42:
            m->eos = (int32_t)v;
            break;
        case 43:
            m->pad = (int32_t)v;
            break;
        default:
            break;
        }
    }
}

static void read_normalizer(model *m, proto p)
{
    uint64_t v;
    proto sub;
    while (p.p < p.end && !p.bad) {
        int f = field(&p, &v, &sub);
        if (f == 2)
            m->map = sub;
        if (f == 3)
            m->dummy_prefix = v != 0;
        if (f == 4)
            m->squeeze = v != 0;
        if (f == 5)
            m->escape = v != 0;
    }
}

static int read_model(model *m, const void *data, size_t n, qn_error *err)
{
    proto p = { .p = data, .end = (const unsigned char *)data + n }, sub;
    uint64_t v;
    int rc = QN_OK;
    while (p.p < p.end && !p.bad && rc == QN_OK) {
        int f = field(&p, &v, &sub);
        if (f == 1)
            rc = read_piece(m, sub, err);
        if (f == 2)
            read_trainer(m, sub);
        if (f == 3)
            read_normalizer(m, sub);
        if (f == 5 && sub.p < sub.end) { /* a denormalizer: only with a map does it do anything */
            model other = { 0 };
            read_normalizer(&other, sub);
            if (other.map.p < other.map.end)
                rc = qn_fail(err, QN_ERR_UNSUPPORTED,
                             "sentencepiece model: denormalizer_spec is not supported");
        }
    }
    if (rc == QN_OK && (p.bad || m->n == 0))
        rc = qn_fail(err, QN_ERR_FORMAT, "sentencepiece model: malformed or without pieces");
    return rc;
}

/* Pieces by falling score get rising ranks; equal scores share one, so that position decides. */
typedef struct by_score {
    float score;
    uint32_t id;
} by_score;

static int falling(const void *pa, const void *pb)
{
    const by_score *a = pa, *b = pb;
    return (a->score < b->score) - (a->score > b->score);
}

void qn_tok_rank_scores(const float *score, size_t n, uint32_t *rank)
{
    by_score *v = qn_alloc_n(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (by_score){ score[i], (uint32_t)i };
    qsort(v, n, sizeof *v, falling);
    uint32_t r = 0;
    for (size_t i = 0; i < n; i++) {
        r += i && v[i].score != v[i - 1].score;
        rank[v[i].id] = r;
    }
    qn_free(v);
}

int qn_tok_attach_spm_bpe(qn_tokenizer *t, const float *score, const uint8_t *kind,
                          bool byte_fallback, qn_error *err)
{
    size_t n = t->vocab.n_ids;
    uint32_t *rank = qn_alloc_n(n, sizeof *rank);
    uint8_t *usable = qn_alloc(n);
    qn_tok_rank_scores(score, n, rank);
    for (size_t i = 0; i < n; i++)
        usable[i] = kind[i] == QN_TOKEN_NORMAL || kind[i] == QN_TOKEN_USER;
    qn_bpe *b = qn_bpe_open(4 * n);
    qn_bpe_pairs_by_result(b, &t->vocab, rank, usable);
    const char *unk = NULL;
    for (size_t i = 0; i < n && !unk; i++)
        unk = kind[i] == QN_TOKEN_UNKNOWN ? t->vocab.piece[i].s : NULL;
    qn_free(rank);
    qn_free(usable);
    return qn_bpe_attach(
        t, b, &(qn_bpe_options){ .unk = unk, .byte_fallback = byte_fallback, .spm = true }, err);
}

static int attach(model *m, qn_error *err)
{
    qn_tokenizer *t = m->t;
    if (m->type == 2)
        return qn_tok_attach_spm_bpe(t, m->score, m->kind, m->byte_fallback, err);
    if (m->type != 1)
        return qn_fail(err, QN_ERR_UNSUPPORTED,
                       "sentencepiece model: model_type %d is not supported", m->type);
    double *score = qn_alloc_n(m->n, sizeof *score);
    for (size_t i = 0; i < m->n; i++)
        score[i] = m->score[i];
    qn_unigram_attach(t, &(qn_unigram_options){ .score = score,
                                                .unk = t->special[QN_TOK_UNK],
                                                .byte_fallback = m->byte_fallback,
                                                .spm = true,
                                                .kind = m->kind });
    qn_free(score);
    return QN_OK;
}

/* User-defined pieces pass the normalizer unchanged; in a BPE model nothing merges with them either. Control
 * pieces are tokens in text only when the caller parses them. */
static int add_tokens(model *m, qn_error *err)
{
    qn_trie_key *key = qn_alloc_n(m->n, sizeof *key);
    size_t n = 0;
    int rc = QN_OK;
    for (size_t i = 0; i < m->n && rc == QN_OK; i++) {
        const qn_piece *p = &m->t->vocab.piece[i];
        bool user = m->kind[i] == QN_TOKEN_USER;
        if (user)
            key[n++] = (qn_trie_key){ p->s, p->n, (int32_t)i };
        if ((user && m->type == 2) || m->kind[i] == QN_TOKEN_CONTROL)
            rc = qn_added_put(
                m->t, &(qn_added){ p->s, p->n, (int32_t)i, !user, false, false, false, user }, err);
    }
    qn_trie_build(&m->t->keep, key, n);
    qn_free(key);
    return rc;
}

static int32_t checked(const model *m, int64_t id)
{
    return id >= 0 && (uint64_t)id < m->n ? (int32_t)id : -1;
}

int qn_tok_load_spm(qn_tokenizer *t, const void *data, size_t n, qn_error *err)
{
    model m = { .t = t,
                .type = 1,
                .dummy_prefix = true,
                .squeeze = true,
                .escape = true,
                .unk = 0,
                .bos = 1,
                .eos = 2,
                .pad = -1 };
    qn_vocab_init(&t->vocab, n / 16);
    int rc = read_model(&m, data, n, err);
    qn_norm *step = qn_tok_add_norm(t, QN_NORM_SPM);
    step->dummy_prefix = m.dummy_prefix;
    step->squeeze = m.squeeze;
    step->escape = m.escape;
    step->suffixed = m.suffixed;
    step->keep = &t->keep;
    if (rc == QN_OK && m.map.p < m.map.end)
        rc = qn_charsmap_init(&step->map, &t->arena, m.map.p, (size_t)(m.map.end - m.map.p), err);
    t->special[QN_TOK_UNK] = checked(&m, m.unk);
    t->special[QN_TOK_BOS] = checked(&m, m.bos);
    t->special[QN_TOK_EOS] = checked(&m, m.eos);
    t->special[QN_TOK_PAD] = checked(&m, m.pad);
    t->parses = false;
    qn_dec *dec = qn_tok_add_dec(t, QN_DEC_SPM);
    dec->strip_bos = m.dummy_prefix || m.squeeze;
    dec->strip_all = m.squeeze;
    if (rc == QN_OK)
        rc = attach(&m, err);
    if (rc == QN_OK)
        rc = add_tokens(&m, err);
    qn_free(m.score);
    qn_free(m.kind);
    return rc == QN_OK ? qn_tok_finish(t, false, err) : rc;
}
