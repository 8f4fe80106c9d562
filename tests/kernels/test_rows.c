/* test_rows.c - the kernels that work by row or by element, against the references of their ops.
 *
 * Bounds: plain sums and products are equal to the bit. Activations come from an exponential within 2 units in
 * the last place and a division or two: 8 epsilon of |act(x)| + |x| (times the other factor). A norm divides
 * by a root of a sum kept in double: 4 roundings. A rotation is two products and a sum of two, with sines off
 * by one unit: 4 epsilon (|u| + |v|). */
#include <float.h>

#include "kernels/harness.h"
#include "ops/util.h"

#define MAX_ELEMS (70 * 700)

static float in0[MAX_ELEMS], in1[MAX_ELEMS], in2[MAX_ELEMS];
static const int64_t widths[] = { 1, 5, 8, 13, 64, 100, 576 };
static const int64_t row_counts[] = { 1, 2, 7, 33 };
#define N_WIDTHS 7
#define N_ROWS   4

/* Runs k by reference and by kernel with 1 to 3 threads; all kernels equal, the first within the bound. */
static void compare(kcase *k, double (*bound)(const kcase *k, int out, int64_t i))
{
    kcase ref = *k;
    size_t bytes[QN_MAX_OUT];
    for (int o = 0; o < k->node.n_out; o++) {
        bytes[o] = (size_t)(k->call.out[o].rows * k->call.out[o].width) * 4;
        add_output(&ref, o, k->call.out[o].rows, k->call.out[o].width);
    }
    run_ref(&ref);
    for (int threads = 1; threads <= 3; threads++) {
        kcase fast = *k;
        for (int o = 0; o < k->node.n_out; o++)
            add_output(&fast, o, k->call.out[o].rows, k->call.out[o].width);
        run_kernel(&fast, threads);
        for (int o = 0; o < k->node.n_out; o++) {
            const float *want = ref.call.out[o].data, *got = fast.call.out[o].data;
            for (int64_t i = 0; i < (int64_t)bytes[o] / 4; i++) {
                double most = bound ? bound(k, o, i) : 0;
                if (!(fabs((double)got[i] - want[i]) <= most))
                    fail_msg("%s, %d threads, [%d][%d of %d x %d]: %g, not %g +- %g",
                             k->node.op->name, threads, o, (int)i, (int)k->call.out[o].rows,
                             (int)k->call.out[o].width, got[i], want[i], most);
            }
            if (threads == 1)
                memcpy(k->call.out[o].data, got, bytes[o]);
            assert_memory_equal(got, k->call.out[o].data, bytes[o]);
        }
        free_case(&fast);
    }
    free_case(&ref);
}

static void test_sums(void **state)
{
    (void)state;
    const qn_attr_scale scale = { 0.37F };
    for (int r = 0; r < N_ROWS; r++)
        for (int w = 0; w < N_WIDTHS; w++) {
            int64_t rows = row_counts[r], width = widths[w];
            for (int kind = 0; kind < 6; kind++) {
                static const qn_op *const ops[] = { &qn_op_add, &qn_op_add, &qn_op_mul,
                                                    &qn_op_mul, &qn_op_mul, &qn_op_scale };
                kcase k = { .node = { .op = ops[kind], .attr = &scale } };
                qn_weight vec = { .dim = { width }, .n_dims = 1, .layout = QN_F32, .data = in1 };
                const int64_t dims[2] = { rows, width };
                memcpy(k.node.shape.dim, dims, sizeof dims);
                k.node.shape.n_dims = 2;
                add_input(&k, 0, in0, rows, width);
                if (kind == 1 || kind == 3)
                    add_weight(&k, 1, &vec);
                else
                    add_input(&k, 1, in1, rows, kind == 4 ? 1 : width);
                add_output(&k, 0, rows, width);
                compare(&k, NULL);
                free_case(&k);
            }
        }
}

static double act_bound(const kcase *k, int out, int64_t i)
{
    (void)out;
    qn_act act = (qn_act)((const qn_attr_act *)k->node.attr)->act;
    double up = k->node.op == &qn_op_glu ? fabs(in1[i]) : 1;
    return 8 * FLT_EPSILON * (fabs(qn_act_value(act, in0[i])) + fabs(in0[i])) * up + FLT_MIN;
}

