/* test_templates.c - chat templates against the reference: the language cases that lie here, and from the
 * kit all of them, and published templates with conversations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "tokenizer/template.h"

static int failures;

static void complain(const char *where, const qn_json *want, const qn_rendering *got, int rc)
{
    const char *text = qn_json_str(qn_json_get(want, "text"), NULL);
    failures++;
    print_error("%s\n  expected %s\n  got (%d) %s\n", where,
                text ? text : qn_json_str(qn_json_get(want, "error"), "?"), rc,
                qn_buf_cstr(&got->text));
}

static bool same_spans(const qn_json *want, const qn_rendering *got)
{
    if (!want)
        return true;
    if (want->n != got->n_span)
        return false;
    for (uint32_t i = 0; i < want->n; i++)
        if (qn_json_int(qn_json_at(&want->items[i], 0), -1) != (int64_t)got->span[i].start ||
            qn_json_int(qn_json_at(&want->items[i], 1), -1) != (int64_t)got->span[i].end)
            return false;
    return true;
}

/* `want` has text (and perhaps spans), or error with its kind: only a raised one's words are fixed. */
static void check(const char *where, const qn_json *want, const qn_rendering *got, int rc)
{
    const qn_json *text = qn_json_get(want, "text"), *error = qn_json_get(want, "error");
    const qn_json *words = text ? text : error;
    bool exact = text || qn_json_eq(qn_json_get(want, "kind"), "raised");
    bool same = words && words->n == got->text.len &&
                memcmp(words->s, qn_buf_cstr(&got->text), words->n) == 0;
    bool code = text ? rc == QN_OK : exact ? rc == QN_ERR_RAISED : rc < 0;
    if (!code || (exact && !same) || !same_spans(qn_json_get(want, "spans"), got))
        complain(where, want, got, rc);
}

static void check_features(const char *path)
{
    qn_arena a = { 0 };
    qn_error err;
    const qn_json *file = qn_json_parse_file(&a, path, &err), *cases = qn_json_get(file, "cases");
    const qn_template_options opt = { .now = qn_json_str(qn_json_get(file, "now"), NULL) };
    assert_non_null(cases);
    assert_true(cases->n > 0);
    for (uint32_t i = 0; i < cases->n; i++) {
        const qn_json *source = qn_json_get(&cases->items[i], "template");
        qn_template *t = NULL;
        qn_rendering out = { 0 };
        int rc = qn_template_open(&t, source->s, source->n, &err);
        if (rc == QN_OK)
            rc = qn_template_eval(t, qn_json_get(file, "vars"), &opt, &out, &err);
        check(source->s, &cases->items[i], &out, rc);
        qn_rendering_free(&out);
        qn_template_close(t);
    }
    qn_arena_free(&a);
}

/* A conversation as a request: the variables of its kwargs stand beside its own members. */
static qn_json *flatten(qn_arena *a, const qn_json *conversation)
{
    const qn_json *kwargs = qn_json_get(conversation, "kwargs");
    qn_json *out = qn_arena_alloc(a, sizeof *out);
    uint32_t n = 0;
    *out = *conversation;
    out->items = qn_arena_alloc_n(a, conversation->n + (kwargs ? kwargs->n : 0), sizeof *out);
    for (uint32_t i = 0; i < conversation->n; i++)
        if (&conversation->items[i] != kwargs)
            out->items[n++] = conversation->items[i];
    for (uint32_t i = 0; kwargs && i < kwargs->n; i++)
        out->items[n++] = kwargs->items[i];
    out->n = n;
    return out;
}

static void check_published(qn_arena *a, const char *dir, const char *name,
                            const qn_json *conversations)
{
    qn_error err;
    qn_map source;
    qn_template *t = NULL;
    const char *expected = qn_arena_printf(a, "%s/%s.expected.json", dir, name);
    const qn_json *file = qn_json_parse_file(a, expected, &err);
    const qn_json *renders = qn_json_get(file, "renders");
    assert_non_null(renders);
    assert_int_equal(qn_map_open(&source, qn_arena_printf(a, "%s/%s.jinja", dir, name), &err),
                     QN_OK);
    assert_int_equal(qn_template_open(&t, source.data, source.size, &err), QN_OK);
    qn_template_set_tokens(t, qn_json_str(qn_json_get(file, "bos_token"), NULL),
                           qn_json_str(qn_json_get(file, "eos_token"), NULL));
    const qn_template_options opt = { .now = qn_json_str(qn_json_get(file, "now"), NULL) };
    for (uint32_t i = 0; i < renders->n; i++) {
        const qn_json *c = qn_json_get(conversations, renders->items[i].key);
        qn_rendering out = { 0 };
        int rc = qn_template_render(t, flatten(a, c), &opt, &out, &err);
        check(qn_arena_printf(a, "%s, %s", name, renders->items[i].key), &renders->items[i], &out,
              rc);
        qn_rendering_free(&out);
    }
    qn_template_close(t);
    qn_map_close(&source);
}

static void no_kit(void)
{
    puts("skipped: no kit");
    skip();
}

static void test_features_here(void **state)
{
    (void)state;
    failures = 0;
    check_features(QUERN_SOURCE "/tests/golden/templates/features.json");
    check_features(QUERN_SOURCE "/tests/golden/templates/language.json");
    assert_int_equal(failures, 0);
}

static void test_features_kit(void **state)
{
    (void)state;
    if (!qn_is_file(QUERN_KIT "/templates/features.json"))
        no_kit();
    failures = 0;
    check_features(QUERN_KIT "/templates/features.json");
    assert_int_equal(failures, 0);
}

static void test_published(void **state)
{
    static const char dir[] = QUERN_KIT "/real/templates";
    static const char tail[] = ".expected.json";
    (void)state;
    if (!qn_is_file(QUERN_KIT "/real/templates/conversations.json"))
        no_kit();
    qn_arena a = { 0 };
    qn_error err;
    const char *path = qn_path_join(&a, dir, "conversations.json");
    const qn_json *conversations = qn_json_parse_file(&a, path, &err);
    assert_non_null(conversations);
    FILE *list = popen("ls '" QUERN_KIT "/real/templates'", "r");
    char line[300];
    int n = 0;
    failures = 0;
    while (list && fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = 0;
        if (!qn_ends_with(line, tail))
            continue;
        line[strlen(line) - strlen(tail)] = 0;
        check_published(&a, dir, line, conversations);
        n++;
    }
    pclose(list);
    qn_arena_free(&a);
    assert_true(n > 0);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_here),
        cmocka_unit_test(test_features_kit),
        cmocka_unit_test(test_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
