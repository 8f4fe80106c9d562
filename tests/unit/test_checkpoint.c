/* test_checkpoint.c - folders as models: names, packed modules and the config's rules for them, accounting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "formats/checkpoint.h"
#include "formats/safetensors.h"
#include "unit/formats_scratch.h"

/* One tensor of zeros (or of `fill` bytes) in a folder under construction. */
typedef struct spec {
    const char *name;
    qn_layout layout;
    int64_t dim[4];
    int fill;
} spec;

/* Writes config.json and model.safetensors into the scratch folder's `name`; gives its path in the arena. */
static const char *model(qn_arena *a, void **state, const char *config, const spec *s, size_t n)
{
    static int serial;
    const char *dir = qn_path_join(a, *state, qn_arena_printf(a, "m%d", serial++));
    qn_st_tensor *t = qn_arena_alloc_n(a, n, sizeof *t);
    for (size_t i = 0; i < n; i++) {
        t[i] = (qn_st_tensor){ .name = s[i].name, .layout = (uint8_t)s[i].layout };
        int64_t elems = 1;
        while (t[i].n_dims < 4 && s[i].dim[t[i].n_dims] > 0) {
            t[i].dim[t[i].n_dims] = s[i].dim[t[i].n_dims];
            elems *= s[i].dim[t[i].n_dims++];
        }
        size_t bytes;
        assert_true(qn_layout_bytes(s[i].layout, elems, &bytes));
        void *data = qn_arena_alloc(a, bytes);
        memset(data, s[i].fill, bytes);
        t[i].data = data;
    }
    scratch_write(dir, "config.json", config, strlen(config));
    assert_int_equal(qn_st_write(qn_path_join(a, dir, "model.safetensors"), t, n, NULL), QN_OK);
    return dir;
}

static qn_checkpoint *opened(const char *dir)
{
    qn_checkpoint *c;
    qn_error err = { 0 };
    if (qn_checkpoint_open(&c, dir, &err) != QN_OK)
        fail_msg("%s", err.msg);
    return c;
}

