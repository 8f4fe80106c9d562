/* test_tokenizers.c - every tokenizer case of the kit and of this folder: ids, pieces, text, streams.
 * Two small cases live beside this file, so that a clone without the kit proves something too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>

#include "base/file.h"
#include "base/json.h"
#include "engine/gguf_tokenizer.h"

typedef struct tally {
    const char *name;
    int checked, wrong;
} tally;

/* Counts a comparison and shows the first few that fail. */
static void check(tally *k, bool same, const char *what, const qn_json *row)
{
    k->checked++;
    if (same)
        return;
    qn_buf b = { 0 };
    qn_json_put(&b, row);
    if (k->wrong++ < 5)
        print_message("%s: %s differs in %.600s\n", k->name, what, qn_buf_cstr(&b));
    qn_buf_free(&b);
}

static bool same_ids(const qn_ids *got, const qn_json *want)
{
    bool same = want->n == got->n;
    for (uint32_t i = 0; same && i < want->n; i++)
        same = qn_json_int(&want->items[i], -1) == got->v[i];
    return same;
}

static void check_ids(tally *k, const qn_tokenizer *t, const qn_json *row, const char *field,
                      unsigned flags)
{
    const qn_json *text = qn_json_get(row, "text"), *want = qn_json_get(row, field);
    qn_ids ids = { 0 };
    qn_error err;
    if (!want && flags & QN_ENCODE_SPECIAL)
        want = qn_json_get(row, "ids");
    int rc = qn_tokenizer_encode(t, text->s, text->n, flags, &ids, &err);
    check(k, rc == QN_OK && same_ids(&ids, want), field, row);
    qn_ids_free(&ids);
}

static void to_ids(const qn_json *v, qn_ids *out)
{
    for (uint32_t i = 0; i < v->n; i++)
        qn_ids_add(out, (int32_t)qn_json_int(&v->items[i], -1));
}

static bool same_text(const qn_buf *got, const qn_json *want)
{
    return want->n == got->len && (want->n == 0 || memcmp(got->data, want->s, want->n) == 0);
}

static void check_text(tally *k, const qn_tokenizer *t, const qn_json *row, const char *ids_field,
                       const char *text_field)
{
    const qn_json *from = qn_json_get(row, ids_field), *want = qn_json_get(row, text_field);
    qn_ids ids = { 0 };
    qn_buf text = { 0 };
    if (!from)
        from = qn_json_get(row, "ids");
    to_ids(from, &ids);
    qn_tokenizer_decode(t, ids.v, ids.n, strcmp(text_field, "decoded_skip") == 0, &text);
    check(k, same_text(&text, want), text_field, row);
    qn_ids_free(&ids);
    qn_buf_free(&text);
}

static void check_stream(tally *k, const qn_tokenizer *t, const qn_json *row)
{
    const qn_json *ids = qn_json_get(row, "ids"), *want = qn_json_get(row, "stream");
    qn_detok *d = qn_detok_open(t, false);
    qn_buf part = { 0 }, all = { 0 };
    bool same = true;
    for (uint32_t i = 0; i < ids->n; i++) {
        qn_buf_clear(&part);
        qn_detok_push(d, (int32_t)qn_json_int(&ids->items[i], -1), &part);
        same = same && same_text(&part, &want->items[i]);
        qn_buf_add(&all, qn_buf_cstr(&part), part.len);
    }
    qn_detok_flush(d, &all);
    check(k, same && same_text(&all, qn_json_get(row, "decoded")), "stream", row);
    qn_detok_close(d);
    qn_buf_free(&part);
    qn_buf_free(&all);
}

static void check_pieces(tally *k, const qn_tokenizer *t, const qn_json *row)
{
    const qn_json *ids = qn_json_get(row, "ids"), *want = qn_json_get(row, "pieces");
    bool same = true;
    for (uint32_t i = 0; i < ids->n && same; i++) {
        size_t n;
        int32_t id = (int32_t)qn_json_int(&ids->items[i], -1);
        const char *s = qn_tokenizer_piece(t, id, &n);
        same = s && n == want->items[i].n && memcmp(s, want->items[i].s, n) == 0;
    }
    check(k, same, "pieces", row);
}

static void check_row(tally *k, const qn_tokenizer *t, const qn_json *row)
{
    unsigned parse = qn_tokenizer_parses(t) ? QN_ENCODE_PARSE : 0;
    check_ids(k, t, row, "ids", parse);
    check_ids(k, t, row, "ids_special", parse | QN_ENCODE_SPECIAL);
    if (qn_json_get(row, "ids_allow_special"))
        check_ids(k, t, row, "ids_allow_special", QN_ENCODE_PARSE);
    check_text(k, t, row, "ids", "decoded");
    if (qn_json_get(row, "decoded_skip"))
        check_text(k, t, row, "ids_special", "decoded_skip");
    if (qn_json_get(row, "stream"))
        check_stream(k, t, row);
    if (qn_json_get(row, "pieces"))
        check_pieces(k, t, row);
}

