/* cli.h - what the subcommands of `quern` share: option parsing, help, errors, terminals, models.
 *
 * A command is `int qn_cmd_<name>(int argc, char **argv)` with argv[0] its own name; it returns the exit
 * status: 0 done, 1 failed (one line on standard error), 2 usage, 130 interrupted. Commands use the public
 * header and base/ only. */
#ifndef QN_CLI_CLI_H
#define QN_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "quern.h"

enum { QN_EXIT_OK = 0, QN_EXIT_FAILED = 1, QN_EXIT_USAGE = 2, QN_EXIT_INTERRUPTED = 130 };

#define QN_DEFAULT_MODEL "smollm2"

int qn_cmd_run(int argc, char **argv);
int qn_cmd_chat(int argc, char **argv);
int qn_cmd_pull(int argc, char **argv);
int qn_cmd_list(int argc, char **argv);
int qn_cmd_rm(int argc, char **argv);
int qn_cmd_show(int argc, char **argv);
int qn_cmd_tokenize(int argc, char **argv);
int qn_cmd_render(int argc, char **argv);
int qn_cmd_bench(int argc, char **argv);
int qn_cmd_eval(int argc, char **argv);
int qn_cmd_diff(int argc, char **argv);
int qn_cmd_embed(int argc, char **argv);
int qn_cmd_rerank(int argc, char **argv);

/* ---- options (options.c) ---- */

#define QN_MAX_LIST 64

typedef struct qn_int_list {
    int64_t v[QN_MAX_LIST];
    int n;
} qn_int_list;

typedef struct qn_str_list {
    const char *v[QN_MAX_LIST];
    int n;
} qn_str_list;

typedef enum qn_opt_type {
    QN_OPT_FLAG, /* bool: set to true */
    QN_OPT_INT,  /* int64_t */
    QN_OPT_REAL, /* double */
    QN_OPT_STR,  /* const char *, borrowed from argv */
    QN_OPT_STRS, /* qn_str_list: the option may be repeated */
    QN_OPT_INTS  /* qn_int_list: every number that follows; commas separate too */
} qn_opt_type;

typedef struct qn_opt {
    const char *name; /* "--temp", or "-n" */
    qn_opt_type type;
    void *out;       /* keeps its value when the option is absent */
    const char *arg; /* what the help calls the value: "N"; NULL for flags */
    const char *help;
    double min, max; /* of numbers; both 0 = any */
} qn_opt;

/* A command as its help shows it and as its arguments are parsed. */
typedef struct qn_cmd_spec {
    const char *usage;    /* "run [MODEL] PROMPT" */
    const char *about;    /* a sentence or two */
    const char *examples; /* lines, each ended by a newline */
    const qn_opt *opts;   /* ended by a NULL name */
    int min_args, max_args;
} qn_cmd_spec;

enum { QN_CLI_GO = -1 };

/* Sorts argv into options and up to spec->max_args arguments (args, *n_args; "--" ends the options, a
 * lone "-" is an argument). QN_CLI_GO: go on; else return that exit status (help was shown, or the usage
 * was wrong and a line about it printed). --help and the options of `common` work in every command. */
int qn_cli_parse(const qn_cmd_spec *spec, int argc, char **argv, const char **args, int *n_args);

/* The options every command that opens a model takes. Put QN_CLI_MODEL_OPTS(&m) into the table. */
typedef struct qn_cli_model {
    const char *device, *compute; /* "cpu"; "f32" or "default" */
    int64_t n_threads;
    bool json;
} qn_cli_model;

#define QN_CLI_MODEL_OPTS(m)                                                                       \
    { "--device", QN_OPT_STR, &(m)->device, "DEV", "where to compute: cpu", 0, 0 },                \
        { "--threads", QN_OPT_INT, &(m)->n_threads, "N", "threads; default one a core", 1, 1024 }, \
        { "--compute", QN_OPT_STR, &(m)->compute, "MODE", "f32 or default", 0, 0 },                \
    {                                                                                              \
        "--json", QN_OPT_FLAG, &(m)->json, NULL, "one JSON document on standard output", 0, 0      \
    }

