/* test_cli.c - the command line as scripts see it: exit statuses, one-line errors, JSON, pipes, Ctrl-C. The model is
 * a tiny one whose tokenizer knows single bytes. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "unit/tiny_model.h"

static char *model_dir, *home_dir;
static qn_arena arena;

/* ---- a tokenizer of bytes ---- */

/* The alphabet of byte-level BPE: printable bytes stand for themselves, others for U+0100 and up. */
static uint32_t byte_char(int byte)
{
    bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (plain)
        return (uint32_t)byte;
    int n = 0;
    for (int b = 0; b < byte; b++)
        n += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    return 256 + (uint32_t)n;
}

static void put_file(const char *name, const qn_buf *b)
{
    qn_buf path = { 0 };
    qn_buf_printf(&path, "%s/%s", model_dir, name);
    assert_int_equal(qn_write_file(path.data, b->data, b->len, NULL), QN_OK);
    qn_buf_free(&path);
}

/* Byte b has the id b + 3. */
static void put_tokenizer(void)
{
    qn_buf b = { 0 };
    qn_buf_str(
        &b,
        "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false},"
        "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
        "\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,"
        "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"vocab\":{"
        "\"<unk>\":0,\"<s>\":1,\"</s>\":2");
    for (int byte = 0; byte < 256; byte++) {
        uint32_t c = byte_char(byte);
        char utf8[3] = { (char)c, 0, 0 };
        if (c >= 128) {
            utf8[0] = (char)(0xc0 | c >> 6);
            utf8[1] = (char)(0x80 | (c & 63));
        }
        qn_buf_char(&b, ',');
        qn_json_put_str(&b, utf8, strlen(utf8));
        qn_buf_printf(&b, ":%d", byte + 3);
    }
    qn_buf_str(&b, "},\"merges\":[]}}");
    put_file("tokenizer.json", &b);
    qn_buf_clear(&b);
    qn_buf_str(
        &b, "{\"chat_template\":\"{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
            "{% if add_generation_prompt %}[assistant]{% endif %}\"}");
    put_file("tokenizer_config.json", &b);
    qn_buf_free(&b);
}

/* No token ends a text, so that lengths are what the options say. */
static void drop_end_token(void)
{
    qn_buf path = { 0 }, out = { 0 };
    qn_map m;
    qn_buf_printf(&path, "%s/config.json", model_dir);
    assert_int_equal(qn_map_open(&m, path.data, NULL), QN_OK);
    const char key[] = "\"eos_token_id\": 2", *at = strstr(m.data, key);
    assert_non_null(at);
    qn_buf_add(&out, m.data, (size_t)(at - m.data));
    qn_buf_str(&out, "\"eos_token_id\": null");
    qn_buf_str(&out, at + strlen(key));
    qn_map_close(&m);
    put_file("config.json", &out);
    qn_buf_free(&path);
    qn_buf_free(&out);
}

static int set_up(void **state)
{
    (void)state;
    qn_buf dir = { 0 };
    model_dir = tiny_checkpoint_dup("llama/a");
    put_tokenizer();
    drop_end_token();
    qn_buf_str(&dir, "/tmp/quern-home-XXXXXX");
    home_dir = mkdtemp(dir.data);
    setenv("QUERN_HOME", home_dir, 1);
    setenv("XDG_STATE_HOME", home_dir, 1);
    return home_dir ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tiny_remove(model_dir);
    tiny_remove(home_dir);
    qn_arena_free(&arena);
    return 0;
}

/* ---- running it ---- */

typedef struct outcome {
    int status;
    char *out, *err;
} outcome; /* texts in the arena */

static char *read_all(const char *path)
{
    qn_map m;
    assert_int_equal(qn_map_open(&m, path, NULL), QN_OK);
    char *text = qn_arena_strndup(&arena, m.data, m.size);
    qn_map_close(&m);
    unlink(path);
    return text;
}

/* Runs `quern <args>` through the shell; `M` stands for the model in the environment. */
static outcome quern(const char *args)
{
    char *out = qn_arena_printf(&arena, "%s/out", home_dir);
    char *err = qn_arena_printf(&arena, "%s/err", home_dir);
    setenv("M", model_dir, 1);
    char *line =
        qn_arena_printf(&arena, "timeout 300 %s/quern %s >%s 2>%s", QUERN_BINARY, args, out, err);
    int status = system(line);
    assert_true(WIFEXITED(status));
    return (outcome){ WEXITSTATUS(status), read_all(out), read_all(err) };
}

