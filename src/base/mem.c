/* mem.c - see mem.h. Blocks of an arena double up to 1 MiB; a larger request gets a block of its own. */
#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quern.h" /* qn_free is public: who gets a ..._dup string must be able to end it */

typedef struct qn_arena_block {
    struct qn_arena_block *next;
    size_t size, used;
    _Alignas(16) unsigned char data[];
} qn_arena_block;

static void out_of_memory(size_t bytes)
{
    fprintf(stderr, "quern: out of memory (%zu bytes)\n", bytes);
    abort();
}

void *qn_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

void *qn_alloc_n(size_t n, size_t size)
{
    size_t bytes;
    if (!qn_mul_size(n, size, &bytes))
        out_of_memory(SIZE_MAX);
    return qn_alloc(bytes);
}

void *qn_realloc_n(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (!qn_mul_size(n, size, &bytes))
        out_of_memory(SIZE_MAX);
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        out_of_memory(bytes);
    return q;
}

void *qn_try_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX - 64)
        return NULL;
    return aligned_alloc(64, (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0));
}

void qn_free(void *p)
{
    free(p);
}

char *qn_strndup(const char *s, size_t n)
{
    char *d = qn_alloc(n + 1);
    if (n)
        memcpy(d, s, n);
    return d;
}

char *qn_strdup(const char *s)
{
    return s ? qn_strndup(s, strlen(s)) : NULL;
}

bool qn_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool qn_add_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

void *qn_arena_alloc(qn_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        out_of_memory(bytes);
    bytes = (bytes + 15) & ~(size_t)15;
    qn_arena_block *b = a->block;
    if (!b || b->size - b->used < bytes) {
        size_t size = b ? b->size * 2 : 4096;
        if (size > 1 << 20)
            size = 1 << 20;
        if (size < bytes)
            size = bytes;
        qn_arena_block *fresh = qn_alloc(sizeof *fresh + size);
        fresh->size = size;
        fresh->next = b;
        a->block = b = fresh;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    a->used_bytes += bytes;
    return p;
}

void *qn_arena_alloc_n(qn_arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (!qn_mul_size(n, size, &bytes))
        out_of_memory(SIZE_MAX);
    return qn_arena_alloc(a, bytes);
}

void *qn_arena_copy(qn_arena *a, const void *p, size_t bytes)
{
    void *d = qn_arena_alloc(a, bytes);
    if (bytes)
        memcpy(d, p, bytes);
    return d;
}

char *qn_arena_strndup(qn_arena *a, const char *s, size_t n)
{
    char *d = qn_arena_alloc(a, n + 1);
    if (n)
        memcpy(d, s, n);
    return d;
}

char *qn_arena_strdup(qn_arena *a, const char *s)
{
    return s ? qn_arena_strndup(a, s, strlen(s)) : NULL;
}

char *qn_arena_printf(qn_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    assert(n >= 0); /* our formats are right */
    char *d = qn_arena_alloc(a, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(d, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return d;
}

void qn_arena_free(qn_arena *a)
{
    while (a->block) {
        qn_arena_block *next = a->block->next;
        qn_free(a->block);
        a->block = next;
    }
    a->used_bytes = 0;
}

void *qn_grow(void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return p;
    *cap = *cap ? *cap * 2 : 16;
    return qn_realloc_n(p, *cap, size);
}