static void refused(const char *dir, const char *why)
{
    qn_checkpoint *c;
    qn_error err = { 0 };
    int rc = qn_checkpoint_open(&c, dir, &err);
    if (rc >= 0 || c || !strstr(err.msg, why))
        fail_msg("expected '%s', got %d '%s'", why, rc, err.msg);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Affine 4 bits, groups of 64, K = 128, N = 8. */
#define PACKED(name, words, groups)                                                                \
    { name ".weight", QN_U32, { 8, words }, 0 }, { name ".scales", QN_BF16, { 8, groups }, 0 },    \
    {                                                                                              \
        name ".biases", QN_BF16, { 8, groups }, 0                                                  \
    }

static void plain_folders_open_and_account(void **state)
{
    qn_arena a = { 0 };
    const spec s[] = { { "model.norm.weight", QN_BF16, { 4 }, 0 },
                       { "model.layers.0.self_attn.rotary_emb.inv_freq", QN_F32, { 4 }, 0 },
                       { "lm_head.weight", QN_F32, { 2, 4 }, 0 },
                       { "scalar", QN_F32, { 0 }, 0 } };
    const char *dir = model(&a, state, "{\"model_type\":\"x\"}", s, COUNT(s));
    scratch_write(dir, "generation_config.json", "{\"eos_token_id\":7}", 18);
    qn_checkpoint *c = opened(dir);
    assert_string_equal(qn_checkpoint_format(c), "safetensors");
    assert_string_equal(qn_checkpoint_path(c), dir);
    assert_null(qn_checkpoint_gguf(c));
    assert_true(qn_json_eq(qn_json_get(qn_checkpoint_config(c), "model_type"), "x"));
    assert_int_equal(qn_json_int(qn_json_get(qn_checkpoint_generation(c), "eos_token_id"), 0), 7);
    assert_int_equal(qn_checkpoint_count(c), 4);
    assert_null(qn_checkpoint_at(c, 4));
    assert_null(qn_checkpoint_weight(c, "model.norm"));
    const qn_weight *w = qn_checkpoint_weight(c, "model.norm.weight");
    assert_true(w && w->layout == QN_BF16 && w->n_dims == 1 && qn_weight_cols(w) == 4);
    const qn_weight *one = qn_checkpoint_weight(c, "scalar");
    assert_true(one && one->n_dims == 1 && one->dim[0] == 1);
    /* The head is left; the rotary buffer never matters. */
    assert_string_equal(qn_checkpoint_unused(c), "lm_head.weight");
    qn_checkpoint_ignore(c, "lm_head.weight");
    qn_checkpoint_ignore(c, "absent");
    assert_null(qn_checkpoint_unused(c));
    qn_checkpoint_close(c);
    qn_checkpoint_close(NULL);
    refused(qn_path_join(&a, *state, "nothing"), "nothing");
    refused(qn_path_join(&a, dir, "model.safetensors"), "give the folder");
    qn_arena_free(&a);
}

static void configs_that_are_broken(void **state)
{
    qn_arena a = { 0 };
    const spec s[] = { { "w", QN_F32, { 4 }, 0 } };
    refused(model(&a, state, "{\"a\":", s, 1), "config.json");
    refused(model(&a, state, "[1]", s, 1), "config.json: no JSON object");
    const char *dir = model(&a, state, "{}", s, 1);
    scratch_write(dir, "generation_config.json", "nope", 4);
    refused(dir, "generation_config.json");
    unlink(qn_path_join(&a, dir, "generation_config.json"));
    unlink(qn_path_join(&a, dir, "config.json"));
    refused(dir, "config.json");
    qn_arena_free(&a);
}

static void prefixes_become_one_name_space(void **state)
{
    qn_arena a = { 0 };
    const spec hf[] = { { "model.language_model.norm.weight", QN_F32, { 4 }, 0 },
                        { "model.visual.proj.weight", QN_F32, { 4 }, 0 },
                        { "lm_head.weight", QN_F32, { 4 }, 0 } };
    const spec mlx[] = { { "language_model.model.norm.weight", QN_F32, { 4 }, 0 },
                         { "vision_tower.proj.weight", QN_F32, { 4 }, 0 },
                         { "language_model.lm_head.weight", QN_F32, { 4 }, 0 } };
    const spec *both[] = { hf, mlx };
    for (int i = 0; i < 2; i++) {
        qn_checkpoint *c = opened(model(&a, state, "{}", both[i], 3));
        assert_non_null(qn_checkpoint_weight(c, "model.norm.weight"));
        assert_non_null(qn_checkpoint_weight(c, "vision_tower.proj.weight"));
        assert_non_null(qn_checkpoint_weight(c, "lm_head.weight"));
        qn_checkpoint_close(c);
    }
    const spec twice[] = { { "model.norm.weight", QN_F32, { 4 }, 0 },
                           { "language_model.model.norm.weight", QN_F32, { 4 }, 0 } };
    refused(model(&a, state, "{}", twice, 2), "two tensors are both 'model.norm.weight'");
    qn_arena_free(&a);
}

static void check_affine(qn_checkpoint *c, const char *name, int bits, int group, int64_t k)
{
    const qn_weight *w = qn_checkpoint_weight(c, name);
    if (!w || w->layout != QN_AFFINE || w->bits != bits || w->group != group ||
        qn_weight_cols(w) != k)
        fail_msg("%s: %d bits, group %d, K %lld", name, w ? w->bits : -1, w ? w->group : -1,
                 w ? (long long)qn_weight_cols(w) : -1);
    assert_non_null(w->scales);
    assert_non_null(w->biases);
}

static void packed_modules_follow_the_config(void **state)
{
    qn_arena a = { 0 };
    static const char config[] =
        "{\"hidden_size\":128,\"quantization\":{\"group_size\":64,\"bits\":4,"
        "\"model.layers.0.b\":{\"group_size\":64,\"bits\":8},"
        "\"language_model.model.layers.0.c\":{\"bits\":8,\"group_size\":32},"
        "\"model.layers.0.router\":false,\"nowhere\":{\"bits\":2}}}";
    const spec s[] = { PACKED("model.layers.0.a", 16, 2),
                       PACKED("model.layers.0.b", 32, 2),
                       PACKED("model.layers.0.c", 32, 4),
                       PACKED("bare", 16, 2),
                       { "model.layers.0.router.weight", QN_BF16, { 8, 128 }, 0 },
                       { "model.layers.0.a.bias", QN_BF16, { 8 }, 0 } };
    qn_checkpoint *c = opened(model(&a, state, config, s, COUNT(s)));
    assert_string_equal(qn_checkpoint_format(c), "mlx");
    check_affine(c, "model.layers.0.a.weight", 4, 64, 128);
    check_affine(c, "model.layers.0.b.weight", 8, 64, 128);
    check_affine(c, "model.layers.0.c.weight", 8, 32, 128);
    check_affine(c, "bare.weight", 4, 64, 128);
    assert_int_equal(qn_checkpoint_weight(c, "model.layers.0.router.weight")->layout, QN_BF16);
    assert_non_null(qn_checkpoint_weight(c, "model.layers.0.a.bias"));
    assert_null(qn_checkpoint_weight(c, "model.layers.0.a.scales"));
    assert_null(qn_checkpoint_unused(c));
    assert_int_equal(qn_checkpoint_count(c), 6);
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

/* The entry is wrong, or silent, and the config's widths tell what K must be. */
static void shapes_win_over_the_config(void **state)
{
    qn_arena a = { 0 };
    const spec wide[] = { PACKED("a", 32, 4) }; /* bits x group = 256, K = 128 only with 8 bits */
    const spec none[] = { PACKED("a", 16, 2) };
    qn_checkpoint *c = opened(
        model(&a, state, "{\"hidden_size\":128,\"quantization\":{\"group_size\":64,\"bits\":4}}",
              wide, 3));
    check_affine(c, "a.weight", 8, 32, 128);
    qn_checkpoint_close(c);
    c = opened(model(&a, state, "{\"text_config\":{\"hidden_size\":128}}", none, 3));
    check_affine(c, "a.weight", 4, 64, 128);
    qn_checkpoint_close(c);
    /* Heads times head size is a width too. */
    c = opened(model(&a, state,
                     "{\"num_attention_heads\":4,\"head_dim\":64,\"quantization\":{\"group_size\":"
                     "64,\"bits\":8}}",
                     wide, 3));
    check_affine(c, "a.weight", 4, 64, 256);
    qn_checkpoint_close(c);
    /* The product is impossible: 3 groups a row do not divide the words. */
    const spec odd[] = { PACKED("a", 16, 3) };
    refused(model(&a, state, "{\"quantization\":{\"group_size\":64,\"bits\":4}}", odd, 3),
            "16 words and 3 groups a row do not agree with bits 4, group_size 64");
    qn_arena_free(&a);
}

static void packed_modules_that_lie(void **state)
{
    qn_arena a = { 0 };
    static const char q[] = "{\"hidden_size\":128,\"quantization\":{\"group_size\":64,\"bits\":4}}";
    const spec no_scales[] = { { "a.weight", QN_U32, { 8, 16 }, 0 } };
    refused(model(&a, state, q, no_scales, 1), "tensor 'a.weight': u32 codes without scales");
    const spec no_biases[] = { { "a.weight", QN_U32, { 8, 16 }, 0 },
                               { "a.scales", QN_F16, { 8, 2 }, 0 } };
    refused(model(&a, state, q, no_biases, 2), "need biases");
    const spec other_dtype[] = { { "a.weight", QN_U32, { 8, 16 }, 0 },
                                 { "a.scales", QN_F16, { 8, 2 }, 0 },
                                 { "a.biases", QN_BF16, { 8, 2 }, 0 } };
    refused(model(&a, state, q, other_dtype, 3), "need biases");
    const spec fewer_rows[] = { { "a.weight", QN_U32, { 8, 16 }, 0 },
                                { "a.scales", QN_F16, { 7, 2 }, 0 },
                                { "a.biases", QN_F16, { 7, 2 }, 0 } };
    refused(model(&a, state, q, fewer_rows, 3), "other leading dimensions");
    const spec bytes[] = { { "a.weight", QN_U8, { 8, 64 }, 0 },
                           { "a.scales", QN_F16, { 8, 2 }, 0 } };
    refused(model(&a, state, q, bytes, 2), "packed codes of dtype u8");
    const spec fine[] = { PACKED("a", 16, 2) };
    refused(
        model(&a, state, "{\"quantization\":{\"group_size\":64,\"bits\":4,\"a\":false}}", fine, 3),
        "the config says it is plain");
    refused(model(&a, state, "{\"quantization\":{\"group_size\":64,\"bits\":4,\"mode\":\"q4k\"}}",
                  fine, 3),
            "quantization mode 'q4k' is not supported");
    refused(model(&a, state, "{\"quantization\":{\"mode\":\"mxfp4\"}}", fine, 3),
            "needs scales of dtype U8");
    refused(model(&a, state, "{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4}}",
                  fine, 3),
            "quant_method 'awq' is not supported");
    const char *dir = model(&a, state, "{}", fine, 3);
    scratch_write(dir, "hf_quant_config.json", "{}", 2);
    refused(dir, "hf_quant_config.json");
    qn_arena_free(&a);
}

static void microscaling_modes_by_shape_and_by_name(void **state)
{
    static const struct {
        const char *mode;
        qn_layout layout;
        int64_t words, groups;
        int group;
    } modes[] = { { "mxfp4", QN_GROUP_MXFP4, 16, 4, 32 },
                  { "mxfp8", QN_GROUP_MXFP8, 32, 4, 32 },
                  { "nvfp4", QN_GROUP_NVFP4, 16, 8, 16 } };
    qn_arena a = { 0 };
    for (size_t i = 0; i < COUNT(modes); i++) {
        const spec s[] = { { "a.weight", QN_U32, { 2, 8, modes[i].words }, 0x22 },
                           { "a.scales", QN_U8, { 2, 8, modes[i].groups }, 0x38 } };
        const char *named =
            qn_arena_printf(&a, "{\"quantization\":{\"mode\":\"%s\"}}", modes[i].mode);
        const char *configs[] = { "{}", named };
        for (size_t k = 0; k < 2; k++) {
            qn_checkpoint *c = opened(model(&a, state, configs[k], s, 2));
            const qn_weight *w = qn_checkpoint_weight(c, "a.weight");
            assert_true(w->layout == modes[i].layout && w->group == modes[i].group &&
                        w->n_dims == 3);
            assert_int_equal(qn_weight_cols(w), 128);
            float row[128];
            qn_weight_decode_row(w, 15, row);
            assert_true(row[0] == row[127]);
            qn_checkpoint_close(c);
        }
        const char *other = i == 0 ? "nvfp4" : "mxfp4";
        refused(model(&a, state, qn_arena_printf(&a, "{\"quantization\":{\"mode\":\"%s\"}}", other),
                      s, 2),
                "do not agree with mode");
    }
    const float amax = 2688;
    spec g[] = { { "a.weight", QN_U32, { 1, 2 }, 0x22 },
                 { "a.scales", QN_U8, { 1, 1 }, 0x38 },
                 { "a.global_scale", QN_F32, { 1 }, 0 } };
    qn_checkpoint *c = opened(model(&a, state, "{}", g, 3));
    assert_true(qn_checkpoint_weight(c, "a.weight")->global_scale == 0 / amax);
    assert_int_equal(qn_checkpoint_count(c), 1);
    qn_checkpoint_close(c);
    g[2].dim[0] = 2;
    refused(model(&a, state, "{}", g, 3), "global_scale");
    qn_arena_free(&a);
}

static void fp8_and_mxfp4_of_other_tools(void **state)
{
    qn_arena a = { 0 };
    const spec block[] = { { "a.weight", QN_F8_E4M3, { 144, 320 }, 0x38 },
                           { "a.weight_scale_inv", QN_F32, { 2, 3 }, 0 },
                           { "b.weight", QN_F8_E4M3, { 4, 8 }, 0x38 },
                           { "b.weight_scale", QN_BF16, { 4, 1 }, 0x3f },
                           { "c.weight", QN_F8_E4M3, { 4, 8 }, 0x38 },
                           { "c.weight_scale", QN_F32, { 1 }, 0 },
                           { "c.input_scale", QN_F32, { 1 }, 0 } };
    static const char fp8[] =
        "{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}";
    qn_checkpoint *c = opened(model(&a, state, fp8, block, COUNT(block)));
    assert_string_equal(qn_checkpoint_format(c), "safetensors");
    const qn_weight *w = qn_checkpoint_weight(c, "a.weight");
    assert_true(w->layout == QN_FP8_BLOCK && w->block_rows == 128 && w->group == 128);
    w = qn_checkpoint_weight(c, "b.weight");
    assert_true(w->block_rows == 1 && w->group == 8 && w->scale_layout == QN_BF16);
    w = qn_checkpoint_weight(c, "c.weight");
    assert_true(w->block_rows == 4 && w->group == 8);
    assert_null(qn_checkpoint_unused(c)); /* scales of activations are not for us */
    qn_checkpoint_close(c);
    refused(model(&a, state, fp8, &block[2], 1), "codes without scales");
    const spec short_scales[] = { { "a.weight", QN_F8_E4M3, { 144, 320 }, 0 },
                                  { "a.weight_scale_inv", QN_F32, { 1, 3 }, 0 } };
    refused(model(&a, state, fp8, short_scales, 2),
            "blocks of 128 x 128 need 6 scales, there are 3");
    refused(
        model(&a, state,
              "{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[0,128]}}",
              block, 2),
        "weight_block_size");

    const spec oss[] = { { "e.gate_up_proj_blocks", QN_U8, { 2, 6, 3, 16 }, 0 },
                         { "e.gate_up_proj_scales", QN_U8, { 2, 6, 3 }, 0 },
                         { "e.gate_up_proj_bias", QN_BF16, { 2, 6 }, 0 } };
    c = opened(model(&a, state, "{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}", oss, 3));
    w = qn_checkpoint_weight(c, "e.gate_up_proj");
    assert_true(w && w->layout == QN_GROUP_MXFP4 && w->dim[0] == 2 && w->dim[1] == 6 &&
                w->dim[2] == 96);
    assert_int_equal(qn_checkpoint_count(c), 2);
    qn_checkpoint_close(c);
    const spec bad[] = { { "e_blocks", QN_U8, { 2, 6, 3, 15 }, 0 },
                         { "e_scales", QN_U8, { 2, 6, 3 }, 0 } };
    refused(model(&a, state, "{}", bad, 2), "must be [E, N, K / 32, 16]");
    qn_arena_free(&a);
}

/* Elements of one, two and four bytes change places; a second call gives the same copy. */
static void stacks_transposed(void **state)
{
    qn_arena a = { 0 };
    const spec s[] = { { "x", QN_F32, { 1 }, 0 } };
    qn_checkpoint *c = opened(model(&a, state, "{}", s, COUNT(s)));
    qn_error err = { 0 };
    const uint32_t wide[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    const uint16_t half[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    for (int i = 0; i < 2; i++) {
        qn_weight w = { .name = i ? "half" : "wide",
                        .dim = { 2, 2, 3 },
                        .n_dims = 3,
                        .layout = i ? QN_BF16 : QN_F32,
                        .data = i ? (const void *)half : (const void *)wide };
        const qn_weight *t = qn_checkpoint_transposed(c, &w, &err);
        assert_true(t && t->dim[0] == 2 && t->dim[1] == 3 && t->dim[2] == 2);
        assert_ptr_equal(qn_checkpoint_transposed(c, &w, &err), t);
        for (uint32_t k = 0; k < 12; k++) { /* [e][row][column] from [e][column][row] */
            uint32_t want = k / 6 * 6 + k % 2 * 3 + k % 6 / 2;
            uint32_t got = i ? ((const uint16_t *)t->data)[k] : ((const uint32_t *)t->data)[k];
            assert_int_equal(got, want);
        }
    }
    qn_weight packed = {
        .name = "p", .dim = { 2, 2, 32 }, .n_dims = 3, .layout = QN_Q8_0, .data = wide
    };
    assert_null(qn_checkpoint_transposed(c, &packed, &err));
    assert_non_null(strstr(err.msg, "packed"));
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

static void experts_stack(void **state)
{
    qn_arena a = { 0 };
    /* The writer sorts by name, so experts' halves alternate: no view, a copy. Those of "v" lie in a row. */
    const spec s[] = { { "x.0.down", QN_F32, { 2, 4 }, 0 }, { "x.0.up", QN_F32, { 2, 4 }, 0x3f },
                       { "x.1.down", QN_F32, { 2, 4 }, 0 }, { "x.1.up", QN_F32, { 2, 4 }, 0x40 },
                       { "v.0", QN_F32, { 2, 4 }, 0 },      { "v.1", QN_F32, { 2, 4 }, 0x3f },
                       { "o.0", QN_F32, { 2, 4 }, 0 },      { "o.1", QN_F32, { 4, 2 }, 0 } };
    qn_checkpoint *c = opened(model(&a, state, "{}", s, COUNT(s)));
    qn_error err = { 0 };
    float row[4], want[4];
    const qn_weight *w = qn_checkpoint_stack(c, "x.%d.up", 2, &err);
    assert_true(w && w->n_dims == 3 && w->dim[0] == 2 && w->dim[1] == 2 && w->dim[2] == 4);
    qn_weight_decode_row(w, 3, row);
    qn_weight_decode_row(qn_checkpoint_weight(c, "x.1.up"), 1, want);
    assert_memory_equal(row, want, sizeof row);
    w = qn_checkpoint_stack(c, "v.%d", 2, &err);
    assert_ptr_equal(w->data, qn_checkpoint_weight(c, "v.0")->data);
    assert_null(qn_checkpoint_stack(c, "nothing.%d", 2, &err));
    assert_int_equal(err.code, QN_OK);
    assert_null(qn_checkpoint_stack(c, "x.%d.down", 3, &err));
    assert_non_null(strstr(err.msg, "tensor 'x.2.down' is missing"));
    assert_null(qn_checkpoint_stack(c, "o.%d", 2, &err));
    assert_non_null(strstr(err.msg, "differ in shape"));
    qn_checkpoint_close(c);

    const spec q[] = { PACKED("e.0.up", 16, 2), PACKED("e.1.up", 16, 2) };
    c = opened(model(&a, state, "{\"hidden_size\":128}", q, COUNT(q)));
    w = qn_checkpoint_stack(c, "e.%d.up.weight", 2, &err);
    assert_true(w && w->layout == QN_AFFINE && w->scales && w->biases && w->dim[2] == 128);
    float wide[128];
    qn_weight_decode_row(w, 15, wide);
    qn_checkpoint_close(c);
    qn_arena_free(&a);
}

/* Data at an odd address are moved, so that whoever reads floats may read floats. */
static void misaligned_tensors_are_moved(void **state)
{
    qn_arena a = { 0 };
    const char *dir = qn_path_join(&a, *state, "odd");
    static const char json[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    qn_buf b = { 0 };
    for (int i = 0; i < 8; i++)
        qn_buf_char(&b, i == 0 ? (char)(sizeof json - 1) : 0);
    qn_buf_add(&b, json, sizeof json - 1);
    assert_true(b.len % 4 != 0);
    const float x[2] = { 1.5f, -2 };
    qn_buf_add(&b, x, sizeof x);
    scratch_write(dir, "model.safetensors", b.data, b.len);
    scratch_write(dir, "config.json", "{}", 2);
    qn_checkpoint *c = opened(dir);
    const qn_weight *w = qn_checkpoint_weight(c, "w");
    assert_int_equal((uintptr_t)w->data % 4, 0);
    assert_memory_equal(w->data, x, sizeof x);
    qn_checkpoint_close(c);
    qn_buf_free(&b);
    qn_arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_folders_open_and_account),
        cmocka_unit_test(configs_that_are_broken),
        cmocka_unit_test(prefixes_become_one_name_space),
        cmocka_unit_test(packed_modules_follow_the_config),
        cmocka_unit_test(shapes_win_over_the_config),
        cmocka_unit_test(packed_modules_that_lie),
        cmocka_unit_test(microscaling_modes_by_shape_and_by_name),
        cmocka_unit_test(fp8_and_mxfp4_of_other_tools),
        cmocka_unit_test(experts_stack),
        cmocka_unit_test(stacks_transposed),
        cmocka_unit_test(misaligned_tensors_are_moved),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