static const qn_json *json(const char *text)
{
    qn_error err = { 0 };
    const qn_json *j = qn_json_parse(&arena, text, strlen(text), &err);
    if (!j)
        fail_msg("%s in: %s", err.msg, text);
    return j;
}

/* A failure says why in one line. */
static void assert_fails(const char *args, int status, const char *says)
{
    outcome o = quern(args);
    if (o.status != status || !strstr(o.err, says))
        fail_msg("quern %s: status %d, %s", args, o.status, o.err);
    assert_string_equal(o.out, "");
    assert_ptr_equal(strchr(o.err, '\n'), o.err + strlen(o.err) - 1);
}

/* ---- tests ---- */

static void help_everywhere(void **state)
{
    (void)state;
    static const char *const commands[] = { "run",      "chat",  "pull",  "list",  "rm",
                                            "show",     "eval",  "diff",  "bench", "render",
                                            "tokenize", "embed", "rerank" };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        outcome o = quern(qn_arena_printf(&arena, "%s --help", commands[i]));
        assert_int_equal(o.status, 0);
        assert_non_null(strstr(o.out, "usage: quern"));
        assert_non_null(strstr(o.out, "examples:"));
        assert_string_equal(o.err, "");
        o = quern(qn_arena_printf(&arena, "%s --no-such-option", commands[i]));
        assert_int_equal(o.status, 2);
    }
    outcome o = quern("--version");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "quern " QUERN_VERSION "\n"));
    assert_non_null(strstr(o.out, "cpu "));
    assert_int_equal(quern("--help").status, 0);
    assert_int_equal(quern("").status, 2);
}

static void usage_errors(void **state)
{
    (void)state;
    assert_fails("frobnicate", 2, "no such command");
    assert_fails("run $M x --temp warm", 2, "--temp");
    assert_fails("run $M x --temp -1", 2, "--temp");
    assert_fails("run $M x --top-p 0", 2, "--top-p");
    assert_fails("run $M x -n", 2, "needs a value");
    assert_fails("run $M x y", 2, "one argument too many");
    assert_fails("run $M x --raw --chat", 2, "--raw and --chat");
    assert_fails("run $M x --compute f64", 2, "f64");
    assert_fails("eval $M", 2, "missing");
}

static void failures(void **state)
{
    (void)state;
    assert_fails("run /no/such/model x", 1, "/no/such/model");
    assert_fails("run only-a-prompt", 1, "quern pull");
    assert_fails("run $M ''", 1, "empty");
    assert_fails("run $M ' \n'", 1, "empty");
    assert_fails("run $M x --device cuda", 1, "cuda");
    assert_fails("run $M 0123456789 --raw --context 8", 1, "10 tokens");
    assert_fails("rm nothing", 1, "nothing");
    assert_fails("pull nothing", 1, "nothing");
    assert_fails("eval $M /no/such/file", 1, "/no/such/file");
}

static void run_json(void **state)
{
    (void)state;
    const qn_json *j = json(quern("run $M 'A b' --raw -n 12 --temp 0 --json").out);
    const qn_json *ids = qn_json_get(j, "ids"), *output = qn_json_get(j, "output_ids");
    assert_int_equal(ids->n, 3);
    assert_int_equal(qn_json_int(&ids->items[0], 0), 'A' + 3);
    assert_int_equal(qn_json_int(&ids->items[1], 0), ' ' + 3);
    assert_int_equal(output->n, 12);
    assert_true(qn_json_is(qn_json_get(j, "text"), QN_JSON_STR));
    assert_true(qn_json_eq(qn_json_get(j, "finish_reason"), "length"));
    assert_int_equal(qn_json_int(qn_json_path(j, "timings.output_tokens"), 0), 12);

    j = json(quern("run $M hi --chat -n 2 --system sys --json --logprobs 3").out);
    const char *prompt = "[system]sys[user]hi[assistant]";
    assert_int_equal(qn_json_get(j, "ids")->n, strlen(prompt));
    assert_int_equal(qn_json_get(j, "logprobs")->n, 2);
    assert_int_equal(qn_json_get(qn_json_at(qn_json_get(j, "logprobs"), 0), "top")->n, 3);
    /* a template makes chat the default */
    assert_int_equal(qn_json_get(json(quern("run $M hi -n 1 --json").out), "ids")->n,
                     strlen("[user]hi[assistant]"));
}

