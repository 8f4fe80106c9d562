/* test_ops_values.c - references against a second formula, written another way, or against worked numbers. */
#include <complex.h>

#include "ops/call.h"

static void test_linear(void **state)
{
    (void)state;
    uint64_t seed = 1;
    float x[3 * 5], w[4 * 5], bias[4], y[3 * 4];
    rng_fill(&seed, x, 15, -1, 1);
    rng_fill(&seed, w, 20, -1, 1);
    rng_fill(&seed, bias, 4, -1, 1);
    qn_weight ww = floats_weight(w, 4, 5), wb = floats_weight(bias, 0, 4);
    op_call t;
    call_init(&t, &qn_op_linear, NULL, NULL);
    t.c.in[0] = tensor(x, 3, 5);
    t.c.in[1] = weight_tensor(&ww);
    t.c.in[2] = weight_tensor(&wb);
    t.c.out[0] = tensor(y, 3, 4);
    call_run(&t);
    double want[12];
    for (int i = 0; i < 12; i++) {
        want[i] = bias[i % 4];
        for (int k = 4; k >= 0; k--) /* the other way round */
            want[i] += (double)x[i / 4 * 5 + k] * w[i % 4 * 5 + k];
    }
    assert_near(y, want, 12, 5e-7);
}

/* Half-precision weights are read through their decoder. */
static void test_linear_f16(void **state)
{
    (void)state;
    float x[2] = { 3, -0.5f }, y[1];
    uint16_t half[2] = { qn_f32_to_f16(1.5f), qn_f32_to_f16(8) };
    qn_weight w = floats_weight(NULL, 1, 2);
    w.layout = QN_F16;
    w.data = half;
    op_call t;
    call_init(&t, &qn_op_linear, NULL, NULL);
    t.c.in[0] = tensor(x, 1, 2);
    t.c.in[1] = weight_tensor(&w);
    t.c.out[0] = tensor(y, 1, 1);
    call_run(&t);
    assert_true(y[0] == 0.5f);
}

static void test_act_values(void **state)
{
    (void)state;
    /* From tables of the functions at 1 and -2, to seven digits. */
    const struct {
        int act;
        double at_1, at_m2;
    } want[] = {
        { QN_ACT_NONE, 1, -2 },
        { QN_ACT_SILU, 0.7310586, -0.2384058 },
        { QN_ACT_GELU, 0.8413447, -0.0455003 },
        { QN_ACT_GELU_TANH, 0.8411920, -0.0454023 },
        { QN_ACT_GELU_QUICK, 0.8457958, -0.0643414 },
        { QN_ACT_RELU, 1, 0 },
        { QN_ACT_RELU2, 1, 0 },
        { QN_ACT_SIGMOID, 0.7310586, 0.1192029 },
        { QN_ACT_TANH, 0.7615942, -0.9640276 },
        { QN_ACT_SOFTPLUS, 1.3132617, 0.1269280 },
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        qn_attr_act a = { want[i].act };
        float x[2] = { 1, -2 }, y[2];
        op_call t;
        call_init(&t, &qn_op_act, &a, NULL);
        t.c.in[0] = tensor(x, 1, 2);
        t.c.out[0] = tensor(y, 1, 2);
        call_run(&t);
        assert_near(y, (double[]){ want[i].at_1, want[i].at_m2 }, 2, 1e-6);
    }
}

static void test_act_extremes(void **state)
{
    (void)state;
    for (int a = QN_ACT_NONE; a <= QN_ACT_SOFTPLUS; a++) {
        qn_attr_act attr = { a };
        float x[4] = { -3e4f, -100, 100, 3e4f }, y[4];
        op_call t;
        call_init(&t, &qn_op_act, &attr, NULL);
        t.c.in[0] = tensor(x, 2, 2);
        t.c.out[0] = tensor(y, 2, 2);
        call_run(&t);
        for (int i = 0; i < 4; i++)
            assert_true(isfinite(y[i]));
    }
}

