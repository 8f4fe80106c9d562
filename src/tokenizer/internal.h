/* internal.h - how the parts of a tokenizer fit together; only for files of this folder.
 *
 * Encoding is a chain: added tokens are cut out of the text, the rest passes the normalizer steps, is cut
 * at added tokens of the normalized kind, passes the pre-tokenizer steps, and each piece goes through the
 * model. The post-processor is two lists of ids round the result. Decoding is a chain of its own. */
#ifndef QN_TOKENIZER_INTERNAL_H
#define QN_TOKENIZER_INTERNAL_H

#include <stdatomic.h>

#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

#define QN_TOK_SPACE "\xe2\x96\x81" /* U+2581, how sentencepiece writes a space */

/* A stretch of text on its way. `zero` counts the leading bytes that come from the very first character
 * of the whole input: a Metaspace step with the scheme "first" asks for it. */
typedef struct qn_tok_text {
    const char *p;
    size_t n, zero;
} qn_tok_text;

/* ---- normalizer: text to text ---- */

typedef enum qn_norm_op {
    QN_NORM_NFC,
    QN_NORM_NFD,
    QN_NORM_NFKC,
    QN_NORM_NFKD,
    QN_NORM_LOWERCASE,
    QN_NORM_STRIP,
    QN_NORM_STRIP_ACCENTS,
    QN_NORM_REPLACE,
    QN_NORM_PREPEND,
    QN_NORM_NMT,
    QN_NORM_CHARSMAP,
    QN_NORM_BERT,
    QN_NORM_BYTE_LEVEL,
    QN_NORM_SPM
} qn_norm_op;

/* sentencepiece's precompiled map: a double-array trie over bytes and the texts it points to. */
typedef struct qn_charsmap {
    const uint32_t *unit;
    size_t n_units;
    const char *text; /* NUL-separated */
    size_t n_text;
} qn_charsmap;

typedef struct qn_norm {
    qn_norm_op op;
    bool left, right;                             /* strip */
    bool clean, cjk, accents, lower;              /* bert */
    bool dummy_prefix, squeeze, escape, suffixed; /* spm */
    qn_regex *re;
    const char *text; /* replacement, prefix */
    size_t n_text;
    qn_charsmap map;
    const qn_trie *keep; /* spm: pieces that pass unchanged */
} qn_norm;

/* ---- pre-tokenizer: pieces to smaller pieces ---- */

typedef enum qn_pre_op {
    QN_PRE_BYTE_LEVEL,
    QN_PRE_METASPACE,
    QN_PRE_SPLIT,
    QN_PRE_WORDS,
    QN_PRE_SPACES,
    QN_PRE_BERT,
    QN_PRE_PUNCT,
    QN_PRE_DIGITS,
    QN_PRE_CHAR,
    QN_PRE_SCRIPTS,
    QN_PRE_LENGTH,
    QN_PRE_DIGIT_TRIPLES
} qn_pre_op;

typedef enum qn_behavior {
    QN_REMOVED,
    QN_ISOLATED,
    QN_WITH_PREVIOUS,
    QN_WITH_NEXT,
    QN_CONTIGUOUS
} qn_behavior;

typedef enum qn_prepend { QN_PREPEND_NEVER, QN_PREPEND_FIRST, QN_PREPEND_ALWAYS } qn_prepend;

typedef struct qn_pre {
    qn_pre_op op;
    qn_behavior behavior;
    qn_prepend prepend;
    bool invert, split, prefix_space, use_regex,
        deferred; /* deferred: the model maps bytes itself */
    qn_regex *re;
    char text[8]; /* the replacement or delimiter character */
    size_t n_text, length;
} qn_pre;

typedef struct qn_span {
    size_t start, n;
} qn_span;

/* ---- model: a piece to ids ---- */

typedef struct qn_scratch qn_scratch;

typedef struct qn_model {
    const char *name;
    /* Appends the ids of s[0..n), n > 0. Negative: no unknown token for a character. */
    int (*encode)(const struct qn_tokenizer *t, qn_scratch *x, const char *s, size_t n,
                  qn_ids *out);
    void (*close)(void *data);
    void *data;
    bool cached; /* words are worth remembering */
} qn_model;

/* ---- added tokens ---- */

typedef struct qn_added {
    const char *s;
    uint32_t n;
    int32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
} qn_added;

typedef struct qn_matcher {
    qn_trie trie; /* values index qn_tokenizer.added */
    bool first[256];
    bool any;
    const qn_added *empty; /* a token whose text normalizes to nothing, NULL: none */
} qn_matcher;

/* ---- decoder ---- */

typedef enum qn_dec_op {
    QN_DEC_BYTE_LEVEL,
    QN_DEC_METASPACE,
    QN_DEC_BYTE_FALLBACK,
    QN_DEC_FUSE,
    QN_DEC_STRIP,
    QN_DEC_REPLACE,
    QN_DEC_WORDPIECE,
    QN_DEC_BPE,
    QN_DEC_CTC,
    QN_DEC_JOIN,
    QN_DEC_SPM,
    QN_DEC_BYTES
} qn_dec_op;

