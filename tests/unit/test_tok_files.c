/* test_tok_files.c - tokenizers that are more than a tokenizer.json: a sentencepiece model with side files
 * that add tokens and say what begins a text, and the views of GGUF files that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>

#include "formats_scratch.h"
#include "tokenizer/tokenizer.h"

/* A piece as the file holds it: field 1 of the model, in it text, score and type. */
static void put_piece(qn_buf *b, const char *text, float score, int type)
{
    size_t n = strlen(text);
    qn_buf_char(b, 0x0a);
    qn_buf_char(b, (char)(n + 9));
    qn_buf_char(b, 0x0a);
    qn_buf_char(b, (char)n);
    qn_buf_add(b, text, n);
    qn_buf_char(b, 0x15);
    qn_buf_add(b, &score, sizeof score);
    qn_buf_char(b, 0x18);
    qn_buf_char(b, (char)type);
}

/* <unk> <s> </s>, then "a", "b" and both after a space. */
static void write_model(const char *dir)
{
    qn_buf b = { 0 };
    put_piece(&b, "<unk>", 0, 2);
    put_piece(&b, "<s>", 0, 3);
    put_piece(&b, "</s>", 0, 3);
    put_piece(&b, "a", -1, 1);
    put_piece(&b, "b", -2, 1);
    put_piece(&b, "\342\226\201a", -1.5F, 1);
    put_piece(&b, "\342\226\201b", -1.5F, 1);
    scratch_write(dir, "tokenizer.model", b.data, b.len);
    qn_buf_free(&b);
}

static void write_text(const char *dir, const char *name, const char *text)
{
    scratch_write(dir, name, text, strlen(text));
}

typedef struct side_case {
    const char *config, *added; /* tokenizer_config.json, added_tokens.json; NULL: not there */
    const char *text;
    unsigned flags;
    const char *ids; /* or a part of the error */
} side_case;

/* clang-format off */
static const side_case sides[] = {
    { NULL, NULL, "a b", QN_ENCODE_SPECIAL, "5 6" },
    { "{\"add_bos_token\":true,\"bos_token\":\"<s>\"}", NULL, "a", QN_ENCODE_SPECIAL, "1 5" },
    { "{\"add_bos_token\":true,\"bos_token\":\"<s>\"}", NULL, "a", 0, "5" },
    { "{\"add_eos_token\":true,\"eos_token\":{\"content\":\"</s>\"}}", NULL, "a", QN_ENCODE_SPECIAL, "5 2" },
    { "{\"added_tokens_decoder\":{\"7\":{\"content\":\"<x>\"}}}", NULL, "a<x>b", 0, "5 7 6" },
    { "{\"added_tokens_decoder\":{\"7\":{\"content\":\"<x>\",\"special\":true}}}", NULL, "a<x>", QN_ENCODE_PARSE, "5 7" },
    { "{\"added_tokens_decoder\":{\"9\":{\"content\":\"<x>\",\"rstrip\":true}}}", NULL, "a<x>  b", 0, "5 9 6" },
    { "{\"added_tokens_decoder\":{\"8\":{\"content\":\"<x>\",\"lstrip\":true}}}", NULL, "a  <x>b", 0, "5 8 6" },
    { NULL, "{\"<y>\":7}", "<y>a", 0, "7 5" },
    { "{\"added_tokens_decoder\":{}}", "{\"<y>\":7}", "a<s>", QN_ENCODE_PARSE, "5 1" },
    { "{\"added_tokens_decoder\":{\"x\":{\"content\":\"<x>\"}}}", NULL, "a", 0, "added_tokens_decoder" },
    { "{\"added_tokens_decoder\":{\"7\":{}}}", NULL, "a", 0, "added_tokens_decoder" },
    { "{\"added_tokens_decoder\":{\"99999999999\":{\"content\":\"<x>\"}}}", NULL, "a", 0, "<x>" },
    { "{\"added_tokens_decoder\":{\"2000000000\":{\"content\":\"<x>\"}}}", NULL, "a", 0, "out of range" },
    { NULL, "{\"<y>\":\"7\"}", "a", 0, "<y>" },
    { "{", NULL, "a", 0, "tokenizer_config.json" },
};
/* clang-format on */

