/* cmd_rerank.c - `quern rerank`: documents in the order in which they answer a query. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"

enum { MAX_DOCS = 1024 };

typedef struct ranked {
    size_t index; /* as given, from 0 */
    float score;
} ranked;

/* Best first; equal ones as they were given. */
static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

/* {"results": [{"index": I, "score": S}, ...]}, or score and text for people. */
static void print_ranking(const ranked *r, const qn_rerank_query *q, bool json)
{
    if (json)
        printf("{\"results\":[");
    for (size_t i = 0; i < q->n_docs; i++) {
        if (json)
            printf("%s{\"index\":%zu,\"score\":%.7g}", i ? "," : "", r[i].index, r[i].score);
        else
            printf("%9.5f  %s\n", r[i].score, q->doc[r[i].index]);
    }
    if (json)
        puts("]}");
}

static int rank(qn_reranker *k, const qn_rerank_query *q, bool json)
{
    qn_error err = { 0 };
    float *score = qn_alloc_n(q->n_docs, sizeof *score);
    ranked *order = qn_alloc_n(q->n_docs, sizeof *order);
    qn_cli_progress("ranking", -1);
    int rc = qn_rerank(k, q, score, &err);
    qn_cli_progress_end();
    for (size_t i = 0; i < q->n_docs; i++)
        order[i] = (ranked){ i, score[i] };
    if (rc == QN_OK) {
        qsort(order, q->n_docs, sizeof *order, by_score);
        print_ranking(order, q, json);
    }
    qn_free(order);
    qn_free(score);
    return rc == QN_OK ? QN_EXIT_OK : qn_cli_fail(&err);
}

int qn_cmd_rerank(int argc, char **argv)
{
    qn_cli_model model = { 0 };
    qn_rerank_query q = { 0 };
    const qn_opt opts[] = {
        { "--task", QN_OPT_STR, &q.task, "TEXT", "what counts as an answer, for models that judge",
          0, 0 },
        QN_CLI_MODEL_OPTS(&model),
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "rerank MODEL QUERY DOCUMENT...",
        .about = "Scores how well each document answers the query, best first.",
        .examples = "  quern rerank bge-reranker \"what do pandas eat\" \"Bamboo.\" \"Paris.\"\n",
        .opts = opts,
        .min_args = 3,
        .max_args = MAX_DOCS + 2,
    };
    const char *args[MAX_DOCS + 2];
    int n_args, rc = qn_cli_parse(&spec, argc, argv, args, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    q.query = args[1];
    q.doc = args + 2;
    q.n_docs = (size_t)n_args - 2;
    qn_error err = { 0 };
    qn_model *m;
    qn_reranker *k;
    int status = qn_cli_open(&m, args[0], &model);
    if (status != QN_EXIT_OK)
        return status;
    if (qn_reranker_open(&k, m, &err) == QN_OK)
        status = rank(k, &q, model.json);
    else
        status = qn_cli_fail(&err);
    qn_reranker_close(k);
    qn_model_close(m);
    return status;
}
