/* test_mlx.c - MLX-quantised folders: a case's matrices packed to 4 and 8 bits must compute what the same values
 * stored as float32 do, with embedding and head packed too, singly stored or stacked experts, tied or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "families/case_model.h"
#include "formats/safetensors.h"
#include "tensor/grouped.h"

enum { GROUP = 32, MAX_TENSORS = 1024, N_TOKENS = 12 };

typedef struct tensors {
    qn_st_tensor t[MAX_TENSORS];
    size_t n;
} tensors;

/* The tensors of the two folders that are written from one checkpoint. */
typedef struct pair {
    qn_arena a;
    tensors packed, plain;
} pair;

static void add(tensors *list, const char *name, qn_layout layout, const int64_t dim[3], int n_dims,
                const void *data)
{
    assert_true(list->n < MAX_TENSORS);
    qn_st_tensor t = { .name = name, .data = data, .n_dims = (uint8_t)n_dims, .layout = layout };
    size_t elems = 1;
    for (int i = 0; i < n_dims; i++) {
        t.dim[i] = dim[i];
        elems *= (size_t)dim[i];
    }
    assert_true(qn_layout_bytes(layout, (int64_t)elems, &t.bytes));
    list->t[list->n++] = t;
}

/* Packs rows of k floats; what they decode to replaces them. */
static void pack_rows(pair *p, const char *module, float *x, const int64_t dim[3], int n_dims,
                      int bits)
{
    int64_t k = dim[n_dims - 1], rows = 1;
    for (int i = 0; i + 1 < n_dims; i++)
        rows *= dim[i];
    size_t code_bytes = (size_t)(k * bits / 8), groups = (size_t)(k / GROUP);
    uint8_t *codes = qn_arena_alloc_n(&p->a, (size_t)rows, code_bytes);
    uint16_t *scales = qn_arena_alloc_n(&p->a, (size_t)rows * groups, 2);
    uint16_t *biases = qn_arena_alloc_n(&p->a, (size_t)rows * groups, 2);
    for (int64_t r = 0; r < rows; r++) {
        qn_grouped_row row = { .codes = codes + (size_t)r * code_bytes,
                               .scales = (const uint8_t *)(scales + (size_t)r * groups),
                               .biases = (const uint8_t *)(biases + (size_t)r * groups),
                               .k = k,
                               .group = GROUP,
                               .bits = bits,
                               .scale_layout = QN_BF16,
                               .global_scale = 1 };
        qn_affine_encode(x + r * k, &row, codes + (size_t)r * code_bytes,
                         scales + (size_t)r * groups, biases + (size_t)r * groups);
        qn_grouped_decode_affine(&row, x + r * k);
    }
    int64_t words[3] = { dim[0], dim[1], dim[2] }, shares[3] = { dim[0], dim[1], dim[2] };
    words[n_dims - 1] = k * bits / 32;
    shares[n_dims - 1] = k / GROUP;
    add(&p->packed, qn_arena_printf(&p->a, "%s.weight", module), QN_U32, words, n_dims, codes);
    add(&p->packed, qn_arena_printf(&p->a, "%s.scales", module), QN_BF16, shares, n_dims, scales);
    add(&p->packed, qn_arena_printf(&p->a, "%s.biases", module), QN_BF16, shares, n_dims, biases);
}

/* MLX's name of a stack of experts, when `name` is its first one; NULL for other names. */
static char *stack_name(qn_arena *a, const char *name, char which)
{
    const char *at = strstr(name, ".experts.0.w");
    static const struct {
        char w;
        const char *leaf;
    } leaves[] = { { '1', "gate_proj" }, { '2', "down_proj" }, { '3', "up_proj" } };
    for (size_t i = 0; at && i < 3; i++)
        if (leaves[i].w == which)
            return qn_arena_printf(a, "%.*s.switch_mlp.%s", (int)(at - name), name, leaves[i].leaf);
    return NULL;
}

