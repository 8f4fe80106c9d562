/* test_tok_regex.c - the hand-written splitters against PCRE2 on random hard text, and the translation of
 * what the pattern languages write differently. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tokenizer/regex.h"

#define CONTR "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL  "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORD  "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define UP    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOW   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    CONTR "|" WORD "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL,
    CONTR "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL,
    CONTR "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL,
    "[^\\r\\n\\p{L}\\p{N}]?" UP "*" LOW "+" CONTR "?|[^\\r\\n\\p{L}\\p{N}]?" UP "+" LOW "*" CONTR
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL,
    "[^\\r\\n\\p{L}\\p{N}]?" UP "*" LOW "+|[^\\r\\n\\p{L}\\p{N}]?" UP "+" LOW
    "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL,
    "[!\"#$%&'()*+,\\-./"
    ":;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\\r\\n]*" TAIL,
};

/* Pieces that make the alternatives meet each other. All are older than both Unicode tables. */
static const char *const atoms[] = {
    " ",
    "  ",
    "\n",
    "\r",
    "\t",
    "a",
    "B",
    "Zz",
    "aB",
    "'",
    "'s",
    "'LL",
    "'\xc5\xbf",
    "1",
    "23",
    "4567",
    ".",
    "/",
    "--",
    "\xc3\xa9",
    "e\xcc\x81",
    "\xcc\x81",
    "\xc7\x85",
    "\xca\xb0",
    "\xe4\xbd\xa0",
    "\xc2\xa0",
    "\xe3\x80\x80",
    "\xe2\x80\xa8",
    "\xf0\x9f\x98\x80",
    "\xd9\xa1",
    "\xc2\xbd",
    "\xe2\x85\xa7",
    "\x01",
    "\xc2\x85",
    "\xe2\x80\x8d",
    "\xe1\xa0\x8e",
    "\xe0\xa4\xb9\xe0\xa4\xbf",
    "_",
    "$",
    "\xe2\x82\xac",
};

static uint32_t rnd(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void test_splitters_equal_pcre(void **state)
{
    (void)state;
    qn_rx_scratch x = { 0 };
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        qn_regex *fast = qn_regex_open(patterns[i], strlen(patterns[i]), QN_RX_RUBY, NULL);
        qn_regex *slow = qn_regex_open(patterns[i], strlen(patterns[i]), QN_RX_RUBY, NULL);
        assert_true(fast && slow && qn_regex_is_fast(fast));
        qn_regex_force_pcre(slow);
        for (int round = 0; round < 3000; round++) {
            qn_buf s = { 0 };
            for (uint32_t k = rnd(&seed) % 12; k > 0; k--)
                qn_buf_str(&s, atoms[rnd(&seed) % (sizeof atoms / sizeof *atoms)]);
            qn_rx_search a = { .text = qn_buf_cstr(&s), .n = s.len }, b = a;
            int found;
            do {
                found = qn_regex_next(fast, &x, &a);
                if (qn_regex_next(slow, &x, &b) != found || (found && (a.s != b.s || a.e != b.e)))
                    fail_msg("pattern %zu parts at %zu-%zu, %zu-%zu in \"%s\"", i, a.s, a.e, b.s,
                             b.e, a.text);
                a.from = a.e;
                b.from = b.e;
            } while (found);
            qn_buf_free(&s);
        }
        qn_regex_close(fast);
        qn_regex_close(slow);
    }
    qn_rx_scratch_free(&x);
}

/* All matches of a pattern as "[...]" in the text. */
static void expect(qn_rx_dialect dialect, const char *pattern, const char *text, const char *want)
{
    qn_rx_scratch x = { 0 };
    qn_error err = { 0 };
    qn_regex *r = qn_regex_open(pattern, strlen(pattern), dialect, &err);
    if (!r)
        fail_msg("%s", err.msg);
    qn_rx_search q = { .text = text, .n = strlen(text) };
    qn_buf got = { 0 };
    while (q.from < q.n && qn_regex_next(r, &x, &q) > 0) {
        qn_buf_printf(&got, "[%.*s]", (int)(q.e - q.s), text + q.s);
        q.from = q.e > q.s ? q.e : q.e + 1;
    }
    assert_string_equal(qn_buf_cstr(&got), want);
    qn_buf_free(&got);
    qn_regex_close(r);
    qn_rx_scratch_free(&x);
}

static void test_translation(void **state)
{
    (void)state;
    expect(QN_RX_RUBY, "[\\p{L}&&[^a-m]]+", "abnopxyz", "[nopxyz]");
    expect(QN_RX_RUBY, "[^\\p{L}&&[a-m]]", "an1",
           "[n][1]"); /* the negation spans the intersection */
    expect(QN_RX_RUBY, "[a[0-9]_]+", "a1_b", "[a1_]");
    expect(QN_RX_RUBY, "\\h+", "xfaceg", "[face]");
    expect(QN_RX_RUBY, "\\s",
           "a\xe1\xa0\x8e\xc2\x85"
           "b",
           "[\xc2\x85]");                                   /* U+180E is no space */
    expect(QN_RX_RUBY, "x{1,2}+", "xxxxx", "[xxxxx]");      /* repeats */
    expect(QN_RX_PLAIN, "x{1,2}+", "xxxxx", "[xx][xx][x]"); /* possessive */
    expect(QN_RX_RUBY, "(?:ab){2}+", "ababababab", "[abababab]");
    expect(QN_RX_RUBY, "[\\W]", "a-\xcc\x81", "[-]"); /* marks are word characters */
    expect(QN_RX_RUBY, "^b", "a\nb", "[b]");
    expect(QN_RX_PLAIN, "b$", "b\nb", "[b]");
    expect(QN_RX_RUBY, "(?m:a.b)", "a\nb", "[a\nb]");
    expect(QN_RX_RUBY, "\\p{Letter}\\p{^L}", "a1b", "[a1]");
    expect(QN_RX_RUBY, "\\p{Han}", "\xe3\x80\x81\xe4\xbd\xa0",
           "[\xe4\xbd\xa0]"); /* not the comma used with it */
}

static void test_refused_patterns(void **state)
{
    (void)state;
    static const char *const bad[] = { "(",     "[a",        "[[:alpha:", "a\\",
                                       "\\p{L", "\\p{Nope}", "*a",        "[a&&" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_error err = { 0 };
        assert_null(qn_regex_open(bad[i], strlen(bad[i]), QN_RX_RUBY, &err));
        assert_true(err.code < 0 && strstr(err.msg, "pattern"));
    }
    qn_buf deep = { 0 };
    for (int i = 0; i < 1000; i++)
        qn_buf_str(&deep, "[");
    assert_null(qn_regex_open(deep.data, deep.len, QN_RX_RUBY, NULL));
    qn_buf_free(&deep);
}

/* A pattern that explodes is stopped and says so. */
static void test_match_limit(void **state)
{
    (void)state;
    qn_rx_scratch x = { 0 };
    qn_regex *r = qn_regex_open("(a*)*(a*)*(a*)*$b", 17, QN_RX_RUBY, NULL);
    assert_non_null(r);
    qn_rx_search q = { .text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", .n = 53 };
    assert_true(qn_regex_next(r, &x, &q) <= 0);
    qn_regex_close(r);
    qn_rx_scratch_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splitters_equal_pcre),
        cmocka_unit_test(test_translation),
        cmocka_unit_test(test_refused_patterns),
        cmocka_unit_test(test_match_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
