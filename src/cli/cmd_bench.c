/* cmd_bench.c - `quern bench`: how fast prompts are read and tokens are made, and how near that is to what the
 * machine can do.
 *
 * It feeds the runner itself, below scheduler and sampler, with tokens that mean nothing: the work is the same.
 * The roof is measured in the same run: a token cannot be made faster than its weights and cache entries can be
 * read, nor a prompt faster than its products can be done. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/json.h"
#include "cli/cli.h"
#include "engine/limits.h"
#include "engine/request.h"
#include "engine/runner.h"
#include "ops/ops.h"

enum { CHUNK = 512, MAX_BATCH = 64 };

typedef struct bench {
    qn_model *model;
    qn_runner *runner;
    qn_limits limits;
    qn_kv_seq seq[MAX_BATCH];
    int32_t *token;              /* as many as the longest prompt or depth */
    double body_macs, head_macs; /* products a row of the layers, and of the head, needs */
    double weight_bytes, entry_bytes;
    int64_t repeats;
    bool json;
    int n_printed, n_threads;
} bench;

/* One line of the result. */
typedef struct test {
    bool decode; /* tg: n tokens one by one; pp: n rows at once */
    int32_t n, depth, batch;
} test;

/* ---- the work of a token ---- */

static double macs_of(const qn_graph *g, const qn_node *n)
{
    double sum = 0;
    for (int i = 0; i < n->n_in; i++) {
        const qn_node *in = qn_node_at(g, n->in[i]);
        if (n->in[i].id == 0 || in->op != &qn_op_weight)
            continue;
        const qn_weight *w = ((const qn_attr_weight *)in->attr)->weight;
        if (n->op == &qn_op_linear)
            sum += (double)qn_weight_elems(w);
        else if (n->op == &qn_op_expert_linear)
            sum += (double)qn_weight_elems(w) / (double)w->dim[0] *
                   ((const qn_attr_expert_linear *)n->attr)->top_k;
    }
    return sum;
}

/* Adds up products by what rows they are made for: all, or only those whose logits are wanted. */
static void count_work(bench *b)
{
    const qn_graph *g = &b->model->plain;
    qn_model_info info;
    for (int32_t i = 1; i < g->n_nodes; i++) {
        const qn_node *n = &g->node[i];
        bool head = n->shape.n_dims > 0 && n->shape.dim[0] == -QN_SYM_OUT;
        *(head ? &b->head_macs : &b->body_macs) += macs_of(g, n);
    }
    qn_model_get_info(b->model, &info);
    b->weight_bytes = (double)info.weight_bytes;
    b->entry_bytes = (double)qn_kv_bytes(g, QN_KV_PAGE, b->model->exact) / QN_KV_PAGE;
}

/* ---- running ---- */

static int feed(bench *b, int32_t n_seqs, int32_t n_tok, qn_error *err)
{
    const float *logits;
    qn_rows rows[MAX_BATCH];
    for (int32_t i = 0; i < n_seqs; i++)
        rows[i] = (qn_rows){ .seq = &b->seq[i],
                             .token = b->token,
                             .n_tok = n_tok,
                             .first_out = n_tok - 1,
                             .rope_len = b->seq[i].len + n_tok };
    return qn_runner_step(b->runner, rows, n_seqs, &logits, err);
}

/* Brings every sequence to `depth` entries. */
static int set_depth(bench *b, int32_t n_seqs, int32_t depth, qn_error *err)
{
    int rc = QN_OK;
    for (int32_t i = 0; i < n_seqs && rc == QN_OK; i++) {
        qn_kv_seq *s = &b->seq[i];
        qn_kv_truncate(s, s->len < depth ? s->len : depth);
        while (s->len < depth && rc == QN_OK) {
            int32_t n = depth - s->len < CHUNK ? depth - s->len : CHUNK;
            const float *logits;
            qn_rows row = { .seq = s, .token = b->token, .n_tok = n, .first_out = n };
            rc = qn_runner_step(b->runner, &row, 1, &logits, err);
        }
    }
    return rc;
}

