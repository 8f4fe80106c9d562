/* test_plan.c - plans: no two values that live at once overlap, places are reused, sizes are checked, and the
 * cache of plans keeps what is used. Overlap is tested by brute force over random graphs. */
#include "ops/run.h"

static qn_val input_rows(qn_graph *g, const char *name, int64_t width)
{
    return qn_graph_input(
        g, name, (qn_shape){ .dim = { -QN_SYM_TOK, width }, .n_dims = 2, .dtype = QN_F32 });
}

static qn_plan *plan_for(const qn_graph *g, int64_t n_tok, bool keep_all)
{
    qn_bind bind = { .size = { [QN_SYM_TOK] = n_tok } };
    qn_error err = { 0 };
    qn_plan *p = qn_plan_new(g, &bind, keep_all, &err);
    if (!p)
        fail_msg("%s", err.msg);
    return p;
}

/* A chain of in-place ops needs one place; out-of-place ones need two, whatever the length. */
static void test_chains(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        qn_graph g;
        qn_graph_init(&g);
        qn_val x = input_rows(&g, "x", 16);
        const qn_attr_split all_columns = { .start = 0, .width = 16 };
        for (int i = 0; i < 10; i++)
            x = in_place ? QN_ADD(&g, &qn_op_act, &(qn_attr_act){ QN_ACT_SILU }, x)
                         : QN_ADD(&g, &qn_op_split, &all_columns, x);
        qn_graph_output(&g, "y", x);
        qn_plan *p = plan_for(&g, 4, false), *all = plan_for(&g, 4, true);
        assert_int_equal(p->n_steps, 10);
        assert_int_equal(p->bytes, in_place ? 256 : 512);
        assert_int_equal(all->bytes, 10 * 256);
        qn_plan_free(p);
        qn_plan_free(all);
        qn_graph_free(&g);
    }
}

/* x + x may not be computed on top of x's only place twice read; nor may a value that is read later. */
static void test_in_place_is_refused(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_val x = QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 2 }, input_rows(&g, "x", 16));
    qn_val twice = QN_ADD(&g, &qn_op_add, NULL, x, x);
    qn_val y = QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 3 }, twice);
    qn_val z = QN_ADD(&g, &qn_op_add, NULL, y, twice);
    qn_graph_output(&g, "z", z);
    qn_plan *p = plan_for(&g, 1, false);
    assert_true(p->place[twice.id] != p->place[x.id]);
    assert_true(p->place[y.id] != p->place[twice.id]);
    assert_true(p->place[z.id] == p->place[y.id]);
    qn_plan_free(p);
    qn_graph_free(&g);
}

static void test_only_what_is_needed(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_val x = input_rows(&g, "x", 16);
    qn_val y = QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 2 }, x);
    qn_val dead = QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 3 }, y);
    qn_val pair = QN_ADD(&g, &qn_op_add_norm, &(qn_attr_norm){ .eps = 1 }, y, x);
    qn_graph_output(&g, "norm", qn_out(pair, 1));
    qn_plan *p = plan_for(&g, 3, false);
    assert_int_equal(p->n_steps, 2);
    assert_true(p->place[dead.id] == QN_NO_PLACE);
    assert_true(p->place[x.id] == QN_NO_PLACE);
    assert_true(p->place[pair.id] != QN_NO_PLACE); /* written although nobody reads it */
    assert_true(p->place[pair.id] != p->place[pair.id + 1]);
    qn_plan_free(p);
    qn_graph_free(&g);
}

/* A random graph of ops with different widths, in-place or not, one or two results. */
static void random_graph(qn_graph *g, uint64_t *seed, int n)
{
    qn_val v[64] = { input_rows(g, "x", 8) };
    int have = 1;
    for (int i = 0; i < n; i++) {
        qn_val a = v[rng_next(seed) % (uint64_t)have], b = v[rng_next(seed) % (uint64_t)have];
        qn_shape sa = qn_shape_of(g, a), sb = qn_shape_of(g, b);
        qn_val made;
        if (sa.dim[1] == sb.dim[1] && rng_next(seed) % 2) {
            made = QN_ADD(g, &qn_op_add_norm, &(qn_attr_norm){ .eps = 1 }, a, b);
            v[have++] = qn_out(made, 1);
        } else if (rng_next(seed) % 2 && sa.dim[1] > 1) {
            const qn_attr_split rest = { .start = 1, .width = sa.dim[1] - 1 };
            made = QN_ADD(g, &qn_op_split, &rest, a);
        } else {
            made = QN_ADD(g, &qn_op_scale, &(qn_attr_scale){ 0.5f }, a);
        }
        v[have++] = made;
    }
    qn_graph_output(g, "a", v[have - 1]);
    qn_graph_output(g, "b", v[have / 2]);
}

