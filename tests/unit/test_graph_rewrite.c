/* test_graph_rewrite.c - fusion by rules, expansion, and the gradient pass as graph rewrites: what is kept,
 * what is dropped, how values are named, and what is refused. Values themselves are the op tests' matter. */
#include "ops/run.h"

static qn_val input_rows(qn_graph *g, const char *name, int64_t width)
{
    return qn_graph_input(
        g, name, (qn_shape){ .dim = { -QN_SYM_TOK, width }, .n_dims = 2, .dtype = QN_F32 });
}

/* mul(act(gate), up), the act read by nothing else -> glu: the form that rules of backends have. */
static bool fuse_glu(qn_rewrite *rw, int32_t id)
{
    const qn_node *mul = &rw->from->node[id];
    const qn_node *act = &rw->from->node[mul->in[0].id];
    if (mul->op != &qn_op_mul || act->op != &qn_op_act || rw->n_uses[mul->in[0].id] != 1)
        return false;
    qn_val gate = qn_rewrite_val(rw, act->in[0]), up = qn_rewrite_val(rw, mul->in[1]);
    qn_rewrite_set(rw, (qn_val){ id }, QN_ADD(rw->to, &qn_op_glu, act->attr, gate, up));
    return true;
}

/* The first of two products of one x takes the second with it, whose weight is not written yet. */
static bool fuse_pair(qn_rewrite *rw, int32_t id)
{
    const qn_graph *g = rw->from;
    for (int32_t j = id + 1; g->node[id].op == &qn_op_linear && j < g->n_nodes; j++) {
        if (g->node[j].op != &qn_op_linear || g->node[j].in[0].id != g->node[id].in[0].id)
            continue;
        qn_val x = qn_rewrite_val(rw, g->node[id].in[0]);
        qn_val a = qn_rewrite_val(rw, g->node[id].in[1]), b = qn_rewrite_val(rw, g->node[j].in[1]);
        qn_val y = QN_ADD(rw->to, &qn_op_linears, NULL, x, a, b);
        qn_rewrite_set(rw, (qn_val){ id }, y);
        qn_rewrite_set(rw, (qn_val){ j }, qn_out(y, 1));
        return true;
    }
    return false;
}

static const qn_fuse_rule glu_rule = { "glu", fuse_glu }, pair_rule = { "pair", fuse_pair };
static const qn_fuse_rule *const rules[] = { &glu_rule, &pair_rule, NULL };

static float w_data[2][4 * 4];
static const qn_weight w[2] = {
    { .name = "gate.weight", .n_dims = 2, .dim = { 4, 4 }, .layout = QN_F32, .data = w_data[0] },
    { .name = "up.weight", .n_dims = 2, .dim = { 4, 4 }, .layout = QN_F32, .data = w_data[1] },
};

/* A gated unit; with `peek`, the activation itself is an output too. */
static void build(qn_graph *g, bool peek)
{
    qn_graph_init(g);
    qn_graph_kv(g, (qn_kv_need){ .n_kv_heads = 1, .k_dim = 2, .v_dim = 2, .window = 5 });
    qn_graph_symbol(g, QN_SYM_TOK, 1, 1, 2);
    qn_val x = input_rows(g, "x", 4);
    qn_graph_scope(g, 2, "mlp");
    qn_val gate = QN_ADD(g, &qn_op_linear, NULL, x, qn_graph_weight(g, &w[0]));
    qn_val up = QN_ADD(g, &qn_op_linear, NULL, x, qn_graph_weight(g, &w[1]));
    qn_val act = QN_ADD(g, &qn_op_act, &(qn_attr_act){ QN_ACT_SILU }, gate);
    QN_ADD(g, &qn_op_scale, &(qn_attr_scale){ 3 }, act); /* dead */
    qn_graph_output(g, "y", QN_ADD(g, &qn_op_mul, NULL, act, up));
    if (peek)
        qn_graph_output(g, "act", act);
    uint64_t seed = 5;
    rng_fill(&seed, w_data[0], 32, -1, 1);
}

