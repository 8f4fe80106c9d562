/* test_base_json.c - the JSON reader's contract value by value, where errors point, and that what is
 * written reads back. Random documents and hostile bytes are fuzz/fuzz_json.c's. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"

static qn_arena arena;

static int free_arena(void **state)
{
    (void)state;
    qn_arena_free(&arena);
    return 0;
}

/* The text is copied to the end of an allocation of its own, so that a sanitizer sees reads past it. */
static qn_json *parse_n(const char *text, size_t n, qn_error *err)
{
    char *copy = malloc(n ? n : 1);
    if (n)
        memcpy(copy, text, n);
    qn_json *v = qn_json_parse(&arena, copy, n, err);
    free(copy);
    return v;
}

static qn_json *parse(const char *text)
{
    qn_error err = { 0 };
    qn_json *v = parse_n(text, strlen(text), &err);
    if (!v)
        fail_msg("%s: %s", text, err.msg);
    return v;
}

static void refuse_n(const char *text, size_t n, const char *message)
{
    qn_error err = { 0 };
    if (parse_n(text, n, &err))
        fail_msg("accepted: %s", text);
    assert_int_equal(err.code, QN_ERR_FORMAT);
    if (!strstr(err.msg, message))
        fail_msg("%s: '%s' is not '%s'", text, err.msg, message);
}

static void refuse(const char *text, const char *message)
{
    refuse_n(text, strlen(text), message);
}

static void test_literals(void **state)
{
    (void)state;
    assert_true(qn_json_is(parse("null"), QN_JSON_NULL));
    assert_true(qn_json_bool(parse("true"), false));
    assert_false(qn_json_bool(parse(" \t\r\n false \n"), true));
    assert_true(isnan(qn_json_num(parse("NaN"), 0)));
    assert_true(qn_json_num(parse("Infinity"), 0) == INFINITY);
    assert_true(qn_json_num(parse("-Infinity"), 0) == -INFINITY);
    const qn_json *v = parse("[Infinity,-Infinity,NaN,1]");
    assert_true(v->n == 4 && v->items[0].d == INFINITY && v->items[1].d == -INFINITY);
    refuse("nul", "byte 0: ");
    refuse("truex", "byte 4: text after the end");
    refuse("-NaN", "byte 0: ");
    refuse("-Infinit", "byte 0: ");
    refuse("nan", "byte 0: ");
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        { "0", 0 },
        { "-0", 0 },
        { "7", 7 },
        { "-12", -12 },
        { "9007199254740993", 9007199254740993 },
        { "9223372036854775807", INT64_MAX },
        { "-9223372036854775808", INT64_MIN },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const qn_json *v = parse(cases[i].text);
        assert_int_equal(v->type, QN_JSON_INT);
        assert_true(v->i == cases[i].value);
    }
    const qn_json *big = parse("9223372036854775808");
    assert_int_equal(big->type, QN_JSON_REAL);
    assert_true(big->d == 9223372036854775808.0);
    assert_true(parse("-9223372036854775809")->type == QN_JSON_REAL);
    assert_true(parse("123456789012345678901234567890")->d == 123456789012345678901234567890.0);
}

static void test_reals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {
        { "0.5", 0.5 },
        { "-1.25e2", -125 },
        { "1E+3", 1000 },
        { "1e-3", 1e-3 },
        { "1e400", HUGE_VAL },
        { "5e-324", 5e-324 },
        { "0.1", 0.1 },
        { "1e-06", 1e-6 },
        { "2.2250738585072011e-308", 2.2250738585072011e-308 },
        { "0.3000000000000000444089209850062616169452667236328125000000000000000000001",
          0.30000000000000004 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const qn_json *v = parse(cases[i].text);
        assert_int_equal(v->type, QN_JSON_REAL);
        assert_true(v->d == cases[i].value);
    }
    assert_true(signbit(parse("-0.0")->d));
}

