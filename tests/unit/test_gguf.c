/* test_gguf.c - the GGUF reader and writer: every value type, splits, and files made to break a reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/gguf_write.h"
#include "unit/formats_scratch.h"

/* ---- Raw files: what the writer would never write ---- */

static void le(qn_buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        qn_buf_char(b, i < 8 ? (char)(v >> (8 * i)) : 0);
}

static void text(qn_buf *b, const char *s)
{
    le(b, strlen(s), 8);
    qn_buf_str(b, s);
}

static void head(qn_buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_values)
{
    qn_buf_str(b, "GGUF");
    le(b, version, 4);
    le(b, n_tensors, 8);
    le(b, n_values, 8);
}

static void key(qn_buf *b, const char *name, uint32_t type)
{
    text(b, name);
    le(b, type, 4);
}

/* A tensor's entry; dims fastest first as in the file. */
static void entry(qn_buf *b, const char *name, uint32_t type, uint64_t offset, uint32_t n_dims,
                  const uint64_t *dims)
{
    text(b, name);
    le(b, n_dims, 4);
    for (uint32_t i = 0; i < n_dims && i < 4; i++)
        le(b, dims[i], 8);
    le(b, type, 4);
    le(b, offset, 8);
}

static void data(qn_buf *b, size_t n)
{
    while (b->len % 32 != 0)
        qn_buf_char(b, 0);
    for (size_t i = 0; i < n; i++)
        qn_buf_char(b, (char)i);
}

/* Parses from a block of exactly that size, so that a read past the end is seen. */
static int parse(qn_gguf **g, const void *p, size_t n, qn_error *err)
{
    *g = NULL;
    return qn_gguf_parse(g, p, n, "x.gguf", err);
}

/* Parses and frees `b`; the file must be refused with a message holding `why` and the file's name. */
static void refused(qn_buf *b, const char *why)
{
    qn_gguf *g;
    qn_error err = { 0 };
    char *exact = qn_alloc(b->len);
    memcpy(exact, b->data, b->len);
    int rc = parse(&g, exact, b->len, &err);
    if (rc >= 0 || g || !strstr(err.msg, why) || !strstr(err.msg, "x.gguf") ||
        strchr(err.msg, '\n'))
        fail_msg("expected '%s', got %d '%s'", why, rc, err.msg);
    qn_free(exact);
    qn_buf_free(b);
}

/* ---- Valid files ---- */

static void write_sample(qn_gguf_writer *w)
{
    static const int32_t types[3] = { 1, -2, 3 };
    static const float x[4] = { 1, 2, 3, 4 };
    static const uint8_t q[36];
    qn_gguf_str strs[3] = { { "one", 3 }, { "", 0 }, { "t\0o", 3 } };
    qn_gguf_put_str(w, "general.architecture", "llama");
    qn_gguf_put_u32(w, "a.u32", 4000000000u);
    qn_gguf_put_i32(w, "a.i32", -5);
    qn_gguf_put_u64(w, "a.u64", 1ull << 63);
    qn_gguf_put_f32(w, "a.f32", 0.5f);
    qn_gguf_put_bool(w, "a.bool", true);
    qn_gguf_put_array(w, "a.ints", QN_GGUF_I32, types, 3);
    qn_gguf_put_strs(w, "a.strs", strs, 3);
    qn_gguf_put_tensor(
        w,
        &(qn_gguf_tensor){ .name = "vec", .n_dims = 1, .dim = { 4 }, .layout = QN_F32, .data = x });
    qn_gguf_put_tensor(
        w, &(qn_gguf_tensor){
               .name = "mat", .n_dims = 2, .dim = { 2, 32 }, .layout = QN_Q4_0, .data = q });
}

