/* quern.h - the public interface of libquern: models, sessions, requests and events.
 *
 * Ownership is in the names: _open/_close make and end handles, `const T *` is borrowed until its owner
 * changes or ends, and a returned `char *` is the caller's only when the name ends in _dup. Every call
 * that can fail returns a qn_code and fills the qn_error given last (which may be NULL). */
#ifndef QUERN_H
#define QUERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_API __attribute__((visibility("default")))

/* The kinds of failure: name, value, words for people. */
#define QN_CODES(X)                                                                                \
    X(QN_OK, 0, "ok")                                                                              \
    X(QN_ERR_IO, -1, "a file could not be read or written")                                        \
    X(QN_ERR_FORMAT, -2, "malformed data")                                                         \
    X(QN_ERR_UNSUPPORTED, -3, "not supported")                                                     \
    X(QN_ERR_MEMORY, -4, "not enough memory")                                                      \
    X(QN_ERR_ARGUMENT, -5, "bad argument")                                                         \
    X(QN_ERR_LIMIT, -6, "a limit was reached")                                                     \
    X(QN_ERR_NOT_FOUND, -7, "not found")                                                           \
    X(QN_ERR_CANCELLED, -8, "cancelled")                                                           \
    X(QN_ERR_RAISED, -9, "the chat template refused the conversation")

typedef enum qn_code {
#define X(name, value, words) name = value,
    QN_CODES(X)
#undef X
} qn_code;

/* What went wrong, where and why, in one line without a newline. */
typedef struct qn_error {
    int code;
    char msg[508];
} qn_error;

/* ---- the library ---- */

QN_API const char *qn_version(void);        /* "0.1.0" */
QN_API const char *qn_code_words(int code); /* what a qn_code means, for people; never NULL */
QN_API char *qn_about_dup(void);            /* JSON: version, CPU level, cores, libraries found */
QN_API void qn_free(void *p);               /* ends what a ..._dup call returned; NULL is fine */

/* ---- the model store: names for folders and .gguf files ----
 * It lies in $QUERN_HOME, else $XDG_DATA_HOME/quern, else ~/.local/share/quern. */

QN_API char *qn_store_dir_dup(void); /* NULL when none of the three is set */

/* What MODEL means on a command line: an existing folder or .gguf file, else a name in the store.
 * Returns its path (the caller's), or NULL with an error that says where was looked. */
QN_API char *qn_store_find_dup(const char *model, qn_error *err);

/* JSON array of {"name", "path", "bytes"}, sorted by name; "[]" for an empty or absent store. */
QN_API char *qn_store_list_dup(void);

/* Moves a folder or .gguf file into the store under `name`, replacing what had that name. */
QN_API int qn_store_add(const char *name, const char *path, qn_error *err);
QN_API int qn_store_remove(const char *name, qn_error *err);

/* ---- models: weights, tokenizer and chat template; immutable, shared by threads ---- */

typedef struct qn_model qn_model;

typedef enum qn_compute {
    QN_COMPUTE_DEFAULT, /* as fast as the stated rounding allows: f16 cache, quantised activations */
    QN_COMPUTE_F32      /* float32 activations and cache, nothing rounded further */
} qn_compute;

typedef struct qn_model_options {
    const char *device; /* NULL or "cpu" */
    int n_threads;      /* 0 = one for each core this process may use */
    qn_compute compute;
} qn_model_options; /* {0} is the default */

/* `path` is a folder or a .gguf file; opt may be NULL. On failure *out is NULL and err names the file
 * and the field. Close the engines of a model before the model. */
QN_API int qn_model_open(qn_model **out, const char *path, const qn_model_options *opt,
                         qn_error *err);
QN_API void qn_model_close(qn_model *m);

typedef struct qn_model_info {
    const char *architecture; /* borrowed from the model */
    int64_t n_params;
    int64_t weight_bytes; /* what one token must read, embeddings of other tokens left out */
    int n_layers, d_model, n_vocab;
    int max_context; /* tokens the model was made for */
    bool has_tokenizer, has_template;
} qn_model_info;

/* Never fails; strings are borrowed from the model. */
QN_API void qn_model_get_info(const qn_model *m, qn_model_info *info);

/* JSON about a model, as `quern show` prints it: sizes, positions, layouts, tokenizer, template, and the memory
 * that contexts of several lengths need. */
QN_API char *qn_model_describe_dup(const qn_model *m);

enum {
    QN_TOKENIZE_SPECIAL = 1, /* add what the tokenizer puts around a text (a start token) */
    QN_TOKENIZE_MARKUP = 2   /* control tokens written in the text become those tokens */
};

