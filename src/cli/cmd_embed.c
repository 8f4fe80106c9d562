/* cmd_embed.c - `quern embed`: texts to vectors, a line each. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"

enum { MAX_TEXTS = 1024 };

typedef struct options {
    qn_cli_model model;
    const char *prompt;
    int64_t dims;
    bool prompts;
} options;

/* Lines of standard input, cut up in place; empty lines are no texts. The list is the caller's (qn_free). */
static const char **lines_of(qn_buf *in, size_t *n)
{
    const char **line = NULL;
    size_t cap = 0;
    *n = 0;
    for (char *at = in->data; at && *at;) {
        char *end = strchr(at, '\n');
        if (end)
            *end = '\0';
        size_t len = strlen(at);
        if (len > 0 && at[len - 1] == '\r')
            at[len - 1] = '\0';
        if (*at) {
            QN_GROW(line, *n, cap);
            line[(*n)++] = at;
        }
        at = end ? end + 1 : NULL;
    }
    return line;
}

/* {"dims": N, "embeddings": [[...], ...]}, or the numbers of a text on a line of their own. */
static void print_vectors(const float *x, size_t n, int dims, bool json)
{
    qn_buf b = { 0 };
    if (json)
        qn_buf_printf(&b, "{\"dims\":%d,\"embeddings\":[", dims);
    for (size_t i = 0; i < n; i++) {
        if (json)
            qn_buf_str(&b, i ? ",[" : "[");
        for (int k = 0; k < dims; k++)
            qn_buf_printf(&b, "%s%.7g",
                          k == 0 ? ""
                          : json ? ","
                                 : " ",
                          x[i * (size_t)dims + (size_t)k]);
        qn_buf_str(&b, json ? "]" : "\n");
    }
    if (json)
        qn_buf_str(&b, "]}\n");
    fwrite(qn_buf_cstr(&b), 1, b.len, stdout);
    qn_buf_free(&b);
}

static int embed(qn_embedder *e, const char *const *text, size_t n, const options *o)
{
    qn_error err = { 0 };
    const qn_embed_options opt = { .prompt = o->prompt, .dims = (int)o->dims };
    int dims = opt.dims ? opt.dims : qn_embedder_width(e);
    float *x = qn_alloc_n(n + 1, (size_t)dims * sizeof *x);
    qn_cli_progress("embedding", -1);
    int rc = qn_embed_texts(e, text, n, &opt, x, &err);
    qn_cli_progress_end();
    if (rc == QN_OK)
        print_vectors(x, n, dims, o->model.json);
    qn_free(x);
    return rc == QN_OK ? QN_EXIT_OK : qn_cli_fail(&err);
}

/* Names and texts of the checkpoint's prompts. */
static int print_prompts(const qn_embedder *e)
{
    char *json = qn_embedder_prompts_dup(e);
    puts(json);
    qn_free(json);
    return QN_EXIT_OK;
}

static int with_model(const char *name, const char *const *text, size_t n, const options *o)
{
    qn_error err = { 0 };
    qn_model *m;
    qn_embedder *e;
    int status = qn_cli_open(&m, name, &o->model);
    if (status != QN_EXIT_OK)
        return status;
    if (qn_embedder_open(&e, m, &err) == QN_OK)
        status = o->prompts ? print_prompts(e) : embed(e, text, n, o);
    else
        status = qn_cli_fail(&err);
    qn_embedder_close(e);
    qn_model_close(m);
    return status;
}

int qn_cmd_embed(int argc, char **argv)
{
    options o = { 0 };
    const qn_opt opts[] = {
        { "--prompt", QN_OPT_STR, &o.prompt, "NAME", "the model's prompt for this kind of text", 0,
          0 },
        { "--dims", QN_OPT_INT, &o.dims, "N", "shorter vectors; default the model's", 1, 1 << 20 },
        { "--prompts", QN_OPT_FLAG, &o.prompts, NULL, "list the model's prompts instead", 0, 0 },
        QN_CLI_MODEL_OPTS(&o.model),
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "embed MODEL [TEXT... | -]",
        .about = "Turns texts, or the lines of standard input, into vectors.",
        .examples = "  quern embed minilm \"The weather is lovely.\" \"It is sunny.\"\n"
                    "  quern embed nomic --prompt query --json - < questions.txt\n",
        .opts = opts,
        .min_args = 1,
        .max_args = MAX_TEXTS + 1,
    };
    const char *args[MAX_TEXTS + 1];
    int n_args, rc = qn_cli_parse(&spec, argc, argv, args, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    bool from_stdin = n_args == 1 || (n_args == 2 && strcmp(args[1], "-") == 0);
    if (o.prompts || !from_stdin)
        return with_model(args[0], args + 1, (size_t)n_args - 1, &o);
    qn_buf in = { 0 };
    if (!qn_cli_read_stdin(&in))
        return QN_EXIT_FAILED;
    size_t n;
    const char **line = lines_of(&in, &n);
    rc = with_model(args[0], line, n, &o);
    qn_free(line);
    qn_buf_free(&in);
    return rc;
}
