/* cmd_tokenize.c - `quern tokenize`: what a text is to a model, and what ids are as text. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"

typedef struct options {
    bool json, lines, decode, no_special;
} options;

/* A file or folder that holds a tokenizer, else what MODEL means everywhere. */
static int open_tokenizer(qn_tokenizer **out, const char *name)
{
    qn_error err = { 0 };
    char *found = NULL;
    const char *path = name;
    if (!qn_is_file(name)) {
        path = found = qn_store_find_dup(name, &err);
        if (!found)
            return qn_cli_fail(&err);
    }
    int rc = qn_tokenizer_load(out, path, &err);
    qn_free(found);
    return rc == QN_OK ? QN_EXIT_OK : qn_cli_fail(&err);
}

/* {"ids": [...], "tokens": [...]}, or a line of id and token each for people. */
static void put_ids(const qn_tokenizer *t, const int32_t *ids, size_t n_ids, bool json, qn_buf *out)
{
    size_t n;
    if (json)
        qn_buf_str(out, "{\"ids\":[");
    for (size_t i = 0; i < n_ids; i++) {
        if (json) {
            qn_buf_printf(out, i ? ",%d" : "%d", ids[i]);
            continue;
        }
        const char *s = qn_tokenizer_piece(t, ids[i], &n);
        qn_buf_printf(out, "%7d  ", ids[i]);
        qn_json_put_str(out, s ? s : "", n);
        qn_buf_char(out, '\n');
    }
    if (!json)
        return;
    qn_buf_str(out, "],\"tokens\":[");
    for (size_t i = 0; i < n_ids; i++) {
        const char *s = qn_tokenizer_piece(t, ids[i], &n);
        if (i)
            qn_buf_char(out, ',');
        qn_json_put_str(out, s ? s : "", n);
    }
    qn_buf_str(out, "]}\n");
}

static int encode(const qn_tokenizer *t, const char *text, size_t n, const options *o)
{
    qn_error err = { 0 };
    size_t n_ids;
    /* Without what surrounds a text, the result is the plain encoding of its kind of file. */
    int flags = o->no_special ? 0 : QN_TOKENIZE_SPECIAL;
    if (!o->no_special || qn_tokenizer_parses(t))
        flags |= QN_TOKENIZE_MARKUP;
    int32_t *ids = qn_tokenizer_ids_dup(t, text, n, flags, &n_ids, &err);
    if (!ids)
        return qn_cli_fail(&err);
    qn_buf out = { 0 };
    put_ids(t, ids, n_ids, o->json, &out);
    fwrite(qn_buf_cstr(&out), 1, out.len, stdout);
    qn_buf_free(&out);
    qn_free(ids);
    return QN_EXIT_OK;
}

/* Ids as a JSON array, as {"ids": [...]}, or bare numbers with anything but digits between them. */
static int32_t *read_ids(const char *s, size_t n, size_t *n_ids)
{
    qn_arena a = { 0 };
    const qn_json *v = qn_json_parse(&a, s, n, NULL);
    v = qn_json_is(v, QN_JSON_OBJECT) ? qn_json_get(v, "ids") : v;
    size_t cap = 0, count = 0;
    int32_t *ids = NULL;
    for (uint32_t i = 0; qn_json_is(v, QN_JSON_ARRAY) && i < v->n; i++) {
        int64_t id = qn_json_int(&v->items[i], -1);
        QN_GROW(ids, count, cap);
        ids[count++] = id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
    }
    for (size_t i = 0; !qn_json_is(v, QN_JSON_ARRAY) && i < n;) {
        int64_t id = 0;
        size_t from = i;
        for (; i < n && s[i] >= '0' && s[i] <= '9'; i++)
            id = id > INT32_MAX ? id : id * 10 + (s[i] - '0');
        if (i == from) {
            i++;
            continue;
        }
        QN_GROW(ids, count, cap);
        ids[count++] = id > INT32_MAX ? -1 : (int32_t)id;
    }
    qn_arena_free(&a);
    *n_ids = count;
    return ids;
}

