/* error.c - see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Makes the formatted bytes one line that a terminal shows as it is: a hostile file's names may hold
 * control characters, and a cut at the buffer's end may fall inside a character. */
static void set_message(qn_error *err, const char *text, int formatted)
{
    size_t n = strnlen(text, sizeof err->msg - 1);
    if (formatted < 0 || (size_t)formatted > n)
        n -= qn_utf8_partial(text, n);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        err->msg[i] = c < 0x20 || c == 0x7f ? ' ' : text[i];
    }
    err->msg[n] = '\0';
}

/* Both format into a buffer of their own, because an argument may be the old message. */
int qn_fail(qn_error *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    char text[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    set_message(err, text, n);
    err->code = code;
    return code;
}

int qn_fail_in(qn_error *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    char text[sizeof err->msg];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof text)
        n += snprintf(text + n, sizeof text - (size_t)n, ": %s", err->msg);
    set_message(err, text, n);
    if (err->code == QN_OK)
        err->code = code;
    return err->code;
}
