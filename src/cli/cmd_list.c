/* cmd_list.c - `quern list` and `quern rm`: what is in the model store. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

static void print_table(const char *text)
{
    qn_arena a = { 0 };
    const qn_json *list = qn_json_parse(&a, text, strlen(text), NULL);
    for (size_t i = 0; list && i < list->n; i++) {
        const qn_json *m = qn_json_at(list, i);
        printf("%-32s %9.1f MB  %s\n", qn_json_str(qn_json_get(m, "name"), ""),
               (double)qn_json_int(qn_json_get(m, "bytes"), 0) / 1e6,
               qn_json_str(qn_json_get(m, "path"), ""));
    }
    if (list && list->n == 0)
        fprintf(stderr, "no models yet: quern pull " QN_DEFAULT_MODEL " fetches one\n");
    qn_arena_free(&a);
}

int qn_cmd_list(int argc, char **argv)
{
    bool json = false;
    const qn_opt opts[] = {
        { "--json", QN_OPT_FLAG, &json, NULL, "an array of {name, path, bytes}", 0, 0 },
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "list [--json]",
        .about = "Lists the models of the store.",
        .examples = "  quern list\n  quern list --json\n",
        .opts = opts,
    };
    int n_args, rc = qn_cli_parse(&spec, argc, argv, NULL, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    char *list = qn_store_list_dup();
    if (json)
        puts(list);
    else
        print_table(list);
    qn_free(list);
    return QN_EXIT_OK;
}

int qn_cmd_rm(int argc, char **argv)
{
    const qn_cmd_spec spec = {
        .usage = "rm NAME",
        .about = "Removes a model from the store.",
        .examples = "  quern rm " QN_DEFAULT_MODEL "\n",
        .min_args = 1,
        .max_args = 1,
    };
    const char *name;
    int n_args, rc = qn_cli_parse(&spec, argc, argv, &name, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    qn_error err = { 0 };
    return qn_store_remove(name, &err) == QN_OK ? QN_EXIT_OK : qn_cli_fail(&err);
}