static int count_op(const qn_graph *g, const qn_op *op)
{
    int n = 0;
    for (int32_t i = 1; i < g->n_nodes; i++)
        n += g->node[i].op == op;
    return n;
}

static void compare(const qn_graph *a, const qn_graph *b)
{
    test_batch batch;
    batch_init(&batch, (int32_t[]){ 5 }, 1);
    float x[20], *ya[2], *yb[2];
    uint64_t seed = 6;
    rng_fill(&seed, x, 20, -1, 1);
    const feed feeds[] = { { "x", x }, { NULL, NULL } };
    run_graph(a, &batch.b, NULL, feeds, ya);
    run_graph(b, &batch.b, NULL, feeds, yb);
    for (int i = 0; i < a->n_outputs; i++) {
        assert_memory_equal(ya[i], yb[i], sizeof x);
        free(ya[i]);
        free(yb[i]);
    }
}

static void test_fuse(void **state)
{
    (void)state;
    qn_graph plain, fused, back;
    qn_error err;
    build(&plain, false);
    assert_int_equal(qn_graph_fuse(&plain, &fused, rules, &err), QN_OK);
    assert_int_equal(fused.n_nodes, 1 + 1 + 2 + 2 + 1); /* x, two weights, linears (2), glu */
    assert_int_equal(count_op(&fused, &qn_op_glu), 1);
    assert_int_equal(count_op(&fused, &qn_op_linears), 1);
    qn_val y = qn_graph_find_output(&fused, "y");
    assert_string_equal(qn_node_at(&fused, y)->name, "mlp.mul"); /* named for what it stands for */
    assert_int_equal(qn_node_at(&fused, y)->layer, 2);
    assert_string_equal(fused.node[qn_node_at(&fused, y)->in[1].id].name, "mlp.linear.2");
    assert_int_equal(fused.n_kv_groups, 1);
    assert_int_equal(fused.kv[0].window, 5);
    assert_int_equal(fused.n_symbols, plain.n_symbols);
    compare(&plain, &fused);
    assert_int_equal(qn_graph_expand(&fused, &back, &err), QN_OK);
    assert_int_equal(count_op(&back, &qn_op_linear), 2);
    assert_int_equal(count_op(&back, &qn_op_mul), 1);
    compare(&plain, &back);
    qn_graph_free(&plain);
    qn_graph_free(&fused);
    qn_graph_free(&back);
}

/* A value that is wanted elsewhere is not fused away. */
static void test_fuse_respects_uses(void **state)
{
    (void)state;
    qn_graph plain, fused;
    qn_error err;
    build(&plain, true);
    assert_int_equal(qn_graph_fuse(&plain, &fused, rules, &err), QN_OK);
    assert_int_equal(count_op(&fused, &qn_op_glu), 0);
    assert_int_equal(count_op(&fused, &qn_op_scale), 0); /* the dead node is gone */
    compare(&plain, &fused);
    qn_graph_free(&plain);
    qn_graph_free(&fused);
}

static void test_fuse_passes_errors_on(void **state)
{
    (void)state;
    qn_graph plain, fused;
    qn_error err;
    build(&plain, false);
    qn_graph_fail(&plain, QN_ERR_LIMIT, "broken before");
    assert_int_equal(qn_graph_fuse(&plain, &fused, rules, &err), QN_ERR_LIMIT);
    assert_string_equal(err.msg, "broken before");
    qn_graph_free(&plain);
    qn_graph_free(&fused);
}