/* LayerNorm through raw moments: E[x^2] - E[x]^2, where the reference subtracts first. */
static void test_layer_norm(void **state)
{
    (void)state;
    uint64_t seed = 3;
    float x[2 * 8], w[8], bias[8], y[16];
    rng_fill(&seed, x, 16, -2, 3);
    rng_fill(&seed, w, 8, 0.5f, 2);
    rng_fill(&seed, bias, 8, -1, 1);
    qn_weight ww = floats_weight(w, 0, 8), wb = floats_weight(bias, 0, 8);
    qn_attr_norm a = { .eps = 1e-5f, .center = true };
    op_call t;
    call_init(&t, &qn_op_norm, &a, NULL);
    t.c.in[0] = tensor(x, 2, 8);
    t.c.in[1] = weight_tensor(&ww);
    t.c.in[2] = weight_tensor(&wb);
    t.c.out[0] = tensor(y, 2, 8);
    call_run(&t);
    double want[16];
    for (int r = 0; r < 2; r++) {
        double m1 = 0, m2 = 0;
        for (int i = 0; i < 8; i++) {
            m1 += x[r * 8 + i] / 8.0;
            m2 += (double)x[r * 8 + i] * x[r * 8 + i] / 8.0;
        }
        for (int i = 0; i < 8; i++)
            want[r * 8 + i] = (x[r * 8 + i] - m1) / sqrt(m2 - m1 * m1 + 1e-5) * w[i] + bias[i];
    }
    assert_near(y, want, 16, 1e-6);
}

/* A norm of heads is the norm of each head by itself; w + 1 with w = 0 is no weight. */
static void test_norm_groups(void **state)
{
    (void)state;
    uint64_t seed = 4;
    float x[12], zero[4] = { 0 }, whole[12], part[12];
    rng_fill(&seed, x, 12, -1, 1);
    qn_weight w = floats_weight(zero, 0, 4);
    qn_attr_norm heads = { .eps = 1e-6f, .group = 4, .offset = 1 }, alone = { .eps = 1e-6f };
    op_call t;
    call_init(&t, &qn_op_norm, &heads, NULL);
    t.c.in[0] = tensor(x, 1, 12);
    t.c.in[1] = weight_tensor(&w);
    t.c.out[0] = tensor(whole, 1, 12);
    call_run(&t);
    call_init(&t, &qn_op_norm, &alone, NULL);
    t.c.in[0] = tensor(x, 3, 4);
    t.c.out[0] = tensor(part, 3, 4);
    call_run(&t);
    assert_memory_equal(whole, part, sizeof whole);
}

static void run_rope(const qn_attr_rope *a, const test_batch *b, float *x, float *y)
{
    op_call t;
    call_init(&t, &qn_op_rope, a, b);
    t.c.in[0] = tensor(x, b->b.n_tok, a->head_dim);
    t.c.out[0] = tensor(y, b->b.n_tok, a->head_dim);
    call_run(&t);
}

/* A pair is a complex number times exp(i angle). */
static void test_rope_is_a_rotation(void **state)
{
    (void)state;
    const float freq[2] = { 0.9f, 0.04f };
    test_batch b;
    batch_init(&b, (int32_t[]){ 6 }, 1);
    for (int inter = 0; inter < 2; inter++) {
        qn_attr_rope a = { .head_dim = 5,
                           .n_rot = 4,
                           .n_freqs = 2,
                           .inv_freq = freq,
                           .amplitude = 1.5f,
                           .interleaved = inter };
        uint64_t seed = 5;
        float x[30], y[30], back[30];
        double want[30], orig[30];
        rng_fill(&seed, x, 30, -1, 1);
        run_rope(&a, &b, x, y);
        for (int r = 0; r < 6; r++) {
            want[r * 5 + 4] = x[r * 5 + 4]; /* beyond n_rot */
            for (int i = 0; i < 2; i++) {
                int p = r * 5 + (inter ? 2 * i : i), q = p + (inter ? 1 : 2);
                double complex z = (x[p] + I * x[q]) * cexp(I * (double)freq[i] * r) * 1.5;
                want[p] = creal(z);
                want[q] = cimag(z);
            }
        }
        assert_near(y, want, 30, 1e-6);
        a.inverse = true;
        a.amplitude = 1 / 1.5f;
        run_rope(&a, &b, y, back);
        for (int i = 0; i < 30; i++)
            orig[i] = x[i];
        assert_near(back, orig, 30, 1e-6);
    }
}