/* Seconds of one run of the test. */
static int run_once(bench *b, const test *t, double *time, qn_error *err)
{
    int rc = set_depth(b, t->batch, t->depth, err);
    double start = qn_now_ms();
    int32_t step = t->decode ? 1 : CHUNK;
    for (int32_t done = 0; done < t->n && rc == QN_OK; done += step)
        rc = feed(b, t->batch, t->n - done < step ? t->n - done : step, err);
    *time = (qn_now_ms() - start) / 1e3;
    return rc;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int median_time(bench *b, const test *t, double *time, qn_error *err)
{
    enum { MAX_REPEATS = 99 };
    double all[MAX_REPEATS];
    int n = (int)b->repeats, rc = run_once(b, t, &all[0], err); /* the first one warms up */
    for (int i = 0; i < n && rc == QN_OK; i++) {
        qn_cli_progress("measuring", 100 * i / n);
        rc = run_once(b, t, &all[i], err);
    }
    qn_cli_progress_end();
    qsort(all, (size_t)n, sizeof *all, by_value);
    *time = all[n / 2];
    return rc;
}

/* ---- the roof and the report ---- */

/* Bytes that must be read for one token of the test: a share of the weights, and the cache behind it. */
static double bytes_per_token(const bench *b, const test *t)
{
    double rows = t->decode ? t->batch : (double)(t->n < CHUNK ? t->n : CHUNK) * t->batch;
    double seen = t->decode ? t->depth + t->n / 2.0 : t->depth / (rows / t->batch);
    return b->weight_bytes / rows + seen * b->entry_bytes;
}

/* The least seconds a token can take: the larger of reading and computing. */
static double least_time(const bench *b, const test *t)
{
    double heads = t->decode ? 1 : ceil((double)t->n / CHUNK) / t->n;
    double macs = b->body_macs + heads * b->head_macs;
    double read =
        b->limits.read_bytes_per_s > 0 ? bytes_per_token(b, t) / b->limits.read_bytes_per_s : 0;
    double compute = b->limits.int8_macs_per_s > 0 ? macs / b->limits.int8_macs_per_s : 0;
    return read > compute ? read : compute;
}

static void name_of(const test *t, char *out, size_t size)
{
    int n = snprintf(out, size, "%s%d", t->decode ? "tg" : "pp", t->n);
    if (t->depth > 0)
        n += snprintf(out + n, size - (size_t)n, "@d%d", t->depth);
    if (t->batch > 1)
        snprintf(out + n, size - (size_t)n, "x%d", t->batch);
}

static void report(bench *b, const test *t, double time)
{
    char name[64];
    double per_s = (double)t->n * t->batch / time;
    double share = per_s * least_time(b, t);
    name_of(t, name, sizeof name);
    if (b->json) {
        printf("%s{\"test\":\"%s\",\"tokens_per_s\":%.3f,\"bytes_per_token\":%.0f,"
               "\"limit_share\":%.4f,\"depth\":%d,\"batch\":%d}",
               b->n_printed ? ",\n " : "[", name, per_s, bytes_per_token(b, t), share, t->depth,
               t->batch);
    } else {
        if (!b->n_printed)
            printf("limits: %.1f GB/s read, %.0f G int8 products/s\n%-18s %12s %14s %12s\n",
                   b->limits.read_bytes_per_s / 1e9, b->limits.int8_macs_per_s / 1e9, "test",
                   "tokens/s", "bytes/token", "of limit");
        printf("%-18s %12.2f %14.0f %11.1f%%\n", name, per_s, bytes_per_token(b, t), 100 * share);
    }
    fflush(stdout);
    b->n_printed++;
}

/* ---- the command ---- */

typedef struct bench_options {
    qn_cli_model model;
    qn_int_list prompt, gen, depth, batch;
    int64_t repeats;
} bench_options;

static int64_t largest(const qn_int_list *l)
{
    int64_t max = 0;
    for (int i = 0; i < l->n; i++)
        max = l->v[i] > max ? l->v[i] : max;
    return max;
}

/* Measures the roof anew beside each test and keeps the best: other programs only ever lower it. */
static void measure_limits(bench *b)
{
    qn_limits l;
    qn_limits_measure(&l, b->n_threads);
    b->limits.read_bytes_per_s = fmax(b->limits.read_bytes_per_s, l.read_bytes_per_s);
    b->limits.int8_macs_per_s = fmax(b->limits.int8_macs_per_s, l.int8_macs_per_s);
}

static int run_test(bench *b, const test *t, qn_error *err)
{
    double time;
    if (t->n == 0)
        return QN_OK;
    measure_limits(b);
    int rc = median_time(b, t, &time, err);
    if (rc == QN_OK)
        report(b, t, time);
    return rc;
}

static int run_all(bench *b, const bench_options *o, qn_error *err)
{
    int rc = QN_OK;
    for (int i = 0; i < o->batch.n; i++) {
        for (int d = 0; d < o->depth.n; d++) {
            test t = { .depth = (int32_t)o->depth.v[d], .batch = (int32_t)o->batch.v[i] };
            for (int k = 0; k < o->prompt.n && rc == QN_OK; k++) {
                t.n = (int32_t)o->prompt.v[k];
                rc = run_test(b, &t, err);
            }
            t.decode = true;
            for (int k = 0; k < o->gen.n && rc == QN_OK; k++) {
                t.n = (int32_t)o->gen.v[k];
                rc = run_test(b, &t, err);
            }
        }
    }
    return rc;
}

static int open_bench(bench *b, const bench_options *o, qn_error *err)
{
    int64_t prompt = largest(&o->prompt), gen = largest(&o->gen);
    int64_t length = largest(&o->depth) + (prompt > gen ? prompt : gen) + 1;
    int32_t batch = (int32_t)largest(&o->batch);
    if (length > 1 << 24)
        return qn_fail(err, QN_ERR_ARGUMENT, "%lld tokens are more than a cache can hold",
                       (long long)length);
    qn_kv_options kv = { .context = (int32_t)length,
                         .max_seqs = batch,
                         .chunk = CHUNK,
                         .tokens = (length + QN_KV_PAGE) * batch,
                         .exact = b->model->exact };
    int rc = qn_runner_open(&b->runner, b->model, &kv, err);
    if (rc != QN_OK)
        return rc;
    b->token = qn_alloc_n(CHUNK, sizeof *b->token);
    for (int i = 0; i < CHUNK; i++) /* any spread of ids; the same in every run */
        b->token[i] =
            (int32_t)((uint32_t)(i + 1) * 2654435761u % (uint32_t)b->model->config.n_vocab);
    for (int i = 0; i < batch; i++)
        b->seq[i].cache = qn_runner_cache(b->runner);
    count_work(b);
    return QN_OK;
}

static int run(qn_model *m, const bench_options *o)
{
    qn_error err = { 0 };
    bench *b = qn_alloc(sizeof *b);
    b->model = m;
    b->json = o->model.json;
    b->repeats = o->repeats;
    b->n_threads = o->model.n_threads ? (int)o->model.n_threads : qn_cpu_cores();
    int rc = open_bench(b, o, &err);
    if (rc == QN_OK)
        rc = run_all(b, o, &err);
    if (rc == QN_OK && b->json)
        puts(b->n_printed ? "]" : "[]");
    for (int i = 0; i < MAX_BATCH; i++)
        qn_kv_release(&b->seq[i]);
    qn_runner_close(b->runner);
    qn_free(b->token);
    qn_free(b);
    return rc == QN_OK ? QN_EXIT_OK : qn_cli_fail(&err);
}

static void set_default(qn_int_list *l, int64_t v)
{
    if (l->n == 0)
        *l = (qn_int_list){ .v = { v }, .n = 1 };
}

int qn_cmd_bench(int argc, char **argv)
{
    bench_options o = { .repeats = 5 };
    const qn_opt opts[] = {
        { "--prompt", QN_OPT_INTS, &o.prompt, "N...", "prompt lengths; default 512", 0, 1 << 24 },
        { "--gen", QN_OPT_INTS, &o.gen, "N...", "tokens to make; default 64", 0, 1 << 24 },
        { "--depth", QN_OPT_INTS, &o.depth, "N...", "tokens in the cache before; default 0", 0,
          1 << 24 },
        { "--batch", QN_OPT_INTS, &o.batch, "N...", "sequences together; default 1", 1, MAX_BATCH },
        { "--repeat", QN_OPT_INT, &o.repeats, "N", "runs, of which the median counts; default 5", 1,
          99 },
        QN_CLI_MODEL_OPTS(&o.model),
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "bench [MODEL] [options]",
        .about = "Speed of reading prompts (pp) and of making tokens (tg), and its share of the "
                 "limit that memory\n"
                 "and multipliers set, measured in the same run.",
        .examples = "  quern bench " QN_DEFAULT_MODEL "\n"
                    "  quern bench model.gguf --prompt 128 512 --gen 64 --depth 0 4096 --json\n",
        .opts = opts,
        .max_args = 1,
    };
    const char *name = QN_DEFAULT_MODEL;
    int n_args, rc = qn_cli_parse(&spec, argc, argv, &name, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    set_default(&o.prompt, 512);
    set_default(&o.gen, 64);
    set_default(&o.depth, 0);
    set_default(&o.batch, 1);
    qn_model *m = NULL;
    qn_cli_catch_sigint(false);
    int status = qn_cli_open(&m, name, &o.model);
    if (status == QN_EXIT_OK)
        status = run(m, &o);
    qn_model_close(m);
    return status;
}
