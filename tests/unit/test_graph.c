/* test_graph.c - recording: identity of weights and inputs, names, symbols, cache groups, sticky errors. */
#include "ops/run.h"

static qn_shape rows_of(int64_t width)
{
    return (qn_shape){ .dim = { -QN_SYM_TOK, width }, .n_dims = 2, .dtype = QN_F32 };
}

static void test_sources_are_shared(void **state)
{
    (void)state;
    static const float data[4];
    qn_weight a = { .name = "a", .n_dims = 1, .dim = { 4 }, .layout = QN_F32, .data = data };
    qn_weight b = a;
    qn_graph g;
    qn_graph_init(&g);
    qn_val va = qn_graph_weight(&g, &a);
    assert_int_equal(qn_graph_weight(&g, &a).id, va.id);
    assert_int_not_equal(qn_graph_weight(&g, &b).id, va.id);
    qn_val x = qn_graph_input(&g, "x", rows_of(4));
    assert_int_equal(qn_graph_input(&g, "x", rows_of(4)).id, x.id);
    assert_int_not_equal(qn_graph_input(&g, "y", rows_of(4)).id, x.id);
    qn_graph_free(&g);
}

static void test_names(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_val x = qn_graph_input(&g, "x", rows_of(4));
    qn_val y = QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 2 }, x);
    assert_string_equal(qn_node_at(&g, y)->name, "scale");
    assert_int_equal(qn_node_at(&g, y)->layer, -1);
    qn_graph_scope(&g, 7, "model.layers.7");
    y = QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 2 }, y);
    qn_val z = QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 3 }, y);
    assert_string_equal(qn_node_at(&g, y)->name, "model.layers.7.scale");
    assert_string_equal(qn_node_at(&g, z)->name, "model.layers.7.scale.2");
    assert_int_equal(qn_node_at(&g, z)->layer, 7);
    qn_val s = QN_ADD(&g, &qn_op_add_norm, &(qn_attr_norm){ .eps = 1 }, y, z);
    assert_string_equal(qn_node_at(&g, qn_out(s, 1))->name, "model.layers.7.add_norm:1");
    assert_int_equal(qn_graph_maker(&g, s.id + 1), s.id);
    char *text = qn_graph_print_dup(&g);
    assert_non_null(strstr(text, "add_norm       [tok, 4] model.layers.7.add_norm <- 3 4"));
    qn_free(text);
    qn_graph_free(&g);
}

/* Attributes are the graph's own after the call, with the tables they point to. */
static void test_attributes_are_copied(void **state)
{
    (void)state;
    float freq[1] = { 0.5f };
    qn_attr_rope a = { .head_dim = 2, .n_rot = 2, .n_freqs = 1, .inv_freq = freq, .amplitude = 1 };
    qn_graph g;
    qn_graph_init(&g);
    qn_val y = QN_ADD(&g, &qn_op_rope, &a, qn_graph_input(&g, "x", rows_of(4)));
    freq[0] = 9;
    a.head_dim = 9;
    const qn_attr_rope *kept = qn_node_at(&g, y)->attr;
    assert_int_equal(kept->head_dim, 2);
    assert_true(kept->inv_freq[0] == 0.5f);
    qn_graph_free(&g);
}

static void test_first_error_stays(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_val x = qn_graph_input(&g, "x", rows_of(4));
    qn_val y = qn_graph_input(&g, "y", rows_of(5));
    qn_graph_scope(&g, 0, "here");
    assert_int_equal(QN_ADD(&g, &qn_op_add, NULL, x, y).id, 0);
    qn_graph_scope(&g, 0, "there");
    assert_int_equal(QN_ADD(&g, &qn_op_mul, NULL, x, y).id, 0);
    qn_graph_fail(&g, QN_ERR_LIMIT, "later");
    assert_int_equal(g.err.code, QN_ERR_FORMAT);
    assert_non_null(strstr(g.err.msg, "here.add: add of [tok, 4] [tok, 5]"));
    qn_graph_output(&g, "out", (qn_val){ 0 }); /* does nothing by now */
    assert_int_equal(g.n_outputs, 0);
    qn_error err;
    assert_null(qn_plan_new(&g, &(qn_bind){ 0 }, false, &err));
    assert_string_equal(err.msg, g.err.msg);
    qn_graph_free(&g);
}

static void test_weights_without_shape(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_weight w = { .name = "odd", .n_dims = 2, .dim = { 4, 0 } };
    assert_int_equal(qn_graph_weight(&g, &w).id, 0);
    assert_non_null(strstr(g.err.msg, "odd"));
    qn_graph_free(&g);
}

static void test_symbols(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    int64_t half = qn_graph_symbol(&g, QN_SYM_FRAME, 1, 1, 2); /* floor((n + 1) / 2) */
    assert_true(qn_graph_symbol(&g, QN_SYM_FRAME, 1, 1, 2) == half);
    int64_t quarter = qn_graph_symbol(&g, (int32_t)-half, 1, -1, 2);
    qn_bind bind = { .size = { [QN_SYM_FRAME] = 7 } };
    assert_true(qn_dim_value(&g, &bind, half) == 4);
    assert_true(qn_dim_value(&g, &bind, quarter) == 1);
    assert_true(qn_dim_value(&g, &bind, 12) == 12);
    bind.size[QN_SYM_FRAME] = -1;
    assert_true(qn_dim_value(&g, &bind, quarter) == -1); /* floor, also below zero */
    bind.size[QN_SYM_FRAME] = INT64_MAX;
    assert_true(qn_dim_value(&g, &bind, half) < 0); /* no silent wrap */
    qn_graph_symbol(&g, 60, 1, 0, 1);
    assert_int_equal(g.err.code, QN_ERR_FORMAT);
    qn_graph_free(&g);
}

static void test_too_many_symbols(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    for (int i = 0; i < QN_SYM_MAX; i++)
        qn_graph_symbol(&g, QN_SYM_TOK, 1, i, 3);
    assert_int_equal(g.err.code, QN_ERR_LIMIT);
    qn_graph_free(&g);
}

static void test_cache_groups(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    const qn_kv_need full = { .n_kv_heads = 2, .k_dim = 8, .v_dim = 8 };
    qn_kv_need local = full;
    local.window = 16;
    for (int i = 0; i < 3; i++) {
        int a = qn_graph_kv(&g, full), b = qn_graph_kv(&g, local);
        assert_int_equal(g.kv[a].group, 0);
        assert_int_equal(g.kv[a].slot, i);
        assert_int_equal(g.kv[b].group, 1);
        assert_int_equal(g.kv[b].slot, i);
    }
    assert_int_equal(g.n_kv_groups, 2);
    for (int i = 0; i < QN_MAX_KV_GROUPS; i++) {
        local.window = 100 + i;
        qn_graph_kv(&g, local);
    }
    assert_int_equal(g.err.code, QN_ERR_LIMIT);
    qn_graph_free(&g);
}

static void test_many_outputs(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_val x = qn_graph_input(&g, "x", rows_of(2));
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "o%d", i);
        qn_graph_output(&g, name, QN_ADD(&g, &qn_op_scale, &(qn_attr_scale){ 1 }, x));
    }
    assert_int_equal(qn_graph_find_output(&g, "o99").id, 101);
    assert_int_equal(qn_graph_find_output(&g, "o100").id, 0);
    qn_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sources_are_shared),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_attributes_are_copied), cmocka_unit_test(test_first_error_stays),
        cmocka_unit_test(test_weights_without_shape), cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_too_many_symbols),      cmocka_unit_test(test_cache_groups),
        cmocka_unit_test(test_many_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
