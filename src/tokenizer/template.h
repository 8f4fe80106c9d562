/* template.h - chat templates: Jinja source to text, with what transformers does around it.
 *
 * A template is parsed once and rendered any number of times, by any number of threads. A rendering's
 * values live in an arena that goes when it ends, and every rendering is bounded: a hostile template
 * gives QN_ERR_LIMIT, never a hang. docs/templates.md lists what is supported. */
#ifndef QN_TOKENIZER_TEMPLATE_H
#define QN_TOKENIZER_TEMPLATE_H

#include "base/buf.h"
#include "base/json.h"

typedef struct qn_template qn_template;

typedef struct qn_template_options {
    const char *now;    /* "2026-07-15T10:20:30", what strftime_now reads; NULL = the wall clock */
    uint64_t max_steps; /* 0 = 20 million evaluation steps */
    size_t max_bytes;   /* 0 = 256 MiB of values */
    size_t max_output;  /* 0 = 64 MiB of text */
} qn_template_options;  /* {0} is the default */

typedef struct qn_template_span {
    size_t start, end; /* code points of the text */
} qn_template_span;

typedef struct qn_rendering {
    qn_buf text; /* after a failure: the whole message, which err may hold only in part */
    qn_template_span
        *span; /* [n_span] what {% generation %} blocks wrote, in order of their ends */
    size_t n_span;
} qn_rendering; /* {0} is an empty one, usable again after each rendering */

/* Parses src[0..n), which must be UTF-8 of at most 4 MiB and need not outlive the call. On failure *out
 * is NULL and err names line and reason. */
int qn_template_open(qn_template **out, const char *src, size_t n, qn_error *err);
void qn_template_close(qn_template *t); /* NULL is fine */

/* What the variables bos_token and eos_token are where the request has none; copied, NULL: not set. To be
 * called before the template is shared. */
void qn_template_set_tokens(qn_template *t, const char *bos, const char *eos);

const char *qn_template_source(const qn_template *t, size_t *n);

/* Renders a conversation: `request` is an object with messages, and perhaps tools, documents,
 * add_generation_prompt (true when absent) and continue_final_message (true, or the field to go on
 * with); every other member is a variable of the template. opt may be NULL. Returns QN_OK,
 * QN_ERR_RAISED when the template itself refuses, QN_ERR_LIMIT, QN_ERR_ARGUMENT for a request of the
 * wrong shape, else QN_ERR_FORMAT. */
int qn_template_render(const qn_template *t, const qn_json *request, const qn_template_options *opt,
                       qn_rendering *out, qn_error *err);

/* The same with exactly the given variables and nothing added; for tests of the language. */
int qn_template_eval(const qn_template *t, const qn_json *vars, const qn_template_options *opt,
                     qn_rendering *out, qn_error *err);

void qn_rendering_free(qn_rendering *r);

#endif