static void run_case(const char *dir, const char *name)
{
    qn_arena a = { 0 };
    qn_error err = { 0 };
    tally k = { name, 0, 0 };
    qn_tokenizer *t;
    const qn_json *root = qn_json_parse_file(&a, qn_path_join(&a, dir, "expected.json"), &err);
    if (!root || qn_tokenizer_open(&t, dir, &err) != QN_OK)
        fail_msg("%s", err.msg);
    const qn_json *rows = qn_json_get(root, "strings"), *decode = qn_json_get(root, "decode");
    for (uint32_t i = 0; i < rows->n; i++)
        check_row(&k, t, &rows->items[i]);
    for (uint32_t i = 0; i < decode->n; i++)
        check_text(&k, t, &decode->items[i], "ids", "text");
    print_message("%-20s %5d checks, %d wrong\n", name, k.checked, k.wrong);
    qn_tokenizer_close(t);
    qn_arena_free(&a);
    assert_int_equal(k.wrong, 0);
}

/* Runs every folder of `dir`; returns how many there were. */
static int run_folder(const char *dir)
{
    qn_arena a = { 0 };
    struct dirent **entry = NULL;
    int n = scandir(dir, &entry, NULL, alphasort), cases = 0;
    for (int i = 0; i < n; i++) {
        const char *path = qn_path_join(&a, dir, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && qn_is_dir(path)) {
            run_case(path, entry[i]->d_name);
            cases++;
        }
        free(entry[i]);
    }
    free(entry);
    qn_arena_free(&a);
    return cases;
}

static void test_own_cases(void **state)
{
    (void)state;
    assert_true(run_folder(QUERN_SOURCE "/tests/golden/tokenizers") > 0);
}

static void test_kit(void **state)
{
    (void)state;
    if (!qn_is_dir(QUERN_KIT "/tokenizers")) {
        print_message("skipped: no kit\n");
        skip();
    }
    assert_true(run_folder(QUERN_KIT "/tokenizers") > 0);
}

/* A vocabulary of a published model: texts between separator lines, ids one line each. */
static int run_real(const char *dir, const char *name)
{
    static const char mark[] = "\n__ggml_vocab_test__\n";
    qn_arena a = { 0 };
    qn_error err = { 0 };
    qn_gguf *g;
    qn_tokenizer *t;
    qn_map in, out;
    int wrong = 0, texts = 0;
    if (qn_gguf_open(&g, qn_path_join(&a, dir, name), &err) != QN_OK ||
        qn_gguf_tokenizer_open(&t, g, &err) != QN_OK ||
        qn_map_open(&in, qn_arena_printf(&a, "%s/%s.inp", dir, name), &err) != QN_OK ||
        qn_map_open(&out, qn_arena_printf(&a, "%s/%s.out", dir, name), &err) != QN_OK)
        fail_msg("%s: %s", name, err.msg);
    const char *p = in.data, *line = out.data, *in_end = in.data + in.size;
    while (p < in_end) {
        const char *end = memmem(p, (size_t)(in_end - p), mark, sizeof mark - 1);
        size_t n = (size_t)((end ? end : in_end) - p);
        const char *line_end = memchr(line, '\n', out.size - (size_t)(line - out.data));
        qn_ids ids = { 0 };
        qn_buf got = { 0 };
        qn_tokenizer_encode(t, p, n, 0, &ids, &err);
        for (size_t i = 0; i < ids.n; i++)
            qn_buf_printf(&got, i ? " %d" : "%d", ids.v[i]);
        if (!line_end)
            break;
        line += *line == ' ';
        if ((size_t)(line_end - line) != got.len || memcmp(line, qn_buf_cstr(&got), got.len) != 0) {
            print_message("%s: \"%.*s\"\n got  %s\nwant %.*s\n", name, (int)n, p, qn_buf_cstr(&got),
                          (int)(line_end - line), line);
            wrong++;
        }
        texts++;
        line = line_end + 1;
        p = end ? end + sizeof mark - 1 : in_end;
        qn_ids_free(&ids);
        qn_buf_free(&got);
    }
    print_message("%-28s %3d texts, %d wrong\n", name, texts, wrong);
    qn_tokenizer_close(t);
    qn_gguf_close(g);
    qn_map_close(&in);
    qn_map_close(&out);
    qn_arena_free(&a);
    return wrong;
}

/* QUERN_VOCABS may name a further folder of NAME.gguf, NAME.gguf.inp and NAME.gguf.out files. */
static void test_real_vocabularies(void **state)
{
    (void)state;
    qn_arena a = { 0 };
    const char *dir = getenv("QUERN_VOCABS");
    if (!dir)
        dir = QUERN_KIT "/real/tokenizers";
    if (!qn_is_dir(dir)) {
        print_message("skipped: no kit\n");
        skip();
    }
    struct dirent **entry = NULL;
    int n = scandir(dir, &entry, NULL, alphasort), wrong = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        if (qn_ends_with(name, ".gguf") && qn_is_file(qn_arena_printf(&a, "%s/%s.out", dir, name)))
            wrong += run_real(dir, name);
        free(entry[i]);
    }
    free(entry);
    qn_arena_free(&a);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_cases),
        cmocka_unit_test(test_kit),
        cmocka_unit_test(test_real_vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