static void run_is_reproducible(void **state)
{
    (void)state;
    const char *args = "run $M hello --raw -n 60 --temp 1.2 --seed %d --threads %d";
    outcome a = quern(qn_arena_printf(&arena, args, 7, 1));
    outcome b = quern(qn_arena_printf(&arena, args, 7, 2));
    outcome c = quern(qn_arena_printf(&arena, args, 8, 1));
    assert_int_equal(a.status, 0);
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    /* the streamed text is the whole text, and a line */
    const qn_json *j = json(quern(qn_arena_printf(&arena, "run $M hello --raw -n 60 --temp 1.2 "
                                                          "--seed 7 --json"))
                                .out);
    assert_string_equal(a.out,
                        qn_arena_printf(&arena, "%s\n", qn_json_str(qn_json_get(j, "text"), "")));
}

static void run_stops(void **state)
{
    (void)state;
    const char *args = "run $M hello --raw -n 200 --temp 1.2 --seed 7 --json%s%s%s";
    const char *whole = qn_json_str(
        qn_json_get(json(quern(qn_arena_printf(&arena, args, "", "", "")).out), "text"), "");
    /* two plain letters that stand side by side somewhere in it */
    const char *at = whole;
    while (*at &&
           !(strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", at[0]) &&
             at[1] &&
             strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", at[1])))
        at++;
    assert_true(*at != 0);
    char stop[3] = { at[0], at[1], 0 };
    const qn_json *j = json(quern(qn_arena_printf(&arena, args, " --stop '", stop, "'")).out);
    const char *text = qn_json_str(qn_json_get(j, "text"), "");
    assert_true(qn_json_eq(qn_json_get(j, "finish_reason"), "stop"));
    assert_int_equal(strlen(text), strstr(whole, stop) - whole);
    assert_memory_equal(text, whole, strlen(text));
}

static void run_from_pipe(void **state)
{
    (void)state;
    const char *direct = quern("run $M hello --raw -n 8 --temp 0").out;
    assert_string_equal(quern("run $M - --raw -n 8 --temp 0 < /dev/null").out, "");
    char *path = qn_arena_printf(&arena, "%s/prompt", home_dir);
    assert_int_equal(qn_write_file(path, "hello", 5, NULL), QN_OK);
    assert_string_equal(
        quern(qn_arena_printf(&arena, "run $M - --raw -n 8 --temp 0 <%s", path)).out, direct);
}

static void chat_from_pipe(void **state)
{
    (void)state;
    char *path = qn_arena_printf(&arena, "%s/lines", home_dir);
    const char lines[] = "/tokens 5\nhello\n/help\nsecond \\\nline\n/save ";
    char *all = qn_arena_printf(&arena, "%s%s/saved.json\n/reset\n", lines, home_dir);
    assert_int_equal(qn_write_file(path, all, strlen(all), NULL), QN_OK);
    outcome o = quern(qn_arena_printf(&arena, "chat $M --system sys --seed 1 <%s", path));
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "/reset"));
    assert_null(strchr(o.out, '\033')); /* colours are for terminals */
    const qn_json *saved = json(read_all(qn_arena_printf(&arena, "%s/saved.json", home_dir)));
    assert_int_equal(saved->n, 5);
    assert_true(qn_json_eq(qn_json_get(&saved->items[3], "content"), "second \nline"));
    assert_true(qn_json_eq(qn_json_get(&saved->items[4], "role"), "assistant"));
}

static void eval_json(void **state)
{
    (void)state;
    char *path = qn_arena_printf(&arena, "%s/text", home_dir);
    char text[200];
    for (int i = 0; i < 200; i++)
        text[i] = (char)(' ' + i * 7 % 90);
    assert_int_equal(qn_write_file(path, text, sizeof text, NULL), QN_OK);
    const qn_json *half =
        json(quern(qn_arena_printf(&arena, "eval $M %s --ctx 64 --json", path)).out);
    const qn_json *all =
        json(quern(qn_arena_printf(&arena, "eval $M %s --ctx 64 --all --json", path)).out);
    assert_int_equal(qn_json_int(qn_json_get(half, "tokens"), 0), 3 * 31);
    assert_int_equal(qn_json_int(qn_json_get(all, "tokens"), 0), 3 * 63);
    double nll = qn_json_num(qn_json_get(half, "nll"), 0);
    double perplexity = qn_json_num(qn_json_get(half, "perplexity"), 0);
    assert_float_equal(log(perplexity), nll, 1e-6);
    assert_true(nll > 1 && nll < 20);
}

static void bench_json(void **state)
{
    (void)state;
    outcome o = quern("bench $M --prompt 8 16 --gen 4 --depth 0,32 --batch 2 --repeat 1 --json");
    static const char *const names[] = { "pp8x2",     "pp16x2",     "tg4x2",
                                         "pp8@d32x2", "pp16@d32x2", "tg4@d32x2" };
    const qn_json *j = json(o.out);
    assert_int_equal(j->n, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_true(qn_json_eq(qn_json_get(&j->items[i], "test"), names[i]));
        assert_true(qn_json_num(qn_json_get(&j->items[i], "tokens_per_s"), 0) > 0);
        assert_true(qn_json_num(qn_json_get(&j->items[i], "bytes_per_token"), 0) > 0);
        assert_true(qn_json_is_number(qn_json_get(&j->items[i], "limit_share")));
    }
}

