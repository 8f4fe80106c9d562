/* cmd_eval.c - `quern eval`: perplexity of a text.
 *
 * The text is cut into windows of --ctx tokens; each starts afresh (with the start token in the place of its
 * first one, where the tokenizer has one). Its first half is only read, so that every scored token has at least
 * half a window before it. A rest that fills no window is left out, unless it is all there is. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"

typedef struct score {
    double nll;
    int64_t n;
} score;

/* Adds the window's scored tokens: those predicted from its second half, or all that have a predecessor. */
static int score_window(qn_engine *e, const int32_t *ids, size_t n, bool all, score *s,
                        qn_error *err)
{
    size_t first = all ? 1 : n / 2 + 1;
    float *logprob = qn_alloc_n(n, sizeof *logprob);
    int rc = qn_engine_score(e, ids, n, first, logprob, err);
    for (size_t i = first; i < n && rc == QN_OK; i++, s->n++)
        s->nll -= logprob[i];
    qn_free(logprob);
    return rc;
}

typedef struct text {
    int32_t *ids;
    size_t n;
    int32_t start; /* the start token, -1: none */
} text;

static int read_text(qn_model *m, const char *path, text *t, qn_error *err)
{
    qn_map map;
    int rc = qn_map_open(&map, path, err);
    if (rc != QN_OK)
        return rc;
    t->ids = qn_tokenize_dup(m, map.data, map.size, QN_TOKENIZE_SPECIAL, &t->n, err);
    qn_map_close(&map);
    if (!t->ids)
        return err->code;
    /* What is added to an empty text in front is the start token; one that is added behind is not. */
    size_t n_around;
    int32_t *around = qn_tokenize_dup(m, "", 0, QN_TOKENIZE_SPECIAL, &n_around, err);
    t->start = around && n_around > 0 && t->n > 0 && around[0] == t->ids[0] ? around[0] : -1;
    qn_free(around);
    return around ? QN_OK : err->code;
}

static int eval(qn_engine *e, text *t, size_t ctx, bool all, score *s, qn_error *err)
{
    if (t->n < ctx)
        ctx = t->n;
    size_t n_windows = t->n / ctx;
    int rc = QN_OK;
    for (size_t w = 0; w < n_windows && rc == QN_OK; w++) {
        int32_t *ids = t->ids + w * ctx;
        if (t->start >= 0)
            ids[0] = t->start;
        rc = score_window(e, ids, ctx, all, s, err);
        qn_cli_progress("scoring", (int)(100 * (w + 1) / n_windows));
    }
    qn_cli_progress_end();
    return rc;
}

static void print_score(const score *s, bool json)
{
    double mean = s->nll / (double)s->n;
    if (json)
        printf("{\"nll\":%.9g,\"perplexity\":%.9g,\"tokens\":%lld}\n", mean, exp(mean),
               (long long)s->n);
    else
        printf("perplexity %.4f (%lld tokens, %.5f nats each)\n", exp(mean), (long long)s->n, mean);
}

static int run(qn_model *m, const char *path, int64_t ctx, bool all, bool json)
{
    qn_error err = { 0 };
    qn_engine *e = NULL;
    text t = { 0 };
    score s = { 0 };
    int rc = read_text(m, path, &t, &err);
    if (rc == QN_OK && t.n < 4)
        rc = qn_fail(&err, QN_ERR_ARGUMENT, "%s: %zu tokens are too few to score", path, t.n);
    qn_engine_options eo = { .context = (int)ctx + 1, .max_running = 1 };
    if (rc == QN_OK)
        rc = qn_engine_open(&e, m, &eo, &err);
    if (rc == QN_OK)
        rc = eval(e, &t, (size_t)ctx, all, &s, &err);
    if (rc == QN_OK)
        print_score(&s, json);
    qn_engine_close(e);
    qn_free(t.ids);
    return rc == QN_OK ? QN_EXIT_OK : qn_cli_fail(&err);
}

int qn_cmd_eval(int argc, char **argv)
{
    qn_cli_model mo = { 0 };
    int64_t ctx = 512;
    bool all = false;
    const qn_opt opts[] = {
        { "--ctx", QN_OPT_INT, &ctx, "N", "tokens of a window; default 512", 4, 1 << 24 },
        { "--all", QN_OPT_FLAG, &all, NULL, "score the first half of each window too", 0, 0 },
        QN_CLI_MODEL_OPTS(&mo),
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "eval MODEL FILE [options]",
        .about = "Perplexity of a text file, in windows whose first half is read but not scored.",
        .examples = "  quern eval " QN_DEFAULT_MODEL " LICENSE\n"
                    "  quern eval model.gguf wiki.txt --ctx 2048 --json\n",
        .opts = opts,
        .min_args = 2,
        .max_args = 2,
    };
    const char *args[2];
    int n_args, rc = qn_cli_parse(&spec, argc, argv, args, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    qn_model *m = NULL;
    qn_cli_catch_sigint(false);
    int status = qn_cli_open(&m, args[0], &mo);
    if (status == QN_EXIT_OK)
        status = run(m, args[1], ctx, all, mo.json);
    qn_model_close(m);
    return status;
}
