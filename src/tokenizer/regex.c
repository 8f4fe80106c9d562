/* regex.c - see regex.h. Patterns are compiled with JIT; a match that exceeds its step or stack limit is
 * reported instead of running on. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include <pcre2.h>
#include <string.h>

#include "base/mem.h"
#include "tokenizer/splitters.h"

#define MAX_PATTERN 65536u
#define MATCH_STEPS 20000000u
#define STACK_BYTES (1u << 20)

struct qn_regex {
    pcre2_code *code;        /* NULL: a literal, or not needed beside `fast` */
    const qn_splitter *fast; /* NULL: PCRE2 matches */
    char *literal;
    size_t n_literal;
};

static int compile(qn_regex *r, const char *pattern, size_t n, qn_rx_dialect dialect, qn_error *err)
{
    qn_buf text = { 0 };
    int rc = qn_rx_translate(pattern, n, dialect, &text, err);
    if (rc == QN_OK) {
        uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY;
        if (dialect == QN_RX_RUBY)
            options |= PCRE2_MULTILINE;
        pcre2_compile_context *context = pcre2_compile_context_create(NULL);
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        int code;
        PCRE2_SIZE at;
        r->code =
            pcre2_compile((PCRE2_SPTR)qn_buf_cstr(&text), text.len, options, &code, &at, context);
        pcre2_compile_context_free(context);
        if (r->code) {
            pcre2_jit_compile(r->code,
                              PCRE2_JIT_COMPLETE); /* without JIT the interpreter matches */
        } else {
            char why[160];
            pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
            rc = qn_fail(err, QN_ERR_FORMAT, "pattern \"%.120s\": %s", pattern, why);
        }
    }
    qn_buf_free(&text);
    return rc;
}

qn_regex *qn_regex_open(const char *pattern, size_t n, qn_rx_dialect dialect, qn_error *err)
{
    if (n > MAX_PATTERN) {
        qn_fail(err, QN_ERR_LIMIT, "a pattern is longer than %u bytes", MAX_PATTERN);
        return NULL;
    }
    qn_regex *r = qn_alloc(sizeof *r);
    r->fast = qn_splitter_find(pattern, n);
    if (compile(r, pattern, n, dialect, err) != QN_OK) {
        qn_regex_close(r);
        return NULL;
    }
    return r;
}

qn_regex *qn_regex_open_literal(const char *text, size_t n)
{
    qn_regex *r = qn_alloc(sizeof *r);
    r->literal = qn_strndup(text, n);
    r->n_literal = n;
    return r;
}

void qn_regex_close(qn_regex *r)
{
    if (!r)
        return;
    pcre2_code_free(r->code);
    qn_free(r->literal);
    qn_free(r);
}

void qn_regex_force_pcre(qn_regex *r)
{
    r->fast = NULL;
}

bool qn_regex_is_fast(const qn_regex *r)
{
    return r->fast != NULL;
}

static void prepare(qn_rx_scratch *x)
{
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_jit_stack *stack = pcre2_jit_stack_create(32 * 1024, STACK_BYTES, NULL);
    pcre2_set_match_limit(context, MATCH_STEPS);
    pcre2_set_heap_limit(context, 64 * 1024); /* KiB */
    pcre2_jit_stack_assign(context, NULL, stack);
    x->match = pcre2_match_data_create(1, NULL);
    x->context = context;
    x->stack = stack;
}

static int next_literal(const qn_regex *r, qn_rx_search *q)
{
    if (q->from > q->n)
        return 0;
    q->s = q->e = q->from;
    if (r->n_literal == 0) /* an empty needle is found everywhere, as a pattern would be */
        return 1;
    const char *at = memmem(q->text + q->from, q->n - q->from, r->literal, r->n_literal);
    if (!at)
        return 0;
    q->s = (size_t)(at - q->text);
    q->e = q->s + r->n_literal;
    return 1;
}

static int next_fast(const qn_splitter *w, qn_rx_search *q)
{
    for (size_t at = q->from; at < q->n;) {
        size_t end = w->match(w, q->text, q->n, at);
        if (end > at) {
            q->s = at;
            q->e = end;
            return 1;
        }
        do
            at++;
        while (at < q->n && ((unsigned char)q->text[at] & 0xc0) == 0x80);
    }
    return 0;
}

int qn_regex_next(const qn_regex *r, qn_rx_scratch *x, qn_rx_search *q)
{
    if (r->literal)
        return next_literal(r, q);
    if (r->fast)
        return next_fast(r->fast, q);
    if (!x->match)
        prepare(x);
    int rc = pcre2_match(r->code, (PCRE2_SPTR)q->text, q->n, q->from, PCRE2_NO_UTF_CHECK, x->match,
                         x->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0)
        return -1;
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(x->match);
    q->s = v[0];
    q->e = v[1];
    return v[0] <= v[1] ? 1 : -1; /* \K in a look-ahead can turn them round */
}

void qn_rx_scratch_free(qn_rx_scratch *x)
{
    pcre2_match_data_free(x->match);
    pcre2_match_context_free(x->context);
    pcre2_jit_stack_free(x->stack);
    *x = (qn_rx_scratch){ 0 };
}
