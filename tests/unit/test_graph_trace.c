/* test_graph_trace.c - recorded runs: what is compared, where the first gap is seen, how numbers are weighed. */
#include <math.h>

#include "graph/trace.h"
#include "ops/run.h"

/* Three values a, b, c of 2 x 2 and ids "r". */
typedef struct fixture {
    qn_graph g;
    qn_val v[3], ids;
} fixture;

static void fixture_init(fixture *f)
{
    static const char *const names[] = { "a", "b", "c" };
    qn_graph_init(&f->g);
    qn_shape s = { .dim = { 2, 2 }, .n_dims = 2, .dtype = QN_F32 };
    for (int i = 0; i < 3; i++)
        f->v[i] = qn_graph_input(&f->g, names[i], s);
    s.dtype = QN_I32;
    f->ids = qn_graph_input(&f->g, "r", s);
}

static void put(qn_trace *t, const fixture *f, int i, const float *x)
{
    t->graph = &f->g;
    qn_tensor data = { .data = (void *)(uintptr_t)x, .rows = 2, .width = 2 };
    qn_trace_record(t, NULL, f->v[i], &data);
}

static void test_first_and_worst(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f);
    qn_trace a = { 0 }, b = { 0 };
    const float x[4] = { 3, -3, 3, 3 }, near[4] = { 3, -3.003f, 3, 3 }, far[4] = { 3, -3, 3, 6 };
    put(&a, &f, 0, x);
    put(&a, &f, 1, x);
    put(&a, &f, 2, x);
    put(&b, &f, 2, far); /* order and missing names do not matter */
    put(&b, &f, 0, near);
    qn_trace_gap first, worst;
    assert_int_equal(qn_trace_compare(&a, &b, 1e-4, &first, &worst), 2);
    assert_string_equal(first.name, "a");
    assert_true(fabs(first.error - 0.001) < 1e-6);
    assert_int_equal(first.row, 0);
    assert_int_equal(first.col, 1);
    assert_string_equal(worst.name, "c");
    assert_true(worst.error == 1 && worst.row == 1 && worst.col == 1 && worst.b == 6);
    qn_trace_compare(&a, &b, 0.01, &first, &worst);
    assert_string_equal(first.name, "c");
    qn_trace_compare(&a, &b, 2, &first, &worst);
    assert_null(first.name);
    qn_trace_free(&a);
    qn_trace_free(&b);
    qn_graph_free(&f.g);
}

static void test_not_numbers(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f);
    qn_trace a = { 0 }, b = { 0 };
    const float x[4] = { 1, NAN, INFINITY, 0 }, bad[4] = { 1, 2, INFINITY, 0 };
    put(&a, &f, 0, x);
    put(&b, &f, 0, x);
    put(&a, &f, 1, bad);
    put(&b, &f, 1, x);
    qn_trace_gap first, worst;
    assert_int_equal(qn_trace_compare(&a, &b, 100, &first, &worst), 2);
    assert_string_equal(first.name, "b"); /* one NaN alone; "a" has it on both sides */
    qn_trace_free(&a);
    qn_trace_free(&b);
    qn_graph_free(&f.g);
}

static void test_ids_and_shapes(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f);
    qn_trace a = { .graph = &f.g }, b = { .graph = &f.g };
    int32_t ids[4] = { 5, 6, 7, 1000 }, other[4] = { 5, 6, 7, 1001 };
    qn_tensor t = { .data = ids, .rows = 2, .width = 2 };
    qn_trace_record(&a, NULL, f.ids, &t);
    t.data = other;
    qn_trace_record(&b, NULL, f.ids, &t);
    qn_trace_gap first, worst;
    qn_trace_compare(&a, &b, 0.5, &first, &worst);
    assert_true(isinf(first.error)); /* an expert more or less is never a rounding matter */
    b.v[0].rows = 1;
    qn_trace_compare(&a, &b, 0.5, &first, &worst);
    assert_true(isinf(first.error));
    qn_trace_free(&a);
    qn_trace_free(&b);
    qn_graph_free(&f.g);
}

static void test_print(void **state)
{
    (void)state;
    fixture f;
    fixture_init(&f);
    qn_trace a = { 0 };
    put(&a, &f, 1, (const float[]){ 1, 2, 3, -2 });
    qn_buf b = { 0 };
    qn_trace_print(&a.v[0], &b);
    assert_string_equal(b.data, "b [2, 2] mean 1 rms 2.12132 min -2 max 3\n    1 2\n    3 -2\n");
    qn_buf_free(&b);
    qn_trace_free(&a);
    qn_graph_free(&f.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_and_worst),
        cmocka_unit_test(test_not_numbers),
        cmocka_unit_test(test_ids_and_shapes),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