static void test_activations(void **state)
{
    (void)state;
    for (int act = QN_ACT_NONE; act <= QN_ACT_SOFTPLUS; act++)
        for (int w = 0; w < N_WIDTHS; w++)
            for (int glu = 0; glu < 2; glu++) {
                const qn_attr_act attr = { act };
                kcase k = { .node = { .op = glu ? &qn_op_glu : &qn_op_act, .attr = &attr } };
                add_input(&k, 0, in0, 7, widths[w]);
                if (glu)
                    add_input(&k, 1, in1, 7, widths[w]);
                add_output(&k, 0, 7, widths[w]);
                compare(&k, act_bound);
                free_case(&k);
            }
}

/* Values far out: nothing overflows into NaN, and infinities and NaN come through. */
static void test_extremes(void **state)
{
    (void)state;
    const float x[] = { 1e30F, -1e30F, 88.0F, -88.0F, 200.0F, -200.0F, INFINITY, NAN, 0.0F };
    float y[9];
    const qn_attr_act attr = { QN_ACT_SIGMOID };
    kcase k = { .node = { .op = &qn_op_act, .attr = &attr } };
    add_input(&k, 0, x, 1, 9);
    add_output(&k, 0, 1, 9);
    run_kernel(&k, 1);
    memcpy(y, k.call.out[0].data, sizeof y);
    for (int i = 0; i < 9; i++) {
        if (isnan(x[i]))
            assert_true(isnan(y[i]));
        else
            assert_true(fabs(y[i] - qn_act_value(QN_ACT_SIGMOID, x[i])) <= 4 * FLT_EPSILON);
    }
    free_case(&k);
}

static double norm_bound(const kcase *k, int out, int64_t i)
{
    const qn_attr_norm *a = k->node.attr;
    bool sum = k->node.op == &qn_op_add_norm;
    if (sum && out == 0)
        return 0;
    /* |y| is bounded by sqrt(group) |w + offset|, and the bias is one more addition. */
    int64_t width = k->call.out[0].width, group = a->group ? a->group : width;
    int64_t col = i % width % group;
    double w = in2[col] + a->offset;
    return 4 * FLT_EPSILON * (sqrt((double)group) * fabs(w) + fabs(in2[col + 700]));
}

static void norm_case(const qn_op *op, const qn_attr_norm *attr, int64_t rows, int64_t width)
{
    int64_t group = attr->group ? attr->group : width;
    qn_weight w = { .dim = { group }, .n_dims = 1, .layout = QN_F32, .data = in2 };
    qn_weight bias = w;
    bias.data = in2 + 700;
    kcase k = { .node = { .op = op, .attr = attr } };
    int at = 0;
    add_input(&k, at++, in0, rows, width);
    if (op == &qn_op_add_norm)
        add_input(&k, at++, in1, rows, width);
    add_weight(&k, at++, &w);
    if (attr->center)
        add_weight(&k, at++, &bias);
    add_output(&k, 0, rows, width);
    if (op == &qn_op_add_norm)
        add_output(&k, 1, rows, width);
    compare(&k, norm_bound);
    free_case(&k);
}

static void test_norms(void **state)
{
    (void)state;
    for (int r = 0; r < N_ROWS; r++)
        for (int w = 0; w < N_WIDTHS; w++)
            for (int kind = 0; kind < 4; kind++) {
                qn_attr_norm a = { .eps = 1e-5F, .offset = kind & 1, .center = kind & 2 };
                norm_case(&qn_op_norm, &a, row_counts[r], widths[w]);
                norm_case(&qn_op_add_norm, &a, row_counts[r], widths[w]);
                if (widths[w] % 4 == 0) {
                    a.group = (int32_t)widths[w] / 4;
                    norm_case(&qn_op_norm, &a, row_counts[r], widths[w]);
                }
            }
}