static void store(void **state)
{
    (void)state;
    qn_error err = { 0 };
    assert_string_equal(quern("list --json").out, "[]\n");
    char *copy = qn_arena_printf(&arena, "cp -r %s %s/copy", model_dir, home_dir);
    assert_int_equal(system(copy), 0);
    char *from = qn_arena_printf(&arena, "%s/copy", home_dir);
    assert_int_equal(qn_store_add("../out", from, &err), QN_ERR_ARGUMENT);
    assert_int_equal(qn_store_add("org/tiny", from, &err), QN_OK);
    const qn_json *list = json(quern("list --json").out);
    assert_int_equal(list->n, 1);
    assert_true(qn_json_eq(qn_json_get(&list->items[0], "name"), "org/tiny"));
    assert_true(qn_json_int(qn_json_get(&list->items[0], "bytes"), 0) > 1000);
    assert_int_equal(quern("run org/tiny hi -n 1").status, 0);
    assert_int_equal(quern("rm org/tiny").status, 0);
    assert_fails("run org/tiny hi", 1, "org/tiny");
    assert_string_equal(quern("list --json").out, "[]\n");
}

/* ---- Ctrl-C ---- */

/* Starts an answer that would take for ever, and returns its pid and the end of its standard output. */
static pid_t start_endless(int *fd)
{
    int pipe_fd[2];
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipe_fd[1], 1);
        close(pipe_fd[0]);
        execl(QUERN_BINARY "/quern", "quern", "run", model_dir, "hello", "--raw", "--temp", "1.5",
              "--seed", "3", "--context", "1000000", NULL);
        _exit(127);
    }
    close(pipe_fd[1]);
    *fd = pipe_fd[0];
    return pid;
}

static void interrupt_ends_the_answer(void **state)
{
    (void)state;
    int fd, status = 0;
    char byte, rest[4096];
    pid_t pid = start_endless(&fd);
    assert_int_equal(read(fd, &byte, 1), 1); /* it speaks */
    assert_int_equal(kill(pid, SIGINT), 0);
    while (read(fd, rest, sizeof rest) > 0)
        ;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    close(fd);
}

/* The same vectors from arguments and from lines, as JSON and as text. */
static void embed_texts(void **state)
{
    (void)state;
    outcome o = quern("embed $M hello 'good day' --json");
    assert_int_equal(o.status, 0);
    const qn_json *list = qn_json_get(json(o.out), "embeddings");
    int64_t dims = qn_json_int(qn_json_get(json(o.out), "dims"), 0);
    assert_int_equal(list->n, 2);
    assert_int_equal(list->items[0].n, dims);
    outcome lines = quern("embed $M - --json < /dev/null");
    assert_int_equal(qn_json_get(json(lines.out), "embeddings")->n, 0);
    assert_int_equal(system("printf 'hello\n\ngood day' > $QUERN_HOME/lines"), 0);
    lines = quern("embed $M --json < $QUERN_HOME/lines");
    assert_string_equal(lines.out, o.out);
    o = quern("embed $M hello --dims 2");
    assert_int_equal(o.status, 0);
    double x, y;
    assert_int_equal(sscanf(o.out, "%lf %lf\n", &x, &y), 2);
    assert_float_equal(x * x + y * y, 1, 1e-5);
    assert_string_equal(quern("embed $M --prompts").out, "{}\n");
    assert_fails("embed $M hello --prompt query", 1, "no prompt \"query\"");
    assert_fails("embed $M hello --dims 9999", 1, "dimensions");
    assert_fails("rerank $M question", 2, "missing");
    assert_fails("rerank $M question answer", 1, "taught to judge");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_everywhere),
        cmocka_unit_test(usage_errors),
        cmocka_unit_test(failures),
        cmocka_unit_test(run_json),
        cmocka_unit_test(run_is_reproducible),
        cmocka_unit_test(run_stops),
        cmocka_unit_test(run_from_pipe),
        cmocka_unit_test(chat_from_pipe),
        cmocka_unit_test(eval_json),
        cmocka_unit_test(bench_json),
        cmocka_unit_test(embed_texts),
        cmocka_unit_test(store),
        cmocka_unit_test(interrupt_ends_the_answer),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
