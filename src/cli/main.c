/* main.c - the quern command: finds the subcommand in a table and hands over. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} command;

static const command commands[] = {
    { "run", qn_cmd_run, "one answer to a prompt, streamed" },
    { "chat", qn_cmd_chat, "a conversation on the terminal" },
    { "pull", qn_cmd_pull, "fetch a model into the store" },
    { "list", qn_cmd_list, "the models in the store" },
    { "rm", qn_cmd_rm, "remove a model from the store" },
    { "show", qn_cmd_show, "what a model is: architecture, sizes, formats, memory" },
    { "embed", qn_cmd_embed, "texts to vectors" },
    { "rerank", qn_cmd_rerank, "documents by how well they answer a query" },
    { "tokenize", qn_cmd_tokenize, "text to token ids and back" },
    { "render", qn_cmd_render, "the prompt a chat template makes of messages" },
    { "bench", qn_cmd_bench, "speed of prompts and of decoding" },
    { "eval", qn_cmd_eval, "perplexity of a text" },
    { "diff", qn_cmd_diff, "the first value where two ways of computing part" },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *f)
{
    fprintf(f, "quern runs open-weight models on this machine.\n\n"
               "usage: quern COMMAND [ARGUMENTS]   (quern COMMAND --help says more)\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].about);
    fprintf(f, "\nexamples:\n"
               "  quern pull " QN_DEFAULT_MODEL "\n"
               "  quern run \"Why is the sky blue?\"\n"
               "  quern chat\n");
}

/* "quern 0.1.0", the CPU level in use, and the libraries that were found, one a line. */
static int print_version(void)
{
    char *about = qn_about_dup();
    qn_arena a = { 0 };
    const qn_json *j = qn_json_parse(&a, about, strlen(about), NULL);
    printf("quern %s\n", qn_version());
    printf("cpu %s (of %s), %d cores\n", qn_json_str(qn_json_get(j, "cpu"), "?"),
           qn_json_str(qn_json_get(j, "cpu_found"), "?"),
           (int)qn_json_int(qn_json_get(j, "cores"), 0));
    const qn_json *libs = qn_json_get(j, "libraries");
    for (size_t i = 0; libs && i < libs->n; i++)
        printf("%s %s\n", libs->items[i].key, qn_json_str(&libs->items[i], "?"));
    qn_arena_free(&a);
    qn_free(about);
    return QN_EXIT_OK;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return QN_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_usage(stdout);
        return QN_EXIT_OK;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "version"))
        return print_version();
    for (int i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "quern: %s: no such command (quern --help lists them)\n", name);
    return QN_EXIT_USAGE;
}