static void what_was_written_is_read(void **state)
{
    const char *dir = *state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_gguf_writer w = { 0 };
    write_sample(&w);
    const char *path = qn_path_join(&a, dir, "sample.gguf");
    assert_int_equal(qn_gguf_save(&w, path, &err), QN_OK);
    qn_gguf_writer_free(&w);

    qn_gguf *g;
    if (qn_gguf_open(&g, path, &err) != QN_OK)
        fail_msg("%s", err.msg);
    qn_gguf_str s;
    int64_t i;
    double d;
    assert_int_equal(qn_gguf_version(g), 3);
    assert_int_equal(qn_gguf_n_values(g), 8);
    assert_true(qn_gguf_string(g, "general.architecture", &s) && s.n == 5 &&
                memcmp(s.p, "llama", 5) == 0);
    assert_true(qn_gguf_int(g, "a.u32", 0) == 4000000000);
    assert_true(qn_gguf_int(g, "a.i32", 0) == -5);
    assert_true(qn_gguf_int(g, "a.u64", 17) == 17); /* out of range */
    assert_true(qn_gguf_num(g, "a.u64", 0) == 9223372036854775808.0);
    assert_true(qn_gguf_num(g, "a.f32", 0) == 0.5);
    assert_true(qn_gguf_int(g, "a.f32", 9) == 9);
    assert_true(qn_gguf_bool(g, "a.bool", false));
    assert_false(qn_gguf_string(g, "a.bool", &s));
    assert_true(qn_gguf_int(g, "absent", 3) == 3);
    const qn_gguf_value *ints = qn_gguf_get(g, "a.ints"), *strs = qn_gguf_get(g, "a.strs");
    assert_int_equal(qn_gguf_array_len(ints), 3);
    assert_true(qn_gguf_array_int(ints, 1, &i) && i == -2);
    assert_true(qn_gguf_array_num(ints, 2, &d) && d == 3);
    assert_false(qn_gguf_array_int(ints, 3, &i));
    assert_false(qn_gguf_array_str(ints, 0, &s));
    assert_non_null(qn_gguf_array_raw(ints, QN_GGUF_I32));
    assert_null(qn_gguf_array_raw(ints, QN_GGUF_F32));
    assert_true(qn_gguf_array_str(strs, 0, &s) && s.n == 3);
    assert_true(qn_gguf_array_str(strs, 1, &s) && s.n == 0);
    assert_true(qn_gguf_array_str(strs, 2, &s) && s.n == 3 && memcmp(s.p, "t\0o", 3) == 0);
    assert_null(qn_gguf_array_raw(strs, QN_GGUF_STR));

    const qn_gguf_tensor *t = qn_gguf_tensor_find(g, "mat");
    assert_true(t && t->n_dims == 2 && t->dim[0] == 2 && t->dim[1] == 32 && t->bytes == 36);
    assert_true(((const float *)qn_gguf_tensor_find(g, "vec")->data)[3] == 4);
    assert_null(qn_gguf_tensor_find(g, "none"));

    /* All values copied into another file are the same bytes. */
    qn_gguf_writer copy = { 0 }, first = { 0 };
    write_sample(&first);
    for (size_t k = 0; k < qn_gguf_n_values(g); k++)
        qn_gguf_put_value(&copy, qn_gguf_value_at(g, k));
    assert_int_equal(copy.values.len, first.values.len);
    assert_memory_equal(copy.values.data, first.values.data, first.values.len);
    qn_gguf_writer_free(&copy);
    qn_gguf_writer_free(&first);
    qn_gguf_close(g);
    qn_arena_free(&a);
}

