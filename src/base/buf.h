/* buf.h - a growable byte string, always followed by a NUL that `len` does not count. */
#ifndef QN_BASE_BUF_H
#define QN_BASE_BUF_H

#include <stddef.h>

typedef struct qn_buf {
    char *data; /* NULL while empty */
    size_t len, cap;
} qn_buf; /* {0} is an empty one */

void qn_buf_add(qn_buf *b, const void *p, size_t n);
void qn_buf_str(qn_buf *b, const char *s);
void qn_buf_char(qn_buf *b, char c);
void qn_buf_printf(qn_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void qn_buf_reserve(qn_buf *b, size_t more);
void qn_buf_clear(qn_buf *b);             /* keeps the memory */
void qn_buf_free(qn_buf *b);              /* empty and usable again */
const char *qn_buf_cstr(const qn_buf *b); /* "" for an empty one */

#endif
