/* test_ops_refuse.c - what shape rules refuse: checkpoints bring these shapes, so each must end in one line
 * that names the place and the reason, never in a wrong graph. */
#include "ops/opcase.h"

typedef struct bad_case {
    const qn_op *op;
    const void *attr;
    const char *why; /* part of the message */
    in_spec in[MAX_CASE_IN];
} bad_case;

#define ROUTE(...)                                                                                 \
    &(const qn_attr_route)                                                                         \
    {                                                                                              \
        .n_experts = 6, .top_k = 2, .factor = 1, __VA_ARGS__                                       \
    }
#define ATTN(...)                                                                                  \
    &(const qn_attr_attention)                                                                     \
    {                                                                                              \
        .n_heads = 4, .n_kv_heads = 2, .k_dim = 3, .v_dim = 2, __VA_ARGS__                         \
    }

static const float freq[2] = { 1, 1 };
static const uint8_t axis[2] = { 0, QN_MAX_POS_AXES };

/* One line a case, however long: the table reads by columns. */
/* clang-format off */
static const bad_case cases[] = {
    { &qn_op_embed, NULL, "ids are i32", { { ROWS, { 4 } }, { MAT, { 6, 4 } } } },
    { &qn_op_embed, NULL, "table is a matrix", { { TOKENS, { 0 } }, { VEC, { 4 } } } },
    { &qn_op_linear, NULL, "differ in K", { { ROWS, { 4 } }, { MAT, { 5, 3 } } } },
    { &qn_op_linear, NULL, "bias is [N]", { { ROWS, { 4 } }, { MAT, { 5, 4 } }, { VEC, { 4 } } } },
    { &qn_op_linear, NULL, "needs x", { { TOKENS, { 0 } }, { MAT, { 5, 4 } } } },
    { &qn_op_linear, NULL, "wrong number of inputs", { { ROWS, { 4 } } } },
    { &qn_op_add, NULL, "like a", { { ROWS, { 4 } }, { ROWS, { 5 } } } },
    { &qn_op_add, NULL, "like a", { { ROWS, { 4 } }, { OUT_ROWS, { 4 } } } },
    { &qn_op_add, NULL, "a is f32", { { TOKENS, { 0 } }, { TOKENS, { 0 } } } },
    { &qn_op_mul, NULL, "b is like a", { { ROWS, { 4 } }, { ROWS, { 3 } } } },
    { &qn_op_mul, NULL, "b is like a", { { ROWS, { 4 } }, { VEC, { 3 } } } },
    { &qn_op_rows, NULL, "i32 rows", { { ROWS, { 4 } }, { ROWS, { 1 } } } },
    { &qn_op_split, &(const qn_attr_split){ .start = 3, .width = 3 }, "outside x", { { ROWS, { 5 } } } },
    { &qn_op_split, &(const qn_attr_split){ .start = INT64_MAX, .width = 2 }, "outside x", { { ROWS, { 5 } } } },
    { &qn_op_split, &(const qn_attr_split){ .start = 0, .width = 0 }, "outside x", { { ROWS, { 5 } } } },
    { &qn_op_split, &(const qn_attr_split){ .width = 2, .group = 4 }, "do not fill", { { ROWS, { 6 } } } },
    { &qn_op_split, &(const qn_attr_split){ .start = 1, .width = 2, .group = 3, .step = 2 }, "outside x", { { ROWS, { 6 } } } },
    { &qn_op_join, &(const qn_attr_join){ 2 }, "whole groups", { { ROWS, { 4 } }, { ROWS, { 3 } } } },
    { &qn_op_join, &(const qn_attr_join){ 1 }, "one count", { { ROWS, { 4 } }, { OUT_ROWS, { 4 } } } },
    { &qn_op_clamp, &(const qn_attr_clamp){ 1, -1 }, "no order", { { ROWS, { 4 } } } },
    { &qn_op_clamp_grad, &(const qn_attr_clamp){ -1, 1 }, "one shape", { { ROWS, { 4 } }, { ROWS, { 5 } } } },
    { &qn_op_head_linear, &(const qn_attr_head_linear){ .n_heads = 3 }, "equal blocks", { { ROWS, { 6 } }, { MAT, { 4, 2 } } } },
    { &qn_op_head_linear, &(const qn_attr_head_linear){ .n_heads = 2, .start = 1, .n = 2 }, "outside a head", { { ROWS, { 8 } }, { MAT, { 4, 4 } } } },
    { &qn_op_head_linear, &(const qn_attr_head_linear){ .n_heads = 2 }, "what is summed", { { ROWS, { 6 } }, { MAT, { 4, 4 } } } },
    { &qn_op_head_linear_dw, &(const qn_attr_head_linear){ .n_heads = 2 }, "like the result", { { ROWS, { 8 } }, { ROWS, { 3 } }, { MAT, { 4, 4 } } } },
    { &qn_op_key_select, &(const qn_attr_key_select){ .n_heads = 2, .dim = 2, .top_k = 3 }, "size of a key", { { ROWS, { 4 } }, { ROWS, { 3 } }, { ROWS, { 2 } } } },
    { &qn_op_key_select, &(const qn_attr_key_select){ .n_heads = 2, .dim = 2 }, "top_k", { { ROWS, { 4 } }, { ROWS, { 2 } }, { ROWS, { 2 } } } },
    { &qn_op_attention, ATTN(.window = 0), "a list for each row", { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } }, { NONE, { 0 } }, { ROWS, { 2 } } } },
    { &qn_op_position_scale, &(const qn_attr_position_scale){ 0.5f, 0, 0 }, "out of range", { { ROWS, { 4 } } } },
    { &qn_op_position_scale, &(const qn_attr_position_scale){ 0.5f, 8, 0 }, "each token", { { OUT_ROWS, { 4 } } } },
    { &qn_op_act, &(const qn_attr_act){ 99 }, "no such activation", { { ROWS, { 5 } } } },
    { &qn_op_norm, &(const qn_attr_norm){ .group = 4 }, "fill the row", { { ROWS, { 6 } } } },
    { &qn_op_norm, &(const qn_attr_norm){ .group = -1 }, "fill the row", { { ROWS, { 6 } } } },
    { &qn_op_norm, &(const qn_attr_norm){ .eps = 0 }, "as wide as", { { ROWS, { 6 } }, { VEC, { 5 } } } },
    { &qn_op_norm, &(const qn_attr_norm){ .eps = 0 }, "with a weight", { { ROWS, { 6 } }, { NONE, { 0 } }, { VEC, { 6 } } } },
    { &qn_op_rope, &(const qn_attr_rope){ .head_dim = 5, .inv_freq = freq }, "fill the row", { { ROWS, { 8 } } } },
    { &qn_op_rope, &(const qn_attr_rope){ .head_dim = 4, .n_rot = 3, .n_freqs = 1, .inv_freq = freq }, "even share", { { ROWS, { 8 } } } },
    { &qn_op_rope, &(const qn_attr_rope){ .head_dim = 4, .n_rot = 8, .n_freqs = 2, .inv_freq = freq }, "even share", { { ROWS, { 8 } } } },
    { &qn_op_rope, &(const qn_attr_rope){ .head_dim = 4, .n_rot = 4, .n_freqs = 2, .inv_freq = freq, .axis = axis }, "position axis", { { ROWS, { 8 } } } },
    { &qn_op_rope, &(const qn_attr_rope){ .head_dim = 4, .n_rot = 2, .n_freqs = 1, .inv_freq = freq, .dynamic_theta = 1e4f, .long_after = 9 }, "dynamic", { { ROWS, { 8 } } } },
    { &qn_op_attention, ATTN(.window = -1), "out of range", { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { &qn_op_attention, ATTN(.window = 0), "heads times", { { ROWS, { 11 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { &qn_op_attention, ATTN(.window = 0), "one sink a head", { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } }, { VEC, { 2 } } } },
    { &qn_op_attention, ATTN(.window = 0), "one count", { { ROWS, { 12 } }, { OUT_ROWS, { 6 } }, { ROWS, { 4 } } } },
    { &qn_op_attention, &(const qn_attr_attention){ .n_heads = 3, .n_kv_heads = 2 }, "no multiple", { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { &qn_op_route, ROUTE(.renorm = true), "[R, experts]", { { ROWS, { 5 } } } },
    { &qn_op_route, ROUTE(.renorm = true), "one bias an expert", { { ROWS, { 6 } }, { VEC, { 5 } } } },
    { &qn_op_route, ROUTE(.n_groups = 4, .top_groups = 1), "groups", { { ROWS, { 6 } } } },
    { &qn_op_route, ROUTE(.n_groups = 6, .top_groups = 1), "too few", { { ROWS, { 6 } } } },
    { &qn_op_route, &(const qn_attr_route){ .n_experts = 6, .top_k = 7, .factor = 1 }, "within the experts", { { ROWS, { 6 } } } },
    { &qn_op_route, &(const qn_attr_route){ .n_experts = 6, .top_k = 2 }, "factor", { { ROWS, { 6 } } } },
    { &qn_op_expert_linear, &(const qn_attr_expert_linear){ .top_k = 2 }, "differ in K", { { ROWS, { 5 } }, { STACK, { 5, 3, 4 } }, { IDS, { 2, 5 } } } },
    { &qn_op_expert_linear, &(const qn_attr_expert_linear){ .top_k = 3 }, "[R, top_k]", { { ROWS, { 4 } }, { STACK, { 5, 3, 4 } }, { IDS, { 2, 5 } } } },
    { &qn_op_expert_linear, &(const qn_attr_expert_linear){ .top_k = 2 }, "bias is [E, N]", { { ROWS, { 4 } }, { STACK, { 5, 3, 4 } }, { IDS, { 2, 5 } }, { MAT, { 4, 3 } } } },
    { &qn_op_expert_sum, &(const qn_attr_expert_sum){ 2 }, "one weight a choice", { { ROWS, { 6 } }, { ROWS, { 3 } } } },
    { &qn_op_identity_experts, &(const qn_attr_identity_experts){ 3 }, "both [R, k]", { { IDS, { 2, 5 } }, { ROWS, { 3 } } } },
    { &qn_op_identity_experts, &(const qn_attr_identity_experts){ 0 }, "no expert", { { IDS, { 2, 5 } }, { ROWS, { 2 } } } },
    { &qn_op_cross_entropy, &(const qn_attr_cross_entropy){ 1 }, "[0, 1)", { { ROWS, { 6 } }, { LABELS, { 0 } } } },
    { &qn_op_cross_entropy, &(const qn_attr_cross_entropy){ 0 }, "labels [R]", { { OUT_ROWS, { 6 } }, { LABELS, { 0 } } } },
    { &qn_op_glu, &(const qn_attr_act){ QN_ACT_SILU }, "one shape", { { ROWS, { 6 } }, { ROWS, { 5 } } } },
    { &qn_op_add_norm, &(const qn_attr_norm){ .eps = 0 }, "one shape", { { ROWS, { 6 } }, { ROWS, { 5 } } } },
    { &qn_op_add_norm, &(const qn_attr_norm){ .eps = 0 }, "as wide as", { { ROWS, { 6 } }, { ROWS, { 6 } }, { VEC, { 5 } } } },
    { &qn_op_linears, NULL, "[N, K]", { { ROWS, { 4 } }, { MAT, { 5, 4 } }, { MAT, { 5, 3 } } } },
    { &qn_op_act_grad, &(const qn_attr_act){ QN_ACT_SILU }, "one shape", { { ROWS, { 4 } }, { ROWS, { 5 } } } },
    { &qn_op_norm_grad, &(const qn_attr_norm){ .eps = 0 }, "like x", { { ROWS, { 4 } }, { VEC, { 4 } }, { ROWS, { 5 } } } },
    { &qn_op_split_grad, &(const qn_attr_split){ .start = 1, .width = 2 }, "like the columns", { { ROWS, { 3 } }, { ROWS, { 5 } } } },
    { &qn_op_rows_grad, NULL, "picked rows", { { ROWS, { 4 } }, { PICK, { 0 } }, { ROWS, { 4 } } } },
    { &qn_op_linear_dx, NULL, "needs dout", { { ROWS, { 4 } }, { MAT, { 5, 4 } } } },
    { &qn_op_linear_dw, NULL, "needs dout", { { ROWS, { 4 } }, { OUT_ROWS, { 4 } } } },
    { &qn_op_embed_grad, NULL, "one row", { { TOKENS, { 0 } }, { ROWS, { 3 } }, { MAT, { 6, 4 } } } },
    { &qn_op_sum_rows, NULL, "x is f32", { { TOKENS, { 0 } } } },
};
/* clang-format on */

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        op_case c = { .what = cases[i].why };
        memcpy(c.in, cases[i].in, sizeof c.in);
        op_bench t = { .c = &c };
        qn_graph_init(&t.g);
        batch_init(&t.batch, (int32_t[]){ 2 }, 1);
        uint64_t seed = 1;
        for (int k = 0; k < MAX_CASE_IN; k++)
            make_input(&t, k, &seed);
        assert_int_equal(t.g.err.code, QN_OK);
        qn_graph_scope(&t.g, 3, "model.layers.3.part");
        qn_val y = qn_graph_add(&t.g, cases[i].op, cases[i].attr, t.in, t.n_in);
        assert_int_equal(y.id, 0);
        if (!strstr(t.g.err.msg, cases[i].why) || !strstr(t.g.err.msg, "model.layers.3.part"))
            fail_msg("case %zu (%s): \"%s\"", i, cases[i].why, t.g.err.msg);
        bench_free(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_refusals) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