typedef struct qn_dec {
    qn_dec_op op;
    bool cleanup, keep_first; /* wordpiece, ctc; metaspace without prefix */
    bool strip_bos, strip_all;
    qn_regex *re;
    const char *text, *text2; /* replacement, prefix, suffix, pad; word delimiter */
    size_t n_text, n_text2;
    size_t start, stop; /* strip */
} qn_dec;

/* ---- the whole ---- */

struct qn_tokenizer {
    qn_arena arena;
    qn_vocab vocab;     /* the model's pieces */
    uint8_t *kind;      /* [n_ids] of all ids, added ones too */
    qn_piece *added_of; /* [n_ids] text of an added token that overrides the piece, s NULL: none */
    size_t n_ids;
    qn_norm *norm;
    size_t n_norm, cap_norm;
    qn_pre *pre;
    size_t n_pre, cap_pre;
    qn_model model;
    qn_added *added;
    size_t n_added, cap_added;
    qn_matcher raw, normed;
    int32_t *post; /* QN_POST_TEXT stands for the text's ids */
    size_t n_post;
    int32_t *pair;         /* the same round two texts, QN_POST_SECOND standing for the second */
    int32_t *pair_segment; /* which text each of them belongs to */
    size_t n_pair;         /* 0: the file has no form for two texts */
    qn_dec *dec;
    size_t n_dec, cap_dec;
    int32_t special[QN_TOK_N_SPECIAL];
    bool parses;
    qn_trie keep; /* sentencepiece: user-defined pieces, for the normalizer */
    const char **template_name, **template_text;
    size_t n_templates;
    _Atomic(qn_scratch *) idle; /* one warm scratch; taken and returned by exchange */
};

#define QN_POST_TEXT   (-1)
#define QN_POST_SECOND (-2)

/* What one encode call writes to, reused from call to call. */
typedef struct qn_word_cache qn_word_cache;

typedef struct qn_bpe_scratch {
    void *sym, *heap; /* bpe.c knows their types */
    uint32_t *next, *prev;
    size_t cap, n_heap, cap_heap;
} qn_bpe_scratch;

struct qn_scratch {
    qn_rx_scratch rx;
    qn_buf norm[2], pre[2], clean, word;
    qn_span *span[2];
    size_t n_span[2], cap_span[2];
    int32_t *cps;
    size_t cap_cps;
    qn_bpe_scratch bpe;
    double *best;
    uint32_t *from;
    size_t cap_best;
    qn_ids ids;
    qn_word_cache *cache;
    bool failed; /* a pattern hit its limit */
};

qn_scratch *qn_scratch_open(void);
void qn_scratch_close(qn_scratch *x);

/* Bounded memory of words already encoded. */
qn_word_cache *qn_word_cache_open(void);
void qn_word_cache_close(qn_word_cache *c);
bool qn_word_cache_get(const qn_word_cache *c, uint64_t hash, const char *s, size_t n, qn_ids *out);
/* Remembers out->v[from..n) as the word's ids. */
void qn_word_cache_put(qn_word_cache *c, uint64_t hash, qn_tok_str word, const qn_ids *out,
                       size_t from);

/* normalize.c: runs all steps; the result lives in x or is `in` itself. charsmap.c, bert.c: single steps. */
qn_tok_text qn_normalize(const qn_tokenizer *t, qn_scratch *x, qn_tok_text in);
int qn_charsmap_init(qn_charsmap *m, qn_arena *a, const void *blob, size_t n, qn_error *err);
/* The longest (or the shortest) mapped prefix of s: its length, 0 for none, and its replacement. */
size_t qn_charsmap_find(const qn_charsmap *m, const char *s, size_t n, bool shortest,
                        qn_tok_str *to);
bool qn_norm_charsmap(const qn_norm *step, qn_tok_text in, qn_buf *out, size_t *zero);
bool qn_norm_spm(const qn_norm *step, qn_tok_text in, qn_buf *out);
bool qn_norm_form(qn_scratch *x, qn_norm_op op, qn_tok_text in, qn_buf *out, size_t *zero);
void qn_byte_level_map(const char *s, size_t n, qn_buf *out); /* bytes to the printable alphabet */
int qn_byte_level_unmap(uint32_t cp);                         /* -1: not of the alphabet */

/* pretokenize.c: cuts `in` into x->span[result]; *text is what the spans index. */
int qn_pretokenize(const qn_tokenizer *t, qn_scratch *x, qn_tok_text in, const char **text);

