/* kv.h - the paged key/value cache of one model on one backend, and the sequences that lease its pages.
 *
 * Layers of equal window and sizes form a group; a group has its own pages, each QN_KV_PAGE tokens of all its
 * layers. A sequence has one page table a group. Windowed groups give pages back once every later row is
 * past them, so a long sequence costs a window there. Pages are counted: several sequences may read the same
 * full page (a shared prefix), and only a sequence's own last page is ever written.
 *
 * States that are no keys and values (recurrences, convolutions) have slots beside the pages, one a sequence,
 * taken with its first rows. A state is what all tokens so far made of it and cannot be cut back: a sequence
 * that has one is resumed where it stands or not at all.
 *
 * What stays open by design: finding a shared prefix by a hash of full pages needs only qn_kv_share() and a
 * map from hash to page. */
#ifndef QN_CACHE_KV_H
#define QN_CACHE_KV_H

#include "backend/backend.h"
#include "cache/pages.h"

/* Tokens of a page. Small enough that a half-empty last page is cheap and that prefixes are shared finely,
 * large enough that a head's keys in a page are one run worth streaming. */
#define QN_KV_PAGE 32

typedef struct qn_kv_options {
    int32_t context;  /* most tokens of one sequence */
    int32_t max_seqs; /* sequences at a time */
    int32_t chunk;    /* most rows one sequence brings in a step; windows need that much more */
    int64_t tokens;   /* room for all sequences together; 0 = context */
    size_t max_bytes; /* the room is cut to what this holds; 0 = no limit */
    bool exact;       /* float32 entries instead of float16 */
} qn_kv_options;

typedef struct qn_kv_cache {
    qn_backend *backend;
    qn_state state;                   /* what ops see */
    qn_pages pages[QN_MAX_KV_GROUPS]; /* by group */
    int32_t window[QN_MAX_KV_GROUPS]; /* 0 = everything is kept */
    qn_kv_slot *slots[QN_MAX_KV_GROUPS];
    qn_pages states; /* which state slots are taken, when the model has states */
    int32_t context; /* most tokens one sequence may have here, after cutting to max_bytes */
    size_t bytes;    /* of all groups */
} qn_kv_cache;

/* Allocates the cache that graph g's attention layers need. QN_ERR_MEMORY, with sizes, when not even one
 * page a group fits or the backend has no memory. A graph without attention gives a cache without groups,
 * which accepts everything. */
int qn_kv_open(qn_kv_cache **out, qn_backend *be, const qn_graph *g, const qn_kv_options *opt,
               qn_error *err);
void qn_kv_close(qn_kv_cache *c); /* NULL is fine; sequences must have been released */

/* Bytes that n_tok tokens of one sequence take in g's cache, without its state. */
size_t qn_kv_bytes(const qn_graph *g, int64_t n_tok, bool exact);
size_t qn_kv_state_bytes(const qn_graph *g); /* of a sequence's state, whatever its length */

/* Room for tokens of new sequences: the least over the groups that keep everything. */
int64_t qn_kv_free_tokens(const qn_kv_cache *c);

/* ---- sequences ---- */

typedef struct qn_kv_table {
    int32_t *page; /* [n] by index / QN_KV_PAGE; pages before `first` were given back */
    int32_t n, first;
    size_t cap;
} qn_kv_table;

typedef struct qn_kv_seq {
    qn_kv_cache *cache;
    int32_t len; /* entries stored */
    bool has_state;
    int32_t state_slot; /* where has_state */
    qn_kv_table table[QN_MAX_KV_GROUPS];
} qn_kv_seq; /* { .cache = c } is an empty one */

/* Makes room for n more entries after len. False, with nothing changed, when pages or state slots are short. */
bool qn_kv_reserve(qn_kv_seq *s, int32_t n);

/* n entries were written: len grows, and pages that left every later row's window are given back. */
void qn_kv_commit(qn_kv_seq *s, int32_t n);

/* Forgets entries from index n on. Returns the length kept: n; less when n lies inside a page that is shared;
 * 0 when a window has already given back what the next row would have to see, or when there is a state to be
 * cut back. */
int32_t qn_kv_truncate(qn_kv_seq *s, int32_t n);

/* Lets an empty sequence start with src's first full pages, at most n entries. Returns how many. With a state it
 * is all of src's entries, whose state is copied, or none. */
int32_t qn_kv_share(qn_kv_seq *s, const qn_kv_seq *src, int32_t n);

void qn_kv_release(qn_kv_seq *s); /* gives back all pages; the sequence is empty and usable again */

#endif
