/* test_tok_models.c - tokenizers built from a few lines of JSON: each model, added tokens, the limits, and
 * what is refused. Expected ids are worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tokenizer/tokenizer.h"

static qn_tokenizer *open_json(const char *json)
{
    qn_error err = { 0 };
    qn_tokenizer *t;
    if (qn_tokenizer_open_json(&t, json, strlen(json), &err) != QN_OK)
        fail_msg("%s", err.msg);
    return t;
}

/* Encodes and compares with "1 2 3". */
static void expect(const qn_tokenizer *t, const char *text, unsigned flags, const char *want)
{
    qn_ids ids = { 0 };
    qn_buf got = { 0 };
    qn_error err = { 0 };
    assert_int_equal(qn_tokenizer_encode(t, text, strlen(text), flags, &ids, &err), QN_OK);
    for (size_t i = 0; i < ids.n; i++)
        qn_buf_printf(&got, i ? " %d" : "%d", ids.v[i]);
    assert_string_equal(qn_buf_cstr(&got), want);
    qn_ids_free(&ids);
    qn_buf_free(&got);
}

static void expect_text(const qn_tokenizer *t, const int32_t *ids, size_t n, bool skip,
                        const char *want)
{
    qn_buf got = { 0 };
    qn_tokenizer_decode(t, ids, n, skip, &got);
    assert_string_equal(qn_buf_cstr(&got), want);
    qn_buf_free(&got);
}

#define MODEL(rest)                                                                                \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"ab\":4,\"abc\":" \
    "5,"                                                                                           \
    "\"<0x7A>\":6},\"merges\":[\"a b\",[\"ab\",\"c\"]]" rest
#define BPE(rest) "{" MODEL(rest)

static void test_bpe(void **state)
{
    (void)state;
    qn_tokenizer *t = open_json(BPE("}}"));
    expect(t, "abcab", 0, "5 4");
    expect(t, "xax", 0, "1"); /* without an unknown token, unknown characters are dropped */
    qn_tokenizer_close(t);
    t = open_json(BPE(",\"unk_token\":\"<unk>\"}}"));
    expect(t, "xxa", 0, "0 0 1");
    qn_tokenizer_close(t);
    t = open_json(BPE(",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true}}"));
    expect(t, "xxa", 0, "0 1");
    expect(t, "xza", 0, "6 0 1"); /* byte pieces overtake a pending unknown */
    qn_tokenizer_close(t);
}

static void test_unigram_takes_the_best_path(void **state)
{
    (void)state;
    qn_tokenizer *t = open_json(
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-1],"
        "[\"b\",-1],[\"ab\",-1.5],[\"ba\",-3]]}}");
    expect(t, "aba", 0, "3 1");
    expect(t, "xya", 0, "0 1"); /* a run of unknown characters is one */
    qn_tokenizer_close(t);
}

static void test_wordpiece(void **state)
{
    (void)state;
    qn_tokenizer *t = open_json(
        "{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
        "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
        "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"max_input_chars_per_word\":5,"
        "\"vocab\":{\"[UNK]\":0,\"un\":1,\"##do\":2,\"do\":3,\"!\":4}}}");
    expect(t, "undo do! dox undodo", 0, "1 2 3 4 0 0");
    expect_text(t, (const int32_t[]){ 1, 2, 3, 4 }, 4, false, "undo do!");
    qn_tokenizer_close(t);
}

static void test_added_tokens(void **state)
{
    (void)state;
    qn_tokenizer *t = open_json(
        "{\"added_tokens\":[{\"id\":7,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
        "{\"id\":8,\"content\":\"word\",\"single_word\":true,\"normalized\":false},"
        "{\"id\":9,\"content\":\"<m>\",\"lstrip\":true,\"rstrip\":true,\"normalized\":false}],"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
        "\"<s>\"}},"
        "{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[7]}}}," MODEL("}}"));
    expect(t, "a<s>b", QN_ENCODE_PARSE, "1 7 2");
    expect(t, "a<s>b", 0, "4"); /* not parsed: its characters are unknown and dropped */
    expect(t, "a", QN_ENCODE_SPECIAL, "7 1");
    expect(t, "a word b awordb", 0, "1 8 2 4");
    expect(t, "a  <m>  b", 0, "1 9 2");
    assert_int_equal(qn_tokenizer_kind(t, 7), QN_TOKEN_CONTROL);
    assert_int_equal(qn_tokenizer_kind(t, 8), QN_TOKEN_USER);
    expect_text(t, (const int32_t[]){ 7, 1, 99, -1 }, 4, true,
                "a"); /* ids that do not exist are nothing */
    qn_tokenizer_close(t);
}

/* Frames a and b (NULL = none) and compares ids and segments: "1 2/0 1". */
static void expect_frame(const qn_tokenizer *t, const char *a, const char *b, const char *want)
{
    qn_ids first = { 0 }, second = { 0 }, ids = { 0 }, segment = { 0 };
    qn_buf got = { 0 };
    qn_error err = { 0 };
    assert_int_equal(qn_tokenizer_encode(t, a, strlen(a), 0, &first, &err), QN_OK);
    if (b)
        assert_int_equal(qn_tokenizer_encode(t, b, strlen(b), 0, &second, &err), QN_OK);
    int rc = qn_tokenizer_frame(t, &first, b ? &second : NULL, &ids, &segment, &err);
    for (size_t i = 0; i < ids.n; i++)
        qn_buf_printf(&got, i ? " %d" : "%d", ids.v[i]);
    for (size_t i = 0; i < segment.n; i++)
        qn_buf_printf(&got, i ? " %d" : "/%d", segment.v[i]);
    assert_string_equal(rc == QN_OK ? qn_buf_cstr(&got) : err.msg, want);
    qn_ids_free(&first);
    qn_ids_free(&second);
    qn_ids_free(&ids);
    qn_ids_free(&segment);
    qn_buf_free(&got);
}

