/* buf.c - see buf.h. */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void qn_buf_reserve(qn_buf *b, size_t more)
{
    size_t need;
    if (!qn_add_size(b->len, more, &need) || !qn_add_size(need, 1, &need))
        need = SIZE_MAX; /* more than any machine has: the allocation below aborts */
    if (need <= b->cap)
        return;
    size_t cap = b->cap ? b->cap * 2 : 64;
    if (cap < need)
        cap = need;
    b->data = qn_realloc_n(b->data, cap, 1);
    b->cap = cap;
}

void qn_buf_add(qn_buf *b, const void *p, size_t n)
{
    qn_buf_reserve(b, n);
    if (n)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
}

void qn_buf_str(qn_buf *b, const char *s)
{
    qn_buf_add(b, s, strlen(s));
}

void qn_buf_char(qn_buf *b, char c)
{
    qn_buf_add(b, &c, 1);
}

void qn_buf_printf(qn_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    assert(n >= 0); /* our formats are right */
    qn_buf_reserve(b, (size_t)n);
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void qn_buf_clear(qn_buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

void qn_buf_free(qn_buf *b)
{
    qn_free(b->data);
    *b = (qn_buf){ 0 };
}

const char *qn_buf_cstr(const qn_buf *b)
{
    return b->data ? b->data : "";
}