static void test_bad_numbers(void **state)
{
    (void)state;
    static const char *const bad[] = { "-",   "+1",  ".5",  "1.",    "01",  "-01",  "00",   "1e",
                                       "1e+", "1.e", "0x1", "1_000", "--1", "1.5.", "1e5e", "-.1" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse(bad[i], "JSON, byte ");
    refuse("[1, 02]", "byte 4: number with a leading zero");
    refuse("[1, 2.]", "byte 4: number without digits after the point");
    refuse("[1, 2e-]", "byte 4: number without digits in the exponent");
}

/* A program that embeds the library may have set a locale whose decimal point is a comma. */
static void test_locale(void **state)
{
    (void)state;
    static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", NULL };
    int i = 0;
    while (names[i] && !setlocale(LC_NUMERIC, names[i]))
        i++;
    qn_buf b = { 0 };
    assert_true(parse("-2.5e-1")->d == -0.25);
    qn_json_put_num(&b, -1234.5);
    qn_json_put_num(&b, 1e300);
    assert_string_equal(b.data, "-1234.51e+300");
    qn_buf_free(&b);
    setlocale(LC_NUMERIC, "C");
    if (!names[i])
        print_message("only the C locale is installed\n");
}

static void want_string(const char *text, const char *value, size_t n)
{
    const qn_json *v = parse(text);
    assert_int_equal(v->type, QN_JSON_STR);
    assert_int_equal(v->n, n);
    assert_memory_equal(v->s, value, n + 1);
}

static void test_escapes(void **state)
{
    (void)state;
    want_string("\"\"", "", 0);
    want_string("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8);
    want_string("\"\\u0041\\u00e9\\u20AC\"", "A\xc3\xa9\xe2\x82\xac", 6);
    want_string("\"a\\u0000b\"", "a\0b", 3);
    want_string("\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80", 4);
    want_string("\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf", 4);
    want_string("\"\\ud83d\"", "\xef\xbf\xbd", 3);
    want_string("\"\\ude00x\"", "\xef\xbf\xbdx", 4);
    want_string("\"\\ud83d\\u0041\"",
                "\xef\xbf\xbd"
                "A",
                4);
    want_string("\"\\ud83d\\ud83d\\ude00\"", "\xef\xbf\xbd\xf0\x9f\x98\x80", 7);
    want_string("\"\\ud83d\\n\"", "\xef\xbf\xbd\n", 4);
    refuse("\"a\\x\"", "byte 2: unknown escape");
    refuse("\"a\\u12g4\"", "byte 2: bad \\u escape");
    refuse("\"a\\u12\"", "byte 2: bad \\u escape");
    refuse("\"\\ud83d\\uzzzz\"", "byte 1: bad \\u escape");
    refuse("\"abc\\", "byte 0: unterminated string");
    refuse("\"abc\\\"", "byte 0: unterminated string");
    refuse_n("\"\\\0\"", 4, "byte 1: unknown escape");
}

static void test_raw_bytes(void **state)
{
    (void)state;
    want_string("\"h\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\x7f\"",
                "h\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80\x7f", 11);
    refuse("\"ab\xff\"", "byte 3: malformed UTF-8");
    refuse("\"\xc3\"", "byte 1: malformed UTF-8");
    refuse("\"\xed\xa0\x80\"", "byte 1: malformed UTF-8");
    refuse("\"x\\n\xc0\x80\"", "byte 4: malformed UTF-8");
    refuse("\"a\nb\"", "byte 2: control character");
    refuse("\"\x1f\"", "byte 1: control character");
    refuse_n("\"a\0b\"", 5, "byte 2: control character");
}

/* Each special byte at each place of strings around the eight-byte steps of the scan. */
static void test_scan_positions(void **state)
{
    (void)state;
    for (size_t n = 1; n < 36; n++) {
        for (size_t at = 0; at < n; at++) {
            char text[64];
            memset(text, 'a', sizeof text);
            text[0] = text[n + 1] = '"';
            text[at + 1] = '\x01';
            char where[40];
            snprintf(where, sizeof where, "byte %zu: control", at + 1);
            refuse_n(text, n + 2, where);
            text[at + 1] = '\x80';
            snprintf(where, sizeof where, "byte %zu: malformed", at + 1);
            refuse_n(text, n + 2, where);
            if (at + 1 < n) {
                text[at + 1] = '\\';
                text[at + 2] = '"';
                const qn_json *v = parse_n(text, n + 2, NULL);
                assert_true(v && v->n == n - 1 && v->s[at] == '"' && strlen(v->s) == n - 1);
            }
        }
    }
}

static void test_containers(void **state)
{
    (void)state;
    assert_int_equal(parse("[]")->n, 0);
    assert_int_equal(parse("{ }")->n, 0);
    const qn_json *v = parse(" { \"a\" : [ 1 , \"x\" , { \"b\" : null } ] , \"c\" : { } } ");
    assert_int_equal(v->n, 2);
    assert_string_equal(v->items[0].key, "a");
    assert_int_equal(v->items[0].n, 3);
    assert_string_equal(qn_json_at(&v->items[0], 2)->items[0].key, "b");
    assert_int_equal(qn_json_path(v, "c")->type, QN_JSON_OBJECT);
    assert_string_equal(parse("{\"\":1}")->items[0].key, "");
    assert_int_equal(parse("{\"a\\u0000b\":1}")->items[0].key_len, 3);
}

static void test_bad_containers(void **state)
{
    (void)state;
    refuse("", "byte 0: unexpected end");
    refuse("  ", "byte 2: unexpected end");
    refuse("[", "byte 1: unexpected end");
    refuse("[1", "byte 2: ',' or ']'");
    refuse("[1,", "byte 3: unexpected end");
    refuse("[1,]", "byte 3: unexpected character");
    refuse("[,1]", "byte 1: unexpected character");
    refuse("[1 2]", "byte 3: ',' or ']'");
    refuse("[1}", "byte 2: ',' or ']'");
    refuse("{", "byte 1: a key");
    refuse("{1:2}", "byte 1: a key");
    refuse("{\"a\"}", "byte 4: ':'");
    refuse("{\"a\" 1}", "byte 5: ':'");
    refuse("{\"a\":}", "byte 5: unexpected character");
    refuse("{\"a\":1,}", "byte 7: a key");
    refuse("{\"a\":1]", "byte 6: ',' or '}'");
    refuse("1 2", "byte 2: text after the end");
    refuse("[] ]", "byte 3: text after the end");
    refuse("]", "byte 0: unexpected character");
    refuse_n("1\0", 2, "byte 1: text after the end");
    refuse("// x\n1", "byte 0: unexpected character");
    refuse("'a'", "byte 0: unexpected character");
}

static void test_depth(void **state)
{
    (void)state;
    char text[2 * QN_JSON_MAX_DEPTH + 3];
    memset(text, '[', QN_JSON_MAX_DEPTH + 1);
    memset(text + QN_JSON_MAX_DEPTH, ']', QN_JSON_MAX_DEPTH);
    const qn_json *v = parse_n(text, 2 * QN_JSON_MAX_DEPTH, NULL);
    int depth = 0;
    for (; v; v = qn_json_at(v, 0))
        depth++;
    assert_int_equal(depth, QN_JSON_MAX_DEPTH);
    memset(text, '[', sizeof text);
    char where[64];
    snprintf(where, sizeof where, "byte %d: nested too deeply", QN_JSON_MAX_DEPTH);
    refuse_n(text, sizeof text, where);
    /* Depth is that of the place, not the number of containers so far. */
    qn_buf b = { 0 };
    for (int i = 0; i < 1000; i++)
        qn_buf_str(&b, i ? ",[[]]" : "[[[]]");
    qn_buf_str(&b, "]");
    assert_int_equal(parse(b.data)->n, 1000);
    qn_buf_free(&b);
}

static void test_byte_order_mark(void **state)
{
    (void)state;
    assert_int_equal(qn_json_int(parse("\xef\xbb\xbf 5"), 0), 5);
    refuse("\xef\xbb\xbf x", "byte 4: unexpected character");
    refuse("\xef\xbb", "byte 0: ");
}

static void test_duplicates(void **state)
{
    (void)state;
    const qn_json *v = parse("{\"a\":1,\"b\":2,\"a\":3}");
    assert_int_equal(v->n, 3);
    assert_int_equal(qn_json_int(qn_json_get(v, "a"), 0), 3);
}

static void test_access(void **state)
{
    (void)state;
    const qn_json *v =
        parse("{\"s\":\"x\",\"i\":-4,\"r\":2.5,\"w\":1e6,\"b\":true,\"n\":null,"
              "\"o\":{\"p\":{\"q\":9}},\"a\":[7],\"huge\":1e300,\"z\":\"a\\u0000b\"}");
    assert_string_equal(qn_json_str(qn_json_get(v, "s"), "no"), "x");
    assert_string_equal(qn_json_str(qn_json_get(v, "i"), "no"), "no");
    assert_string_equal(qn_json_str(NULL, "no"), "no");
    assert_true(qn_json_int(qn_json_get(v, "i"), 0) == -4);
    assert_true(qn_json_int(qn_json_get(v, "w"), 0) == 1000000);
    assert_true(qn_json_int(qn_json_get(v, "r"), 5) == 5);
    assert_true(qn_json_int(qn_json_get(v, "huge"), 5) == 5);
    assert_true(qn_json_int(qn_json_get(v, "s"), 5) == 5);
    assert_true(qn_json_num(qn_json_get(v, "i"), 0) == -4.0);
    assert_true(qn_json_num(qn_json_get(v, "b"), 1.5) == 1.5);
    assert_true(qn_json_bool(qn_json_get(v, "b"), false));
    assert_true(qn_json_bool(qn_json_get(v, "n"), true));
    assert_true(qn_json_is_number(qn_json_get(v, "r")) && !qn_json_is_number(qn_json_get(v, "s")));
    assert_false(qn_json_is_number(NULL));
    assert_true(qn_json_int(qn_json_path(v, "o.p.q"), 0) == 9);
    assert_null(qn_json_path(v, "o.x.q"));
    assert_null(qn_json_path(v, "s.x"));
    assert_ptr_equal(qn_json_path(v, ""), v);
    assert_null(qn_json_get(NULL, "a"));
    assert_null(qn_json_get(qn_json_get(v, "a"), "a"));
    assert_null(qn_json_at(qn_json_get(v, "a"), 1));
    assert_null(qn_json_at(qn_json_get(v, "s"), 0));
    assert_null(qn_json_at(NULL, 0));
    assert_true(qn_json_eq(qn_json_get(v, "s"), "x") && !qn_json_eq(qn_json_get(v, "s"), "xy"));
    assert_false(qn_json_eq(NULL, "x") || qn_json_eq(qn_json_get(v, "z"), "a"));
}

static void expect_put(const char *in, const char *out)
{
    qn_buf b = { 0 };
    qn_json_put(&b, parse(in));
    assert_string_equal(b.data, out);
    qn_buf_free(&b);
}

static void test_put(void **state)
{
    (void)state;
    expect_put(" { \"a\" : [ 1 , -2.5 , true , false , null ] , \"b\" : { } } ",
               "{\"a\":[1,-2.5,true,false,null],\"b\":{}}");
    expect_put("\"\\u0000\\u001f\\\"\\\\\\/\\b\\f\\n\\r\\t\\u007f\\u00e9\"",
               "\"\\u0000\\u001f\\\"\\\\/\\b\\f\\n\\r\\t\x7f\xc3\xa9\"");
    expect_put("[NaN,Infinity,-9223372036854775808]", "[null,null,-9223372036854775808]");
    expect_put("{\"k\\n\":1}", "{\"k\\n\":1}");
    qn_buf b = { 0 };
    qn_json_put_str(&b, "a\xff\xe1\x80z\xc3", 6);
    assert_string_equal(b.data, "\"a\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\"");
    qn_buf_free(&b);
}

static void expect_num(double d, const char *text)
{
    qn_buf b = { 0 };
    qn_json_put_num(&b, d);
    assert_string_equal(b.data, text);
    qn_buf_free(&b);
}

static void test_put_numbers(void **state)
{
    (void)state;
    expect_num(0.1, "0.1");
    expect_num(1.0 / 3, "0.3333333333333333");
    expect_num(100, "100");
    expect_num(-1.5e-7, "-1.5e-07");
    expect_num(5e-324, "5e-324");
    expect_num(-0.0, "-0.0");
    expect_num(NAN, "null");
    uint64_t bits = 88172645463325252u; /* xorshift: any doubles must come back as they were */
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        double d;
        memcpy(&d, &bits, sizeof d);
        if (!isfinite(d))
            continue;
        qn_buf b = { 0 };
        qn_json_put_num(&b, d);
        assert_true(qn_json_num(parse(b.data), 0) == d);
        qn_buf_free(&b);
    }
}

/* A vocabulary and merges of the size published ones have. */
static void test_large(void **state)
{
    (void)state;
    enum { N = 200000 };
    qn_buf b = { 0 };
    qn_buf_str(&b, "{\"model\":{\"vocab\":{");
    for (int i = 0; i < N; i++)
        qn_buf_printf(&b, "%s\n  \"\xc4\xa0t\\\"%d\": %d", i ? "," : "", i, i);
    qn_buf_str(&b, "},\"merges\":[");
    for (int i = 0; i < N; i++)
        qn_buf_printf(&b, "%s\"a%d b\"", i ? "," : "", i);
    qn_buf_str(&b, "]}}");
    const qn_json *v = parse(b.data), *vocab = qn_json_path(v, "model.vocab");
    assert_int_equal(vocab->n, N);
    for (int i = 0; i < N; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "\xc4\xa0t\"%d", i);
        if (vocab->items[i].key_len != (uint32_t)n || strcmp(vocab->items[i].key, key) != 0 ||
            vocab->items[i].i != i)
            fail_msg("entry %d", i);
    }
    assert_string_equal(qn_json_at(qn_json_path(v, "model.merges"), N - 1)->s, "a199999 b");
    qn_buf_free(&b);
}