static void every_value_type_and_nested_arrays(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    head(&b, 2, 0, 13);
    key(&b, "u8", QN_GGUF_U8), le(&b, 200, 1);
    key(&b, "i8", QN_GGUF_I8), le(&b, 200, 1);
    key(&b, "u16", QN_GGUF_U16), le(&b, 65000, 2);
    key(&b, "i16", QN_GGUF_I16), le(&b, 65000, 2);
    key(&b, "u32", QN_GGUF_U32), le(&b, 7, 4);
    key(&b, "i32", QN_GGUF_I32), le(&b, 0xffffffff, 4);
    key(&b, "f32", QN_GGUF_F32), le(&b, 0x40490fdb, 4);
    key(&b, "bool", QN_GGUF_BOOL), le(&b, 1, 1);
    key(&b, "str", QN_GGUF_STR), text(&b, "hello");
    key(&b, "u64", QN_GGUF_U64), le(&b, 1ull << 40, 8);
    key(&b, "i64", QN_GGUF_I64), le(&b, ~0ull, 8);
    key(&b, "f64", QN_GGUF_F64), le(&b, 0x4000000000000000, 8);
    /* [["ab", "c"], [], ["d"]] */
    key(&b, "nest", QN_GGUF_ARRAY), le(&b, QN_GGUF_ARRAY, 4), le(&b, 3, 8);
    le(&b, QN_GGUF_STR, 4), le(&b, 2, 8), text(&b, "ab"), text(&b, "c");
    le(&b, QN_GGUF_U8, 4), le(&b, 0, 8);
    le(&b, QN_GGUF_STR, 4), le(&b, 1, 8), text(&b, "d");

    qn_gguf *g;
    qn_error err = { 0 };
    if (parse(&g, b.data, b.len, &err) != QN_OK)
        fail_msg("%s", err.msg);
    static const struct {
        const char *key;
        double value;
    } want[] = { { "u8", 200 },
                 { "i8", -56 },
                 { "u16", 65000 },
                 { "i16", -536 },
                 { "u32", 7 },
                 { "i32", -1 },
                 { "f32", 3.1415927410125732 },
                 { "bool", 1 },
                 { "u64", 0x1p40 },
                 { "i64", -1 },
                 { "f64", 2 } };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_true(qn_gguf_num(g, want[i].key, 1e9) == want[i].value);
    assert_true(qn_gguf_num(g, "str", 5) == 5);

    const qn_gguf_value *nest = qn_gguf_get(g, "nest");
    qn_gguf_value in;
    qn_gguf_str s;
    assert_int_equal(qn_gguf_array_len(nest), 3);
    assert_true(qn_gguf_array_array(nest, 0, &in) && qn_gguf_array_len(&in) == 2);
    assert_true(qn_gguf_array_str(&in, 1, &s) && s.n == 1 && s.p[0] == 'c');
    assert_true(qn_gguf_array_array(nest, 1, &in) && qn_gguf_array_len(&in) == 0);
    assert_true(qn_gguf_array_array(nest, 2, &in) && qn_gguf_array_str(&in, 0, &s) &&
                s.p[0] == 'd');
    assert_false(qn_gguf_array_array(nest, 3, &in));
    qn_gguf_close(g);
    qn_buf_free(&b);
}

static void headers_that_are_not_ours(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    qn_buf_str(&b, "GGU");
    refused(&b, "not a GGUF file");
    qn_buf_str(&b, "GGML\3\0\0\0");
    refused(&b, "not a GGUF file");
    head(&b, 1, 0, 0);
    refused(&b, "GGUF version 1;");
    head(&b, 4, 0, 0);
    refused(&b, "GGUF version 4;");
    head(&b, 0x03000000, 0, 0);
    refused(&b, "big-endian file, version 3");
    head(&b, 3, 1ull << 60, 0);
    refused(&b, "tensor count");
    head(&b, 3, 0, 1ull << 60);
    refused(&b, "metadata count");
    head(&b, 3, 0, ~0ull);
    refused(&b, "metadata count");
}