/* rope_len, not the position, picks the long table, by sequence. */
static void test_rope_long(void **state)
{
    (void)state;
    const float freq[1] = { 0.5f }, slow[1] = { 0.25f };
    test_batch b;
    batch_init(&b, (int32_t[]){ 2, 2 }, 2);
    b.rope_len[0] = 16;
    b.rope_len[1] = 17;
    qn_attr_rope a = { .head_dim = 2,
                       .n_rot = 2,
                       .n_freqs = 1,
                       .inv_freq = freq,
                       .inv_freq_long = slow,
                       .long_after = 16,
                       .amplitude = 1,
                       .amplitude_long = 2 };
    float x[8] = { 1, 0, 1, 0, 1, 0, 1, 0 }, y[8];
    run_rope(&a, &b, x, y);
    assert_near(y, (double[]){ 1, 0, cos(0.5), sin(0.5), 2, 0, 2 * cos(0.25), 2 * sin(0.25) }, 8,
                1e-6);
}

/* Dynamic NTK at twice the trained length, worked out by hand: theta' = 100 * (2*2 - 1)^(4/2) = 900. */
static void test_rope_dynamic(void **state)
{
    (void)state;
    const float freq[2] = { 1, 0.1f };
    qn_attr_rope a = { .head_dim = 4,
                       .n_rot = 4,
                       .n_freqs = 2,
                       .inv_freq = freq,
                       .amplitude = 1,
                       .dynamic_theta = 100,
                       .dynamic_factor = 2,
                       .long_after = 8 };
    assert_true(qn_rope_inv_freq(&a, 1, 8) == 0.1f);
    assert_true(fabs(qn_rope_inv_freq(&a, 1, 16) - 1 / sqrt(900)) < 1e-7);
    assert_true(qn_rope_inv_freq(&a, 0, 16) == 1);
}

static void run_route(const qn_attr_route *a, float *logits, const float *bias, int32_t *id,
                      float *weight)
{
    qn_weight w = floats_weight(bias, 0, a->n_experts);
    op_call t;
    call_init(&t, &qn_op_route, a, NULL);
    t.c.in[0] = tensor(logits, 1, a->n_experts);
    if (bias)
        t.c.in[1] = weight_tensor(&w);
    t.c.out[0] = tensor(id, 1, a->top_k);
    t.c.out[1] = tensor(weight, 1, a->top_k);
    call_run(&t);
}

static void test_route_ties_and_weights(void **state)
{
    (void)state;
    float logits[4] = { 1, 2, 2, 0 }, w[2];
    int32_t id[2];
    qn_attr_route a = { .n_experts = 4, .top_k = 2, .factor = 1, .score = QN_ROUTE_SOFTMAX };
    run_route(&a, logits, NULL, id, w);
    assert_int_equal(id[0], 1); /* the lower of equal ones first */
    assert_int_equal(id[1], 2);
    double sum = exp(1) + 2 * exp(2) + 1;
    assert_near(w, (double[]){ exp(2) / sum, exp(2) / sum }, 2, 1e-7);
    a.renorm = true;
    a.factor = 3;
    run_route(&a, logits, NULL, id, w);
    assert_near(w, (double[]){ 1.5, 1.5 }, 2, 1e-6);
}

/* The bias moves the choice, never the weights. */
static void test_route_bias(void **state)
{
    (void)state;
    float logits[4] = { 0, 1, 2, 3 }, bias[4] = { 5, 0, 0, 0 }, w[2];
    int32_t id[2];
    qn_attr_route a = { .n_experts = 4, .top_k = 2, .factor = 1, .score = QN_ROUTE_SIGMOID };
    run_route(&a, logits, bias, id, w);
    assert_int_equal(id[0], 0);
    assert_int_equal(id[1], 3);
    assert_near(w, (double[]){ 0.5, 1 / (1 + exp(-3)) }, 2, 1e-7);
}

/* Two groups of three: the first has the best expert, the second the better pair. */
static void test_route_groups(void **state)
{
    (void)state;
    float logits[6] = { 3, -9, -9, 2, 1.5f, -9 }, w[2];
    int32_t id[2];
    qn_attr_route a = { .n_experts = 6,
                        .top_k = 2,
                        .factor = 1,
                        .score = QN_ROUTE_SIGMOID,
                        .n_groups = 2,
                        .top_groups = 1 };
    run_route(&a, logits, NULL, id, w);
    assert_int_equal(id[0], 3);
    assert_int_equal(id[1], 4);
    a.score = QN_ROUTE_SOFTMAX; /* by the best one */
    run_route(&a, logits, NULL, id, w);
    assert_int_equal(id[0], 0);
    assert_int_equal(id[1], 1);
}

