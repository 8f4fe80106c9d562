/* cmd_run.c - `quern run`: one prompt, one answer, streamed. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"

typedef struct run_options {
    qn_cli_model model;
    qn_cli_sampling sampling;
    bool raw, chat;
    const char *system;
    int64_t logprobs, context;
} run_options;

/* ---- the prompt ---- */

static char *chat_json_dup(const char *prompt, const char *system)
{
    qn_buf b = { 0 };
    qn_buf_str(&b, "{\"messages\":[");
    if (system) {
        qn_buf_str(&b, "{\"role\":\"system\",\"content\":");
        qn_json_put_str(&b, system, strlen(system));
        qn_buf_str(&b, "},");
    }
    qn_buf_str(&b, "{\"role\":\"user\",\"content\":");
    qn_json_put_str(&b, prompt, strlen(prompt));
    qn_buf_str(&b, "}]}");
    return b.data;
}

/* Sorts the arguments into model and prompt. A single one is the prompt, "-" or none means standard input.
 * `piped` receives what was read there. */
static int take_prompt(const char **args, int n_args, const char **model, const char **prompt,
                       qn_buf *piped)
{
    *model = n_args == 2 ? args[0] : QN_DEFAULT_MODEL;
    *prompt = n_args > 0 ? args[n_args - 1] : "-";
    if (n_args == 0 && isatty(STDIN_FILENO))
        return qn_cli_die(QN_EXIT_USAGE, "run: no prompt (quern run --help)");
    if (!strcmp(*prompt, "-")) {
        if (!qn_cli_read_stdin(piped))
            return QN_EXIT_FAILED;
        *prompt = qn_buf_cstr(piped);
        if (strlen(*prompt) != piped->len)
            return qn_cli_die(QN_EXIT_FAILED, "the prompt on standard input holds a NUL byte");
    }
    if (!(*prompt)[strspn(*prompt, " \t\r\n")])
        return qn_cli_die(QN_EXIT_FAILED, "the prompt is empty");
    return QN_EXIT_OK;
}

/* ---- output ---- */

static void put_ids(qn_buf *b, const char *key, const int32_t *ids, int n)
{
    qn_buf_printf(b, "\"%s\":[", key);
    for (int i = 0; i < n; i++)
        qn_buf_printf(b, "%s%d", i ? "," : "", ids[i]);
    qn_buf_char(b, ']');
}

static void put_logprob(qn_buf *b, const qn_logprob *p)
{
    qn_buf_printf(b, "{\"id\":%d,\"logprob\":", p->id);
    qn_json_put_num(b, p->logprob);
    qn_buf_char(b, '}');
}

static void put_probs(qn_buf *b, const qn_result *r)
{
    qn_buf_str(b, ",\"logprobs\":[");
    for (int i = 0; i < r->n_output; i++) {
        const qn_token_probs *p = &r->probs[i];
        qn_buf_printf(b, "%s{\"id\":%d,\"logprob\":", i ? "," : "", p->chosen.id);
        qn_json_put_num(b, p->chosen.logprob);
        qn_buf_str(b, ",\"top\":[");
        for (int k = 0; k < p->n_top; k++) {
            if (k)
                qn_buf_char(b, ',');
            put_logprob(b, &p->top[k]);
        }
        qn_buf_str(b, "]}");
    }
    qn_buf_char(b, ']');
}

static void put_timings(qn_buf *b, const qn_result *r)
{
    int n_read = r->n_prompt - r->n_cached, n_decoded = r->n_output - 1;
    qn_buf_printf(b,
                  ",\"timings\":{\"prompt_tokens\":%d,\"cached_tokens\":%d,\"output_tokens\":%d,"
                  "\"reasoning_tokens\":%d,\"queue_ms\":%.3f,\"first_token_ms\":%.3f,"
                  "\"prefill_ms\":%.3f,\"decode_ms\":%.3f",
                  r->n_prompt, r->n_cached, r->n_output, r->n_reasoning, r->queue_ms, r->first_ms,
                  r->prefill_ms, r->decode_ms);
    if (r->prefill_ms > 0 && r->n_output > 0)
        qn_buf_printf(b, ",\"prefill_tokens_per_s\":%.2f", 1e3 * n_read / r->prefill_ms);
    if (r->decode_ms > 0 && n_decoded > 0)
        qn_buf_printf(b, ",\"decode_tokens_per_s\":%.2f", 1e3 * n_decoded / r->decode_ms);
    qn_buf_char(b, '}');
}

