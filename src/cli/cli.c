/* cli.c - what the subcommands share at run time: error lines, standard input, progress. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

int qn_cli_fail(const qn_error *err)
{
    qn_cli_progress_end();
    if (err->code == QN_ERR_CANCELLED)
        return QN_EXIT_INTERRUPTED;
    fprintf(stderr, "quern: %s\n", err->msg[0] ? err->msg : qn_code_words(err->code));
    return QN_EXIT_FAILED;
}

int qn_cli_die(int status, const char *fmt, ...)
{
    va_list ap;
    qn_cli_progress_end();
    fputs("quern: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return status;
}

bool qn_cli_read_stdin(qn_buf *b)
{
    enum { MAX_BYTES = 1 << 30 };
    char block[1 << 14];
    for (size_t n; (n = fread(block, 1, sizeof block, stdin)) > 0;) {
        if (b->len + n > MAX_BYTES) {
            qn_cli_die(QN_EXIT_FAILED, "standard input is larger than 1 GiB");
            return false;
        }
        qn_buf_add(b, block, n);
    }
    if (ferror(stdin)) {
        qn_cli_die(QN_EXIT_FAILED, "standard input cannot be read");
        return false;
    }
    return true;
}

/* ---- terminals ---- */

bool qn_cli_stdout_tty(void)
{
    return isatty(STDOUT_FILENO);
}

bool qn_cli_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return qn_cli_stdout_tty() && !(no && *no) && !(term && !strcmp(term, "dumb"));
}

/* ---- progress ---- */

static bool progress_shown;
static double progress_start = -1, progress_last;

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void qn_cli_progress(const char *what, int percent)
{
    double now = seconds();
    if (progress_start < 0)
        progress_start = now;
    bool early = now - progress_start < 1, again = progress_shown && now - progress_last < 0.1;
    if (early || again || !isatty(STDERR_FILENO))
        return;
    progress_last = now;
    progress_shown = true;
    if (percent < 0)
        fprintf(stderr, "\r\033[K%s", what);
    else
        fprintf(stderr, "\r\033[K%s %d%%", what, percent);
    fflush(stderr);
}

void qn_cli_progress_end(void)
{
    if (progress_shown)
        fputs("\r\033[K", stderr);
    progress_shown = false;
    progress_start = -1;
}