static double rope_bound(const kcase *k, int out, int64_t i)
{
    (void)out;
    const qn_attr_rope *a = k->node.attr;
    int64_t col = i % a->head_dim, head = i - col;
    if (col >= a->n_rot)
        return 0;
    int64_t other = a->interleaved ? (col ^ 1) : (col + a->n_freqs) % a->n_rot;
    return 4 * FLT_EPSILON * (fabs(in0[head + col]) + fabs(in0[head + other])) *
           fmax(1, a->amplitude);
}

static void test_rope(void **state)
{
    (void)state;
    enum { ROWS = 9, HEADS = 3 };
    int32_t pos[2 * ROWS], seq[ROWS], len[2] = { 100, 9000 };
    for (int r = 0; r < ROWS; r++) {
        pos[r] = r * r * 1723;
        pos[ROWS + r] = r * 5;
        seq[r] = r / 5;
    }
    const qn_batch batch = { .n_tok = ROWS, .n_seq = 2, .pos = pos, .seq = seq, .rope_len = len };
    float freq[64], freq_long[64];
    uint8_t axis[64];
    for (int i = 0; i < 64; i++) {
        freq[i] = powf(10000.0F, -(float)i / 32);
        freq_long[i] = freq[i] / 4;
        axis[i] = i % 3 == 0;
    }
    static const int32_t dims[][2] = { { 64, 64 }, { 80, 32 }, { 6, 6 }, { 12, 10 }, { 128, 128 } };
    for (int d = 0; d < 5; d++)
        for (int kind = 0; kind < 16; kind++) {
            const qn_attr_rope a = { .head_dim = dims[d][0],
                                     .n_rot = dims[d][1],
                                     .n_freqs = dims[d][1] / 2,
                                     .interleaved = kind & 1,
                                     .inverse = kind & 2,
                                     .inv_freq = freq,
                                     .inv_freq_long = kind & 4 ? freq_long : NULL,
                                     .long_after = 4096,
                                     .amplitude = 1,
                                     .amplitude_long = 1.25F,
                                     .axis = kind & 8 ? axis : NULL };
            kcase k = { .node = { .op = &qn_op_rope, .attr = &a }, .call = { .batch = &batch } };
            add_input(&k, 0, in0, ROWS, HEADS * a.head_dim);
            add_output(&k, 0, ROWS, HEADS * a.head_dim);
            compare(&k, rope_bound);
            free_case(&k);
        }
}

static void test_moves(void **state)
{
    (void)state;
    const int32_t id[] = { 3, 0, 3, 7, 6 };
    const qn_attr_split split = { .start = 5, .width = 9 };
    qn_weight table = random_weight(QN_Q8_0, 8, 96);
    kcase k = { .node = { .op = &qn_op_embed } };
    add_input(&k, 0, id, 5, 1);
    add_weight(&k, 1, &table);
    add_output(&k, 0, 5, 96);
    compare(&k, NULL);
    free_case(&k);
    k = (kcase){ .node = { .op = &qn_op_rows } };
    add_input(&k, 0, in0, 8, 33);
    add_input(&k, 1, id, 5, 1);
    add_output(&k, 0, 5, 33);
    compare(&k, NULL);
    free_case(&k);
    k = (kcase){ .node = { .op = &qn_op_split, .attr = &split } };
    add_input(&k, 0, in0, 6, 20);
    add_output(&k, 0, 6, 9);
    compare(&k, NULL);
    free_case(&k);
    for (int64_t step = 1; step <= 2; step++) {
        const qn_attr_split heads = { .start = 1, .width = 4, .group = 9, .step = step };
        k = (kcase){ .node = { .op = &qn_op_split, .attr = &heads } };
        add_input(&k, 0, in0, 6, 18);
        add_output(&k, 0, 6, 8);
        compare(&k, NULL);
        free_case(&k);
    }
    k = (kcase){ .node = { .op = &qn_op_join, .attr = &(const qn_attr_join){ 3 } } };
    add_input(&k, 0, in0, 6, 21);
    add_input(&k, 1, in1, 6, 6);
    add_output(&k, 0, 6, 27);
    compare(&k, NULL);
    free_case(&k);
    k = (kcase){ .node = { .op = &qn_op_clamp, .attr = &(const qn_attr_clamp){ -0.25f, 0.5f } } };
    add_input(&k, 0, in0, 6, 33);
    add_output(&k, 0, 6, 33);
    compare(&k, NULL);
    free_case(&k);
    k = (kcase){ .node = { .op = &qn_op_mul } };
    add_input(&k, 0, in0, 6, 33);
    add_input(&k, 1, in1, 6, 3);
    add_output(&k, 0, 6, 33);
    compare(&k, NULL);
    free_case(&k);
    qn_free((void *)(uintptr_t)table.data);
}