static void values_that_lie(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    head(&b, 3, 0, 1), key(&b, "k", 13), le(&b, 0, 8);
    refused(&b, "key 'k': unknown value type 13");
    head(&b, 3, 0, 1), key(&b, "", QN_GGUF_U8), le(&b, 0, 8);
    refused(&b, "metadata key 0");
    head(&b, 3, 0, 1), le(&b, 3, 8), qn_buf_add(&b, "a\0b", 3), le(&b, 0, 4), le(&b, 0, 8);
    refused(&b, "NUL");
    head(&b, 3, 0, 1), le(&b, 1ull << 62, 8), le(&b, 0, 16);
    refused(&b, "cut at byte");
    head(&b, 3, 0, 1), key(&b, "k", QN_GGUF_STR), le(&b, ~0ull, 8), le(&b, 0, 8);
    refused(&b, "key 'k'");
    head(&b, 3, 0, 1), key(&b, "k", QN_GGUF_ARRAY), le(&b, 99, 4), le(&b, 1, 8);
    refused(&b, "unknown item type 99");
    /* Counts whose product with the item size wraps, or that the bytes cannot hold. */
    head(&b, 3, 0, 1), key(&b, "k", QN_GGUF_ARRAY), le(&b, QN_GGUF_U64, 4), le(&b, 1ull << 61, 8),
        le(&b, 0, 8);
    refused(&b, "does not fit");
    head(&b, 3, 0, 1), key(&b, "k", QN_GGUF_ARRAY), le(&b, QN_GGUF_STR, 4), le(&b, 1ull << 40, 8),
        le(&b, 0, 8);
    refused(&b, "does not fit");
    head(&b, 3, 0, 1), key(&b, "k", QN_GGUF_ARRAY);
    for (int i = 0; i < 40; i++)
        le(&b, QN_GGUF_ARRAY, 4), le(&b, 1, 8);
    refused(&b, "nested more than");
    head(&b, 3, 0, 2), key(&b, "k", QN_GGUF_U8), le(&b, 0, 1), key(&b, "k", QN_GGUF_U8),
        le(&b, 0, 1);
    refused(&b, "key 'k' occurs twice");
    head(&b, 3, 0, 1), key(&b, "split.count", QN_GGUF_U16), le(&b, 2, 2);
    refused(&b, "split.count");
}

static void tensors_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *why;
        uint32_t type, n_dims;
        uint64_t offset, dims[4];
    } bad[] = {
        { "0 dimensions", 0, 0, 0, { 0 } },
        { "5 dimensions", 0, 5, 0, { 1, 1, 1, 1 } },
        { "a dimension of", 0, 1, 0, { 1ull << 63 } },
        { "dimensions overflow", 0, 3, 0, { 1ull << 32, 1ull << 31, 4 } },
        { "dimensions overflow", 0, 3, 0, { 0, 1ull << 62, 4 } },
        { "size overflows", 0, 1, 0, { 1ull << 62 } },
        { "no whole q4_0 blocks", 2, 1, 0, { 33 } },
        { "no whole q6_k blocks", 14, 2, 0, { 128, 2 } },
        { "unknown tensor type 42", 42, 1, 0, { 1 } },
        { "not a standard GGUF type", 137, 1, 0, { 1 } },
        { "was removed from GGUF", 4, 1, 0, { 1 } },
        { "was removed from GGUF", 31, 1, 0, { 1 } },
        { "not a multiple of 32", 0, 1, 4, { 1 } },
        { "ends at byte", 0, 1, 0, { 1000 } },
        { "ends at byte", 0, 1, 1ull << 62, { 1 } },
        { "ends at byte", 0, 1, 0xffffffffffffffe0, { 64 } },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qn_buf b = { 0 };
        head(&b, 3, 1, 0);
        entry(&b, "w", bad[i].type, bad[i].offset, bad[i].n_dims, bad[i].dims);
        data(&b, 64);
        refused(&b, bad[i].why);
    }
    const uint64_t eight[1] = { 8 };
    qn_buf b = { 0 };
    head(&b, 3, 2, 0), entry(&b, "w", 0, 0, 1, eight), entry(&b, "w", 0, 32, 1, eight),
        data(&b, 64);
    refused(&b, "tensor 'w' occurs twice");
    head(&b, 3, 2, 0), entry(&b, "v", 0, 0, 1, eight), entry(&b, "w", 0, 0, 1, eight), data(&b, 64);
    refused(&b, "overlaps");
    const uint64_t twelve[1] = { 12 };
    head(&b, 3, 2, 0), entry(&b, "v", 0, 0, 1, twelve), entry(&b, "w", 0, 32, 1, eight),
        data(&b, 64);
    refused(&b, "overlaps");
    head(&b, 3, 1, 1), key(&b, "general.alignment", QN_GGUF_U32), le(&b, 3, 4);
    entry(&b, "w", 0, 0, 1, eight), data(&b, 64);
    refused(&b, "general.alignment");
    head(&b, 3, 1, 1), key(&b, "general.alignment", QN_GGUF_U32), le(&b, 0, 4);
    entry(&b, "w", 0, 0, 1, eight), data(&b, 64);
    refused(&b, "general.alignment");
}