static void test_side_files(void **state)
{
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        const side_case *c = &sides[i];
        qn_arena a = { 0 };
        const char *dir = qn_arena_printf(&a, "%s/%zu", (const char *)*state, i);
        write_model(dir);
        if (c->config)
            write_text(dir, "tokenizer_config.json", c->config);
        if (c->added)
            write_text(dir, "added_tokens.json", c->added);
        qn_error err = { 0 };
        qn_tokenizer *t;
        qn_ids ids = { 0 };
        qn_buf got = { 0 };
        if (qn_tokenizer_open(&t, dir, &err) == QN_OK) {
            qn_tokenizer_encode(t, c->text, strlen(c->text), c->flags, &ids, &err);
            for (size_t k = 0; k < ids.n; k++)
                qn_buf_printf(&got, k ? " %d" : "%d", ids.v[k]);
            if (strcmp(qn_buf_cstr(&got), c->ids) != 0)
                fail_msg("case %zu: %s, not %s", i, qn_buf_cstr(&got), c->ids);
        } else if (!strstr(err.msg, c->ids)) {
            fail_msg("case %zu: %s", i, err.msg);
        }
        qn_tokenizer_close(t);
        qn_ids_free(&ids);
        qn_buf_free(&got);
        qn_arena_free(&a);
    }
}

#define ABSENT                                                                                     \
    .bos = -1, .eos = -1, .eot = -1, .unk = -1, .sep = -1, .pad = -1, .mask = -1, .add_bos = -1,   \
    .add_eos = -1, .add_sep = -1, .add_space_prefix = -1, .remove_extra_whitespaces = -1,          \
    .lowercase = -1, .strip_accents = -1

typedef struct refusal {
    qn_tok_gguf view;
    const char *names; /* what the error must name */
} refusal;

static void test_gguf_refusals(void **state)
{
    (void)state;
    const qn_tok_str ab[] = { { "a", 1 }, { "b", 1 }, { "ab", 2 } }, empty[] = { { "a", 1 } };
    const qn_tok_str no_pair[] = { { "ab", 2 } }, pair[] = { { "a b", 3 } };
    const float bad[] = { 0, NAN, 0 }, fine[] = { 0, -1, -2 };
    const refusal cases[] = {
        { { .model = NULL, .token = ab, .n_tokens = 3, ABSENT }, "tokenizer.ggml.model" },
        { { .model = "gpt2", .token = NULL, ABSENT }, "tokenizer.ggml.tokens" },
        { { .model = "gpt2", .token = empty, .n_tokens = 0, ABSENT }, "tokenizer.ggml.tokens" },
        { { .model = "rwkv", .token = ab, .n_tokens = 3, ABSENT }, "rwkv" },
        { { .model = "llama", .token = ab, .n_tokens = 3, ABSENT }, "scores" },
        { { .model = "llama", .token = ab, .n_tokens = 3, .score = bad, ABSENT }, "scores[1]" },
        { { .model = "t5", .token = ab, .n_tokens = 3, ABSENT }, "scores" },
        { { .model = "t5",
            .token = ab,
            .n_tokens = 3,
            .score = fine,
            .charsmap = "x",
            .charsmap_bytes = 1,
            ABSENT },
          "precompiled_charsmap" },
        { { .model = "gpt2", .pre = "gpt-2", .token = ab, .n_tokens = 3, ABSENT }, "merges" },
        { { .model = "gpt2",
            .pre = "gpt-2",
            .token = ab,
            .n_tokens = 3,
            .merge = no_pair,
            .n_merges = 1,
            ABSENT },
          "merges[0]" },
        { { .model = "gpt2",
            .pre = "no-such",
            .token = ab,
            .n_tokens = 3,
            .merge = pair,
            .n_merges = 1,
            ABSENT },
          "no-such" },
        { { .model = "gpt2",
            .pre = "gpt-2 mpt",
            .token = ab,
            .n_tokens = 3,
            .merge = pair,
            .n_merges = 1,
            ABSENT },
          "gpt-2 mpt" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_error err = { 0 };
        qn_tokenizer *t = (qn_tokenizer *)1;
        assert_true(qn_tokenizer_open_gguf(&t, &cases[i].view, &err) < 0);
        assert_null(t);
        if (!strstr(err.msg, cases[i].names))
            fail_msg("case %zu: %s", i, err.msg);
    }
    /* The same view with nothing wrong is accepted, so each case fails for its own reason. */
    qn_tok_gguf good = { .model = "gpt2",
                         .pre = "gpt-2",
                         .token = ab,
                         .n_tokens = 3,
                         .merge = pair,
                         .n_merges = 1,
                         ABSENT };
    qn_error err = { 0 };
    qn_tokenizer *t;
    qn_ids ids = { 0 };
    assert_int_equal(qn_tokenizer_open_gguf(&t, &good, &err), QN_OK);
    assert_int_equal(qn_tokenizer_encode(t, "abab", 4, 0, &ids, &err), QN_OK);
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.v[1], 2);
    qn_ids_free(&ids);
    qn_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_files),
        cmocka_unit_test(test_gguf_refusals),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
