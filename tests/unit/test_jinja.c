/* test_jinja.c - what the goldens cannot say: limits, error codes, generation spans, open final messages,
 * one template in several threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "tokenizer/template.h"

static qn_rendering out; /* of the last rendering */
static qn_error err;

/* Renders source with a request (JSON text); with vars only when `plain`. */
static int render(const char *source, const char *request, bool plain,
                  const qn_template_options *opt)
{
    qn_arena a = { 0 };
    qn_template *t = NULL;
    const qn_json *j = qn_json_parse(&a, request, strlen(request), &err);
    assert_non_null(j);
    err = (qn_error){ 0 };
    int rc = qn_template_open(&t, source, strlen(source), &err);
    if (rc == QN_OK)
        rc = (plain ? qn_template_eval : qn_template_render)(t, j, opt, &out, &err);
    qn_template_close(t);
    qn_arena_free(&a);
    return rc;
}

static void expect_text(const char *source, const char *request, const char *text)
{
    assert_int_equal(render(source, request, false, NULL), QN_OK);
    assert_string_equal(qn_buf_cstr(&out.text), text);
}

static void expect_limit(const char *source, const char *words)
{
    assert_int_equal(render(source, "{}", true, NULL), QN_ERR_LIMIT);
    assert_int_equal(err.code, QN_ERR_LIMIT);
    assert_non_null(strstr(err.msg, words));
}

static void expect_fail(const char *source, const char *words)
{
    int rc = render(source, "{\"d\":{\"a\":[1]},\"l\":[1]}", true, NULL);
    assert_int_equal(rc, QN_ERR_FORMAT);
    if (!strstr(err.msg, words))
        print_error("%s: '%s' is not in '%s'\n", source, words, err.msg);
    assert_non_null(strstr(err.msg, words));
}

static void test_limits(void **state)
{
    (void)state;
    expect_limit("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                 "steps");
    expect_limit("{% set n = namespace(s='aaaa') %}{% for i in range(99) %}"
                 "{% set n.s = n.s + n.s %}{% endfor %}",
                 "memory");
    expect_limit("{{ 'a' * 10000000000 }}", "memory");
    expect_limit("{{ [0] * 10000000000 }}", "memory");
    expect_limit("{{ 'a'.center(99999999999) }}", "steps");
    expect_limit("{{ '%999999999d' % 5 }}", "memory");
    expect_limit("{{ 9 ** 99 }}", "integer too large");
    expect_limit("{{ range(100001) }}", "Range too big");
    expect_limit("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nests deeper");
    expect_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "nests deeper");
    expect_limit("{% block a %}{{ self.a() }}{% endblock %}", "nests deeper");
    expect_limit("{% set n = namespace() %}{% set n.x = [n] %}{{ n }}", "nests deeper");
}

static void test_source_depth(void **state)
{
    (void)state;
    static const char *const piece[][3] = { { "{{ ", "(", "1 }}" },  { "{{ ", "not ", "1 }}" },
                                            { "{{ 1", "+1", " }}" }, { "{{ ", "-", "1 }}" },
                                            { "{{ a", ".b", " }}" }, { "", "{% if 1 %}", "" } };
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        qn_buf b = { 0 };
        qn_template *t;
        qn_buf_str(&b, piece[i][0]);
        for (int k = 0; k < 20000; k++)
            qn_buf_str(&b, piece[i][1]);
        qn_buf_str(&b, piece[i][2]);
        assert_int_equal(qn_template_open(&t, b.data, b.len, &err), QN_ERR_LIMIT);
        assert_null(t);
        qn_buf_free(&b);
    }
}

