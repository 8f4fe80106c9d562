/* cmd_diff.c - `quern diff`: runs a prompt through a model in two ways and names the first value where they
 * part. The tool for "which op is wrong": it looks inside, which other commands may not.
 *
 * The ways: eager (every op by its reference, in f32), f32 (fast kernels, nothing quantised), default (what
 * `quern run` does). Values are compared by name in the order of the first way. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "engine/runner.h"
#include "graph/trace.h"

typedef struct options {
    const char *a, *b, *dump;
    double tolerance;
    qn_int_list ids;
    int64_t n_threads;
    bool json;
} options;

/* Tokens of the prompt, from the text or as given. */
typedef struct prompt {
    const char *text; /* NULL: ids */
    int32_t *token;
    size_t n;
} prompt;

static bool way_options(const char *way, int64_t n_threads, qn_backend_options *o)
{
    *o = (qn_backend_options){ .n_threads = (int)n_threads };
    o->reference = strcmp(way, "eager") == 0;
    o->exact = o->reference || strcmp(way, "f32") == 0;
    return o->exact || strcmp(way, "default") == 0;
}

static int tokens_of(prompt *p, const qn_model *m, const options *o, qn_error *err)
{
    if (p->token)
        return QN_OK;
    if (p->text) {
        if (!m->tokenizer)
            return qn_fail(err, QN_ERR_UNSUPPORTED, "the model has no tokenizer; give --ids");
        p->token = qn_tokenizer_ids_dup(m->tokenizer, p->text, strlen(p->text), QN_TOKENIZE_SPECIAL,
                                        &p->n, err);
        return p->token ? QN_OK : err->code;
    }
    p->n = (size_t)o->ids.n;
    p->token = qn_alloc_n(p->n, sizeof *p->token);
    for (int i = 0; i < o->ids.n; i++)
        p->token[i] = (int32_t)o->ids.v[i];
    return QN_OK;
}

/* The whole prompt as one step of a sequence of its own, its values recorded. */
static int record(qn_model *m, const prompt *p, bool exact, qn_trace *t, qn_error *err)
{
    qn_runner *run;
    qn_kv_options kv = { .context = (int32_t)p->n, .max_seqs = 1, .exact = exact };
    kv.chunk = kv.context;
    int rc = qn_runner_open(&run, m, &kv, err);
    if (rc != QN_OK)
        return rc;
    t->graph = &m->graph;
    m->backend->set_dump(m->backend, qn_trace_record, t);
    qn_kv_seq seq = { .cache = qn_runner_cache(run) };
    qn_rows rows = {
        .seq = &seq, .token = p->token, .n_tok = (int32_t)p->n, .rope_len = (int32_t)p->n
    };
    const float *logits;
    rc = qn_runner_step(run, &rows, 1, &logits, err);
    qn_kv_release(&seq);
    qn_runner_close(run);
    return rc;
}

static int run_way(const char *path, const char *way, prompt *p, const options *o, qn_trace *t,
                   qn_error *err)
{
    qn_load_options load = { .no_tokenizer = !p->text || p->token };
    if (!way_options(way, o->n_threads, &load.backend))
        return qn_fail(err, QN_ERR_ARGUMENT, "no way called %s: eager, f32 or default", way);
    qn_model *m;
    int rc = qn_model_load(&m, path, &load, err);
    if (rc != QN_OK)
        return rc;
    rc = tokens_of(p, m, o, err);
    if (rc == QN_OK && p->n == 0)
        rc = qn_fail(err, QN_ERR_ARGUMENT, "the prompt has no tokens");
    if (rc == QN_OK)
        rc = record(m, p, load.backend.exact, t, err);
    qn_model_unload(m);
    return rc;
}

static void dump(const qn_trace *t, const char *way, const char *pattern)
{
    qn_buf b = { 0 };
    for (size_t i = 0; i < t->n; i++) {
        if (fnmatch(pattern, t->v[i].name, 0) != 0)
            continue;
        qn_buf_printf(&b, "%s: ", way);
        qn_trace_print(&t->v[i], &b);
    }
    fputs(qn_buf_cstr(&b), stdout);
    qn_buf_free(&b);
}

static void put_gap(qn_buf *b, const char *key, const qn_trace_gap *g)
{
    qn_buf_printf(b, ",\"%s\":", key);
    if (!g->name) {
        qn_buf_str(b, "null");
        return;
    }
    qn_buf_str(b, "{\"name\":");
    qn_json_put_str(b, g->name, strlen(g->name));
    qn_buf_str(b, ",\"error\":");
    qn_json_put_num(b, g->error);
    qn_buf_printf(b, ",\"row\":%lld,\"column\":%lld,\"a\":", (long long)g->row, (long long)g->col);
    qn_json_put_num(b, g->a);
    qn_buf_str(b, ",\"b\":");
    qn_json_put_num(b, g->b);
    qn_buf_char(b, '}');
}