/* Ids of text[0..n), their number in *n_ids. NULL on failure, never for an empty list. */
QN_API int32_t *qn_tokenize_dup(const qn_model *m, const char *text, size_t n, int flags,
                                size_t *n_ids, qn_error *err);

/* The text of ids, control tokens left out unless with_special. *len (may be NULL) counts bytes. */
QN_API char *qn_detokenize_dup(const qn_model *m, const int32_t *ids, size_t n, bool with_special,
                               size_t *len, qn_error *err);

/* The prompt that the chat template makes of a conversation. `chat` is JSON: {"messages": [{"role",
 * "content"}...], "tools": [...], "add_generation_prompt": false, ...}; the start of an answer is added
 * unless that says no, and other keys are variables of the template. A refusal by the template itself
 * is QN_ERR_RAISED. */
QN_API char *qn_render_dup(const qn_model *m, const char *chat, qn_error *err);

/* ---- chat templates alone: no weights are read ---- */

typedef struct qn_template qn_template;

/* The template of a model folder or .gguf file, or a file of Jinja source (.jinja). On failure *out is NULL;
 * QN_ERR_NOT_FOUND: the model has none. */
QN_API int qn_template_load(qn_template **out, const char *path, qn_error *err);
QN_API void qn_template_close(qn_template *t); /* NULL is fine */

/* Renders the request chat[0..n), JSON as for qn_render_dup, to the JSON object {"text": ...} or, when that
 * fails, {"error": ...} with the whole message; never NULL. `now` ("2026-07-15T10:20:30", NULL = the clock)
 * is what the template's strftime_now sees. Any number of threads may render one template. */
QN_API char *qn_template_json_dup(const qn_template *t, const char *chat, size_t n, const char *now,
                                  qn_error *err);

/* ---- tokenizers by themselves: no weights are read ---- */

typedef struct qn_tokenizer qn_tokenizer;

/* `path` is a tokenizer.json, a sentencepiece .model, a rank file, a .gguf file, or a folder that holds one
 * of them. On failure *out is NULL and err names file and field. Usable by any number of threads. */
QN_API int qn_tokenizer_load(qn_tokenizer **out, const char *path, qn_error *err);
QN_API void qn_tokenizer_close(qn_tokenizer *t); /* NULL is fine */

/* As qn_tokenize_dup and qn_detokenize_dup. Ids: NULL on failure, never for an empty list. */
QN_API int32_t *qn_tokenizer_ids_dup(const qn_tokenizer *t, const char *text, size_t n, int flags,
                                     size_t *n_ids, qn_error *err);
QN_API char *qn_tokenizer_text_dup(const qn_tokenizer *t, const int32_t *ids, size_t n,
                                   bool with_special, size_t *len);

/* How the vocabulary writes one token; NULL when there is no such id. *n counts bytes. */
QN_API const char *qn_tokenizer_piece(const qn_tokenizer *t, int32_t id, size_t *n);

/* Whether the reference for this kind of file reads control tokens in plain text as such. */
QN_API bool qn_tokenizer_parses(const qn_tokenizer *t);

/* ---- embeddings: a text becomes a vector, as the checkpoint's own files say ---- */

typedef struct qn_embedder qn_embedder;

/* The model stays the caller's and must outlive the embedder. One thread at a time, and not while an engine or
 * another job runs on the same model. QN_ERR_UNSUPPORTED for a pooling or module that is not known. */
QN_API int qn_embedder_open(qn_embedder **out, qn_model *m, qn_error *err);
QN_API void qn_embedder_close(qn_embedder *e); /* NULL is fine */

QN_API int
qn_embedder_width(const qn_embedder *e); /* numbers of a vector, unless options say less */
/* The prompts the checkpoint names for kinds of texts, as a JSON object of name and text. */
QN_API char *qn_embedder_prompts_dup(const qn_embedder *e);

typedef struct qn_embed_options {
    const char
        *prompt; /* name of the prompt put before every text; NULL = the checkpoint's default */
    int dims; /* the vector is cut to this and scaled to unit length; 0 = as the checkpoint says */
} qn_embed_options; /* {0} is the default */

/* One vector for each of text[0..n) into out [n][dims or width]. Texts that are too long are cut at their end. What
 * a text gets does not depend on the others. opt may be NULL. QN_ERR_NOT_FOUND for an unknown prompt. */
QN_API int qn_embed_texts(qn_embedder *e, const char *const *text, size_t n,
                          const qn_embed_options *opt, float *out, qn_error *err);

/* ---- reranking: how well documents answer a query ---- */

