/* test_linear.c - every tile of every level against decoded weights in double, and the promise that results
 * do not depend on rows, threads or packing.
 *
 * The bound of an output: f32 sums of K products err by at most (K + 4) epsilon sum |x w|. Quantised weights
 * are added as d c x + m x, whose parts may cancel: with random codes both ends of a block's range occur, so
 * |m| is at most its largest weight and |d c| twice that, three together. Activations of a block of 32 are
 * rounded to steps of max / 127, so by half a step each: max / 254 sum |w|. The factor on it is for the
 * rounding of the step itself. */
#include <float.h>

#include "kernels/harness.h"

static const qn_layout layouts[] = { QN_F32,  QN_F16,    QN_BF16,  QN_Q4_0, QN_Q4_1,
                                     QN_Q5_0, QN_Q5_1,   QN_Q8_0,  QN_Q4_K, QN_Q5_K,
                                     QN_Q6_K, QN_IQ4_NL, QN_MXFP4, QN_Q2_K, QN_Q3_K };
#define N_LAYOUTS (sizeof layouts / sizeof *layouts)

static double bound_of(const float *x, const float *w, int64_t k, bool quantised)
{
    double products = 0, rounding = 0;
    for (int64_t b = 0; b < k; b += 32) {
        double most = 0, size = 0, largest = 0, sum = 0;
        for (int64_t i = b; i < b + 32 && i < k; i++) {
            most = fmax(most, fabs(x[i]));
            largest = fmax(largest, fabs(w[i]));
            size += fabs(w[i]);
            sum += fabs(x[i]);
            products += quantised ? 0 : fabs((double)x[i] * w[i]);
        }
        products += quantised ? 3 * largest * sum : 0;
        rounding += most / 254 * size;
    }
    return (double)(k + 4) * FLT_EPSILON * products + (quantised ? rounding * 1.001 : 0);
}

typedef struct linear_case {
    qn_weight w;
    float *x, *bias;
    int64_t rows, k, n;
    bool exact;
} linear_case;

static void setup(linear_case *l, kcase *c)
{
    *c = (kcase){ .node = { .op = &qn_op_linear } };
    add_input(c, 0, l->x, l->rows, l->k);
    add_weight(c, 1, &l->w);
    if (l->bias)
        add_input(c, 2, l->bias, 1, l->n);
    c->call.exact = l->exact;
    add_output(c, 0, l->rows, l->n);
}

static void check_values(const linear_case *l, const kcase *c, bool quantised)
{
    float *row = test_malloc((size_t)l->k * sizeof *row);
    const float *y = c->call.out[0].data;
    for (int64_t n = 0; n < l->n; n++) {
        qn_weight_decode_row(&l->w, n, row);
        for (int64_t r = 0; r < l->rows; r++) {
            const float *x = l->x + r * l->k;
            double sum = l->bias ? l->bias[n] : 0;
            for (int64_t i = 0; i < l->k; i++)
                sum += (double)x[i] * row[i];
            double bound = bound_of(x, row, l->k, quantised) + fabs(sum) * FLT_EPSILON;
            if (!(fabs(y[r * l->n + n] - sum) <= bound))
                fail_msg("%s: y[%d][%d] = %g, not %g +- %g", qn_layout_get(l->w.layout)->name,
                         (int)r, (int)n, y[r * l->n + n], sum, bound);
        }
    }
    test_free(row);
}

/* All rows at once against one at a time, other thread counts, and a packed weight: equal bits. */
static void check_bits(linear_case *l, const kcase *all)
{
    const float *want = all->call.out[0].data;
    for (int threads = 2; threads <= 3; threads++) {
        kcase c;
        setup(l, &c);
        run_kernel(&c, threads);
        assert_memory_equal(c.call.out[0].data, want, (size_t)(l->rows * l->n) * sizeof *want);
        free_case(&c);
    }
    linear_case one = *l;
    one.rows = 1;
    for (int64_t r = 0; r < l->rows; r++) {
        kcase c;
        one.x = l->x + r * l->k;
        setup(&one, &c);
        run_kernel(&c, 1 + (int)(r % 2));
        assert_memory_equal(c.call.out[0].data, want + r * l->n, (size_t)l->n * sizeof *want);
        free_case(&c);
    }
}

static void check_packed(linear_case *l, const kcase *all)
{
    qn_kernels t;
    qn_kernels_init(&t, qn_cpu_flags());
    qn_panel_plan p = qn_panel_plan_of(&t.matmul, &l->w, l->exact);
    uint8_t *packed = qn_try_alloc(p.panel_bytes * (size_t)p.n_panels);
    float *buf = qn_alloc_n((size_t)l->k, sizeof *buf);
    for (int64_t i = 0; i < p.n_panels; i++)
        qn_panel_pack(&t.matmul, &p, &l->w, i, packed + (size_t)i * p.panel_bytes, buf);
    kcase c;
    setup(l, &c);
    c.call.in[1].packed = packed;
    run_kernel(&c, 2);
    assert_memory_equal(c.call.out[0].data, all->call.out[0].data,
                        (size_t)(l->rows * l->n) * sizeof(float));
    free_case(&c);
    qn_free(packed);
    qn_free(buf);
}

static void one_case(qn_layout layout, int64_t rows, int64_t k, int64_t n)
{
    linear_case l = { .w = random_weight(layout, n, k), .rows = rows, .k = k, .n = n };
    l.x = test_malloc((size_t)(rows * k) * sizeof(float));
    l.bias = test_malloc((size_t)n * sizeof(float));
    fill(l.x, rows * k);
    fill(l.bias, n);
    memset(l.x, 0, 32 * sizeof(float)); /* a block of zeros has no scale */
    for (int exact = 0; exact < 2; exact++) {
        kcase c;
        l.exact = exact;
        setup(&l, &c);
        run_kernel(&c, 1);
        check_values(&l, &c, !exact && layout > QN_BF16);
        check_bits(&l, &c);
        check_packed(&l, &c);
        free_case(&c);
    }
    test_free(l.x);
    test_free(l.bias);
    qn_free((void *)(uintptr_t)l.w.data);
}

static void test_layouts(void **state)
{
    (void)state;
    for (int level = 0; level < N_LEVELS; level++) {
        if (!use_level(level))
            continue;
        for (size_t i = 0; i < N_LAYOUTS; i++) {
            int block = qn_layout_get(layouts[i])->block_elems;
            one_case(layouts[i], 11, block == 1 ? 37 : 2 * block, 21);
            one_case(layouts[i], 1, 3 * block + (block == 1 ? 32 : 0), 8);
            one_case(layouts[i], 67, block * (block < 64 ? 5 : 1) + (block == 1 ? 64 : 0), 35);
        }
    }
}

int main(void)
{
    qn_cpu_init();
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_layouts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
