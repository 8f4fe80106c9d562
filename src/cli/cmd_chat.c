/* cmd_chat.c - `quern chat`: a conversation on the terminal, or line by line from a pipe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/line.h"

typedef struct chat {
    qn_session *session;
    qn_request_options req;
    char *system; /* NULL: the template's own */
    bool quit;
} chat;

/* ---- commands ---- */

typedef struct command {
    const char *name, *arg, *about;
    void (*run)(chat *c, const char *arg);
} command;

static void say(const char *text)
{
    printf(qn_cli_colour() ? "\033[2m%s\033[0m\n" : "%s\n", text);
}

static void complain(const qn_error *err)
{
    fflush(stdout);
    fprintf(stderr, "quern: %s\n", err->msg);
}

static void do_reset(chat *c, const char *arg)
{
    qn_error err = { 0 };
    (void)arg;
    if (qn_session_reset(c->session, c->system, &err) == QN_OK)
        say("a new conversation");
    else
        complain(&err);
}

static void do_system(chat *c, const char *arg)
{
    qn_free(c->system);
    c->system = *arg ? qn_strdup(arg) : NULL;
    do_reset(c, "");
}

/* Reads a number for an option; says what is wrong when it is none. */
static bool number(const char *arg, double min, double *out)
{
    char *end;
    double v = strtod(arg, &end);
    bool ok = end != arg && !*end && v >= min && v <= 1e9;
    if (ok)
        *out = v;
    else
        say("a number is needed");
    return ok;
}

static void do_temp(chat *c, const char *arg)
{
    double v;
    if (number(arg, 0, &v))
        c->req.sampling.temperature = (float)v;
}

static void do_tokens(chat *c, const char *arg)
{
    double v;
    if (number(arg, -1, &v))
        c->req.max_tokens = (int64_t)v;
}

static void do_save(chat *c, const char *arg)
{
    qn_error err = { 0 };
    char *json = qn_session_messages_dup(c->session);
    if (!*arg)
        say("a file name is needed");
    else if (qn_write_file(arg, json, strlen(json), &err) != QN_OK)
        complain(&err);
    qn_free(json);
}

static void do_quit(chat *c, const char *arg)
{
    (void)arg;
    c->quit = true;
}

static void do_help(chat *c, const char *arg);

static const command commands[] = {
    { "/help", "", "this list", do_help },
    { "/reset", "", "forget the conversation", do_reset },
    { "/system", "TEXT", "another system message, and a new conversation", do_system },
    { "/temp", "T", "temperature; 0 = always the most likely token", do_temp },
    { "/tokens", "N", "most tokens of an answer; -1 = as many as fit", do_tokens },
    { "/save", "FILE", "write the conversation as JSON", do_save },
    { "/quit", "", "leave (Ctrl-D too)", do_quit },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void do_help(chat *c, const char *arg)
{
    (void)c;
    (void)arg;
    for (int i = 0; i < N_COMMANDS; i++)
        printf("  %-8s %-5s %s\n", commands[i].name, commands[i].arg, commands[i].about);
    printf("  a line that ends in \\ goes on; Ctrl-C stops an answer\n");
}

/* Runs "/name arg" and returns true when the line is such a one. */
static bool run_command(chat *c, const char *line)
{
    if (*line != '/')
        return false;
    size_t n = strcspn(line, " \t");
    const char *arg = line + n + strspn(line + n, " \t");
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strlen(commands[i].name) == n && !memcmp(commands[i].name, line, n)) {
            commands[i].run(c, arg);
            return true;
        }
    }
    say("no such command; /help lists them");
    return true;
}

/* ---- turns ---- */