static void test_frames_of_one_text_and_two(void **state)
{
    (void)state;
    static const char bert[] = "{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"x\",8],"
                               "\"sep\":[\"y\",9]}," MODEL("}}");
    qn_tokenizer *t = open_json(bert);
    expect_frame(t, "a", NULL, "8 1 9/0 0 0");
    expect_frame(t, "a", "bc", "8 1 9 2 3 9/0 0 0 1 1 1");
    expect_frame(t, "", "", "8 9 9/0 0 1");
    qn_tokenizer_close(t);
    t = open_json("{\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"x\",8],"
                  "\"sep\":[\"y\",9]}," MODEL("}}"));
    expect_frame(t, "a", "b", "8 1 9 9 2 9/0 0 0 0 0 0");
    qn_tokenizer_close(t);
    t = open_json("{\"post_processor\":{\"type\":\"TemplateProcessing\","
                  "\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
                  "\"pair\":[{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},"
                  "{\"SpecialToken\":{\"id\":\"s\",\"type_id\":2}},"
                  "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
                  "\"special_tokens\":{\"s\":{\"ids\":[7,8]}}}," MODEL("}}"));
    expect_frame(t, "a", NULL, "1/0");
    expect_frame(t, "a", "b", "2 7 8 1/1 2 2 0");
    qn_tokenizer_close(t);
    t = open_json(BPE("}}"));
    expect_frame(t, "ab", NULL, "4/0");
    expect_frame(t, "a", "b", "tokenizer: it has no form for a pair of texts");
    qn_tokenizer_close(t);
}

/* Two characters of two bytes each, whose bytes are tokens. */
static void test_stream_holds_a_cut_character(void **state)
{
    (void)state;
    qn_tokenizer *t = open_json(
        "{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\","
        "\"add_prefix_space\":false},\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xc3\x83\":0,"
        "\"\xc2\xa9\":1,\"a\":2},\"merges\":[]}}");
    expect(t, "a\xc3\xa9", 0, "2 0 1");
    qn_detok *d = qn_detok_open(t, false);
    qn_buf out = { 0 };
    qn_detok_push(d, 0, &out);
    assert_int_equal(out.len, 0);
    qn_detok_push(d, 1, &out);
    assert_string_equal(qn_buf_cstr(&out), "\xc3\xa9");
    qn_detok_push(d, 0, &out);
    qn_detok_flush(d, &out);
    assert_string_equal(qn_buf_cstr(&out), "\xc3\xa9\xef\xbf\xbd");
    qn_detok_close(d);
    qn_buf_free(&out);
    qn_tokenizer_close(t);
}

/* One word of a megabyte must cost n log n, not n squared: seconds would mean the latter. */
static void test_long_word(void **state)
{
    (void)state;
    size_t n = 1 << 20;
    char *text = qn_alloc(n + 1);
    for (size_t i = 0; i < n; i++)
        text[i] = "abc"[i % 7 % 3];
    qn_tokenizer *t = open_json(BPE("}}"));
    qn_ids ids = { 0 };
    clock_t start = clock();
    assert_int_equal(qn_tokenizer_encode(t, text, n, 0, &ids, NULL), QN_OK);
    assert_true(clock() - start < 5 * CLOCKS_PER_SEC);
    assert_true(ids.n > n / 4 && ids.n < n);
    qn_ids_free(&ids);
    qn_tokenizer_close(t);
    qn_free(text);
}

static void test_malformed_text_is_replaced(void **state)
{
    (void)state;
    qn_tokenizer *t =
        open_json("{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,"
                  "\"a\xef\xbf\xbd\":1}}}");
    expect(t, "a\xff", 0, "1");
    qn_tokenizer_close(t);
}

static void test_refusals_name_the_field(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "[]", "object" },
        { "{}", "model" },
        { "{\"model\":{\"type\":\"Rwkv\"}}", "Rwkv" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "merges[0]" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}", "vocab" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "vocab[0]" },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":3,\"vocab\":[[\"a\",0]]}}", "unk_id" },
        { "{\"normalizer\":{\"type\":\"Magic\"},\"model\":{}}", "Magic" },
        { "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Foo\"}]}}",
          "Foo" },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
          "\"Removed\"}}",
          "pattern" },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":"
          "\"Odd\"}}",
          "behavior" },
        { "{\"decoder\":{\"type\":\"Bar\"}," MODEL("}}"), "Bar" },
        { "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"BertProcessing\","
          "\"cls\":[\"a\",1],\"sep\":[\"b\",2]},{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],"
          "\"sep\":[\"b\",2]}]}," MODEL("}}"),
          "second processor" },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[[:odd:]]\"},"
          "\"behavior\":\"Removed\"}}",
          "[: :]" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_error err = { 0 };
        qn_tokenizer *t = (qn_tokenizer *)1;
        const char *json = bad[i][0];
        assert_true(qn_tokenizer_open_json(&t, json, strlen(json), &err) < 0);
        assert_null(t);
        if (!strstr(err.msg, bad[i][1]))
            fail_msg("%s: %s", json, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe),
        cmocka_unit_test(test_unigram_takes_the_best_path),
        cmocka_unit_test(test_wordpiece),
        cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_frames_of_one_text_and_two),
        cmocka_unit_test(test_stream_holds_a_cut_character),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_malformed_text_is_replaced),
        cmocka_unit_test(test_refusals_name_the_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