typedef struct qn_reranker qn_reranker;

/* For cross-encoders (a classifier of pairs with one output) and chat models that were taught to judge with "yes"
 * or "no". Ownership and threads as for an embedder. */
QN_API int qn_reranker_open(qn_reranker **out, qn_model *m, qn_error *err);
QN_API void qn_reranker_close(qn_reranker *r); /* NULL is fine */

/* A query and the documents to score by it. */
typedef struct qn_rerank_query {
    const char *query;
    const char *const *doc; /* [n_docs] */
    size_t n_docs;
    const char *task; /* tells a judge what counts as an answer; NULL = the usual web search */
} qn_rerank_query;

/* score[i] for doc[i], larger is better: a probability, unless the config says that the model's bare output is the
 * score. */
QN_API int qn_rerank(qn_reranker *r, const qn_rerank_query *q, float *score, qn_error *err);

/* ---- engines: one thread that runs any number of requests on one model ---- */

typedef struct qn_engine qn_engine;

typedef struct qn_engine_options {
    int context;     /* most tokens of one sequence; 0 = the model's, cut to what memory holds */
    int max_running; /* sequences in a step; 0 = 8. Others wait, first come first served */
    int max_waiting; /* requests that may wait; 0 = 1024. More are refused with QN_ERR_LIMIT */
    int chunk;       /* most rows of a step; a longer prompt is fed in pieces; 0 = 512 */
    size_t
        cache_bytes; /* memory for keys and values; 0 = one context, at most half of free memory */
} qn_engine_options; /* {0} is the default */

/* Starts the thread. The model stays the caller's and must outlive the engine; opt may be NULL. Fails when
 * the cache does not fit into memory, saying how much was needed. */
QN_API int qn_engine_open(qn_engine **out, qn_model *m, const qn_engine_options *opt,
                          qn_error *err);

/* Ends the thread. Requests still open report QN_FINISH_CANCELLED and must still be closed by the
 * caller, before or after. */
QN_API void qn_engine_close(qn_engine *e);

typedef struct qn_engine_stats {
    int n_running, n_waiting;
    int context; /* tokens one sequence may have */
    int64_t pages_used, pages_total;
    int64_t n_steps, n_rows; /* so far; rows / steps is the mean batch */
    int64_t n_preempted;     /* sequences put back for want of pages and computed again */
} qn_engine_stats;

/* A snapshot; any thread. */
QN_API void qn_engine_get_stats(qn_engine *e, qn_engine_stats *s);

/* Natural-log probability of ids[i] given ids[0..i) into logprob[i], for i in [first, n); first >= 1.
 * Waits for the result; requests of other threads run on meanwhile. */
QN_API int qn_engine_score(qn_engine *e, const int32_t *ids, size_t n, size_t first, float *logprob,
                           qn_error *err);

/* ---- requests: one prompt, one answer, a stream of events ---- */

typedef struct qn_request qn_request;

/* Applied in this order: repetition penalty, temperature, top_k, top_p, min_p. */
typedef struct qn_sampling {
    float temperature;        /* 0 = always the most likely token (ties: the lowest id) */
    int top_k;                /* 0 = off */
    float top_p;              /* 1 = off; the token that crosses p is kept */
    float min_p;              /* 0 = off; keeps p >= min_p * the largest p */
    float repetition_penalty; /* 1 = off; divides positive and multiplies negative logits */
    int repetition_window;    /* tokens looked back, prompt included; 0 = all */
    int64_t seed; /* the same seed gives the same text, in any company; -1 = a random one */
} qn_sampling;

typedef struct qn_request_options {
    /* The prompt: exactly one of these three. */
    const char *text;   /* plain text, as the tokenizer encodes it */
    const char *chat;   /* a conversation as for qn_render_dup */
    const int32_t *ids; /* [n_ids] */
    size_t n_ids;
    int64_t
        max_tokens; /* -1 = as many as fit; more than fit is legal and ends with QN_FINISH_LENGTH */
    qn_sampling sampling;
    const char *const *stop; /* [n_stop] texts that end the answer and are not part of it */
    int n_stop;
    bool ignore_end;     /* goes on after end-of-text tokens (benchmarks) */
    bool split_thoughts; /* text within <think> tags is marked as reasoning, the tags are dropped */
    int n_logprobs;      /* -1 = none; n >= 0: QN_EVENT_TOKEN with the n most likely, at most 20 */
    /* Called on the engine's thread when an event can be had; must not block or call the library. */
    void (*notify)(void *ctx);
    void *notify_ctx;
} qn_request_options; /* everything pointed to is copied */

