/* test_base_file.c - mapping, paths, safe names, and writes that are whole or not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char root[] = "/tmp/quern-file-XXXXXX";
static qn_arena arena;

static char *in_root(const char *name)
{
    return qn_path_join(&arena, root, name);
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char *command = qn_arena_printf(&arena, "rm -rf '%s'", root);
    int rc = system(command);
    qn_arena_free(&arena);
    return rc;
}

static int count_entries(void)
{
    DIR *d = opendir(root);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void write_ok(const char *path, const char *text)
{
    qn_error err = { 0 };
    if (qn_write_file(path, text, strlen(text), &err) != QN_OK)
        fail_msg("%s", err.msg);
}

static void test_map(void **state)
{
    (void)state;
    qn_map m;
    qn_error err = { 0 };
    char *path = in_root("data");
    write_ok(path, "hello");
    assert_int_equal(qn_map_open(&m, path, &err), QN_OK);
    assert_int_equal(m.size, 5);
    assert_memory_equal(m.data, "hello", 5);
    qn_map_close(&m);
    assert_int_equal(m.size, 0);
    qn_map_close(&m);
    write_ok(path, "");
    assert_int_equal(qn_map_open(&m, path, &err), QN_OK);
    assert_string_equal(m.data, "");
    qn_map_close(&m);
    qn_map none = { 0 };
    qn_map_close(&none);
}

static void test_map_refuses(void **state)
{
    (void)state;
    qn_map m;
    qn_error err = { 0 };
    assert_int_equal(qn_map_open(&m, in_root("missing"), &err), QN_ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/missing: "));
    assert_int_equal(qn_map_open(&m, root, &err), QN_ERR_IO);
    assert_non_null(strstr(err.msg, root));
    assert_int_equal(qn_map_open(&m, "/dev/zero", &err), QN_ERR_IO);
    char *fifo = in_root("fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    alarm(20); /* opening it without a writer must not wait */
    assert_int_equal(qn_map_open(&m, fifo, &err), QN_ERR_IO);
    alarm(0);
    unlink(fifo);
}

static void test_kinds(void **state)
{
    (void)state;
    write_ok(in_root("kind"), "x");
    assert_true(qn_is_dir(root) && !qn_is_file(root));
    assert_true(qn_is_file(in_root("kind")) && !qn_is_dir(in_root("kind")));
    assert_false(qn_is_file(in_root("nothing")) || qn_is_dir(in_root("nothing")));
}

static void test_paths(void **state)
{
    (void)state;
    assert_string_equal(qn_path_join(&arena, "a", "b"), "a/b");
    assert_string_equal(qn_path_join(&arena, "a/", "b"), "a/b");
    assert_string_equal(qn_path_join(&arena, "/", "b"), "/b");
    assert_string_equal(qn_path_base("a/b.gguf"), "b.gguf");
    assert_string_equal(qn_path_base("b.gguf"), "b.gguf");
    assert_string_equal(qn_path_base("a/"), "");
    assert_true(qn_ends_with("x.gguf", ".gguf") && !qn_ends_with("gguf", ".gguf"));
    assert_true(qn_ends_with("x", "") && qn_starts_with("x", ""));
    assert_true(qn_starts_with("model.", "model") && !qn_starts_with("mod", "model"));
}

static void test_safe_names(void **state)
{
    (void)state;
    static const char *const good[] = { "a",     "a.b", "a/b/c.safetensors", "..a", "a..",
                                        "a/..b", "..." };
    static const char *const bad[] = { "",      "/",       "/a",    "..",     "../a",
                                       "a/..",  "a/../b",  "a\\b",  "..\\a",  "a/b/..",
                                       "./../", "a//../b", "/../a", "a/../.." };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!qn_is_safe_name(good[i], strlen(good[i])))
            fail_msg("%s is safe", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (qn_is_safe_name(bad[i], strlen(bad[i])))
            fail_msg("%s is not safe", bad[i]);
    assert_false(qn_is_safe_name("a\0b", 3));
    assert_true(qn_is_safe_name("ab/..", 3)); /* only n bytes count */
}

static void test_make_dirs(void **state)
{
    (void)state;
    qn_error err = { 0 };
    assert_int_equal(qn_make_dirs(in_root("d/e/f"), &err), QN_OK);
    assert_true(qn_is_dir(in_root("d/e/f")));
    assert_int_equal(qn_make_dirs(in_root("d/e/f"), &err), QN_OK);
    assert_int_equal(qn_make_dirs(in_root("d//g/"), &err), QN_OK);
    assert_true(qn_is_dir(in_root("d/g")));
    assert_int_equal(qn_make_dirs("/", &err), QN_OK);
    assert_int_equal(qn_make_dirs("", &err), QN_ERR_IO);
    write_ok(in_root("plain"), "x");
    assert_int_equal(qn_make_dirs(in_root("plain"), &err), QN_ERR_IO);
    assert_int_equal(qn_make_dirs(in_root("plain/sub"), &err), QN_ERR_IO);
    assert_non_null(strstr(err.msg, "plain"));
}

static void test_write_replaces(void **state)
{
    (void)state;
    qn_map m;
    char *path = in_root("replaced");
    write_ok(path, "a longer first text");
    int before = count_entries();
    write_ok(path, "second");
    assert_int_equal(count_entries(), before); /* no temporary file stays */
    assert_int_equal(qn_map_open(&m, path, NULL), QN_OK);
    assert_int_equal(m.size, 6);
    assert_memory_equal(m.data, "second", 6);
    qn_map_close(&m);
}

static void test_write_fails(void **state)
{
    (void)state;
    qn_error err = { 0 };
    assert_int_equal(qn_write_file(in_root("no/such/file"), "x", 1, &err), QN_ERR_IO);
    assert_non_null(strstr(err.msg, "no/such/file: "));
    assert_int_equal(mkdir(in_root("folder"), 0700), 0);
    int before = count_entries();
    assert_int_equal(qn_write_file(in_root("folder"), "x", 1, &err), QN_ERR_IO);
    assert_int_equal(count_entries(), before);
}

/* A full disk, played by the file size limit: the old text stays, and nothing half-written is left. */
static void test_no_space(void **state)
{
    (void)state;
    static char big[1 << 16];
    char *path = in_root("full");
    write_ok(path, "old");
    int before = count_entries();
    struct rlimit old, small = { 4096, 0 };
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    qn_error err = { 0 };
    int rc = qn_write_file(path, big, sizeof big, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, QN_ERR_IO);
    assert_non_null(strstr(err.msg, "full: "));
    assert_int_equal(count_entries(), before);
    qn_map m;
    assert_int_equal(qn_map_open(&m, path, &err), QN_OK);
    assert_memory_equal(m.data, "old", 3);
    qn_map_close(&m);
}

/* A link under the temporary name must not be written through. */
static void test_no_link_followed(void **state)
{
    (void)state;
    write_ok(in_root("victim"), "safe");
    char *path = in_root("target"),
         *tmp = qn_arena_printf(&arena, "%s.tmp-%ld", path, (long)gettid());
    assert_int_equal(symlink(in_root("victim"), tmp), 0);
    write_ok(path, "new");
    qn_map m;
    assert_int_equal(qn_map_open(&m, in_root("victim"), NULL), QN_OK);
    assert_memory_equal(m.data, "safe", 4);
    qn_map_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_refuses),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_safe_names),
        cmocka_unit_test(test_make_dirs),
        cmocka_unit_test(test_write_replaces),
        cmocka_unit_test(test_write_fails),
        cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_no_link_followed),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
