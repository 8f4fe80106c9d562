/* regex.h - the regular expressions of tokenizer files: matched by PCRE2, or by hand-written code for the
 * published patterns that most models share (splitters.h).
 *
 * Text must be valid UTF-8. A compiled pattern is read-only and shared by threads; what a match needs to
 * write lives in a qn_rx_scratch, one for each thread. */
#ifndef QN_TOKENIZER_REGEX_H
#define QN_TOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

/* How a file's author wrote it. Both know nested classes and && in them. */
typedef enum qn_rx_dialect {
    QN_RX_RUBY, /* tokenizer.json: Oniguruma, where ^ and $ see lines and {n,m}+ is not possessive */
    QN_RX_PLAIN /* rank files and our own */
} qn_rx_dialect;

typedef struct qn_regex qn_regex;

typedef struct qn_rx_scratch {
    void *match, *context, *stack; /* PCRE2's; made at first use */
} qn_rx_scratch;

qn_regex *qn_regex_open(const char *pattern, size_t n, qn_rx_dialect dialect, qn_error *err);
qn_regex *qn_regex_open_literal(const char *text, size_t n); /* matches exactly this text */
void qn_regex_close(qn_regex *r);

/* Switches the hand-written matcher off, so that a test can compare both. */
void qn_regex_force_pcre(qn_regex *r);
bool qn_regex_is_fast(const qn_regex *r);

/* A search in text[0..n) from `from` on; look-behind may see what is before. A match is [s, e). */
typedef struct qn_rx_search {
    const char *text;
    size_t n, from, s, e;
} qn_rx_search;

/* Finds the first match. 1: found; 0: none; negative: a limit that guards against exploding patterns was
 * hit. `from` is the caller's to move on. */
int qn_regex_next(const qn_regex *r, qn_rx_scratch *x, qn_rx_search *q);

void qn_rx_scratch_free(qn_rx_scratch *x);

/* Rewrites a pattern in PCRE2's language: Unicode sets for \s and \w, nested classes, intersections. */
int qn_rx_translate(const char *p, size_t n, qn_rx_dialect dialect, qn_buf *out, qn_error *err);

#endif