static void test_chosen_limits(void **state)
{
    (void)state;
    const qn_template_options few = { .max_steps = 1000 }, small = { .max_output = 100 };
    const char *loop = "{% for i in range(500) %}abc{% endfor %}";
    assert_int_equal(render(loop, "{}", true, NULL), QN_OK);
    assert_int_equal(render(loop, "{}", true, &few), QN_ERR_LIMIT);
    assert_int_equal(render(loop, "{}", true, &small), QN_ERR_LIMIT);
    const qn_template_options clock = { .now = "yesterday" };
    assert_int_equal(render("x", "{}", true, &clock), QN_ERR_ARGUMENT);
}

static void test_messages(void **state)
{
    (void)state;
    expect_fail("{{ l.append(2) }}", "access to attribute 'append' of 'list' object is unsafe.");
    expect_fail("{{ d.b.c }}", "'dict object' has no attribute 'b'");
    expect_fail("{{ nope.x }}", "'nope' is undefined");
    expect_fail("{{ nope() }}", "'nope' is undefined");
    expect_fail("{{ 'a' + 1 }}", "can only concatenate str (not \"int\") to str");
    expect_fail("{{ 1 / 0 }}", "division by zero");
    expect_fail("{{ l | nope }}", "No filter named 'nope'.");
    expect_fail("{{ l is nope }}", "No test named 'nope'.");
    expect_fail("{% include 'x' %}", "no loader");
    expect_fail("{% endif %}", "unknown tag 'endif'");
    expect_fail("a\nb{{ 1 + }}", "line 2");
    expect_fail("{{ 'x", "unexpected char");
    expect_fail("{% if 1 %}", "end of template");
    expect_fail("{% break %}", "outside loop");
    expect_fail("{% for loop in l %}{% endfor %}", "special loop variable");
    expect_fail("{{ [1, 'a'] | sort }}", "not supported between instances of 'str' and 'int'");
    expect_fail("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "takes not more than 1 argument(s)");
}

static void test_raised(void **state)
{
    char request[2100] = "{\"w\":\"", *p = request + strlen(request);
    (void)state;
    assert_int_equal(render("{{ raise_exception('no\\n' ~ 'way é') }}", "{}", true, NULL),
                     QN_ERR_RAISED);
    assert_string_equal(qn_buf_cstr(&out.text),
                        "no\nway é"); /* err.msg is one line, this is exact */
    memset(p, 'w', 2000);
    strcpy(p + 2000, "\"}");
    assert_int_equal(render("{{ raise_exception(w) }}", request, true, NULL), QN_ERR_RAISED);
    assert_int_equal(out.text.len, 2000);
    assert_true(strlen(err.msg) < sizeof err.msg);
}

static void test_bad_source(void **state)
{
    qn_template *t;
    (void)state;
    assert_int_equal(qn_template_open(&t, "a\xff", 2, &err), QN_ERR_FORMAT);
    assert_null(t);
    qn_template_close(NULL);
    assert_int_equal(render("x", "[]", false, NULL), QN_ERR_ARGUMENT);
    assert_int_equal(render("x", "{}", false, NULL), QN_ERR_ARGUMENT);
    assert_int_equal(render("x", "{\"messages\":3}", false, NULL), QN_ERR_ARGUMENT);
    assert_int_equal(render("x", "{\"messages\":[3]}", false, NULL), QN_ERR_ARGUMENT);
}

static void test_request(void **state)
{
    (void)state;
    expect_text("{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ x }}{{ bos_token }}",
                "{\"messages\":[],\"x\":5}", "NoneNoneTrue5");
    expect_text(
        "{{ tools }}{{ add_generation_prompt }}{{ bos_token }}",
        "{\"messages\":[],\"tools\":[1],\"add_generation_prompt\":false,\"bos_token\":\"B\"}",
        "[1]FalseB");
    expect_text("{{ messages[0].keys() | list }}{{ messages[0].thinking }}",
                "{\"messages\":[{\"role\":\"a\",\"reasoning_content\":\"R\"}]}",
                "['thinking', 'role', 'reasoning_content']R");
    expect_text("{{ messages[0].reasoning_content }}{{ messages[0].thinking }}",
                "{\"messages\":[{\"reasoning\":\"R\"}]}", "RR");
    expect_text("{{ messages[0].thinking is defined }}",
                "{\"messages\":[{\"reasoning_content\":null}]}", "False");
}

static const char turns[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>{% endfor %}";

static void test_continue(void **state)
{
    (void)state;
    expect_text("{% for m in messages %}[{{ m.content }}]{% endfor %}",
                "{\"messages\":[{\"content\":\"a\"},{\"content\":\"b c \"}],"
                "\"continue_final_message\":true}",
                "[a][b c ");
    expect_text(
        turns, /* the template trims, so the end is trimmed too */
        "{\"messages\":[{\"role\":\"u\",\"content\":\" b  \"}],\"continue_final_message\":true}",
        "<u>b");
    expect_text("{{ messages[-1].content[0].text }}|{{ messages[-1].content[1].text }}!",
                "{\"messages\":[{\"content\":[{\"text\":\"x\"},{\"text\":\"y\"}]}],"
                "\"continue_final_message\":true}",
                "x|y");
    expect_text("{{ messages[0].reasoning_content }}</think>{{ messages[0].content }}",
                "{\"messages\":[{\"reasoning\":\"hm\",\"content\":\"c\"}],"
                "\"continue_final_message\":\"reasoning_content\"}",
                "hm");
    assert_int_equal(
        render(turns, "{\"messages\":[],\"continue_final_message\":true}", false, NULL),
        QN_ERR_ARGUMENT);
    assert_int_equal(render("content",
                            "{\"messages\":[{\"content\":\"x\"}],\"continue_final_message\":true}",
                            false, NULL),
                     QN_ERR_ARGUMENT);
}

static void expect_span(size_t i, size_t start, size_t end)
{
    assert_int_equal(out.span[i].start, start);
    assert_int_equal(out.span[i].end, end);
}

static void test_spans(void **state)
{
    (void)state;
    assert_int_equal(render("é{% generation %}日本{% endgeneration %}-{% for i in [1, 2] %}"
                            "{% generation %}{{ i }}x{% endgeneration %}{% endfor %}",
                            "{}", true, NULL),
                     QN_OK);
    assert_string_equal(qn_buf_cstr(&out.text), "é日本-1x2x");
    assert_int_equal(out.n_span, 3);
    expect_span(0, 1, 3);
    expect_span(1, 4, 6);
    expect_span(2, 6, 8);
    assert_int_equal(render("none", "{}", true, NULL), QN_OK);
    assert_int_equal(out.n_span, 0);
}

static void *render_often(void *arg)
{
    qn_arena a = { 0 };
    qn_rendering mine = { 0 };
    const char *text = "{\"messages\":[{\"role\":\"u\",\"content\":\"hi\"}]}";
    const qn_json *request = qn_json_parse(&a, text, strlen(text), NULL);
    size_t wrong = 0;
    for (int i = 0; i < 200; i++)
        wrong += qn_template_render(arg, request, NULL, &mine, NULL) != QN_OK ||
                 strcmp(qn_buf_cstr(&mine.text), "<u>hi</u>") != 0;
    qn_rendering_free(&mine);
    qn_arena_free(&a);
    return (void *)wrong;
}

static void test_threads(void **state)
{
    qn_template *t;
    pthread_t thread[4];
    (void)state;
    assert_int_equal(qn_template_open(&t, turns, strlen(turns), &err), QN_OK);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, render_often, t), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        assert_null(wrong);
    }
    qn_template_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),        cmocka_unit_test(test_source_depth),
        cmocka_unit_test(test_chosen_limits), cmocka_unit_test(test_messages),
        cmocka_unit_test(test_raised),        cmocka_unit_test(test_bad_source),
        cmocka_unit_test(test_request),       cmocka_unit_test(test_continue),
        cmocka_unit_test(test_spans),         cmocka_unit_test(test_threads),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qn_rendering_free(&out);
    return failed;
}
