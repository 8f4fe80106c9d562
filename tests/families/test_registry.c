/* test_registry.c - the list of families: every model type once, found by name, and docs/families.md up to date. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "families/family.h"

static void test_every_type_once(void **state)
{
    (void)state;
    int n = 0;
    for (const qn_family *const *f = qn_family_all(); *f; f++, n++) {
        assert_non_null((*f)->name);
        assert_non_null((*f)->build);
        assert_true((*f)->about && strlen((*f)->about) > 3);
        assert_non_null((*f)->model_types[0]);
        for (const char *const *type = (*f)->model_types; *type; type++)
            assert_ptr_equal(qn_family_find(*type), *f); /* an earlier family would have it else */
    }
    assert_true(n > 3);
    assert_null(qn_family_find("no such type"));
    assert_null(qn_family_find(""));
}

static void test_near_names(void **state)
{
    (void)state;
    const qn_family *f;
    qn_error err = { 0 };
    assert_int_equal(qn_family_require(&f, "lama", &err), QN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "near: llama"));
    assert_int_equal(qn_family_require(&f, "qwen_3", &err), QN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "qwen3"));
    assert_int_equal(qn_family_require(&f, "quite another thing", &err), QN_ERR_UNSUPPORTED);
    assert_null(strstr(err.msg, "near"));
    char long_name[2000];
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(qn_family_require(&f, long_name, &err), QN_ERR_UNSUPPORTED);
    assert_int_equal(qn_family_require(&f, "llama", &err), QN_OK);
    assert_string_equal(f->name, "llama");
}

static void test_docs_are_current(void **state)
{
    (void)state;
    qn_map docs;
    qn_error err = { 0 };
    if (!qn_is_file(QUERN_BINARY "/quern-parity"))
        skip();
    assert_int_equal(qn_map_open(&docs, QUERN_SOURCE "/docs/families.md", &err), QN_OK);
    FILE *p = popen(QUERN_BINARY "/quern-parity --families", "r");
    assert_non_null(p);
    char text[65536];
    size_t n = fread(text, 1, sizeof text, p);
    assert_int_equal(pclose(p), 0);
    if (n != docs.size || memcmp(text, docs.data, n) != 0)
        fail_msg("docs/families.md is old: quern-parity --families > docs/families.md");
    qn_map_close(&docs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_once),
        cmocka_unit_test(test_near_names),
        cmocka_unit_test(test_docs_are_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
