/* error.c - see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void one_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20)
            *s = ' ';
}

int qn_fail(qn_error *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    one_line(err->msg);
    err->code = code;
    return code;
}

int qn_fail_in(qn_error *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    char cause[sizeof err->msg];
    memcpy(cause, err->msg, sizeof cause);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->msg)
        snprintf(err->msg + n, sizeof err->msg - (size_t)n, ": %s", cause);
    one_line(err->msg);
    if (err->code == QN_OK)
        err->code = code;
    return err->code;
}
