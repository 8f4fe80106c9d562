/* name_index.c - see name_index.h. */
#include "formats/name_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

typedef struct entry {
    const char *name;
    uint32_t item;
} entry;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

const char *qn_name_index_build(qn_name_index *x, const char *const *names, size_t n)
{
    entry *e = qn_alloc_n(n, sizeof *e);
    for (size_t i = 0; i < n; i++)
        e[i] = (entry){ names[i], (uint32_t)i };
    qsort(e, n, sizeof *e, by_name);
    x->name = qn_alloc_n(n, sizeof *x->name);
    x->item = qn_alloc_n(n, sizeof *x->item);
    x->n = n;
    const char *twice = NULL;
    for (size_t i = 0; i < n; i++) {
        x->name[i] = e[i].name;
        x->item[i] = e[i].item;
        if (i && !twice && strcmp(e[i].name, e[i - 1].name) == 0)
            twice = e[i].name;
    }
    qn_free(e);
    return twice;
}

int64_t qn_name_index_find(const qn_name_index *x, const char *name)
{
    size_t lo = 0, hi = x->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = strcmp(x->name[mid], name);
        if (c == 0)
            return x->item[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

void qn_name_index_free(qn_name_index *x)
{
    qn_free(x->name);
    qn_free(x->item);
    *x = (qn_name_index){ 0 };
}