static int decode(const qn_tokenizer *t, const char *s, size_t n, const options *o)
{
    size_t n_ids, len;
    int32_t *ids = read_ids(s, n, &n_ids);
    char *text = qn_tokenizer_text_dup(t, ids, n_ids, !o->no_special, &len);
    if (o->json) {
        qn_buf out = { 0 };
        qn_buf_str(&out, "{\"text\":");
        qn_json_put_str(&out, text, len);
        qn_buf_str(&out, "}\n");
        fwrite(qn_buf_cstr(&out), 1, out.len, stdout);
        qn_buf_free(&out);
    } else {
        fwrite(text, 1, len, stdout);
        if (len && text[len - 1] != '\n')
            putchar('\n');
    }
    qn_free(text);
    qn_free(ids);
    return QN_EXIT_OK;
}

/* One input: a text or ids, where a line of text is a JSON string. */
static int one_line(const qn_tokenizer *t, const char *s, size_t n, const options *o)
{
    if (o->decode)
        return decode(t, s, n, o);
    qn_arena a = { 0 };
    qn_error err = { 0 };
    const qn_json *v = qn_json_parse(&a, s, n, &err);
    int status;
    if (!v)
        status = qn_cli_fail(&err);
    else if (!qn_json_is(v, QN_JSON_STR))
        status = qn_cli_die(QN_EXIT_FAILED, "--lines: a line is not a JSON string");
    else
        status = encode(t, v->s, v->n, o);
    qn_arena_free(&a);
    return status;
}

static int each_line(const qn_tokenizer *t, const qn_buf *in, const options *o)
{
    const char *p = qn_buf_cstr(in), *end = p + in->len;
    int status = QN_EXIT_OK;
    while (p < end && status == QN_EXIT_OK) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        size_t blank = 0;
        while (blank < n && (p[blank] == ' ' || p[blank] == '\t' || p[blank] == '\r'))
            blank++;
        if (blank < n)
            status = one_line(t, p, n, o);
        p = stop ? stop + 1 : end;
    }
    return status;
}

int qn_cmd_tokenize(int argc, char **argv)
{
    options o = { 0 };
    const qn_opt opts[] = {
        { "--decode", QN_OPT_FLAG, &o.decode, NULL, "ids on standard input, text out", 0, 0 },
        { "--no-special", QN_OPT_FLAG, &o.no_special, NULL,
          "no start and end tokens; drop them in text", 0, 0 },
        { "--json", QN_OPT_FLAG, &o.json, NULL, "print {\"ids\", \"tokens\"} or {\"text\"}", 0, 0 },
        { "--lines", QN_OPT_FLAG, &o.lines, NULL,
          "a JSON string or list of ids a line, a JSON line out", 0, 0 },
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "tokenize [MODEL | tokenizer.json | FILE.gguf] < TEXT",
        .about = "Shows the token ids of the text on standard input, or the text of ids.",
        .examples = "  echo -n 'Hello world' | quern tokenize\n"
                    "  echo '[1, 2, 3]' | quern tokenize tokenizer.json --decode --json\n",
        .opts = opts,
        .max_args = 1,
    };
    const char *name = QN_DEFAULT_MODEL;
    int n_args, rc = qn_cli_parse(&spec, argc, argv, &name, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    qn_tokenizer *t = NULL;
    qn_buf in = { 0 };
    o.json = o.json || o.lines;
    rc = open_tokenizer(&t, name);
    if (rc == QN_EXIT_OK && !qn_cli_read_stdin(&in))
        rc = QN_EXIT_FAILED;
    if (rc == QN_EXIT_OK && o.lines)
        rc = each_line(t, &in, &o);
    else if (rc == QN_EXIT_OK)
        rc = o.decode ? decode(t, qn_buf_cstr(&in), in.len, &o)
                      : encode(t, qn_buf_cstr(&in), in.len, &o);
    qn_buf_free(&in);
    qn_tokenizer_close(t);
    return rc;
}
