/* cmd_show.c - `quern show`: what a model is and what it needs, for people or as JSON. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"

static int64_t whole(const qn_json *j, const char *key)
{
    return qn_json_int(qn_json_get(j, key), 0);
}

static const char *text(const qn_json *j, const char *key, const char *fallback)
{
    return qn_json_str(qn_json_get(j, key), fallback);
}

/* 1234567890 as "1.2 GB"; counts of parameters read the same way ("134.5 M"). */
static void put_amount(int64_t n, const char *const units[4])
{
    double v = (double)n;
    int unit = 0;
    while (v >= 1000 && unit < 3) {
        v /= 1000;
        unit++;
    }
    printf(unit ? "%.1f %s" : "%.0f %s", v, units[unit]);
}

static void put_bytes(int64_t n)
{
    put_amount(n, (const char *const[]){ "B", "kB", "MB", "GB" });
}

static void put_count(int64_t n)
{
    put_amount(n, (const char *const[]){ "", "thousand", "million", "billion" });
}

static void print_shape(const qn_json *j)
{
    printf("  layers        %lld, width %lld, feed-forward %lld\n", (long long)whole(j, "layers"),
           (long long)whole(j, "d_model"), (long long)whole(j, "d_ff"));
    printf("  attention     %lld heads of %lld, %lld for keys and values",
           (long long)whole(j, "heads"), (long long)whole(j, "head_dim"),
           (long long)whole(j, "kv_heads"));
    if (whole(j, "window") > 0)
        printf(", window %lld", (long long)whole(j, "window"));
    printf("\n");
    if (whole(j, "experts") > 0)
        printf("  experts       %lld, %lld for each token\n", (long long)whole(j, "experts"),
               (long long)whole(j, "experts_per_token"));
    const qn_json *rope = qn_json_get(j, "rope"), *scaling = qn_json_get(rope, "scaling");
    printf("  positions     base %g%s%s\n", qn_json_num(qn_json_get(rope, "theta"), 0),
           qn_json_is(scaling, QN_JSON_OBJECT) ? ", scaling " : "",
           qn_json_is(scaling, QN_JSON_OBJECT)
               ? text(scaling, "rope_type", text(scaling, "type", ""))
               : "");
    printf("  vocabulary    %lld%s\n", (long long)whole(j, "vocab"),
           qn_json_bool(qn_json_get(j, "tied"), false) ? ", head tied to the embedding" : "");
    printf("  context       %lld tokens\n", (long long)whole(j, "context"));
}

static void print_layouts(const qn_json *j)
{
    printf("  parameters    ");
    put_count(whole(j, "parameters"));
    printf(" in ");
    put_bytes(whole(j, "weight_bytes"));
    printf("\n");
    const qn_json *list = qn_json_get(j, "layouts");
    for (size_t i = 0; list && i < list->n; i++) {
        const qn_json *l = qn_json_at(list, i);
        printf("  %-13s %-10s %5lld tensors, ", i ? "" : "layouts", text(l, "layout", "?"),
               (long long)whole(l, "tensors"));
        put_bytes(whole(l, "bytes"));
        printf("\n");
    }
}

static void print_text(const qn_json *j)
{
    const qn_json *t = qn_json_get(j, "tokenizer"), *eos = qn_json_get(j, "eos");
    if (qn_json_is(t, QN_JSON_OBJECT))
        printf("  tokenizer     %s, %lld tokens\n", text(t, "kind", "?"),
               (long long)whole(t, "vocab"));
    else
        printf("  tokenizer     none\n");
    printf("  chat template %s\n",
           qn_json_bool(qn_json_get(j, "template"), false) ? "yes" : "none");
    printf("  end tokens   ");
    for (size_t i = 0; eos && i < eos->n; i++)
        printf(" %lld", (long long)qn_json_int(qn_json_at(eos, i), -1));
    printf("\n");
}

static void print_memory(const qn_json *j)
{
    const qn_json *list = qn_json_get(j, "memory");
    for (size_t i = 0; list && i < list->n; i++) {
        const qn_json *m = qn_json_at(list, i);
        printf("  %-13s ", i ? "" : "memory");
        put_bytes(whole(m, "total_bytes"));
        printf(" with a context of %lld (cache ", (long long)whole(m, "context"));
        put_bytes(whole(m, "cache_bytes"));
        printf(")\n");
    }
}

static void print_model(const char *json)
{
    qn_arena a = { 0 };
    const qn_json *j = qn_json_parse(&a, json, strlen(json), NULL);
    printf("%s\n", text(j, "path", ""));
    printf("  architecture  %s (family %s), from %s\n", text(j, "architecture", "?"),
           text(j, "family", "?"), text(j, "format", "?"));
    print_shape(j);
    print_layouts(j);
    print_text(j);
    print_memory(j);
    qn_arena_free(&a);
}

int qn_cmd_show(int argc, char **argv)
{
    qn_cli_model opt = { 0 };
    const qn_opt opts[] = { QN_CLI_MODEL_OPTS(&opt), { 0 } };
    const qn_cmd_spec spec = {
        .usage = "show [MODEL] [--json]",
        .about =
            "Shows what a model is: architecture, sizes, number formats, tokenizer, and the memory "
            "it needs by context length.",
        .examples = "  quern show\n  quern show ./model.gguf --json\n",
        .opts = opts,
        .max_args = 1,
    };
    const char *model = QN_DEFAULT_MODEL;
    int n_args, rc = qn_cli_parse(&spec, argc, argv, &model, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    qn_model *m;
    rc = qn_cli_open(&m, model, &opt);
    if (rc != QN_EXIT_OK)
        return rc;
    char *json = qn_model_describe_dup(m);
    if (opt.json)
        puts(json);
    else
        print_model(json);
    qn_free(json);
    qn_model_close(m);
    return QN_EXIT_OK;
}
