/* test_safetensors.c - one file and sharded folders: what is accepted, and everything that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "formats/safetensors.h"
#include "unit/formats_scratch.h"

/* A file of header text `json` and n bytes of data. */
static void file_of(qn_buf *b, const char *json, size_t n)
{
    uint64_t len = strlen(json);
    for (int i = 0; i < 8; i++)
        qn_buf_char(b, (char)(len >> (8 * i)));
    qn_buf_str(b, json);
    for (size_t i = 0; i < n; i++)
        qn_buf_char(b, (char)i);
}

/* Parses from a block of exactly that size, so that a read past the end is seen. */
static int parse_exact(qn_st **s, const char *p, size_t n, qn_error *err)
{
    char *exact = qn_alloc(n);
    memcpy(exact, p, n);
    *s = NULL;
    int rc = qn_st_parse(s, exact, n, "x.safetensors", err);
    for (size_t i = 0; rc == QN_OK && i < qn_st_count(*s); i++) {
        const qn_st_tensor *t = qn_st_at(*s, i);
        assert_true((const char *)t->data >= exact &&
                    (const char *)t->data + t->bytes <= exact + n);
    }
    qn_st_close(rc == QN_OK ? *s : NULL);
    qn_free(exact);
    return rc;
}

static void refused(const char *json, size_t n, const char *why)
{
    qn_st *s;
    qn_error err = { 0 };
    qn_buf b = { 0 };
    file_of(&b, json, n);
    int rc = parse_exact(&s, b.data, b.len, &err);
    if (rc >= 0 || !strstr(err.msg, why) || !strstr(err.msg, "x.safetensors"))
        fail_msg("%s: expected '%s', got %d '%s'", json, why, rc, err.msg);
    qn_buf_free(&b);
}

static void entries_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        size_t n;
        const char *why;
    } bad[] = {
        { "[]", 0, "no JSON object" },
        { "{", 0, "header: JSON" },
        { "{\"w\":1}", 0, "tensor 'w': its entry is no object" },
        { "{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "an empty name" },
        { "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "with a NUL" },
        { "{\"w\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype" },
        { "{\"w\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
          "unknown dtype 'F4'" },
        { "{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
          "no shape" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4,
          "no whole number" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
          "no whole number" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 4,
          "overflow" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}",
          4, "overflow" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 4,
          "size overflows" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no range" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "no range" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "no range" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "no range" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
          "need 8 bytes, data_offsets span 4" },
        { "{\"w\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "need 2 bytes" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "it is cut" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9223372036854775800,"
          "9223372036854775804]}}",
          4, "it is cut" },
        { "{\"v\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
          "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          8, "overlaps 'v'" },
        { "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
          8, "tensor 'w' occurs twice" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i].json, bad[i].n, bad[i].why);
}

static void headers_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } bad[] = {
        { "", 0, "at least 8 are needed" },
        { "\2\0\0\0\0\0\0", 7, "at least 8 are needed" },
        { "\3\0\0\0\0\0\0\0{}", 10, "exceeds the bytes left" },
        { "\377\377\377\377\377\377\377\377{}", 10, "exceeds the limit" },
        { "\0\0\0\0\0\0\0\0{}", 10, "JSON" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_st *s;
        qn_error err = { 0 };
        int rc = parse_exact(&s, bad[i].bytes, bad[i].n, &err);
        if (rc >= 0 || !strstr(err.msg, bad[i].why))
            fail_msg("expected '%s', got %d '%s'", bad[i].why, rc, err.msg);
    }
}

static const char sample[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,2],\"data_offsets\":[0,8]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[8,8]},"
    "\"one\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
    "\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[16,19]}}";