static double expert_sum_bound(const kcase *k, int out, int64_t i)
{
    (void)out;
    int64_t width = k->call.out[0].width, r = i / width, col = i % width;
    double sum = 0;
    for (int j = 0; j < 3; j++)
        sum += fabs((double)in1[r * 3 + j] * in0[(r * 3 + j) * width + col]);
    return 4 * FLT_EPSILON * sum;
}

static void test_expert_sum(void **state)
{
    (void)state;
    const qn_attr_expert_sum a = { .top_k = 3 };
    for (int w = 0; w < N_WIDTHS; w++) {
        kcase k = { .node = { .op = &qn_op_expert_sum, .attr = &a } };
        add_input(&k, 0, in0, 7, 3 * widths[w]);
        add_input(&k, 1, in1, 7, 3);
        add_output(&k, 0, 7, widths[w]);
        compare(&k, expert_sum_bound);
        free_case(&k);
    }
}

static qn_attr_head_linear heads_attr;

/* What is summed for output i: |x| |w| over the head's block, in another order. */
static double heads_bound(const kcase *k, int out, int64_t i)
{
    (void)out;
    const qn_attr_head_linear *a = &heads_attr;
    const qn_tensor *x = &k->call.in[0], *w = &k->call.in[1];
    int64_t width = k->call.out[0].width, per_out = width / a->n_heads,
            per_in = x->width / a->n_heads;
    int64_t r = i / width, h = i % width / per_out, j = i % per_out;
    qn_head_block b = qn_head_block_of(a, w, (int32_t)h);
    float row[700];
    double sum = 0;
    for (int64_t s = 0; s < per_in; s++) {
        qn_weight_decode_row(w->weight, b.row + (a->transposed ? s : j), row);
        sum += fabs((double)((const float *)x->data)[r * x->width + h * per_in + s] *
                    row[a->transposed ? j : s]);
    }
    return sum * FLT_EPSILON * (double)per_in;
}

static void test_heads(void **state)
{
    (void)state;
    const struct {
        int64_t p, start, n, k;
        int layout;
    } shapes[] = { { 7, 0, 7, 13, QN_F32 }, { 12, 4, 8, 96, QN_BF16 }, { 9, 3, 5, 64, QN_Q8_0 } };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int t = 0; t < 2; t++)
            for (int64_t rows = 1; rows <= 5; rows += 2) {
                heads_attr = (qn_attr_head_linear){
                    .n_heads = 3, .start = shapes[s].start, .n = shapes[s].n, .transposed = t == 1
                };
                qn_weight w = random_weight(shapes[s].layout, 3 * shapes[s].p, shapes[s].k);
                int64_t few = 3 * shapes[s].n, many = 3 * shapes[s].k;
                kcase k = { .node = { .op = &qn_op_head_linear, .attr = &heads_attr } };
                add_input(&k, 0, in1, rows, t ? few : many);
                add_weight(&k, 1, &w);
                add_output(&k, 0, rows, t ? many : few);
                compare(&k, heads_bound);
                free_case(&k);
                qn_free((void *)(uintptr_t)w.data);
            }
}

int main(void)
{
    qn_cpu_init();
    if (!use_level(0))
        return 77;
    fill(in0, MAX_ELEMS);
    fill(in1, MAX_ELEMS);
    fill(in2, MAX_ELEMS);
    for (int i = 0; i < 64; i++)
        in0[i] *= 30; /* where activations saturate */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),       cmocka_unit_test(test_activations),
        cmocka_unit_test(test_norms),      cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_rope),       cmocka_unit_test(test_moves),
        cmocka_unit_test(test_expert_sum), cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