static int report(const qn_trace *a, const qn_trace *b, const options *o)
{
    qn_trace_gap first, worst;
    size_t n = qn_trace_compare(a, b, o->tolerance, &first, &worst);
    qn_buf out = { 0 };
    if (o->json) {
        qn_buf_printf(&out, "{\"compared\":%zu", n);
        put_gap(&out, "first", &first);
        put_gap(&out, "worst", &worst);
        qn_buf_str(&out, "}\n");
    } else if (first.name) {
        qn_buf_printf(&out, "%s and %s part at %s: row %lld, column %lld: %.8g and %.8g ", o->a,
                      o->b, first.name, (long long)first.row, (long long)first.col, first.a,
                      first.b);
        qn_buf_printf(&out, "(%.2g of its size, allowed %.2g)\n", first.error, o->tolerance);
    } else {
        qn_buf_printf(&out, "%s and %s agree in %zu values; the worst is %s, %.2g of its size\n",
                      o->a, o->b, n, worst.name ? worst.name : "none", worst.error);
    }
    fputs(qn_buf_cstr(&out), stdout);
    qn_buf_free(&out);
    return first.name || n == 0 ? QN_EXIT_FAILED : QN_EXIT_OK;
}

static int diff(const char *path, prompt *p, const options *o)
{
    qn_trace a = { 0 }, b = { 0 };
    qn_error err = { 0 };
    int status, rc = run_way(path, o->a, p, o, &a, &err);
    if (rc == QN_OK)
        rc = run_way(path, o->b, p, o, &b, &err);
    if (rc != QN_OK) {
        status = qn_cli_fail(&err);
    } else if (o->dump) {
        dump(&a, o->a, o->dump);
        dump(&b, o->b, o->dump);
        status = QN_EXIT_OK;
    } else {
        status = report(&a, &b, o);
    }
    qn_trace_free(&a);
    qn_trace_free(&b);
    qn_free(p->token);
    return status;
}

int qn_cmd_diff(int argc, char **argv)
{
    options o = { .a = "eager", .b = "f32" };
    const qn_opt opts[] = {
        { "--a", QN_OPT_STR, &o.a, "WAY", "eager (default), f32 or default", 0, 0 },
        { "--b", QN_OPT_STR, &o.b, "WAY", "the other one; f32 unless given", 0, 0 },
        { "--tolerance", QN_OPT_REAL, &o.tolerance, "X",
          "largest error allowed, as a share of a value's size; 1e-3, or 0.25 with default", 0,
          10 },
        { "--dump", QN_OPT_STR, &o.dump, "PATTERN", "print the values of these names instead", 0,
          0 },
        { "--ids", QN_OPT_INTS, &o.ids, "ID...", "token ids in place of a prompt", 0, INT32_MAX },
        { "--threads", QN_OPT_INT, &o.n_threads, "N", "threads; default one a core", 1, 1024 },
        { "--json", QN_OPT_FLAG, &o.json, NULL, "one JSON document on standard output", 0, 0 },
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "diff MODEL [PROMPT]",
        .about = "Runs a prompt in two ways and names the first value where they part.",
        .examples = "quern diff smollm2 \"The sea\"\n"
                    "quern diff smollm2 \"The sea\" --b default\n"
                    "quern diff smollm2 \"The sea\" --dump '*layers.3.*'\n",
        .opts = opts,
        .min_args = 1,
        .max_args = 2,
    };
    const char *args[2];
    int n_args, status = qn_cli_parse(&spec, argc, argv, args, &n_args);
    if (status != QN_CLI_GO)
        return status;
    if ((n_args == 2) == (o.ids.n > 0))
        return qn_cli_die(QN_EXIT_USAGE, "diff: give a prompt or --ids");
    if (o.tolerance == 0)
        o.tolerance = strcmp(o.a, "default") && strcmp(o.b, "default") ? 1e-3 : 0.25;
    qn_error err = { 0 };
    char *path = qn_store_find_dup(args[0], &err);
    if (!path)
        return qn_cli_fail(&err);
    prompt p = { .text = n_args == 2 ? args[1] : NULL };
    status = diff(path, &p, &o);
    qn_free(path);
    return status;
}