static void print_json(const qn_result *r)
{
    qn_buf b = { 0 };
    qn_buf_char(&b, '{');
    put_ids(&b, "ids", r->prompt_ids, r->n_prompt);
    qn_buf_char(&b, ',');
    put_ids(&b, "output_ids", r->output_ids, r->n_output);
    qn_buf_str(&b, ",\"text\":");
    qn_json_put_str(&b, r->text, strlen(r->text));
    if (*r->reasoning) {
        qn_buf_str(&b, ",\"reasoning\":");
        qn_json_put_str(&b, r->reasoning, strlen(r->reasoning));
    }
    qn_buf_printf(&b, ",\"finish_reason\":\"%s\",\"seed\":%lld", qn_finish_name(r->finish),
                  (long long)r->seed);
    if (r->probs)
        put_probs(&b, r);
    put_timings(&b, r);
    qn_buf_char(&b, '}');
    puts(b.data);
    qn_buf_free(&b);
}

/* ---- the run ---- */

static int answer(qn_engine *e, const qn_request_options *req, bool json)
{
    qn_error err = { 0 };
    qn_request *r;
    if (qn_request_start(&r, e, req, &err) != QN_OK)
        return qn_cli_fail(&err);
    const qn_result *res = qn_cli_stream(r, json);
    int status = QN_EXIT_OK;
    if (res->finish == QN_FINISH_ERROR)
        status = qn_cli_fail(&res->error);
    else if (res->finish == QN_FINISH_CANCELLED)
        status = QN_EXIT_INTERRUPTED;
    if (json && res->finish != QN_FINISH_ERROR)
        print_json(res);
    else if (!json)
        putchar('\n');
    qn_request_close(r);
    return status;
}

static int run(qn_model *m, const char *prompt, const run_options *o)
{
    qn_model_info info;
    qn_request_options req;
    qn_error err = { 0 };
    qn_engine *e;
    qn_model_get_info(m, &info);
    bool chat = o->chat || (!o->raw && info.has_template);
    if (o->system && !chat)
        return qn_cli_die(QN_EXIT_FAILED, "--system needs a chat template, or not --raw");
    qn_request_defaults(m, &req);
    qn_cli_apply_sampling(&req, &o->sampling);
    req.n_logprobs = (int)o->logprobs;
    req.split_thoughts = chat;
    char *json = chat ? chat_json_dup(prompt, o->system) : NULL;
    req.chat = json;
    req.text = chat ? NULL : prompt;
    qn_engine_options eo = { .context = (int)o->context, .max_running = 1 };
    int status = qn_engine_open(&e, m, &eo, &err) == QN_OK ? answer(e, &req, o->model.json)
                                                           : qn_cli_fail(&err);
    qn_engine_close(e);
    qn_free(json);
    return status;
}

int qn_cmd_run(int argc, char **argv)
{
    run_options o = { .sampling = QN_CLI_SAMPLING_UNSET, .logprobs = -1 };
    const qn_opt opts[] = {
        { "--raw", QN_OPT_FLAG, &o.raw, NULL, "the prompt as it is, without a chat template", 0,
          0 },
        { "--chat", QN_OPT_FLAG, &o.chat, NULL, "the prompt as a user's message (the default)", 0,
          0 },
        { "--system", QN_OPT_STR, &o.system, "TEXT", "a system message before it", 0, 0 },
        QN_CLI_SAMPLING_OPTS(&o.sampling),
        { "--logprobs", QN_OPT_INT, &o.logprobs, "N", "with --json: the N most likely tokens", 0,
          20 },
        { "--context", QN_OPT_INT, &o.context, "N", "most tokens, prompt and answer", 1, 1 << 30 },
        QN_CLI_MODEL_OPTS(&o.model),
        { 0 },
    };
    const qn_cmd_spec spec = {
        .usage = "run [MODEL] PROMPT [options]",
        .about =
            "Answers one prompt. A single argument is the prompt, for the model " QN_DEFAULT_MODEL
            ".\n"
            "\"-\" or a pipe gives the prompt on standard input.",
        .examples = "  quern run \"Why is the sky blue?\"\n"
                    "  quern run model.gguf \"Once upon a time\" --raw -n 100 --seed 1\n"
                    "  quern run " QN_DEFAULT_MODEL " - --json < question.txt\n",
        .opts = opts,
        .max_args = 2,
    };
    const char *args[2], *name, *prompt;
    int n_args, rc = qn_cli_parse(&spec, argc, argv, args, &n_args);
    if (rc != QN_CLI_GO)
        return rc;
    if (o.raw && o.chat)
        return qn_cli_die(QN_EXIT_USAGE, "--raw and --chat exclude each other");
    qn_buf piped = { 0 };
    qn_model *m = NULL;
    qn_cli_catch_sigint(false);
    int status = take_prompt(args, n_args, &name, &prompt, &piped);
    if (status == QN_EXIT_OK)
        status = qn_cli_open(&m, name, &o.model);
    if (status == QN_EXIT_OK)
        status = run(m, prompt, &o);
    qn_model_close(m);
    qn_buf_free(&piped);
    return status;
}