/* Values computed with shared places equal those computed with a place each: nothing was overwritten. */
static void test_random_graphs(void **state)
{
    (void)state;
    uint64_t seed = 11;
    for (int round = 0; round < 200; round++) {
        qn_graph g;
        qn_graph_init(&g);
        random_graph(&g, &seed, 4 + round % 24);
        assert_int_equal(g.err.code, QN_OK);
        test_batch b;
        batch_init(&b, (int32_t[]){ 1 + round % 5 }, 1);
        float x[8 * 8];
        rng_fill(&seed, x, 64, -1, 1);
        const feed feeds[] = { { "x", x }, { NULL, NULL } };
        runner r[2];
        for (int i = 0; i < 2; i++) {
            r[i] = (runner){ plan_for(&g, b.b.n_tok, i), &b.b, NULL, feeds, NULL };
            run_plan(&r[i]);
        }
        assert_true(r[0].plan->bytes <= r[1].plan->bytes);
        for (int32_t i = 0; i < g.n_outputs; i++) {
            qn_tensor s = tensor_at(&r[0], g.output[i].v), k = tensor_at(&r[1], g.output[i].v);
            assert_int_equal((uintptr_t)s.data % 4, 0);
            assert_memory_equal(s.data, k.data, (size_t)(s.rows * s.width) * sizeof(float));
        }
        for (int i = 0; i < 2; i++) {
            qn_free(r[i].values);
            qn_plan_free((qn_plan *)(uintptr_t)r[i].plan);
        }
        qn_graph_free(&g);
    }
}

static void test_impossible_sizes(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_val x = input_rows(&g, "x", (int64_t)1 << 40);
    qn_graph_output(&g, "y", QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 1 }, x));
    qn_error err = { 0 };
    qn_bind bind = { .size = { [QN_SYM_TOK] = (int64_t)1 << 40 } };
    assert_null(qn_plan_new(&g, &bind, false, &err));
    assert_non_null(strstr(err.msg, "scale: too large"));
    bind.size[QN_SYM_TOK] = -3;
    assert_null(qn_plan_new(&g, &bind, false, &err));
    assert_non_null(strstr(err.msg, "negative"));
    qn_graph_free(&g);
}

/* Steps of no rows (a prompt chunk wants no logits) still get places. */
static void test_no_rows(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_val y = QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 1 }, input_rows(&g, "x", 4));
    qn_graph_output(&g, "y", y);
    qn_plan *p = plan_for(&g, 0, false);
    assert_true(p->place[y.id] != QN_NO_PLACE);
    qn_plan_free(p);
    qn_graph_free(&g);
}

static void test_cache(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_graph_output(&g, "y",
                    QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 1 }, input_rows(&g, "x", 4)));
    qn_plan_cache *c = qn_plan_cache_new(&g, 2);
    qn_error err;
    qn_batch b = { .n_tok = 5, .n_seq = 1 };
    const qn_plan *five = qn_plan_cache_get(c, &b, &err);
    assert_int_equal(five->bind.size[QN_SYM_TOK], 8);
    b.n_tok = 8;
    assert_ptr_equal(qn_plan_cache_get(c, &b, &err), five);
    b.n_tok = 513;
    const qn_plan *large = qn_plan_cache_get(c, &b, &err);
    assert_int_equal(large->bind.size[QN_SYM_TOK], 768);
    b.n_tok = 6; /* touched again, so the large one is the older */
    assert_ptr_equal(qn_plan_cache_get(c, &b, &err), five);
    b.n_tok = 1;
    assert_int_equal(qn_plan_cache_get(c, &b, &err)->bind.size[QN_SYM_TOK], 1);
    b.n_tok = 7;
    assert_ptr_equal(qn_plan_cache_get(c, &b, &err), five);
    b.n_out = 1; /* another bucket */
    assert_int_equal(qn_plan_cache_get(c, &b, &err)->bind.size[QN_SYM_OUT], 1);
    qn_plan_cache_free(c);
    qn_plan_cache_free(NULL);
    qn_plan_free(NULL);
    qn_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains),
        cmocka_unit_test(test_in_place_is_refused),
        cmocka_unit_test(test_only_what_is_needed),
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_impossible_sizes),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
