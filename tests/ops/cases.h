/* cases.h - the table of ops that all generic tests walk. A new op adds a line. */
#ifndef QN_TESTS_OPS_CASES_H
#define QN_TESTS_OPS_CASES_H

#include "ops/opcase.h"

static const float freq[] = { 1.0f, 0.3f, 0.05f };
static const float slopes[] = { 0.5f, 0.25f, 0.1f, 1.0f };
static const uint8_t axes[] = { 0, 1, 0 };

#define ROPE(...)                                                                                  \
    &(const qn_attr_rope)                                                                          \
    {                                                                                              \
        .head_dim = 8, .n_rot = 6, .n_freqs = 3, .inv_freq = freq, .amplitude = 1.25f, __VA_ARGS__ \
    }
#define ATTN(...)                                                                                  \
    &(const qn_attr_attention)                                                                     \
    {                                                                                              \
        .n_heads = 4, .n_kv_heads = 2, .k_dim = 3, .v_dim = 2, .scale = 0.6f, __VA_ARGS__          \
    }
#define ROUTE(...)                                                                                 \
    &(const qn_attr_route)                                                                         \
    {                                                                                              \
        .n_experts = 6, .top_k = 2, .factor = 1.5f, __VA_ARGS__                                    \
    }
#define ACT(a)                                                                                     \
    &(const qn_attr_act)                                                                           \
    {                                                                                              \
        a                                                                                          \
    }

