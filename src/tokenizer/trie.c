/* trie.c - see trie.h. Built breadth first from sorted keys: a node is a range of keys that share a
 * prefix, and its children are the subranges by the next byte. */
#include "tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

typedef struct range {
    size_t lo, hi;
    uint32_t depth;
} range;

static int by_text(const void *pa, const void *pb)
{
    const qn_trie_key *a = pa, *b = pb;
    int c = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
    if (c)
        return c;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

/* Appends node i's children, one for each next byte in its range of keys. */
static void add_children(qn_trie *t, range *of, const qn_trie_key *key, size_t i)
{
    range r = of[i];
    qn_trie_node *node = &t->node[i];
    for (; r.lo < r.hi && key[r.lo].n == r.depth; r.lo++)
        node->value = key[r.lo].value;
    node->first = (uint32_t)t->n_nodes;
    while (r.lo < r.hi) {
        unsigned char c = (unsigned char)key[r.lo].s[r.depth];
        size_t end = r.lo + 1;
        while (end < r.hi && (unsigned char)key[end].s[r.depth] == c)
            end++;
        t->label[t->n_nodes] = c;
        t->node[t->n_nodes] = (qn_trie_node){ .value = -1 };
        of[t->n_nodes++] = (range){ r.lo, end, r.depth + 1 };
        node->n++;
        r.lo = end;
    }
}

void qn_trie_build(qn_trie *t, qn_trie_key *key, size_t n)
{
    *t = (qn_trie){ 0 };
    if (n)
        qsort(key, n, sizeof *key, by_text);
    /* Exactly one node for each byte of a key that its predecessor does not share, and the root. */
    size_t total = 1;
    for (size_t i = 0; i < n; i++) {
        size_t common = 0, least = i ? (key[i].n < key[i - 1].n ? key[i].n : key[i - 1].n) : 0;
        while (common < least && key[i].s[common] == key[i - 1].s[common])
            common++;
        total += key[i].n - common;
    }
    t->node = qn_alloc_n(total, sizeof *t->node);
    t->label = qn_alloc(total);
    range *of = qn_alloc_n(total, sizeof *of);
    t->node[0].value = -1;
    of[0] = (range){ 0, n, 0 };
    t->n_nodes = 1;
    for (size_t i = 0; i < t->n_nodes; i++)
        add_children(t, of, key, i);
    for (uint32_t i = 0; i < t->node[0].n; i++)
        t->root[t->label[t->node[0].first + i]] = t->node[0].first + i;
    qn_free(of);
}

void qn_trie_free(qn_trie *t)
{
    qn_free(t->node);
    qn_free(t->label);
    *t = (qn_trie){ 0 };
}

uint32_t qn_trie_step(const qn_trie *t, uint32_t node, unsigned char c)
{
    if (node == 0)
        return t->root[c];
    const qn_trie_node *p = &t->node[node];
    const unsigned char *label = t->label + p->first;
    if (p->n < 8) {
        for (uint32_t i = 0; i < p->n; i++)
            if (label[i] == c)
                return p->first + i;
        return 0;
    }
    const unsigned char *at = memchr(label, c, p->n);
    return at ? p->first + (uint32_t)(at - label) : 0;
}

size_t qn_trie_longest(const qn_trie *t, const char *s, size_t n, int32_t *value)
{
    size_t best = 0;
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = qn_trie_step(t, node, (unsigned char)s[i]);
        if (!node)
            break;
        if (t->node[node].value >= 0) {
            best = i + 1;
            *value = t->node[node].value;
        }
    }
    return best;
}
