/* stream.c - shows an answer while it is made. */
#include <stdio.h>

#include "cli/cli.h"

/* Thoughts are shown to people only, dimmed, with a blank line between them and the answer. */
static void show(const qn_event *ev, bool *in_thought)
{
    bool tty = qn_cli_stdout_tty(), colour = qn_cli_colour();
    if (ev->reasoning && !tty)
        return;
    if (ev->reasoning != *in_thought) {
        if (colour)
            fputs(ev->reasoning ? "\033[2m" : "\033[0m", stdout);
        if (!ev->reasoning)
            fputs("\n\n", stdout);
        *in_thought = ev->reasoning;
    }
    fwrite(ev->text, 1, ev->len, stdout);
    fflush(stdout);
}

const qn_result *qn_cli_stream(qn_request *r, bool quiet)
{
    bool in_thought = false;
    qn_event ev;
    qn_cli_watch(r);
    while ((ev = qn_request_next(r, -1)).kind != QN_EVENT_DONE) {
        if (ev.kind == QN_EVENT_PROGRESS)
            qn_cli_progress("reading the prompt", (int)(100.0 * ev.n_done / ev.n_total));
        else
            qn_cli_progress_end();
        if (ev.kind == QN_EVENT_TEXT && !quiet)
            show(&ev, &in_thought);
    }
    qn_cli_watch(NULL);
    qn_cli_progress_end();
    if (in_thought && qn_cli_colour())
        fputs("\033[0m", stdout);
    return ev.result;
}
