/* test_engine_reply.c - the output pipeline fed byte by byte, whole, and cut at every place: always one result,
 * and nothing of a tag or a stop text is ever shown. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/reply.h"

typedef struct expectation {
    const char *in;
    bool split, opened;
    const char *stop[3];
    const char *text, *reasoning;
    bool stopped;
} expectation;

static const expectation cases[] = {
    { .in = "plain", .text = "plain", .reasoning = "" },
    { .in = "", .text = "", .reasoning = "" },
    { .in = "one STOP two", .stop = { "STOP" }, .text = "one ", .reasoning = "", .stopped = true },
    { .in = "STOP", .stop = { "STOP" }, .text = "", .reasoning = "", .stopped = true },
    { .in = "one STO", .stop = { "STOP" }, .text = "one STO", .reasoning = "" },
    { .in = "SSTSTOSTOP!", .stop = { "STOP" }, .text = "SSTSTO", .reasoning = "", .stopped = true },
    { .in = "aab", .stop = { "ab", "aab" }, .text = "", .reasoning = "", .stopped = true },
    { .in = "abcx", .stop = { "abcd", "bc" }, .text = "a", .reasoning = "", .stopped = true },
    { .in = "ab\n\ncd", .stop = { "\n\n" }, .text = "ab", .reasoning = "", .stopped = true },
    { .in = "caf\xc3\xa9 \xe2\x82\xac 5",
      .stop = { "\xe2\x82\xac" },
      .text = "caf\xc3\xa9 ",
      .reasoning = "",
      .stopped = true },
    { .in = "<think>\nhm, yes\n</think>\n\nHello.",
      .split = true,
      .text = "Hello.",
      .reasoning = "hm, yes" },
    { .in = "hm</think>Hello", .split = true, .opened = true, .text = "Hello", .reasoning = "hm" },
    { .in = " \n<think>a b</think> c", .split = true, .text = "c", .reasoning = "a b" },
    { .in = "<think></think>x", .split = true, .text = "x", .reasoning = "" },
    { .in = "<think>cut of", .split = true, .text = "", .reasoning = "cut of" },
    { .in = "<think>a </thin", .split = true, .text = "", .reasoning = "a </thin" },
    { .in = "<think>a < b </ c</think>d", .split = true, .text = "d", .reasoning = "a < b </ c" },
    { .in = "<thin air", .split = true, .text = "<thin air", .reasoning = "" },
    { .in = " indented", .split = true, .text = " indented", .reasoning = "" },
    { .in = "<thi", .split = true, .text = "<thi", .reasoning = "" },
    { .in = "no <think>tag</think>",
      .split = true,
      .text = "no <think>tag</think>",
      .reasoning = "" },
    { .in = "<think>kept</think>", .text = "<think>kept</think>", .reasoning = "" },
    { .in = "<think>STOP is free here</think>go STOP",
      .split = true,
      .stop = { "STOP" },
      .text = "go ",
      .reasoning = "STOP is free here",
      .stopped = true },
    { .in = "<think>x</think><think>y</think>",
      .split = true,
      .text = "<think>y</think>",
      .reasoning = "x" },
};

/* Nothing shown may turn out to be part of a stop text: what is out is always a prefix of the end result. */
static void check_shown(const qn_reply *o, const expectation *e)
{
    assert_true(o->text.len <= strlen(e->text));
    assert_memory_equal(qn_buf_cstr(&o->text), e->text, o->text.len);
    assert_true(o->reasoning.len <= strlen(e->reasoning));
    assert_memory_equal(qn_buf_cstr(&o->reasoning), e->reasoning, o->reasoning.len);
}

/* Feeds the input in pieces whose borders are the set bits of `cuts`. */
static void run(const expectation *e, uint64_t cuts)
{
    int n_stop = 0;
    while (n_stop < 3 && e->stop[n_stop])
        n_stop++;
    qn_reply o;
    qn_reply_init(&o, e->stop, n_stop, e->split, e->opened);
    size_t n = strlen(e->in), start = 0;
    for (size_t i = 1; i <= n; i++) {
        if (i < n && !(cuts >> (i % 64) & 1))
            continue;
        qn_reply_add(&o, e->in + start, i - start);
        check_shown(&o, e);
        start = i;
    }
    qn_reply_end(&o);
    assert_string_equal(qn_buf_cstr(&o.text), e->text);
    assert_string_equal(qn_buf_cstr(&o.reasoning), e->reasoning);
    assert_int_equal(o.stopped, e->stopped);
    qn_reply_free(&o);
}

static void every_cut(void **state)
{
    (void)state;
    uint64_t rng = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(&cases[i], 0);
        run(&cases[i], UINT64_MAX);
        for (size_t at = 1; at < 64; at++)
            run(&cases[i], (uint64_t)1 << at);
        for (int k = 0; k < 200; k++)
            run(&cases[i], rng = rng * 6364136223846793005u + 1442695040888963407u);
    }
}

/* Text that can no longer be part of anything must not wait: a reader sees it at once. */
static void nothing_waits_needlessly(void **state)
{
    (void)state;
    const char *stop[] = { "END" };
    qn_reply o;
    qn_reply_init(&o, stop, 1, true, false);
    qn_reply_add(&o, "<think>", 7);
    qn_reply_add(&o, "so", 2);
    assert_string_equal(qn_buf_cstr(&o.reasoning), "so");
    qn_reply_add(&o, "</think>", 8);
    qn_reply_add(&o, "yes E", 5);
    assert_string_equal(qn_buf_cstr(&o.text), "yes ");
    qn_reply_add(&o, "x", 1);
    assert_string_equal(qn_buf_cstr(&o.text), "yes Ex");
    qn_reply_free(&o);
}

static void open_thoughts(void **state)
{
    (void)state;
    const char yes[] = "<|im_start|>assistant\n<think>\n", no[] = "<think>x</think>\n";
    assert_true(qn_prompt_opens_thought(yes, sizeof yes - 1));
    assert_false(qn_prompt_opens_thought(no, sizeof no - 1));
    assert_false(qn_prompt_opens_thought("", 0));
    assert_false(qn_prompt_opens_thought("<think> a", 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut),
        cmocka_unit_test(nothing_waits_needlessly),
        cmocka_unit_test(open_thoughts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