static void ordinary_files_open(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    qn_st *s;
    qn_error err = { 0 };
    file_of(&b, sample, 19);
    if (qn_st_parse(&s, b.data, b.len, "x", &err) != QN_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(qn_st_count(s), 4);
    assert_string_equal(qn_st_metadata(s, "format"), "pt");
    assert_null(qn_st_metadata(s, "none"));
    const qn_st_tensor *a = qn_st_find(s, "a"), *one = qn_st_find(s, "one");
    assert_true(a->layout == QN_BF16 && a->n_dims == 2 && a->dim[1] == 2 && a->bytes == 8);
    assert_true(one->n_dims == 0 && one->bytes == 8);
    assert_int_equal(qn_st_find(s, "f8")->layout, QN_F8_E4M3);
    assert_int_equal(qn_st_find(s, "none")->bytes, 0);
    assert_null(qn_st_find(s, "b"));
    qn_st_close(s);
    qn_buf_free(&b);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    file_of(&b, sample, 19);
    qn_st *s;
    assert_int_equal(parse_exact(&s, b.data, b.len, NULL), QN_OK);
    for (size_t n = 0; n < b.len; n++)
        assert_true(parse_exact(&s, b.data, n, NULL) < 0);
    qn_buf_free(&b);
}

static void flipped_bytes_never_crash(void **state)
{
    (void)state;
    static const uint8_t flips[] = { 0x01, 0x04, 0x10, 0x80, 0xff };
    qn_buf b = { 0 };
    qn_st *s;
    file_of(&b, sample, 19);
    for (size_t i = 0; i < b.len; i++)
        for (size_t f = 0; f < sizeof flips; f++) {
            b.data[i] = (char)(b.data[i] ^ flips[f]);
            parse_exact(&s, b.data, b.len, NULL);
            b.data[i] = (char)(b.data[i] ^ flips[f]);
        }
    qn_buf_free(&b);
}

/* ---- Folders ---- */

static void shard(const char *dir, const char *name, const char *tensor)
{
    char json[200];
    qn_buf b = { 0 };
    snprintf(json, sizeof json, "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
             tensor);
    file_of(&b, json, 8);
    scratch_write(dir, name, b.data, b.len);
    qn_buf_free(&b);
}

static void folder_index(const char *dir, const char *json)
{
    scratch_write(dir, "model.safetensors.index.json", json, strlen(json));
}

static void opens(const char *dir, size_t n_tensors, size_t n_files)
{
    qn_st *s;
    qn_error err = { 0 };
    if (qn_st_open(&s, dir, &err) != QN_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(qn_st_count(s), n_tensors);
    assert_int_equal(qn_st_n_files(s), n_files);
    qn_st_close(s);
}

static void folder_refused(const char *dir, const char *why)
{
    qn_st *s;
    qn_error err = { 0 };
    int rc = qn_st_open(&s, dir, &err);
    if (rc >= 0 || s || !strstr(err.msg, why))
        fail_msg("expected '%s', got %d '%s'", why, rc, err.msg);
}

/* A fresh folder for one test, in the arena. */
static const char *folder(qn_arena *a, void **state, const char *name)
{
    const char *dir = qn_path_join(a, *state, name);
    assert_int_equal(qn_make_dirs(dir, NULL), QN_OK);
    return dir;
}

static void folders_without_an_index(void **state)
{
    qn_arena a = { 0 };
    const char *dir = folder(&a, state, "plain");
    folder_refused(dir, "no .safetensors file");
    folder_refused(qn_path_join(&a, dir, "absent"), "No such file");
    shard(dir, "weights.safetensors", "w");
    opens(dir, 1, 1);
    shard(dir, "other.safetensors", "w");
    folder_refused(dir, "several .safetensors files and no index");
    shard(dir, "model-00001-of-00002.safetensors", "a");
    folder_refused(dir, "shard 2 of 2 is missing");
    shard(dir, "model-00002-of-00002.safetensors", "b");
    opens(dir, 2, 2);
    shard(dir, "model-00002-of-00002.safetensors", "a");
    folder_refused(dir, "tensor 'a' occurs twice");
    unlink(qn_path_join(&a, dir, "model-00001-of-00002.safetensors"));
    folder_refused(dir, "shard 1 of 2 is missing");
    shard(dir, "model.safetensors", "c");
    opens(dir, 1, 1);
    opens(qn_path_join(&a, dir, "model.safetensors"), 1, 1);
    qn_arena_free(&a);
}

static void folders_with_an_index(void **state)
{
    qn_arena a = { 0 };
    const char *dir = folder(&a, state, "index");
    folder_index(dir, "{\"metadata\":{\"total_size\":16},\"weight_map\":{\"b\":\"y.safetensors\","
                      "\"a\":\"x.safetensors\"}}");
    shard(dir, "x.safetensors", "a");
    folder_refused(dir, "shard 'y.safetensors' is missing: 16 bytes of tensors expected, 8 found");
    shard(dir, "y.safetensors", "b");
    opens(dir, 2, 2);
    shard(dir, "y.safetensors", "c");
    folder_refused(dir, "tensor 'b' is not in 'y.safetensors'");
    folder_index(dir, "{\"weight_map\":{\"a\":\"x.safetensors\"}}");
    opens(dir, 1, 1);
    folder_index(dir, "{\"weight_map\":{}}");
    folder_refused(dir, "weight_map");
    folder_index(dir, "{\"weight_map\":{\"a\":5}}");
    folder_refused(dir, "weight_map");
    folder_index(dir, "{\"weight_map\"");
    folder_refused(dir, "index.json");
    /* A cut shard says how long it ought to be. */
    folder_index(dir, "{\"weight_map\":{\"a\":\"x.safetensors\"}}");
    const char *x = qn_path_join(&a, dir, "x.safetensors");
    qn_map m;
    assert_int_equal(qn_map_open(&m, x, NULL), QN_OK);
    size_t size = m.size;
    qn_map_close(&m);
    assert_int_equal(truncate(x, (off_t)size - 1), 0);
    char why[100];
    snprintf(why, sizeof why, "x.safetensors: tensor 'a' ends at byte %zu, the file has %zu", size,
             size - 1);
    folder_refused(dir, why);
    qn_arena_free(&a);
}

static void names_never_leave_the_folder(void **state)
{
    static const char *const bad[] = { "../secret.safetensors",
                                       "/etc/passwd",
                                       "sub/../../secret.safetensors",
                                       "a\\\\b.safetensors",
                                       "",
                                       "a\\u0000b" };
    qn_arena a = { 0 };
    const char *dir = folder(&a, state, "jail/model");
    shard(*state, "jail/secret.safetensors", "s");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        folder_index(dir, qn_arena_printf(&a, "{\"weight_map\":{\"s\":\"%s\"}}", bad[i]));
        folder_refused(dir, "leaves the folder");
    }
    /* Links: out of the folder, and to a file inside it. */
    folder_index(dir, "{\"weight_map\":{\"s\":\"link.safetensors\"}}");
    const char *link = qn_path_join(&a, dir, "link.safetensors");
    assert_int_equal(symlink("../secret.safetensors", link), 0);
    folder_refused(dir, "a link that leaves the folder");
    unlink(link);
    shard(dir, "real.bin", "s");
    assert_int_equal(symlink("real.bin", link), 0);
    opens(dir, 1, 1);
    unlink(link);
    assert_int_equal(symlink("nowhere", link), 0);
    folder_refused(dir, "shard 'link.safetensors' is missing");
    qn_arena_free(&a);
}

/* A hub cache keeps files as links from snapshots/<revision> to blobs, inside one repository. */
static void links_of_a_hub_cache_are_followed(void **state)
{
    qn_arena a = { 0 };
    const char *dir = folder(&a, state, "hub/repo/snapshots/abc");
    shard(*state, "hub/repo/blobs/0123", "w");
    shard(*state, "hub/outside", "w");
    folder_index(dir, "{\"weight_map\":{\"w\":\"model-1.safetensors\"}}");
    const char *link = qn_path_join(&a, dir, "model-1.safetensors");
    assert_int_equal(symlink("../../blobs/0123", link), 0);
    opens(dir, 1, 1);
    unlink(link);
    assert_int_equal(symlink("../../../outside", link), 0);
    folder_refused(dir, "a link that leaves the folder");
    qn_arena_free(&a);
}

static void what_was_written_is_read(void **state)
{
    qn_arena a = { 0 };
    qn_error err = { 0 };
    const char *path = qn_path_join(&a, *state, "written.safetensors");
    static const uint8_t bytes[3] = { 1, 2, 3 };
    static const float x[6] = { 1, 2, 3, 4, 5, 6 };
    static const int64_t big[1] = { -9 };
    qn_st_tensor t[] = {
        { .name = "u", .layout = QN_U8, .n_dims = 1, .dim = { 3 }, .data = bytes },
        { .name = "x \"quoted\" \xc3\xa9",
          .layout = QN_F32,
          .n_dims = 2,
          .dim = { 2, 3 },
          .data = x },
        { .name = "i", .layout = QN_I64, .n_dims = 0, .data = big },
        { .name = "empty", .layout = QN_F16, .n_dims = 2, .dim = { 0, 5 } },
    };
    if (qn_st_write(path, t, 4, &err) != QN_OK)
        fail_msg("%s", err.msg);
    qn_st *s;
    if (qn_st_open(&s, path, &err) != QN_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(qn_st_count(s), 4);
    for (size_t i = 0; i < 4; i++) {
        const qn_st_tensor *r = qn_st_find(s, t[i].name);
        assert_true(r && r->layout == t[i].layout && r->n_dims == t[i].n_dims);
        assert_memory_equal(r->data, t[i].data ? t[i].data : "", r->bytes);
        assert_int_equal((uintptr_t)r->data % qn_layout_get((qn_layout)r->layout)->block_bytes, 0);
    }
    qn_st_close(s);

    t[0].layout = QN_Q4_0;
    assert_int_equal(qn_st_write(path, t, 1, &err), QN_ERR_UNSUPPORTED);
    t[0].layout = QN_U8;
    assert_int_equal(qn_st_write("/no/such/folder/x", t, 1, &err), QN_ERR_IO);
    qn_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_that_lie),
        cmocka_unit_test(headers_that_lie),
        cmocka_unit_test(ordinary_files_open),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(flipped_bytes_never_crash),
        cmocka_unit_test(folders_without_an_index),
        cmocka_unit_test(folders_with_an_index),
        cmocka_unit_test(names_never_leave_the_folder),
        cmocka_unit_test(links_of_a_hub_cache_are_followed),
        cmocka_unit_test(what_was_written_is_read),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
