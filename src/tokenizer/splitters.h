/* splitters.h - hand-written matchers for the pre-tokenizer patterns that published models share. */
#ifndef QN_TOKENIZER_SPLITTERS_H
#define QN_TOKENIZER_SPLITTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct qn_splitter qn_splitter;

/* The end of the pattern's match that begins at `at`, or `at` when none does. */
typedef size_t qn_split_fn(const qn_splitter *w, const char *s, size_t n, size_t at);

struct qn_splitter {
    const char *pattern; /* recognised by its exact text */
    qn_split_fn *match;
    int max_digits;   /* 0: any number */
    uint32_t letters; /* categories of a word */
    bool contractions;
    char after_punct; /* besides line breaks, what may follow punctuation; 0: nothing */
};

const qn_splitter *qn_splitter_find(const char *pattern, size_t n); /* NULL: not one of ours */

#endif