static void other_alignments_are_followed(void **state)
{
    (void)state;
    const uint64_t two[1] = { 2 };
    qn_buf b = { 0 };
    head(&b, 3, 2, 1), key(&b, "general.alignment", QN_GGUF_U32), le(&b, 8, 4);
    entry(&b, "v", 0, 0, 1, two), entry(&b, "w", 0, 8, 1, two);
    while (b.len % 8 != 0)
        qn_buf_char(&b, 0);
    size_t base = b.len;
    le(&b, 0, 16);
    qn_gguf *g;
    qn_error err = { 0 };
    if (parse(&g, b.data, b.len, &err) != QN_OK)
        fail_msg("%s", err.msg);
    assert_ptr_equal(qn_gguf_tensor_find(g, "w")->data, b.data + base + 8);
    qn_gguf_close(g);
    qn_buf_free(&b);
}

/* The whole sample as bytes. */
static void sample_bytes(qn_buf *b)
{
    qn_gguf_writer w = { 0 };
    write_sample(&w);
    qn_gguf_put_array(&w, "n", QN_GGUF_U8, "xyz", 3);
    assert_int_equal(qn_gguf_header(&w, b, NULL), QN_OK);
    le(b, 0, 32 + 36);
    qn_gguf_writer_free(&w);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    qn_buf b = { 0 };
    sample_bytes(&b);
    qn_gguf *g;
    qn_error err = { 0 };
    if (parse(&g, b.data, b.len, &err) != QN_OK)
        fail_msg("%s", err.msg);
    qn_gguf_close(g);
    for (size_t n = 0; n < b.len; n++) {
        qn_buf cut = { 0 };
        qn_buf_add(&cut, b.data, n);
        qn_buf_char(&cut, 0);
        cut.len = n;
        refused(&cut, "x.gguf");
    }
    qn_buf_free(&b);
}

/* Reads all that an accepted file of n bytes holds. */
static void read_all(const qn_gguf *g, const char *file, size_t n)
{
    qn_gguf_str s;
    for (size_t k = 0; k < qn_gguf_n_values(g); k++)
        for (size_t j = 0; j < qn_gguf_array_len(qn_gguf_value_at(g, k)); j++)
            if (qn_gguf_array_str(qn_gguf_value_at(g, k), j, &s))
                assert_true(s.p >= file && s.p + s.n <= file + n);
    for (size_t k = 0; k < qn_gguf_n_tensors(g); k++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_at(g, k);
        assert_true((const char *)t->data + t->bytes <= file + n);
    }
}

/* Any single byte changed to any of some values: accepted or refused, never a crash. */
static void flipped_bytes_never_crash(void **state)
{
    (void)state;
    static const uint8_t flips[] = { 0x01, 0x80, 0xff, 0x7f, 0x20 };
    qn_buf b = { 0 };
    sample_bytes(&b);
    size_t n_ok = 0;
    for (size_t i = 0; i < b.len * sizeof flips; i++) {
        qn_gguf *g;
        char *copy = qn_alloc(b.len);
        memcpy(copy, b.data, b.len);
        copy[i / sizeof flips] ^= (char)flips[i % sizeof flips];
        if (parse(&g, copy, b.len, NULL) == QN_OK) {
            n_ok++;
            read_all(g, copy, b.len);
            qn_gguf_close(g);
        }
        qn_free(copy);
    }
    assert_true(n_ok > 0);
    qn_buf_free(&b);
}

/* ---- Splits ---- */

static void write_part(const char *dir, int no, int count, int stated_no, int total,
                       const char *tensor)
{
    static const float x[8];
    char name[100];
    qn_arena a = { 0 };
    qn_gguf_writer w = { 0 };
    qn_gguf_put_u32(&w, "split.no", (uint32_t)stated_no);
    qn_gguf_put_u32(&w, "split.count", (uint32_t)count);
    qn_gguf_put_i32(&w, "split.tensors.count", total);
    qn_gguf_put_tensor(
        &w, &(qn_gguf_tensor){
                .name = tensor, .n_dims = 1, .dim = { 8 }, .layout = QN_F32, .data = x });
    snprintf(name, sizeof name, "m-%05d-of-%05d.gguf", no, count);
    assert_int_equal(qn_gguf_save(&w, qn_path_join(&a, dir, name), NULL), QN_OK);
    qn_gguf_writer_free(&w);
    qn_arena_free(&a);
}

