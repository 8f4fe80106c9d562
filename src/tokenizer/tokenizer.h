/* tokenizer.h - text to token ids and back, for every published kind of tokenizer.
 *
 * A tokenizer is opened from a tokenizer.json, a sentencepiece model, a tiktoken rank file, a folder that
 * holds one of these, or the metadata of a GGUF file (through qn_tok_gguf, which the caller fills). After
 * opening it is read-only: all calls below may run in any number of threads at once.
 *
 * Text is UTF-8; malformed bytes are read as U+FFFD, as the reference's callers do. Nothing is guessed: a
 * step or pre-tokenizer name that is not known is an error that names it. Truncation and padding sections
 * are ignored. Chat templates are only carried (their text), not run. */
#ifndef QN_TOKENIZER_TOKENIZER_H
#define QN_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

typedef struct qn_tokenizer qn_tokenizer;

typedef enum qn_token_kind {
    QN_TOKEN_NORMAL,
    QN_TOKEN_CONTROL, /* dropped by decoding with skip_special; never in plain text unless parsed */
    QN_TOKEN_USER,    /* an added token that is text */
    QN_TOKEN_BYTE,
    QN_TOKEN_UNKNOWN,
    QN_TOKEN_UNUSED
} qn_token_kind;

/* A growable list of ids; {0} is an empty one. */
typedef struct qn_ids {
    int32_t *v;
    size_t n, cap;
} qn_ids;

void qn_ids_add(qn_ids *a, int32_t id);
void qn_ids_free(qn_ids *a);

/* What encoding does besides the text itself. */
enum {
    QN_ENCODE_SPECIAL = 1, /* adds what the post-processor adds: BOS, CLS ... */
    QN_ENCODE_PARSE = 2    /* special tokens written in the text become their ids */
};

/* A view of a GGUF file's tokenizer.ggml.* keys, borrowed during the call. Absent arrays are NULL, absent
 * ids and switches -1, absent texts NULL. */
typedef struct qn_tok_str {
    const char *s;
    size_t n;
} qn_tok_str;

typedef struct qn_tok_gguf {
    const char *model, *pre, *chat_template;
    const qn_tok_str *token; /* [n_tokens] */
    const float *score;      /* [n_tokens] */
    const int32_t *type;     /* [n_tokens] */
    size_t n_tokens;
    const qn_tok_str *merge; /* [n_merges] */
    size_t n_merges;
    const void *charsmap; /* precompiled_charsmap */
    size_t charsmap_bytes;
    int64_t bos, eos, eot, unk, sep, pad, mask;
    int add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces;
    int lowercase, strip_accents; /* tokenizer.ggml.normalizer.* */
} qn_tok_gguf;

/* Each gives QN_OK and a tokenizer the caller closes, or *out = NULL and err naming file and field. */
int qn_tokenizer_open(qn_tokenizer **out, const char *path, qn_error *err); /* file or folder */
int qn_tokenizer_open_json(qn_tokenizer **out, const char *json, size_t n, qn_error *err);
int qn_tokenizer_open_spm(qn_tokenizer **out, const void *model, size_t n, qn_error *err);
/* `config` is the JSON beside a rank file: {"pat_str": ..., "special_tokens": {...}}. */
int qn_tokenizer_open_tiktoken(qn_tokenizer **out, const char *ranks, size_t n, const char *config,
                               size_t n_config, qn_error *err);
int qn_tokenizer_open_gguf(qn_tokenizer **out, const qn_tok_gguf *g, qn_error *err);
void qn_tokenizer_close(qn_tokenizer *t); /* NULL is fine */

/* Appends the ids of text[0..n) to *out. Fails only when a pattern exceeds its matching limits or a text
 * character cannot be expressed by a vocabulary without an unknown token. */
int qn_tokenizer_encode(const qn_tokenizer *t, const char *text, size_t n, unsigned flags,
                        qn_ids *out, qn_error *err);

/* Puts what surrounds a text (b NULL) or a pair of texts round their plain ids, as encoding with
 * QN_ENCODE_SPECIAL does; `segment` gets which text each id counts to. So texts can be cut to a length before.
 * QN_ERR_UNSUPPORTED when the tokenizer has no form for two texts. */
int qn_tokenizer_frame(const qn_tokenizer *t, const qn_ids *a, const qn_ids *b, qn_ids *out,
                       qn_ids *segment, qn_error *err);

/* Appends the text of ids[0..n): valid UTF-8, broken characters as U+FFFD. Ids outside the vocabulary
 * give nothing. `skip_special` drops control tokens. */
void qn_tokenizer_decode(const qn_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                         qn_buf *out);

/* Decodes id by id. Each push gives out whole characters only; pushes and the final flush joined equal
 * qn_tokenizer_decode(), save for byte tokens that form no valid UTF-8 after some that did. */
typedef struct qn_detok qn_detok;

qn_detok *qn_detok_open(const qn_tokenizer *t, bool skip_special); /* borrows t */
void qn_detok_push(qn_detok *d, int32_t id, qn_buf *out);          /* appends */
void qn_detok_flush(qn_detok *d, qn_buf *out); /* the end; d is as new after it */
void qn_detok_close(qn_detok *d);

size_t qn_tokenizer_n_vocab(const qn_tokenizer *t); /* highest id + 1 */
/* The piece as the file writes it (byte-level alphabet, escaped spaces), NUL-terminated and borrowed.
 * NULL for an id that does not exist. */
const char *qn_tokenizer_piece(const qn_tokenizer *t, int32_t id, size_t *n);
int32_t qn_tokenizer_id(const qn_tokenizer *t, const char *piece, size_t n); /* -1: none */
qn_token_kind qn_tokenizer_kind(const qn_tokenizer *t, int32_t id);

typedef enum qn_tok_special {
    QN_TOK_BOS,
    QN_TOK_EOS,
    QN_TOK_EOT, /* end of turn, where a GGUF names one */
    QN_TOK_UNK,
    QN_TOK_PAD,
    QN_TOK_SEP,
    QN_TOK_MASK,
    QN_TOK_N_SPECIAL
} qn_tok_special;

int32_t qn_tokenizer_special(const qn_tokenizer *t, qn_tok_special which); /* -1: none */
bool qn_tokenizer_adds_bos(const qn_tokenizer *t); /* QN_ENCODE_SPECIAL puts BOS first */
bool qn_tokenizer_adds_eos(const qn_tokenizer *t);

/* Whether special tokens in plain text count as such in the reference for this kind of file: so it is for
 * tokenizer.json and GGUF, not for sentencepiece and rank files. */
bool qn_tokenizer_parses(const qn_tokenizer *t);

/* The chat template's text, borrowed; NULL: none. `name` picks one of several, NULL the default. */
const char *qn_tokenizer_chat_template(const qn_tokenizer *t, const char *name);
const char *qn_tokenizer_kind_name(const qn_tokenizer *t); /* "BPE", "Unigram", ... */

#endif