/* Cut anywhere, a document is refused and never read past its end. */
static void test_truncation(void **state)
{
    (void)state;
    static const char text[] =
        "{\"a\":[1.5e3,\"x\\u00e9\\ud83d\\ude00\xc3\xa9\",true,null],\"b\":{\"c\":-7}}";
    for (size_t n = 0; n < sizeof text - 1; n++)
        refuse_n(text, n, "JSON, byte ");
    parse(text);
}

static void test_file(void **state)
{
    (void)state;
    char path[] = "/tmp/quern-json-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "[1, x]", 6), 6);
    close(fd);
    qn_error err = { 0 };
    assert_null(qn_json_parse_file(&arena, path, &err));
    char want[128];
    snprintf(want, sizeof want, "%s: JSON, byte 4: unexpected character", path);
    assert_string_equal(err.msg, want);
    unlink(path);
    assert_null(qn_json_parse_file(&arena, path, &err));
    assert_int_equal(err.code, QN_ERR_NOT_FOUND);
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, free_arena)
    const struct CMUnitTest tests[] = {
        T(test_literals),   T(test_integers),       T(test_reals),     T(test_bad_numbers),
        T(test_locale),     T(test_escapes),        T(test_raw_bytes), T(test_scan_positions),
        T(test_containers), T(test_bad_containers), T(test_depth),     T(test_byte_order_mark),
        T(test_duplicates), T(test_access),         T(test_put),       T(test_put_numbers),
        T(test_large),      T(test_truncation),     T(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
