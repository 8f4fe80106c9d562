/* test_base_utf8.c - UTF-8 against a second definition: every code point, every two-byte start, and the
 * Unicode standard's own examples of malformed runs. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

static void test_every_code_point(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x110000; cp++) {
        char text[4];
        uint32_t back = 0;
        int n = qn_utf8_encode(cp, text);
        bool scalar = cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
        int want = !scalar ? 3 : cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
        if (n != want || qn_utf8_decode(text, (size_t)n, &back) != n ||
            back != (scalar ? cp : 0xfffd))
            fail_msg("U+%04X", (unsigned)cp);
        for (int cut = 1; cut < n; cut++)
            if (qn_utf8_decode(text, (size_t)cut, &back) != 1 || back != UINT32_MAX ||
                qn_utf8_partial(text, (size_t)cut) != (size_t)cut)
                fail_msg("U+%04X cut to %d bytes", (unsigned)cp, cut);
        if (qn_utf8_partial(text, (size_t)n) != 0)
            fail_msg("U+%04X is complete", (unsigned)cp);
    }
}

/* Well-formed by the standard's table 3-7, written as ranges. */
static bool well_formed(const unsigned char *p, int n)
{
    static const unsigned char rows[][6] = {
        { 0xc2, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 }, { 0xe1, 0xec, 0x80, 0xbf, 3 },
        { 0xed, 0xed, 0x80, 0x9f, 3 }, { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
        { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 },
    };
    if (p[0] < 0x80)
        return n == 1;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (p[0] >= rows[i][0] && p[0] <= rows[i][1])
            return n == rows[i][4] && p[1] >= rows[i][2] && p[1] <= rows[i][3];
    return false;
}

static void test_every_start(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            unsigned char p[4] = { (unsigned char)first, (unsigned char)second, 0x80, 0xbf };
            uint32_t cp;
            int n = qn_utf8_decode((const char *)p, 4, &cp);
            bool any = false;
            for (int k = 1; k <= 4; k++)
                any |= well_formed(p, k);
            if ((cp != UINT32_MAX) != any || (any && !well_formed(p, n)) || (!any && n != 1))
                fail_msg("%02x %02x", first, second);
        }
    }
}

static void test_bad_runs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int run;
    } cases[] = {
        { "\xc0\xaf", 1 }, { "\xe0\x9f\x80", 1 }, { "\xed\xa0\x80", 1 },     { "\xf4\x91\x92", 1 },
        { "\xff", 1 },     { "\xe1\x80", 2 },     { "\xe1\x80\xe2", 2 },     { "\xf0\x91\x92", 3 },
        { "\xf1\xbf", 2 }, { "\x80", 1 },         { "\xf1\x80\x80\xc0", 3 }, { "\xc2", 1 },
        { "\xc2z", 1 },    { "\xf8\x88", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(qn_utf8_bad_run(cases[i].text, strlen(cases[i].text)), cases[i].run);
}

static void test_partial(void **state)
{
    (void)state;
    assert_int_equal(qn_utf8_partial("", 0), 0);
    assert_int_equal(qn_utf8_partial("a", 1), 0);
    assert_int_equal(qn_utf8_partial("a\xe2\x82", 3), 2);
    assert_int_equal(qn_utf8_partial("\xe2\x82\xac\xf0\x9f\x98", 6), 3);
    assert_int_equal(qn_utf8_partial("\xe2\x82\xac", 3), 0);
    assert_int_equal(qn_utf8_partial("a\x80", 2), 0); /* malformed, not unfinished */
    assert_int_equal(qn_utf8_partial("\xed\xa0", 2), 0);
    assert_int_equal(qn_utf8_partial("\xff", 1), 0);
    assert_int_equal(qn_utf8_partial("\x80\x80\x80\x80", 4), 0);
}

/* A bad byte at every place of texts of every length around the eight-byte steps. */
static void test_valid(void **state)
{
    (void)state;
    assert_int_equal(qn_utf8_valid(NULL, 0), 0);
    for (size_t n = 1; n < 40; n++) {
        char text[48];
        memset(text, 'a', sizeof text);
        assert_int_equal(qn_utf8_valid(text, n), n);
        for (size_t at = 0; at < n; at++) {
            text[at] = '\xc3';
            assert_int_equal(qn_utf8_valid(text, n), at);
            text[at] = 'a';
            if (at + 1 < n) {
                memcpy(text + at, "\xc3\xa9", 2);
                assert_int_equal(qn_utf8_valid(text, n), n);
                memcpy(text + at, "aa", 2);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_every_start),
        cmocka_unit_test(test_bad_runs),
        cmocka_unit_test(test_partial),
        cmocka_unit_test(test_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