/* The new graph owns what its attributes point to: the old one may go first. */
static void test_old_graph_may_go(void **state)
{
    (void)state;
    const float freq[1] = { 1 };
    const qn_attr_rope a = {
        .head_dim = 2, .n_rot = 2, .n_freqs = 1, .inv_freq = freq, .amplitude = 1
    };
    qn_graph plain, copy;
    qn_error err;
    qn_graph_init(&plain);
    qn_graph_output(&plain, "y", QN_ADD(&plain, &qn_op_rope, &a, input_rows(&plain, "x", 2)));
    assert_int_equal(qn_graph_fuse(&plain, &copy, rules, &err), QN_OK);
    qn_graph_free(&plain);
    test_batch b;
    batch_init(&b, (int32_t[]){ 2 }, 1);
    float x[4] = { 1, 0, 1, 0 }, *y[1];
    run_graph(&copy, &b.b, NULL, (const feed[]){ { "x", x }, { NULL, NULL } }, y);
    assert_true(y[0][0] == 1 && y[0][1] == 0);
    assert_true(y[0][2] > 0.54f && y[0][2] < 0.541f && y[0][3] > 0.841f && y[0][3] < 0.842f);
    free(y[0]);
    qn_graph_free(&copy);
}

/* Sums the width of rows into a loss [1]. */
static qn_val total(qn_graph *g, qn_val y)
{
    qn_val ones = qn_graph_ones(g, 1, qn_shape_of(g, y).dim[1]);
    return QN_ADD(g, &qn_op_sum_rows, NULL, QN_ADD(g, &qn_op_linear, NULL, y, ones));
}

/* A value read three times gets the sum of three gradients: d/dx sum(x * x + x) = 2 x + 1. */
static void test_grad_adds_up(void **state)
{
    (void)state;
    qn_graph g;
    qn_graph_init(&g);
    qn_val x = input_rows(&g, "x", 2), d, other = input_rows(&g, "unused", 2), none;
    qn_val y = QN_ADD(&g, &qn_op_add, NULL, QN_ADD(&g, &qn_op_mul, NULL, x, x), x);
    qn_val loss = total(&g, y);
    qn_error err;
    assert_int_equal(qn_graph_grad(&g, loss, &x, 1, &d, &err), QN_OK);
    qn_graph_output(&g, "d", d);
    assert_int_equal(qn_graph_grad(&g, loss, &other, 1, &none, &err), QN_OK);
    assert_int_equal(none.id, 0);
    test_batch b;
    batch_init(&b, (int32_t[]){ 2 }, 1);
    float data[4] = { 1, -2, 0.5f, 4 }, *out[1];
    run_graph(&g, &b.b, NULL, (const feed[]){ { "x", data }, { NULL, NULL } }, out);
    for (int i = 0; i < 4; i++)
        assert_true(out[0][i] == 2 * data[i] + 1);
    free(out[0]);
    assert_true(strncmp(qn_node_at(&g, d)->name, "d.", 2) == 0);
    qn_graph_free(&g);
}

static void test_grad_refuses(void **state)
{
    (void)state;
    qn_graph g;
    qn_error err;
    qn_val d, x;
    qn_graph_init(&g);
    x = input_rows(&g, "x", 4);
    qn_graph_scope(&g, 0, "mlp");
    qn_val y = QN_ADD(&g, &qn_op_glu, &(qn_attr_act){ QN_ACT_SILU }, x, x);
    assert_int_equal(qn_graph_grad(&g, total(&g, y), &x, 1, &d, &err), QN_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "mlp.glu: the op glu has no gradient"));
    qn_graph_free(&g);
    qn_graph_init(&g);
    x = input_rows(&g, "x", 4);
    assert_int_equal(qn_graph_grad(&g, x, &x, 1, &d, &err), QN_ERR_ARGUMENT);
    assert_non_null(strstr(err.msg, "one number"));
    qn_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuse),
        cmocka_unit_test(test_fuse_respects_uses),
        cmocka_unit_test(test_fuse_passes_errors_on),
        cmocka_unit_test(test_old_graph_may_go),
        cmocka_unit_test(test_grad_adds_up),
        cmocka_unit_test(test_grad_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