/* One line a case, however long: the table reads by columns. */
/* clang-format off */
static const op_case cases[] = {
    { "embed", &qn_op_embed, NULL, "[tok, 4]", .in = { { TOKENS, { 0 } }, { MAT, { 6, 4 } } } },
    { "linear", &qn_op_linear, NULL, "[tok, 5]", .in = { { ROWS, { 4 } }, { MAT, { 5, 4 } } } },
    { "linear with bias", &qn_op_linear, NULL, "[tok, 5]", .in = { { ROWS, { 4 } }, { MAT, { 5, 4 } }, { VEC, { 5 } } } },
    { "add", &qn_op_add, NULL, "[tok, 4]", .in = { { ROWS, { 4 } }, { ROWS, { 4 } } } },
    { "add a row", &qn_op_add, NULL, "[tok, 4]", .in = { { ROWS, { 4 } }, { VEC, { 4 } } } },
    { "mul", &qn_op_mul, NULL, "[tok, 4]", .in = { { ROWS, { 4 } }, { ROWS, { 4 } } } },
    { "mul by a row", &qn_op_mul, NULL, "[tok, 4]", .in = { { ROWS, { 4 } }, { VEC, { 4 } } } },
    { "mul by a column", &qn_op_mul, NULL, "[tok, 4]", .in = { { ROWS, { 4 } }, { ROWS, { 1 } } } },
    { "mul by heads", &qn_op_mul, NULL, "[tok, 6]", .in = { { ROWS, { 6 } }, { ROWS, { 3 } } } },
    { "rows", &qn_op_rows, NULL, "[out, 4]", .in = { { ROWS, { 4 } }, { PICK, { 0 } } } },
    { "scale", &qn_op_scale, &(const qn_attr_scale){ -2.5f }, "[tok, 3]", .in = { { ROWS, { 3 } } } },
    { "split", &qn_op_split, &(const qn_attr_split){ .start = 1, .width = 2 }, "[tok, 2]", .in = { { ROWS, { 5 } } } },
    { "split of heads", &qn_op_split, &(const qn_attr_split){ .start = 1, .width = 2, .group = 4 }, "[tok, 6]", .in = { { ROWS, { 12 } } } },
    { "split, in turns", &qn_op_split, &(const qn_attr_split){ .start = 1, .width = 2, .group = 4, .step = 2 }, "[tok, 4]", .in = { { ROWS, { 8 } } } },
    { "join", &qn_op_join, &(const qn_attr_join){ 1 }, "[tok, 5]", .in = { { ROWS, { 3 } }, { ROWS, { 2 } } } },
    { "join of heads", &qn_op_join, &(const qn_attr_join){ 2 }, "[tok, 10]", .in = { { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { "clamp within", &qn_op_clamp, &(const qn_attr_clamp){ -2, 2 }, "[tok, 5]", .in = { { ROWS, { 5 } } } },
    { "clamp above", &qn_op_clamp, &(const qn_attr_clamp){ -INFINITY, 2 }, "[tok, 5]", .lo = 2.1f, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "head_linear", &qn_op_head_linear, &(const qn_attr_head_linear){ .n_heads = 2 }, "[tok, 6]", .in = { { ROWS, { 8 } }, { STACK, { 2, 3, 4 } } } },
    { "head_linear, some rows", &qn_op_head_linear, &(const qn_attr_head_linear){ .n_heads = 2, .start = 1, .n = 2 }, "[tok, 4]", .in = { { ROWS, { 8 } }, { MAT, { 8, 4 } } } },
    { "head_linear, transposed", &qn_op_head_linear, &(const qn_attr_head_linear){ .n_heads = 2, .start = 1, .n = 2, .transposed = true }, "[tok, 8]", .in = { { ROWS, { 4 } }, { MAT, { 8, 4 } } } },
    { "silu", &qn_op_act, ACT(QN_ACT_SILU), "[tok, 5]", .lo = -4, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "gelu", &qn_op_act, ACT(QN_ACT_GELU), "[tok, 5]", .lo = -4, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "gelu_tanh", &qn_op_act, ACT(QN_ACT_GELU_TANH), "[tok, 5]", .lo = -4, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "gelu_quick", &qn_op_act, ACT(QN_ACT_GELU_QUICK), "[tok, 5]", .lo = -4, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "relu right of its corner", &qn_op_act, ACT(QN_ACT_RELU), "[tok, 5]", .lo = 0.1f, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "relu left of its corner", &qn_op_act, ACT(QN_ACT_RELU), "[tok, 5]", .lo = -4, .hi = -0.1f, .in = { { ROWS, { 5 } } } },
    { "relu2", &qn_op_act, ACT(QN_ACT_RELU2), "[tok, 5]", .lo = -4, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "sigmoid", &qn_op_act, ACT(QN_ACT_SIGMOID), "[tok, 5]", .lo = -4, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "tanh", &qn_op_act, ACT(QN_ACT_TANH), "[tok, 5]", .lo = -3, .hi = 3, .in = { { ROWS, { 5 } } } },
    { "softplus", &qn_op_act, ACT(QN_ACT_SOFTPLUS), "[tok, 5]", .lo = -4, .hi = 4, .in = { { ROWS, { 5 } } } },
    { "no activation", &qn_op_act, ACT(QN_ACT_NONE), "[tok, 5]", .in = { { ROWS, { 5 } } } },
    { "rms norm", &qn_op_norm, &(const qn_attr_norm){ .eps = 1e-5f }, "[tok, 6]", .in = { { ROWS, { 6 } }, { VEC, { 6 } } } },
    { "rms norm without weight", &qn_op_norm, &(const qn_attr_norm){ .eps = 1e-5f }, "[tok, 6]", .in = { { ROWS, { 6 } } } },
    { "rms norm, weight + 1", &qn_op_norm, &(const qn_attr_norm){ .eps = 1e-2f, .offset = 1 }, "[tok, 6]", .in = { { ROWS, { 6 } }, { VEC, { 6 } } } },
    { "layer norm", &qn_op_norm, &(const qn_attr_norm){ .eps = 1e-2f, .center = true }, "[tok, 6]", .in = { { ROWS, { 6 } }, { VEC, { 6 } }, { VEC, { 6 } } } },
    { "norm of heads", &qn_op_norm, &(const qn_attr_norm){ .eps = 1e-2f, .group = 4 }, "[tok, 8]", .in = { { ROWS, { 8 } }, { VEC, { 4 } } } },
    { "norm of heads, own weights", &qn_op_norm, &(const qn_attr_norm){ .eps = 1e-2f, .group = 4, .center = true }, "[tok, 8]", .in = { { ROWS, { 8 } }, { VEC, { 8 } }, { VEC, { 8 } } } },
    { "rope, halves", &qn_op_rope, ROPE(.interleaved = false), "[tok, 16]", .in = { { ROWS, { 16 } } } },
    { "rope, neighbours", &qn_op_rope, ROPE(.interleaved = true), "[tok, 16]", .in = { { ROWS, { 16 } } } },
    { "rope back", &qn_op_rope, ROPE(.inverse = true), "[tok, 16]", .in = { { ROWS, { 16 } } } },
    { "rope of two axes", &qn_op_rope, ROPE(.axis = axes), "[tok, 16]", .in = { { ROWS, { 16 } } } },
    { "rope, dynamic", &qn_op_rope, ROPE(.dynamic_theta = 10000, .dynamic_factor = 2, .long_after = 2), "[tok, 16]", .in = { { ROWS, { 16 } } } },
    { "position_scale", &qn_op_position_scale, &(const qn_attr_position_scale){ 0.5f, 2, 1 }, "[tok, 3]", .in = { { ROWS, { 3 } } } },
    { "attention", &qn_op_attention, ATTN(.window = 0), "[tok, 8]", .in = { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { "attention, slopes", &qn_op_attention, ATTN(.slopes = slopes), "[tok, 8]", .in = { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { "attention, window", &qn_op_attention, ATTN(.window = 2), "[tok, 8]", .in = { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { "attention, chunks", &qn_op_attention, ATTN(.chunk = 2), "[tok, 8]", .in = { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { "attention, both ways", &qn_op_attention, ATTN(.both_ways = true, .kv_group = QN_NO_CACHE), "[tok, 8]", .in = { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { "attention, both ways in a window", &qn_op_attention, ATTN(.both_ways = true, .window = 2), "[tok, 8]", .in = { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { "attention, cap", &qn_op_attention, ATTN(.softcap = 1.5f), "[tok, 8]", .in = { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } } } },
    { "attention, sinks", &qn_op_attention, ATTN(.window = 3), "[tok, 8]", .in = { { ROWS, { 12 } }, { ROWS, { 6 } }, { ROWS, { 4 } }, { VEC, { 4 } } } },
    { "route, softmax", &qn_op_route, ROUTE(.score = QN_ROUTE_SOFTMAX), "[tok, 2]", .result = 1, .lo = -2, .hi = 2, .in = { { ROWS, { 6 } } } },
    { "route, softmax, renorm", &qn_op_route, ROUTE(.score = QN_ROUTE_SOFTMAX, .renorm = true), "[tok, 2]", .result = 1, .lo = -2, .hi = 2, .in = { { ROWS, { 6 } } } },
    { "route, softmax of chosen", &qn_op_route, ROUTE(.score = QN_ROUTE_SOFTMAX_TOPK), "[tok, 2]", .result = 1, .lo = -2, .hi = 2, .in = { { ROWS, { 6 } } } },
    { "route, sigmoid", &qn_op_route, ROUTE(.score = QN_ROUTE_SIGMOID), "[tok, 2]", .result = 1, .lo = -2, .hi = 2, .in = { { ROWS, { 6 } } } },
    { "route, sigmoid, groups, renorm", &qn_op_route, ROUTE(.score = QN_ROUTE_SIGMOID, .renorm = true, .n_groups = 3, .top_groups = 1), "[tok, 2]", .result = 1, .lo = -2, .hi = 2, .in = { { ROWS, { 6 } } } },
    { "route, softmax, pairs of groups", &qn_op_route, ROUTE(.score = QN_ROUTE_SOFTMAX, .n_groups = 3, .top_groups = 2, .group_pairs = true), "[tok, 2]", .result = 1, .lo = -2, .hi = 2, .in = { { ROWS, { 6 } } } },
    { "route, sparsemix", &qn_op_route, ROUTE(.score = QN_ROUTE_SPARSEMIX, .jitter = 0.45f), "[tok, 2]", .result = 1, .lo = 1, .hi = 5, .in = { { ROWS, { 6 } } } },
    { "expert_linear", &qn_op_expert_linear, &(const qn_attr_expert_linear){ .top_k = 2 }, "[tok, 6]", .in = { { ROWS, { 4 } }, { STACK, { 5, 3, 4 } }, { IDS, { 2, 5 } } } },
    { "expert_linear, own inputs, bias", &qn_op_expert_linear, &(const qn_attr_expert_linear){ .top_k = 2, .x_per_slot = true }, "[tok, 6]", .in = { { ROWS, { 8 } }, { STACK, { 5, 3, 4 } }, { IDS, { 2, 5 } }, { MAT, { 5, 3 } } } },
    { "identity_experts, weights", &qn_op_identity_experts, &(const qn_attr_identity_experts){ 3 }, "[tok, 2]", .result = 1, .in = { { IDS, { 2, 5 } }, { ROWS, { 2 } } } },
    { "identity_experts, share", &qn_op_identity_experts, &(const qn_attr_identity_experts){ 3 }, "[tok, 1]", .result = 2, .in = { { IDS, { 2, 5 } }, { ROWS, { 2 } } } },
    { "expert_sum", &qn_op_expert_sum, &(const qn_attr_expert_sum){ 2 }, "[tok, 3]", .in = { { ROWS, { 6 } }, { ROWS, { 2 } } } },
    { "cross_entropy", &qn_op_cross_entropy, &(const qn_attr_cross_entropy){ 0 }, "[1]", .lo = -3, .hi = 3, .in = { { ROWS, { 7 } }, { LABELS, { 0 } } } },
    { "cross_entropy, smoothed", &qn_op_cross_entropy, &(const qn_attr_cross_entropy){ 0.1f }, "[1]", .lo = -3, .hi = 3, .in = { { ROWS, { 7 } }, { LABELS, { 0 } } } },
    { "glu", &qn_op_glu, ACT(QN_ACT_SILU), "[tok, 5]", .lo = -3, .hi = 3, .in = { { ROWS, { 5 } }, { ROWS, { 5 } } } },
    { "add_norm, the sum", &qn_op_add_norm, &(const qn_attr_norm){ .eps = 1e-2f }, "[tok, 6]", .in = { { ROWS, { 6 } }, { ROWS, { 6 } }, { VEC, { 6 } } } },
    { "add_norm, the norm", &qn_op_add_norm, &(const qn_attr_norm){ .eps = 1e-2f, .center = true }, "[tok, 6]", .result = 1, .in = { { ROWS, { 6 } }, { ROWS, { 6 } }, { VEC, { 6 } }, { VEC, { 6 } } } },
    { "linears, the last", &qn_op_linears, NULL, "[tok, 3]", .result = 2, .in = { { ROWS, { 4 } }, { MAT, { 5, 4 } }, { MAT, { 2, 4 } }, { MAT, { 3, 4 } } } },
};
/* clang-format on */

static inline op_case ranged(const op_case *c)
{
    op_case r = *c;
    if (r.lo == 0 && r.hi == 0) {
        r.lo = -1;
        r.hi = 1;
    }
    return r;
}

#define N_CASES (sizeof cases / sizeof *cases)

#endif
