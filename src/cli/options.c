/* options.c - turns argv into typed values and prints help; each command describes itself in a table.
 *
 * Not getopt: its global state and split of long and short options would need a second table, and a list
 * of numbers after one option (--prompt 128 512) is beyond it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static void print_help(const qn_cmd_spec *s)
{
    printf("usage: quern %s\n\n%s\n", s->usage, s->about);
    if (s->opts && s->opts->name)
        printf("\noptions:\n");
    for (const qn_opt *o = s->opts; o && o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        printf("  %-24s %s\n", left, o->help);
    }
    printf("  %-24s %s\n", "--help", "this text");
    if (s->examples)
        printf("\nexamples:\n%s", s->examples);
}

static int usage_error(const qn_cmd_spec *s, const char *what, const char *arg)
{
    fprintf(stderr, "quern: %s: %s (usage: quern %s)\n", arg, what, s->usage);
    return QN_EXIT_USAGE;
}

static bool parse_int(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return false;
    *out = v;
    return true;
}

static bool parse_real(const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v))
        return false;
    *out = v;
    return true;
}

static bool in_range(const qn_opt *o, double v)
{
    return (o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max);
}

/* Adds the numbers of "128" or "128,512" to the list. False: not numbers, or too many. */
static bool add_ints(const qn_opt *o, qn_int_list *l, const char *text)
{
    while (*text) {
        char *end;
        errno = 0;
        long long v = strtoll(text, &end, 10);
        if (end == text || (*end && *end != ',') || errno || l->n == QN_MAX_LIST ||
            !in_range(o, (double)v))
            return false;
        l->v[l->n++] = v;
        text = *end ? end + 1 : end;
    }
    return true;
}

/* Stores one value; false when it is malformed or out of range. */
static bool store(const qn_opt *o, const char *value)
{
    int64_t i;
    double d;
    qn_str_list *strs;
    switch (o->type) {
    case QN_OPT_FLAG:
        *(bool *)o->out = true;
        return true;
    case QN_OPT_INT:
        if (!parse_int(value, &i) || !in_range(o, (double)i))
            return false;
        *(int64_t *)o->out = i;
        return true;
    case QN_OPT_REAL:
        if (!parse_real(value, &d) || !in_range(o, d))
            return false;
        *(double *)o->out = d;
        return true;
    case QN_OPT_STR:
        *(const char **)o->out = value;
        return true;
    case QN_OPT_STRS:
        strs = o->out;
        if (strs->n == QN_MAX_LIST)
            return false;
        strs->v[strs->n++] = value;
        return true;
    case QN_OPT_INTS:
        return add_ints(o, o->out, value);
    }
    return false;
}

/* The option that `arg` names, "--name" or "--name=value"; *value is set for the second form. */
static const qn_opt *find(const qn_cmd_spec *s, const char *arg, const char **value)
{
    const char *eq = arg[1] == '-' ? strchr(arg, '=') : NULL;
    size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
    *value = eq ? eq + 1 : NULL;
    for (const qn_opt *o = s->opts; o && o->name; o++)
        if (strlen(o->name) == n && !memcmp(o->name, arg, n))
            return o;
    return NULL;
}

/* A word that can follow a list option as one more number. */
static bool is_number_word(const char *s)
{
    return s && *s && strspn(s, "0123456789,") == strlen(s);
}

/* Takes the option at argv[*i] with its value; QN_CLI_GO or an exit status. */
static int take_option(const qn_cmd_spec *s, int argc, char **argv, int *i)
{
    const char *value, *arg = argv[*i];
    const qn_opt *o = find(s, arg, &value);
    if (!o)
        return usage_error(s, "no such option", arg);
    if (o->type == QN_OPT_FLAG) {
        if (value)
            return usage_error(s, "takes no value", o->name);
    } else if (!value) {
        if (*i + 1 >= argc)
            return usage_error(s, "needs a value", o->name);
        value = argv[++*i];
    }
    if (!store(o, value))
        return usage_error(s, "bad value", arg);
    while (o->type == QN_OPT_INTS && *i + 1 < argc && is_number_word(argv[*i + 1]))
        if (!store(o, argv[++*i]))
            return usage_error(s, "bad value", o->name);
    return QN_CLI_GO;
}

int qn_cli_parse(const qn_cmd_spec *spec, int argc, char **argv, const char **args, int *n_args)
{
    bool only_args = false;
    *n_args = 0;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!only_args && !strcmp(a, "--")) {
            only_args = true;
        } else if (!only_args && (!strcmp(a, "--help") || !strcmp(a, "-h"))) {
            print_help(spec);
            return QN_EXIT_OK;
        } else if (!only_args && a[0] == '-' && a[1]) {
            int rc = take_option(spec, argc, argv, &i);
            if (rc != QN_CLI_GO)
                return rc;
        } else if (*n_args == spec->max_args) {
            return usage_error(spec, "one argument too many", a);
        } else {
            args[(*n_args)++] = a;
        }
    }
    if (*n_args < spec->min_args)
        return usage_error(spec, "an argument is missing", argv[0]);
    return QN_CLI_GO;
}
