/* mem.h - the one seam through which small host memory is had.
 *
 * Small allocations never fail: they log and abort, so callers do not check. Memory whose size a file
 * or a request decides must be checked first and had with qn_try_alloc, which may return NULL.
 * An arena gives memory that is freed as a whole; nothing inside is freed singly. */
#ifndef QN_BASE_MEM_H
#define QN_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

void *qn_alloc(size_t bytes);                       /* zeroed; free with qn_free */
void *qn_alloc_n(size_t n, size_t size);            /* zeroed; aborts on overflow */
void *qn_realloc_n(void *p, size_t n, size_t size); /* new tail is not zeroed */
void *qn_try_alloc(size_t bytes); /* not zeroed, 64-byte aligned, NULL when there is none */
void qn_free(void *p);            /* NULL is fine */
char *qn_strdup(const char *s);   /* NULL gives NULL */
char *qn_strndup(const char *s, size_t n); /* copies exactly n bytes and adds a NUL */

/* *out = a * b (a + b); false when it does not fit. For sizes that come from files. */
bool qn_mul_size(size_t a, size_t b, size_t *out);
bool qn_add_size(size_t a, size_t b, size_t *out);

typedef struct qn_arena {
    struct qn_arena_block *block; /* newest first */
    size_t used_bytes;            /* handed out so far */
} qn_arena;                       /* {0} is an empty arena */

void *qn_arena_alloc(qn_arena *a, size_t bytes); /* zeroed, 16-byte aligned */
void *qn_arena_alloc_n(qn_arena *a, size_t n, size_t size);
void *qn_arena_copy(qn_arena *a, const void *p, size_t bytes);
char *qn_arena_strndup(qn_arena *a, const char *s, size_t n);
char *qn_arena_strdup(qn_arena *a, const char *s);
char *qn_arena_printf(qn_arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void qn_arena_free(qn_arena *a); /* the arena is empty and usable again */

/* Grows an array of `n` used and *cap allocated items so that one more fits. Use: QN_GROW(v, n, cap). */
void *qn_grow(void *p, size_t n, size_t *cap, size_t size);
#define QN_GROW(v, n, cap) ((v) = qn_grow((v), (size_t)(n), &(cap), sizeof *(v)))

#endif