static void split_refused(const char *path, const char *why)
{
    qn_gguf *g;
    qn_error err = { 0 };
    int rc = qn_gguf_open(&g, path, &err);
    if (rc >= 0 || g || !strstr(err.msg, why))
        fail_msg("expected '%s', got %d '%s'", why, rc, err.msg);
}

static void split_files_open_together(void **state)
{
    const char *dir = *state;
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_gguf *g;
    const char *first = qn_path_join(&a, dir, "m-00001-of-00003.gguf");
    for (int i = 0; i < 3; i++)
        write_part(dir, i + 1, 3, i, 3, i == 0 ? "a" : i == 1 ? "b" : "c");
    if (qn_gguf_open(&g, first, &err) != QN_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(qn_gguf_n_files(g), 3);
    assert_int_equal(qn_gguf_n_tensors(g), 3);
    assert_non_null(qn_gguf_tensor_find(g, "c"));
    qn_gguf_close(g);

    split_refused(qn_path_join(&a, dir, "m-00002-of-00003.gguf"), "part 1 of 1 was expected");
    write_part(dir, 3, 3, 2, 3, "b");
    split_refused(first, "tensor 'b' occurs twice");
    write_part(dir, 3, 3, 1, 3, "c");
    split_refused(first, "it is part 2 of 3; part 3 of 3 was expected");
    write_part(dir, 3, 3, 2, 3, "c");
    write_part(dir, 1, 3, 0, 4, "a");
    split_refused(first, "says 4 tensors, the parts have 3");
    unlink(qn_path_join(&a, dir, "m-00002-of-00003.gguf"));
    split_refused(first, "part 2 of 3 is missing");
    write_part(dir, 1, 2, 0, 1, "a");
    const char *odd = qn_path_join(&a, dir, "odd.gguf");
    assert_int_equal(rename(qn_path_join(&a, dir, "m-00001-of-00002.gguf"), odd), 0);
    split_refused(odd, "not named");
    /* A part whose data are cut is named. */
    for (int i = 0; i < 3; i++)
        write_part(dir, i + 1, 3, i, 3, i == 0 ? "a" : i == 1 ? "b" : "c");
    const char *third = qn_path_join(&a, dir, "m-00003-of-00003.gguf");
    qn_map m;
    assert_int_equal(qn_map_open(&m, third, &err), QN_OK);
    size_t size = m.size;
    qn_map_close(&m);
    assert_int_equal(truncate(third, (off_t)size - 4), 0);
    split_refused(first, "m-00003-of-00003.gguf: tensor 'c' ends at byte");
    qn_arena_free(&a);
}

static void writer_refuses_what_gguf_lacks(void **state)
{
    (void)state;
    qn_gguf_writer w = { 0 };
    qn_buf b = { 0 };
    qn_error err = { 0 };
    qn_gguf_put_tensor(
        &w, &(qn_gguf_tensor){ .name = "w", .n_dims = 1, .dim = { 4 }, .layout = QN_U32 });
    assert_int_equal(qn_gguf_header(&w, &b, &err), QN_ERR_UNSUPPORTED);
    w.tensor[0].layout = QN_Q4_0;
    assert_int_equal(qn_gguf_header(&w, &b, &err), QN_ERR_ARGUMENT);
    qn_gguf_writer_free(&w);
    qn_buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(every_value_type_and_nested_arrays),
        cmocka_unit_test(headers_that_are_not_ours),
        cmocka_unit_test(values_that_lie),
        cmocka_unit_test(tensors_that_lie),
        cmocka_unit_test(other_alignments_are_followed),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(flipped_bytes_never_crash),
        cmocka_unit_test(split_files_open_together),
        cmocka_unit_test(writer_refuses_what_gguf_lacks),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