/* Fills the defaults: -1 tokens, no logprobs, and what the checkpoint's generation config says of
 * sampling (temperature 1 and nothing else where it says nothing). */
QN_API void qn_request_defaults(const qn_model *m, qn_request_options *opt);

typedef enum qn_event_kind {
    QN_EVENT_NONE,     /* the wait timed out */
    QN_EVENT_PROGRESS, /* part of the prompt was computed: n_done of n_total tokens */
    QN_EVENT_TEXT,  /* a piece of the answer: whole UTF-8 characters, never part of a stop text */
    QN_EVENT_TOKEN, /* one sampled token and its probabilities; only with n_logprobs >= 0 */
    QN_EVENT_DONE,  /* the last event; `result` holds the whole */
} qn_event_kind;

typedef enum qn_finish {
    QN_FINISH_STOP,      /* an end token or a stop text */
    QN_FINISH_LENGTH,    /* max_tokens or the context was used up */
    QN_FINISH_CANCELLED, /* qn_request_cancel, or the engine closed */
    QN_FINISH_ERROR,     /* see result->error */
} qn_finish;

QN_API const char *qn_finish_name(qn_finish f); /* "stop", "length", "cancelled", "error" */

typedef struct qn_logprob {
    int32_t id;
    float logprob; /* of the model itself: before penalties, temperature and cuts */
} qn_logprob;

typedef struct qn_token_probs {
    qn_logprob chosen;
    int n_top;
    qn_logprob top[20]; /* most likely first */
} qn_token_probs;

typedef struct qn_result {
    qn_finish finish;
    qn_error error;
    const char *text, *reasoning; /* whole answer and thought, "" for none */
    const int32_t *prompt_ids, *output_ids;
    const qn_token_probs *probs; /* [n_output], NULL without n_logprobs */
    int n_prompt;
    int n_cached;    /* prompt tokens that were still in the cache */
    int n_output;    /* sampled tokens, an end token among them */
    int n_reasoning; /* of those, tokens of the thought */
    int64_t seed;    /* the one used */
    double queue_ms; /* from the start of the request to its first step */
    double first_ms; /* from the start of the request to its first token */
    double prefill_ms,
        decode_ms; /* from the first step to the first token; from there to the end */
} qn_result;

typedef struct qn_event {
    qn_event_kind kind;
    const char *text; /* TEXT: `len` bytes and a NUL; TOKEN: the bytes of this token */
    size_t len;
    bool reasoning; /* TEXT */
    int n_done, n_total;
    const qn_token_probs *probs; /* TOKEN */
    const qn_result *result;     /* DONE; good until the request is closed */
} qn_event;                      /* pointers are good until the next call on the request */

/* Queues the request. Fails at once for a bad option, an empty prompt, a prompt that does not fit
 * (QN_ERR_LIMIT says how many tokens came and how many fit), or a full queue. */
QN_API int qn_request_start(qn_request **out, qn_engine *e, const qn_request_options *opt,
                            qn_error *err);

/* The next event, waiting for up to timeout_ms (-1 = for ever, 0 = not at all). After DONE every call
 * gives DONE again. One thread at a time. A request whose events nobody takes waits; others go on. */
QN_API qn_event qn_request_next(qn_request *r, int timeout_ms);

/* Ends the request within a step; DONE follows with what there is. Any thread, also in a signal
 * handler; more than once is fine, as long as the engine is open. */
QN_API void qn_request_cancel(qn_request *r);

/* Cancels it if need be and frees it; NULL is fine. */
QN_API void qn_request_close(qn_request *r);

/* ---- sessions: a conversation that keeps its cache between turns ---- */

typedef struct qn_session qn_session;

/* `system` may be NULL. A turn computes only what the cache does not already hold. */
QN_API int qn_session_open(qn_session **out, qn_engine *e, const char *system, qn_error *err);
QN_API void qn_session_close(qn_session *s); /* close its requests first; NULL is fine */

/* Starts a turn: the user's text is added and the answer begun. Of `opt` (may be NULL) the prompt
 * fields are ignored. One turn at a time. The answer joins the history when its DONE event is taken with
 * stop or length; a turn that was cancelled, failed, or closed before DONE is taken back. */
QN_API int qn_session_send(qn_request **out, qn_session *s, const char *text,
                           const qn_request_options *opt, qn_error *err);

QN_API int qn_session_reset(qn_session *s, const char *system,
                            qn_error *err); /* forgets all turns */

/* The conversation so far as a JSON array of messages. */
QN_API char *qn_session_messages_dup(const qn_session *s);

#ifdef __cplusplus
}
#endif
#endif
