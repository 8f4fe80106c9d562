/* trie.h - a read-only byte trie: all keys that are prefixes of a text, found in one walk.
 * The children of a node are neighbours, so a step is one memchr over their labels. */
#ifndef QN_TOKENIZER_TRIE_H
#define QN_TOKENIZER_TRIE_H

#include <stddef.h>
#include <stdint.h>

typedef struct qn_trie_key {
    const char *s;
    uint32_t n;
    int32_t value; /* >= 0 */
} qn_trie_key;

typedef struct qn_trie_node {
    uint32_t first; /* first child */
    int32_t value;  /* -1: no key ends here */
    uint16_t n;     /* children */
} qn_trie_node;

typedef struct qn_trie {
    qn_trie_node *node; /* node 0 is the root */
    unsigned char *label;
    size_t n_nodes;
    uint32_t root[256]; /* the root's children by byte, 0 for none */
} qn_trie;

/* Sorts `key` in place. Of equal keys the one with the highest value counts. */
void qn_trie_build(qn_trie *t, qn_trie_key *key, size_t n);
void qn_trie_free(qn_trie *t);

uint32_t qn_trie_step(const qn_trie *t, uint32_t node, unsigned char c); /* 0: no such child */

/* Length of the longest key that is a prefix of s[0..n), 0 for none; *value gets its value. */
size_t qn_trie_longest(const qn_trie *t, const char *s, size_t n, int32_t *value);

#endif
