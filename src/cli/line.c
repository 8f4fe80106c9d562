/* line.c - see line.h. libedit does the editing; without a terminal plain reads do. */
#include "cli/line.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"

enum { HISTORY_LINES = 1000 };

struct qn_lines {
    EditLine *edit; /* NULL without a terminal */
    History *history;
    char *path; /* of the history, NULL: nowhere to keep it */
};

/* libedit asks for the prompt by a callback without a context. */
static const char *prompt_now;

static char *prompt(EditLine *e)
{
    (void)e;
    return (char *)prompt_now;
}

static char *history_path_dup(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    qn_buf b = { 0 };
    if (state && *state)
        qn_buf_printf(&b, "%s/quern", state);
    else if (home && *home)
        qn_buf_printf(&b, "%s/.local/state/quern", home);
    else
        return NULL;
    if (qn_make_dirs(b.data, NULL) != QN_OK) {
        qn_buf_free(&b);
        return NULL;
    }
    qn_buf_str(&b, "/history");
    return b.data;
}

static void open_editor(qn_lines *l)
{
    HistEvent ev;
    setlocale(LC_CTYPE, ""); /* so that a character is edited whole */
    l->edit = el_init("quern", stdin, stdout, stderr);
    if (!l->edit)
        return;
    l->history = history_init();
    l->path = history_path_dup();
    history(l->history, &ev, H_SETSIZE, HISTORY_LINES);
    history(l->history, &ev, H_SETUNIQUE, 1);
    if (l->path)
        history(l->history, &ev, H_LOAD, l->path);
    el_set(l->edit, EL_HIST, history, l->history);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_PROMPT_ESC, prompt, '\1');
    el_set(l->edit, EL_SIGNAL, 1); /* restores the terminal before our handler runs */
    el_set(l->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(l->edit, NULL); /* the user's ~/.editrc */
}

qn_lines *qn_lines_open(void)
{
    qn_lines *l = qn_alloc(sizeof *l);
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
        open_editor(l);
    return l;
}

void qn_lines_close(qn_lines *l)
{
    HistEvent ev;
    if (!l)
        return;
    if (l->history && l->path)
        history(l->history, &ev, H_SAVE, l->path);
    if (l->edit)
        el_end(l->edit);
    if (l->history)
        history_end(l->history);
    qn_free(l->path);
    qn_free(l);
}

static qn_line_end read_edited(qn_lines *l, qn_buf *b, bool more)
{
    HistEvent ev;
    int n = 0;
    if (qn_cli_colour())
        prompt_now = more ? "\1\033[1;32m\1..\1\033[0m\1 " : "\1\033[1;32m\1>>\1\033[0m\1 ";
    else
        prompt_now = more ? ".. " : ">> ";
    const char *line = el_gets(l->edit, &n);
    if (!line || n <= 0) {
        bool broken = qn_cli_interrupted();
        qn_cli_clear_interrupt();
        putchar('\n');
        return broken ? QN_LINE_BREAK : QN_LINE_EOF;
    }
    if (line[strspn(line, " \t\r\n")])
        history(l->history, &ev, H_ENTER, line);
    qn_buf_add(b, line, (size_t)n);
    return QN_LINE;
}

static qn_line_end read_plain(qn_buf *b)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n = getline(&line, &cap, stdin);
    if (n > 0)
        qn_buf_add(b, line, (size_t)n);
    free(line);
    return n > 0 ? QN_LINE : qn_cli_interrupted() ? QN_LINE_BREAK : QN_LINE_EOF;
}

qn_line_end qn_lines_next(qn_lines *l, qn_buf *b)
{
    qn_buf_clear(b);
    for (bool more = false;; more = true) {
        qn_line_end end = l->edit ? read_edited(l, b, more) : read_plain(b);
        if (end != QN_LINE)
            return more && end == QN_LINE_EOF && b->len > 0 ? QN_LINE : end;
        while (b->len > 0 && (b->data[b->len - 1] == '\n' || b->data[b->len - 1] == '\r'))
            b->data[--b->len] = '\0';
        if (b->len == 0 || b->data[b->len - 1] != '\\')
            return QN_LINE;
        b->data[b->len - 1] = '\n';
    }
}
