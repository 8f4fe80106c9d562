/* pages.c - see pages.h. */
#include "cache/pages.h"

#include <assert.h>

#include "base/mem.h"

void qn_pages_init(qn_pages *p, int32_t n_pages)
{
    *p = (qn_pages){ .n_pages = n_pages, .n_free = n_pages };
    p->free = qn_alloc_n((size_t)n_pages, sizeof *p->free);
    p->refs = qn_alloc_n((size_t)n_pages, sizeof *p->refs);
    for (int32_t i = 0; i < n_pages; i++)
        p->free[i] = n_pages - 1 - i; /* page 0 on top */
}

void qn_pages_free(qn_pages *p)
{
    qn_free(p->free);
    qn_free(p->refs);
    *p = (qn_pages){ 0 };
}

int32_t qn_pages_take(qn_pages *p)
{
    if (p->n_free == 0)
        return -1;
    int32_t page = p->free[--p->n_free];
    assert(p->refs[page] == 0);
    p->refs[page] = 1;
    return page;
}

void qn_pages_ref(qn_pages *p, int32_t page)
{
    assert(page >= 0 && page < p->n_pages && p->refs[page] > 0);
    p->refs[page]++;
}

void qn_pages_drop(qn_pages *p, int32_t page)
{
    assert(page >= 0 && page < p->n_pages && p->refs[page] > 0);
    if (--p->refs[page] == 0)
        p->free[p->n_free++] = page;
}