/* Models. Pairs for qn_bpe_open are set after the vocabulary is complete. */
typedef struct qn_bpe qn_bpe;
qn_bpe *qn_bpe_open(size_t n_pairs); /* room for about so many */
/* Left and right make `made`, earlier the lower the rank; a later call for a pair replaces. */
void qn_bpe_pair(qn_bpe *b, int32_t left, int32_t right, uint32_t rank, int32_t made);
void qn_bpe_prefetch(const qn_bpe *b, int32_t left, int32_t right); /* that pair is set soon */
typedef struct qn_bpe_options {
    const char *unk, *prefix, *suffix; /* NULL: none */
    bool fuse_unk, byte_fallback, ignore_merges;
    bool raw_bytes; /* pieces come as bytes; symbols are single bytes in the byte-level alphabet */
    bool plain_bytes; /* symbols are single bytes as they are (rank files) */
    bool spm;         /* unknown runs become one id after the bytes were tried (sentencepiece) */
} qn_bpe_options;
int qn_bpe_attach(qn_tokenizer *t, qn_bpe *b, const qn_bpe_options *o, qn_error *err);
/* For models that merge by the rank of the result: every pair of pieces that joins to a piece. */
void qn_bpe_pairs_by_result(qn_bpe *b, const qn_vocab *v, const uint32_t *rank,
                            const uint8_t *usable);

typedef struct qn_unigram_options {
    const double *score; /* [n_ids], copied */
    int32_t unk;         /* -1: none */
    bool byte_fallback;
    bool spm;            /* sums in single precision, user pieces favoured */
    const uint8_t *kind; /* spm: which pieces may be used, and how; copied */
} qn_unigram_options;
void qn_unigram_attach(qn_tokenizer *t, const qn_unigram_options *o);
void qn_wordpiece_attach(qn_tokenizer *t, const char *prefix, size_t max_chars, int32_t unk);
void qn_phantom_attach(qn_tokenizer *t, int32_t unk); /* WordPiece with marked word starts (GGUF) */
void qn_wordlevel_attach(qn_tokenizer *t, int32_t unk);

/* added_tokens.c */
int qn_added_put(qn_tokenizer *t, const qn_added *a, qn_error *err);
void qn_added_build(qn_tokenizer *t, bool normalize); /* after the last one */
/* Walks over the tokens in a text. Set matcher, text and parse; the rest starts as zero. */
typedef struct qn_cutter {
    const qn_matcher *m;
    qn_tok_str s;
    bool parse;
    size_t at, done;   /* where to look on; where the last token ended */
    size_t start, end; /* of the token found, white space it swallowed included */
    size_t last_end;   /* of the text matched last, before any stripping; 0 before the first */
    int32_t id;        /* -1: the text is cut here, but nothing is left of the token */
} qn_cutter;
bool qn_added_next(const qn_tokenizer *t, qn_cutter *c); /* false: no more */

/* load_*.c */
int qn_tok_load_json(qn_tokenizer *t, const char *json, size_t n, qn_error *err);
struct qn_json;
int qn_tok_load_steps(qn_tokenizer *t, const struct qn_json *root, qn_error *err);
int qn_tok_load_model(qn_tokenizer *t, const struct qn_json *root, qn_error *err);
bool qn_tok_base64(const char *s, size_t n, qn_buf *out); /* appends; padding is optional */
int qn_tok_load_post(qn_tokenizer *t, const struct qn_json *post, qn_error *err);
int qn_tok_load_decoder(qn_tokenizer *t, const struct qn_json *dec, qn_error *err);
void qn_tok_rank_scores(const float *score, size_t n, uint32_t *rank);
int qn_tok_attach_spm_bpe(qn_tokenizer *t, const float *score, const uint8_t *kind,
                          bool byte_fallback, qn_error *err);
int qn_tok_load_spm(qn_tokenizer *t, const void *model, size_t n, qn_error *err);
int qn_tok_load_tiktoken(qn_tokenizer *t, const char *ranks, size_t n, const char *config,
                         size_t n_config, qn_error *err);
int qn_tok_load_gguf(qn_tokenizer *t, const qn_tok_gguf *g, qn_error *err);
int qn_tok_load_path(qn_tokenizer *t, const char *path, qn_error *err);
int qn_tok_load_sidecars(qn_tokenizer *t, const char *dir, qn_error *err);
void qn_tok_add_template(qn_tokenizer *t, const char *name, const char *text);
int qn_tok_gguf_pre(qn_tokenizer *t, const char *name, qn_bpe_options *o, int *add_bos,
                    qn_error *err);

qn_norm *qn_tok_add_norm(qn_tokenizer *t, qn_norm_op op);
qn_pre *qn_tok_add_pre(qn_tokenizer *t, qn_pre_op op);
qn_dec *qn_tok_add_dec(qn_tokenizer *t, qn_dec_op op);
int qn_tok_finish(qn_tokenizer *t, bool normalize_added, qn_error *err); /* kinds, matchers */
bool qn_tok_is_byte_piece(const char *s, size_t n, int *byte);           /* <0xNN> */

#endif
