/* cmd_render.c - `quern render`: the prompt that a model's chat template makes of a conversation. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"

typedef struct options {
    const char *now;
    bool json, lines;
} options;

/* A file of Jinja source, or what MODEL means everywhere. */
static int open_template(qn_template **out, const char *name)
{
    qn_error err = { 0 };
    char *found = NULL;
    const char *path = name;
    if (!qn_ends_with(name, ".jinja") || !qn_is_file(name)) {
        path = found = qn_store_find_dup(name, &err);
        if (!found)
            return qn_cli_fail(&err);
    }
    int rc = qn_template_load(out, path, &err);
    qn_free(found);
    return rc == QN_OK ? QN_EXIT_OK : qn_cli_fail(&err);
}

/* Prints one result; true when the template gave a text. */
static bool render(const qn_template *t, const char *request, size_t n, const options *o)
{
    qn_error err = { 0 };
    char *json = qn_template_json_dup(t, request, n, o->now, &err);
    bool ok = err.code == QN_OK;
    puts(json);
    qn_free(json);
    return ok;
}

/* The text itself, for people. */
static int render_plain(const qn_template *t, const qn_buf *in, const options *o)
{
    qn_error err = { 0 };
    qn_arena a = { 0 };
    char *json = qn_template_json_dup(t, qn_buf_cstr(in), in->len, o->now, &err);
    const qn_json *j = qn_json_parse(&a, json, strlen(json), NULL);
    const qn_json *text = qn_json_get(j, "text");
    int status = QN_EXIT_OK;
    if (text)
        fwrite(text->s, 1, text->n, stdout);
    else
        status = qn_cli_die(QN_EXIT_FAILED, "%s", qn_json_str(qn_json_get(j, "error"), "no text"));
    qn_free(json);
    qn_arena_free(&a);
    return status;
}

static void render_lines(const qn_template *t, const qn_buf *in, const options *o)
{
    const char *p = qn_buf_cstr(in), *end = p + in->len;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        if (strspn(p, " \t\r") < n) /* blank lines ask for nothing */
            render(t, p, n, o);
        p = stop ? stop + 1 : end;
    }
}

int qn_cmd_render(int argc, char **argv)
{
    options o = { 0 };
    const qn_opt opts[] = {
        { "--json", QN_OPT_FLAG, &o.json, NULL, "print {\"text\": ...} or {\"error\": ...}", 0, 0 },
        { "--lines", QN_OPT_FLAG, &o.lines, NULL, "one request a line, one JSON line for each", 0,
          0 },
        { "--now", QN_OPT_STR, &o.now, "TIME", "what the clock says: 2026-07-15T10:20:30", 0, 0 },
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "render [MODEL | FILE.jinja] < REQUEST.json",
        .about =
            "Shows the prompt that a chat template makes of the conversation on standard input:\n"
            "{\"messages\": [...], \"tools\": [...], \"add_generation_prompt\": true, ...}. Any "
            "other\n"
            "key is a variable of the template.",
        .examples =
            "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | quern render\n"
            "  quern render chat_template.jinja --json --lines < requests.jsonl\n",
        .opts = opts,
        .max_args = 1,
    };
    const char *name = QN_DEFAULT_MODEL;
    int n_args, rc = qn_cli_parse(&spec, argc, argv, &name, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    qn_template *t = NULL;
    qn_buf in = { 0 };
    rc = open_template(&t, name);
    if (rc == QN_EXIT_OK && !qn_cli_read_stdin(&in))
        rc = QN_EXIT_FAILED;
    if (rc == QN_EXIT_OK && o.lines)
        render_lines(t, &in, &o);
    else if (rc == QN_EXIT_OK && !o.json)
        rc = render_plain(t, &in, &o);
    else if (rc == QN_EXIT_OK)
        rc = render(t, qn_buf_cstr(&in), in.len, &o) ? QN_EXIT_OK : QN_EXIT_FAILED;
    qn_buf_free(&in);
    qn_template_close(t);
    return rc;
}