static void test_route_of_nan(void **state)
{
    (void)state;
    float logits[4] = { NAN, NAN, NAN, NAN }, w[3];
    int32_t id[3];
    qn_attr_route a = { .n_experts = 4, .top_k = 3, .factor = 1, .score = QN_ROUTE_SOFTMAX };
    run_route(&a, logits, NULL, id, w);
    for (int i = 0; i < 3; i++)
        assert_int_equal(id[i], i); /* valid and distinct */
}

/* A mixture in one formula: sum over chosen of weight * W_e x. */
static void test_experts(void **state)
{
    (void)state;
    uint64_t seed = 8;
    float x[2 * 3], w[4 * 2 * 3], y[2 * 2 * 2], weight[4] = { 0.75f, 0.25f, 0.5f, 0.5f }, out[4];
    int32_t id[4] = { 3, 0, 1, 2 };
    rng_fill(&seed, x, 6, -1, 1);
    rng_fill(&seed, w, 24, -1, 1);
    qn_weight stack = {
        .layout = QN_F32, .n_dims = 3, .dim = { 4, 2, 3 }, .data = w, .global_scale = 1
    };
    qn_attr_expert_linear a = { .top_k = 2 };
    op_call t;
    call_init(&t, &qn_op_expert_linear, &a, NULL);
    t.c.in[0] = tensor(x, 2, 3);
    t.c.in[1] = weight_tensor(&stack);
    t.c.in[2] = tensor(id, 2, 2);
    t.c.out[0] = tensor(y, 2, 4);
    call_run(&t);
    call_init(&t, &qn_op_expert_sum, &(qn_attr_expert_sum){ 2 }, NULL);
    t.c.in[0] = tensor(y, 2, 4);
    t.c.in[1] = tensor(weight, 2, 2);
    t.c.out[0] = tensor(out, 2, 2);
    call_run(&t);
    double want[4] = { 0 };
    for (int i = 0; i < 2 * 2 * 2 * 3; i++) {
        int r = i / 12, k = i / 6 % 2, n = i / 3 % 2, j = i % 3;
        want[r * 2 + n] +=
            (double)weight[r * 2 + k] * w[id[r * 2 + k] * 6 + n * 3 + j] * x[r * 3 + j];
    }
    assert_near(out, want, 4, 1e-6);
}

static void test_cross_entropy(void **state)
{
    (void)state;
    float logits[3 * 4] = { 1, 2, 3, 4, 500, 0, 0, 0, -1, 0, 1, 0 }, loss;
    int32_t label[3] = { 2, -100, 0 };
    op_call t;
    call_init(&t, &qn_op_cross_entropy, &(qn_attr_cross_entropy){ 0.25f }, NULL);
    t.c.in[0] = tensor(logits, 3, 4);
    t.c.in[1] = tensor(label, 3, 1);
    t.c.out[0] = tensor(&loss, 1, 1);
    call_run(&t);
    double want = 0;
    for (int r = 0; r < 3; r += 2) {
        const float *x = logits + r * 4;
        double lse = log(exp(x[0]) + exp(x[1]) + exp(x[2]) + exp(x[3]));
        want += 0.75 * (lse - x[label[r]]) + 0.25 * (lse - (x[0] + x[1] + x[2] + x[3]) / 4.0);
    }
    assert_near(&loss, (double[]){ want / 2 }, 1, 1e-6);
    label[0] = label[2] = -1; /* nothing to learn from */
    call_run(&t);
    assert_true(loss == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_linear_f16),
        cmocka_unit_test(test_act_values),
        cmocka_unit_test(test_act_extremes),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_norm_groups),
        cmocka_unit_test(test_rope_is_a_rotation),
        cmocka_unit_test(test_rope_long),
        cmocka_unit_test(test_rope_dynamic),
        cmocka_unit_test(test_route_ties_and_weights),
        cmocka_unit_test(test_route_bias),
        cmocka_unit_test(test_route_groups),
        cmocka_unit_test(test_route_of_nan),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_cross_entropy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