/* ---- errors, models, terminals (cli.c) ---- */

/* Prints "quern: <message>" and returns QN_EXIT_FAILED (QN_EXIT_INTERRUPTED for a cancelled job). */
int qn_cli_fail(const qn_error *err);
int qn_cli_die(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The sampling options, shared by run and chat; unset ones (NaN, -1) keep what the model's defaults say. Put
 * QN_CLI_SAMPLING_OPTS(&s) into the table, start from QN_CLI_SAMPLING_UNSET. */
typedef struct qn_cli_sampling {
    double temp, top_p, min_p, repeat_penalty;
    int64_t top_k, seed, n;
    qn_str_list stop;
} qn_cli_sampling;

#define QN_CLI_SAMPLING_UNSET                                                                      \
    {                                                                                              \
        .temp = -1, .top_p = -1, .min_p = -1, .repeat_penalty = -1, .top_k = -1, .seed = -1,       \
        .n = -1                                                                                    \
    }

#define QN_CLI_SAMPLING_OPTS(s)                                                                     \
    { "-n", QN_OPT_INT, &(s)->n, "N", "at most N tokens; -1 = as many as fit", -1, 1e15 },          \
        { "--temp", QN_OPT_REAL, &(s)->temp, "T", "temperature; 0 = most likely token", 0, 1e6 },   \
        { "--top-k", QN_OPT_INT, &(s)->top_k, "K", "of the K most likely; 0 = all", 0, 1e9 },       \
        { "--top-p", QN_OPT_REAL, &(s)->top_p, "P", "of the most likely that hold P", 1e-9, 1 },    \
        { "--min-p", QN_OPT_REAL, &(s)->min_p, "P", "of those with P times the best one's", 0, 1 }, \
        { "--repeat-penalty", QN_OPT_REAL, &(s)->repeat_penalty, "R", "1 = none", 1e-3, 1e6 },      \
        { "--seed", QN_OPT_INT, &(s)->seed, "S", "the same seed, the same text", 0, 9e15 },         \
    {                                                                                               \
        "--stop", QN_OPT_STRS, &(s)->stop, "TEXT", "ends the answer; may be repeated", 0, 0         \
    }

void qn_cli_apply_sampling(qn_request_options *o, const qn_cli_sampling *s);

/* Finds MODEL (folder, file, name in the store) and opens it, showing progress on a terminal when that
 * takes over a second. Returns QN_EXIT_OK or the exit status, having printed why. */
int qn_cli_open(qn_model **out, const char *model, const qn_cli_model *opt);

/* All of standard input. False (with a line printed) when it cannot be read or is over 1 GiB. */
bool qn_cli_read_stdin(qn_buf *b);

/* Streams the answer of r to standard output (not when quiet), watched by Ctrl-C. The result is good until the
 * request is closed. */
const qn_result *qn_cli_stream(qn_request *r, bool quiet);

bool qn_cli_stdout_tty(void); /* NO_COLOR and TERM=dumb make colour answer false, not this */
bool qn_cli_colour(void);

/* Ctrl-C cancels the request that is being watched. With none it ends the program with status 130, unless
 * stay: then it only leaves a mark (a prompt for the next line is open). A second one, before the mark was
 * cleared, ends the program in any case. */
void qn_cli_catch_sigint(bool stay);
void qn_cli_watch(qn_request *r); /* NULL: none any more */
bool qn_cli_interrupted(void);
void qn_cli_clear_interrupt(void);

/* A line on a terminal's standard error that is rewritten: percent < 0 shows the text alone. Nothing is
 * shown within the first second of a task, nor when standard error is no terminal. qn_cli_progress_end wipes
 * the line and ends the task. */
void qn_cli_progress(const char *what, int percent);
void qn_cli_progress_end(void);

#endif