/* One question and its answer. A failed turn is reported, and the conversation goes on. */
static int turn(chat *c, const char *text)
{
    qn_error err = { 0 };
    qn_request *r;
    int rc = qn_session_send(&r, c->session, text, &c->req, &err);
    if (rc != QN_OK) {
        complain(&err);
        return rc;
    }
    const qn_result *res = qn_cli_stream(r, false);
    fputs(qn_cli_stdout_tty() ? "\n\n" : "\n", stdout);
    if (res->finish == QN_FINISH_ERROR) {
        rc = res->error.code;
        complain(&res->error);
    } else if (res->finish == QN_FINISH_CANCELLED) {
        rc = QN_ERR_CANCELLED;
        say("stopped; this turn is forgotten");
    } else if (res->finish == QN_FINISH_LENGTH && qn_cli_stdout_tty()) {
        say("(cut: no room for more tokens)");
    }
    qn_request_close(r);
    return rc;
}

static int converse(chat *c)
{
    bool tty = isatty(STDIN_FILENO);
    qn_lines *lines = qn_lines_open();
    qn_buf line = { 0 };
    int status = QN_EXIT_OK;
    if (tty && qn_cli_stdout_tty())
        say("/help lists the commands, Ctrl-C stops an answer, Ctrl-D ends the chat");
    while (!c->quit) {
        qn_line_end end = qn_lines_next(lines, &line);
        const char *text = qn_buf_cstr(&line);
        if (end == QN_LINE_EOF)
            break;
        if (end == QN_LINE && text[strspn(text, " \t\r\n")] && !run_command(c, text)) {
            int rc = turn(c, text);
            /* A script wants to know; a person has seen it. */
            if (rc != QN_OK && !tty)
                status = rc == QN_ERR_CANCELLED ? QN_EXIT_INTERRUPTED : QN_EXIT_FAILED;
        }
        if (qn_cli_interrupted() && !tty) {
            status = QN_EXIT_INTERRUPTED;
            break;
        }
        qn_cli_clear_interrupt();
    }
    qn_buf_free(&line);
    qn_lines_close(lines);
    return status;
}

static int run(qn_model *m, chat *c, int64_t context)
{
    qn_error err = { 0 };
    qn_engine *e = NULL;
    qn_engine_options eo = { .context = (int)context, .max_running = 1 };
    int rc = qn_engine_open(&e, m, &eo, &err);
    if (rc == QN_OK)
        rc = qn_session_open(&c->session, e, c->system, &err);
    int status = rc == QN_OK ? converse(c) : qn_cli_fail(&err);
    qn_session_close(c->session);
    qn_engine_close(e);
    return status;
}

int qn_cmd_chat(int argc, char **argv)
{
    qn_cli_model mo = { 0 };
    qn_cli_sampling sampling = QN_CLI_SAMPLING_UNSET;
    const char *system = NULL;
    int64_t context = 0;
    const qn_opt opts[] = {
        { "--system", QN_OPT_STR, &system, "TEXT", "a system message", 0, 0 },
        QN_CLI_SAMPLING_OPTS(&sampling),
        { "--context", QN_OPT_INT, &context, "N", "most tokens of the conversation", 1, 1 << 30 },
        QN_CLI_MODEL_OPTS(&mo),
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "chat [MODEL] [options]",
        .about = "A conversation on the terminal; /help there lists its commands. Without a "
                 "terminal every line\n"
                 "of standard input is a turn.",
        .examples = "  quern chat\n"
                    "  quern chat model.gguf --system \"Answer in one sentence.\" --temp 0.3\n",
        .opts = opts,
        .max_args = 1,
    };
    const char *name = QN_DEFAULT_MODEL;
    int n_args, rc = qn_cli_parse(&spec, argc, argv, &name, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    qn_model *m = NULL;
    int status = qn_cli_open(&m, name, &mo);
    if (status != QN_EXIT_OK)
        return status;
    chat c = { .system = qn_strdup(system) };
    qn_cli_catch_sigint(true);
    qn_request_defaults(m, &c.req);
    qn_cli_apply_sampling(&c.req, &sampling);
    c.req.split_thoughts = true;
    status = run(m, &c, context);
    qn_free(c.system);
    qn_model_close(m);
    return status;
}
