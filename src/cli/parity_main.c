/* parity_main.c - quern-parity: runs kit cases through the normal loader and the engine's lower half.
 *
 *   quern-parity CASE_DIR|FILE.gguf... [--compute f32|default] [--threads N]
 *   quern-parity --families        docs/families.md, from the registry
 *
 * One line a case: PASS, FAIL or SKIP, its name, the largest logit error over the logits' standard deviation, how
 * many greedy tokens agree, and why. Exit status 1 when any failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/parity.h"

static void run_model(const qn_parity_case *c, qn_model *m, bool exact, qn_parity_result *r)
{
    int32_t room = c->prompt.n + c->greedy.n + 1;
    const qn_kv_options opt = { .context = room,
                                .max_seqs = 4,
                                .chunk = room,
                                .tokens = 8 * (int64_t)(room + QN_KV_PAGE),
                                .exact = exact };
    qn_error err = { 0 };
    qn_runner *run;
    if (qn_runner_open(&run, m, &opt, &err) != QN_OK) {
        qn_parity_say(r, QN_PARITY_FAIL, "%s", err.msg);
        return;
    }
    float *whole = qn_parity_prefill(run, c, r);
    if (whole) {
        qn_parity_compare(c, whole, qn_runner_vocab(run), exact, r);
        qn_parity_ways(run, c, whole, r);
        float *rows = qn_parity_decode(run, c, r);
        if (rows && r->compared)
            qn_parity_greedy(c, rows, qn_runner_vocab(run), exact, r);
        qn_free(rows);
    }
    qn_free(whole);
    qn_runner_close(run);
}

static qn_parity_result run_case(const char *path, const qn_parity_options *opt, qn_parity_case *c)
{
    qn_parity_result r = { .verdict = QN_PARITY_PASS };
    if (qn_parity_open(c, path, &r)) {
        qn_error err = { 0 };
        qn_model *m = NULL;
        qn_load_options load = { .backend = { .n_threads = opt->n_threads, .exact = opt->exact },
                                 .no_tokenizer = true };
        if (qn_model_load(&m, c->model, &load, &err) == QN_OK) {
            c->has_router = m->config.n_experts > 0;
            run_model(c, m, opt->exact, &r);
        } else {
            qn_parity_say(&r, QN_PARITY_FAIL, "%s", err.msg);
        }
        qn_model_unload(m);
    }
    return r;
}

static void print_result(const qn_parity_case *c, const qn_parity_result *r)
{
    static const char *const words[] = { "PASS", "FAIL", "SKIP" };
    printf("%s %s", words[r->verdict], c->name);
    if (r->compared)
        printf(" max_err=%.3g greedy=%d/%d", r->max_err, r->n_greedy, r->n_total);
    printf("%s%s\n", r->why[0] ? " " : "", r->why);
    fflush(stdout);
}

/* The registry as docs/families.md; tests/families/test_registry.c holds the file against it. */
static int print_families(void)
{
    puts("# Families\n\n"
         "The model types that load, from `quern-parity --families`. Each family is one file in\n"
         "`src/families/`; [adding-a-family.md](adding-a-family.md) says how to write one.\n\n"
         "| family | model types of config.json | models |\n| --- | --- | --- |");
    for (const qn_family *const *f = qn_family_all(); *f; f++) {
        printf("| [%s](../src/families/%s.c) |", (*f)->name, (*f)->name);
        for (const char *const *type = (*f)->model_types; *type; type++)
            printf(" `%s`", *type);
        printf(" | %s |\n", (*f)->about);
    }
    return 0;
}

static int usage(FILE *to)
{
    fputs("usage: quern-parity CASE_DIR|FILE.gguf... [--compute f32|default] [--threads N]\n"
          "  compares tiny models with the reference's numbers; default --compute f32\n"
          "       quern-parity --families\n"
          "  prints docs/families.md\n",
          to);
    return 2;
}

/* Takes one option at argv[*i]. False when it is none or makes no sense. */
static bool take_option(qn_parity_options *opt, int argc, char **argv, int *i)
{
    const char *value = *i + 1 < argc ? argv[*i + 1] : "";
    if (strcmp(argv[*i], "--compute") == 0) {
        opt->exact = strcmp(value, "f32") == 0;
        if (!opt->exact && strcmp(value, "default") != 0)
            return false;
    } else if (strcmp(argv[*i], "--threads") == 0) {
        opt->n_threads = atoi(value);
        if (opt->n_threads < 1 || opt->n_threads > 1024)
            return false;
    } else {
        return false;
    }
    ++*i;
    return true;
}

int main(int argc, char **argv)
{
    qn_parity_options opt = { .exact = true };
    int n_cases = 0, n_failed = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0)
            return usage(stdout) - 2;
        if (strcmp(argv[i], "--families") == 0)
            return print_families();
        if (argv[i][0] == '-' && !take_option(&opt, argc, argv, &i))
            return usage(stderr);
    }
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') {
            i++;
            continue;
        }
        qn_parity_case c;
        qn_parity_result r = run_case(argv[i], &opt, &c);
        print_result(&c, &r);
        qn_parity_close(&c);
        n_failed += r.verdict == QN_PARITY_FAIL;
        n_cases++;
    }
    if (n_cases == 0)
        return usage(stderr);
    return n_failed > 0;
}
