/* pages.h - a fixed number of pages handed out one by one, each with a count of its users.
 *
 * Only numbers: what a page holds and where it lies is the cache's business. Pages that were just given
 * back are handed out first, and fresh ones in ascending order, so memory that was never needed is never
 * touched. Not thread-safe; the engine's thread owns it. */
#ifndef QN_CACHE_PAGES_H
#define QN_CACHE_PAGES_H

#include <stdint.h>

typedef struct qn_pages {
    int32_t n_pages, n_free;
    int32_t *free; /* [n_free] used as a stack, top last */
    int32_t *refs; /* [n_pages] users of each page, 0 = free */
} qn_pages;

void qn_pages_init(qn_pages *p, int32_t n_pages);
void qn_pages_free(qn_pages *p);

int32_t qn_pages_take(qn_pages *p); /* a page with one user; -1 when none is left */
void qn_pages_ref(qn_pages *p, int32_t page);
void qn_pages_drop(qn_pages *p, int32_t page); /* the last user's drop frees it */

#endif
