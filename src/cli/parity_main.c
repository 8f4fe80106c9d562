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

/* A cache with room for the prompt, its continuation, and two strangers beside them. */
static qn_runner *open_runner(const qn_parity_case *c, qn_model *m, qn_parity_result *r)
{
    int32_t room = c->prompt.n + c->greedy.n + 1;
    const qn_kv_options opt = { .context = room,
                                .max_seqs = 4,
                                .chunk = room,
                                .tokens = 8 * (int64_t)(room + QN_KV_PAGE),
                                .exact = m->exact };
    qn_error err = { 0 };
    qn_runner *run;
    if (qn_runner_open(&run, m, &opt, &err) == QN_OK)
        return run;
    qn_parity_say(r, QN_PARITY_FAIL, "%s", err.msg);
    return NULL;
}

static qn_model *load(const qn_parity_case *c, bool exact, int n_threads, qn_parity_result *r)
{
    qn_error err = { 0 };
    qn_model *m = NULL;
    qn_load_options opt = { .backend = { .n_threads = n_threads, .exact = exact },
                            .no_tokenizer = true };
    if (qn_model_load(&m, c->model, &opt, &err) != QN_OK)
        qn_parity_say(r, QN_PARITY_FAIL, "%s", err.msg);
    return m;
}

/* The model once more with another number of threads: the same bits. */
static void with_threads(const qn_parity_case *c, const float *whole, const qn_parity_options *opt,
                         qn_parity_result *r)
{
    qn_model *m = load(c, opt->exact, opt->n_threads == 3 ? 2 : 3, r);
    qn_runner *run = m ? open_runner(c, m, r) : NULL;
    float *other = run ? qn_parity_prefill(run, c, r) : NULL;
    size_t count = run ? (size_t)c->prompt.n * (size_t)qn_runner_vocab(run) : 0;
    if (other && memcmp(whole, other, count * sizeof *other) != 0)
        qn_parity_say(r, QN_PARITY_FAIL, "logits depend on the number of threads");
    qn_free(other);
    qn_runner_close(run);
    qn_model_unload(m);
}

static void run_model(const qn_parity_case *c, qn_runner *run, const qn_parity_options *opt,
                      qn_parity_result *r)
{
    float *whole = qn_parity_prefill(run, c, r);
    if (whole) {
        qn_parity_compare(c, whole, qn_runner_vocab(run), opt->exact, r);
        qn_parity_ways(run, c, whole, r);
        float *rows = qn_parity_decode(run, c, r);
        if (rows && r->compared)
            qn_parity_greedy(c, rows, qn_runner_vocab(run), opt->exact, r);
        qn_free(rows);
        with_threads(c, whole, opt, r);
    }
    qn_free(whole);
}

static qn_parity_result run_case(const char *path, const qn_parity_options *opt, qn_parity_case *c)
{
    qn_parity_result r = { .verdict = QN_PARITY_PASS };
    if (!qn_parity_open(c, path, &r))
        return r;
    qn_model *m = load(c, opt->exact, opt->n_threads, &r);
    qn_runner *run = NULL;
    if (m) {
        c->has_router = m->config.n_experts > 0;
        if (c->whole)
            qn_parity_whole(c, m, opt->exact, &r);
        else
            run = open_runner(c, m, &r);
    }
    if (run)
        run_model(c, run, opt, &r);
    qn_runner_close(run);
    qn_model_unload(m);
    return r;
}

static void print_result(const qn_parity_case *c, const qn_parity_result *r)
{
    static const char *const words[] = { "PASS", "FAIL", "SKIP" };
    printf("%s %s", words[r->verdict], c->name);
    if (r->compared)
        printf(" max_err=%.3g", r->max_err);
    if (r->compared && r->cosine > 0)
        printf(" cosine=%.7f", r->cosine);
    else if (r->compared && !c->whole)
        printf(" greedy=%d/%d", r->n_greedy, r->n_total);
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
