/* log.c - see log.h. A line is written by one call, so lines of several threads do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static int max_level = QN_LOG_WARN;

void qn_log_level(int level)
{
    max_level = level;
}

void qn_log(int level, const char *fmt, ...)
{
    if (level > max_level)
        return;
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' '; /* names out of files may hold what a terminal obeys */
    fprintf(stderr, "quern: %s%s\n", level == QN_LOG_WARN ? "warning: " : "", line);
}