static void add_matrix(pair *p, qn_checkpoint *ck, const qn_weight *w, int bits)
{
    const char *first = strstr(w->name, ".experts.");
    char *module = qn_arena_strndup(&p->a, w->name, strlen(w->name) - strlen(".weight"));
    int64_t dim[3] = { w->dim[0], w->dim[1], 0 };
    int n_dims = 2;
    if (first) {
        if (strncmp(first, ".experts.0.", 11) != 0)
            return; /* comes with the first one */
        const char *pattern = qn_arena_printf(&p->a, "%.*s.experts.%%d.%s", (int)(first - w->name),
                                              w->name, first + 11);
        w = qn_checkpoint_stack(ck, pattern, 8, NULL);
        module = stack_name(&p->a, module, module[strlen(module) - 1]);
        assert_non_null(w);
        assert_non_null(module);
        memcpy(dim, w->dim, sizeof dim);
        n_dims = 3;
    }
    int64_t rows = qn_weight_rows(w), k = qn_weight_cols(w);
    float *x = qn_arena_alloc_n(&p->a, (size_t)(rows * k), sizeof *x);
    for (int64_t r = 0; r < rows; r++)
        qn_weight_decode_row(w, r, x + r * k);
    pack_rows(p, module, x, dim, n_dims, bits);
    add(&p->plain, qn_arena_printf(&p->a, "%s.weight", module), QN_F32, dim, n_dims, x);
}

static void write_folder(qn_arena *a, const char *dir, const char *config, const tensors *list)
{
    qn_error err = { 0 };
    scratch_write(dir, "config.json", config, strlen(config));
    if (qn_st_write(qn_path_join(a, dir, "model.safetensors"), list->t, list->n, &err) != QN_OK)
        fail_msg("%s", err.msg);
}

static void write_pair(pair *p, const char *from, int bits, const char *dir)
{
    qn_error err = { 0 };
    qn_checkpoint *ck;
    assert_int_equal(qn_checkpoint_open(&ck, from, &err), QN_OK);
    for (size_t i = 0; i < qn_checkpoint_count(ck); i++) {
        const qn_weight *w = qn_checkpoint_at(ck, i);
        if (w->n_dims == 2) {
            add_matrix(p, ck, w, bits);
            continue;
        }
        add(&p->packed, w->name, w->layout, w->dim, 1, w->data);
        add(&p->plain, w->name, w->layout, w->dim, 1, w->data);
    }
    char *config = read_text(&p->a, qn_path_join(&p->a, from, "config.json"));
    write_folder(&p->a, qn_path_join(&p->a, dir, "plain"), config, &p->plain);
    const char *mlx =
        qn_arena_printf(&p->a, "{\"quantization\": {\"group_size\": %d, \"bits\": %d},%s", GROUP,
                        bits, strchr(config, '{') + 1);
    write_folder(&p->a, qn_path_join(&p->a, dir, "packed"), mlx, &p->packed);
    qn_checkpoint_close(ck);
}

static float *logits_of(const char *path, const char *format)
{
    const int32_t token[N_TOKENS] = { 5, 17, 300, 4, 99, 5, 200, 31, 8, 150, 77, 2 };
    qn_error err;
    qn_model *m;
    if (load_exact(&m, path, &err) != QN_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(qn_checkpoint_format(m->ck), format);
    float *x = run_tokens(m, token, N_TOKENS);
    qn_model_unload(m);
    return x;
}

static void compare(void **state, const char *name, int bits, const edit *edits)
{
    pair *p = qn_alloc(sizeof *p);
    const char *from = make_model(&p->a, *state, name, edits);
    write_pair(p, from, bits, *state);
    float *packed = logits_of(qn_path_join(&p->a, *state, "packed"), "mlx");
    float *plain = logits_of(qn_path_join(&p->a, *state, "plain"), "safetensors");
    for (size_t i = 0; i < N_TOKENS * 320; i++)
        if (!(fabsf(packed[i] - plain[i]) < 1e-4f))
            fail_msg("%s in %d bits: logit %zu is %g, not %g", name, bits, i, packed[i], plain[i]);
    qn_free(packed);
    qn_free(plain);
    qn_arena_free(&p->a);
    qn_free(p);
}

static void test_dense(void **state)
{
    compare(state, "llama/a", 4, NULL);
    compare(state, "llama/a", 8, NULL);
    compare(state, "mistral/a2", 4, NULL);
}

static void test_biases(void **state)
{
    compare(state, "qwen2/a", 4, NULL);
}

static void test_tied(void **state)
{
    const edit tied[] = { { "config.json", "\"tie_word_embeddings\": false",
                            "\"tie_word_embeddings\": true" },
                          { NULL, NULL, NULL } };
    compare(state, "llama/a", 4, tied);
}

static void test_stacked_experts(void **state)
{
    compare(state, "mixtral/a", 4, NULL);
    compare(state, "mixtral/a", 8, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_biases),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_stacked_experts),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
