/* interrupt.c - Ctrl-C. The handler does what is allowed in one: it stores flags, and cancels a request, which is
 * made to be called there. */
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

static volatile sig_atomic_t interrupts, stays;
static qn_request *volatile watched;

static void on_sigint(int sig)
{
    (void)sig;
    qn_request *r = watched;
    if (interrupts++ > 0 || (!r && !stays))
        _exit(QN_EXIT_INTERRUPTED);
    if (r)
        qn_request_cancel(r);
}

void qn_cli_catch_sigint(bool stay)
{
    struct sigaction sa = { .sa_handler = on_sigint };
    stays = stay;
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL); /* no SA_RESTART: a blocked read returns */
}

void qn_cli_watch(qn_request *r)
{
    watched = r;
}

bool qn_cli_interrupted(void)
{
    return interrupts > 0;
}

void qn_cli_clear_interrupt(void)
{
    interrupts = 0;
}
