/* name_index.h - finds one of n names by binary search, and the first duplicate.
 *
 * Sorted rather than hashed: hostile names cannot make it slow. The names stay the caller's. */
#ifndef QN_FORMATS_NAME_INDEX_H
#define QN_FORMATS_NAME_INDEX_H

#include <stddef.h>
#include <stdint.h>

typedef struct qn_name_index {
    const char **name; /* sorted */
    uint32_t *item;    /* item[i]: the caller's number of name[i] */
    size_t n;
} qn_name_index; /* {0} is an empty one */

/* Takes n names, numbered 0..n-1. Returns a name that occurs twice, or NULL when all differ. */
const char *qn_name_index_build(qn_name_index *x, const char *const *names, size_t n);
int64_t qn_name_index_find(const qn_name_index *x, const char *name); /* -1: absent */
void qn_name_index_free(qn_name_index *x);

#endif
