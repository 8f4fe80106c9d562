/* test_ops_rules.c - promises that hold for every op of the table: rows do not depend on their company (==), an
 * op that may work in place gives the same there, and a weight's layout changes nothing but its numbers. */
#include "ops/cases.h"

/* ---- company ---- */

/* Losses join rows on purpose. */
static bool joins_rows(const qn_op *op)
{
    return op == &qn_op_cross_entropy;
}

/* Rows [from, from + n) of every value of t, as the batch of one sequence of its own. */
static void slice(op_bench *part, const op_bench *t, int32_t from, int32_t n)
{
    *part = *t;
    batch_init(&part->batch, &n, 1);
    for (int32_t i = 0; i < n; i++) {
        part->batch.token[i] = t->batch.token[from + i];
        part->batch.label[i] = t->batch.label[from + i];
    }
    for (int i = 0; i < MAX_CASE_IN; i++) {
        const in_spec *s = &t->c->in[i];
        if (s->kind == ROWS || s->kind == OUT_ROWS)
            part->feeds[i].data = t->data[i] + (size_t)from * (size_t)s->d[0];
        else if (s->kind == IDS)
            part->feeds[i].data = t->ids + from * s->d[0];
    }
}

static void test_company(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++) {
        op_case c = ranged(&cases[i]);
        if (joins_rows(c.op))
            continue;
        op_bench t, part;
        bench_init(&t, &c);
        qn_graph_output(&t.g, "y", t.y);
        float *all[1], *some[1];
        run_graph(&t.g, &t.batch.b, NULL, t.feeds, all);
        qn_shape s = qn_shape_of(&t.g, t.y);
        for (int q = 0; q < t.batch.b.n_seq; q++) {
            int32_t from = t.batch.q_start[q], n = t.batch.q_start[q + 1] - from;
            slice(&part, &t, from, n);
            run_graph(&t.g, &part.batch.b, NULL, part.feeds, some);
            if (memcmp(some[0], all[0] + from * s.dim[1], (size_t)(n * s.dim[1]) * 4) != 0)
                fail_msg("%s: sequence %d differs alone", c.what, q);
            free(some[0]);
        }
        free(all[0]);
        bench_free(&t);
    }
}

/* ---- in place ---- */

/* The call that a plan would make, on arrays of the test's own. */
static void call_of(const op_bench *t, qn_call *c, float *out[QN_MAX_OUT])
{
    const qn_node *n = &t->g.node[qn_graph_maker(&t->g, t->y.id)];
    runner r = { .plan = &(qn_plan){ .graph = &t->g }, .batch = &t->batch.b, .feeds = t->feeds };
    *c = (qn_call){ .node = n, .attr = n->attr, .batch = &t->batch.b, .nth = 1 };
    for (int k = 0; k < n->n_in; k++)
        c->in[k] = tensor_at(&r, n->in[k]);
    qn_bind bind = qn_bind_of_batch(&t->batch.b);
    for (int k = 0; k < n->n_out; k++) {
        const qn_shape *s = &n[k].shape; /* further results follow their node */
        c->out[k].rows = qn_dim_value(&t->g, &bind, s->dim[0]);
        c->out[k].width = qn_shape_width(s);
        out[k] = calloc((size_t)(c->out[k].rows * c->out[k].width) + 1, sizeof(float));
        c->out[k].data = out[k];
    }
}

static void test_in_place(void **state)
{
    (void)state;
    int n_tested = 0;
    for (size_t i = 0; i < N_CASES; i++) {
        op_case c = ranged(&cases[i]);
        if (!c.op->in_place)
            continue;
        op_bench t;
        bench_init(&t, &c);
        qn_call call;
        float *out[QN_MAX_OUT] = { 0 };
        call_of(&t, &call, out);
        c.op->ref(&call);
        size_t n = (size_t)(call.out[0].rows * call.out[0].width);
        float *over = malloc((n + 1) * sizeof *over);
        memcpy(over, call.in[0].data, n * sizeof *over);
        call.in[0].data = call.out[0].data = over;
        c.op->ref(&call);
        if (memcmp(over, out[0], n * sizeof *over) != 0)
            fail_msg("%s: another result in place", c.what);
        n_tested++;
        free(over);
        for (int k = 0; k < QN_MAX_OUT; k++)
            free(out[k]);
        bench_free(&t);
    }
    assert_true(n_tested > 10);
}

/* ---- layouts ---- */

static const uint8_t layouts[] = { QN_F16, QN_BF16, QN_Q8_0, QN_Q4_1 };

/* y = op(x, w) with w [n, 32] (or a stack of them) of one layout, and with the same numbers as floats. */
static void compare_layouts(const qn_op *op, const void *attr, const in_spec *x, int64_t depth)
{
    enum { K = 32, N = 6 };
    float values[5 * N * K], decoded[5 * N * K];
    uint64_t seed = 9;
    rng_fill(&seed, values, 5 * N * K, -1, 1);
    for (size_t l = 0; l < sizeof layouts; l++) {
        const qn_layout_info *info = qn_layout_get(layouts[l]);
        int64_t n = (depth ? depth : 1) * N * K;
        uint8_t packed[5 * N * K * 4];
        info->encode(values, packed, n);
        info->decode(packed, decoded, n);
        qn_weight w[2] = { { .name = "w", .global_scale = 1, .layout = layouts[l], .data = packed },
                           { .name = "w", .global_scale = 1, .layout = QN_F32, .data = decoded } };
        float *y[2];
        size_t bytes = 0;
        for (int i = 0; i < 2; i++) {
            w[i].n_dims = depth ? 3 : 2;
            memcpy(w[i].dim, depth ? (int64_t[]){ depth, N, K } : (int64_t[]){ N, K, 0 },
                   3 * sizeof(int64_t));
            op_case c = { .what = op->name, .op = op, .attr = attr, .lo = -1, .hi = 1 };
            op_bench t = { .c = &c };
            qn_graph_init(&t.g);
            batch_init(&t.batch, (int32_t[]){ 3 }, 1);
            memcpy(c.in, x, 3 * sizeof *x);
            for (int k = 0; k < 3; k++)
                make_input(&t, k, &seed);
            seed = 10; /* the same rows both times */
            if (t.data[0])
                rng_fill(&seed, t.data[0], t.n[0], -1, 1);
            t.in[1] = qn_graph_weight(&t.g, &w[i]);
            int n_in = t.n_in > 2 ? t.n_in : 2;
            qn_val v = qn_graph_add(&t.g, op, attr, t.in, n_in);
            assert_int_equal(t.g.err.code, QN_OK);
            qn_graph_output(&t.g, "y", v);
            bytes = 3 * (size_t)qn_shape_width(&t.g.node[v.id].shape) * sizeof(float);
            run_graph(&t.g, &t.batch.b, NULL, t.feeds, &y[i]);
            bench_free(&t);
        }
        if (memcmp(y[0], y[1], bytes) != 0)
            fail_msg("%s reads %s otherwise than its decoder", op->name, info->name);
        free(y[0]);
        free(y[1]);
    }
}

static void test_layouts(void **state)
{
    (void)state;
    const in_spec tokens[3] = { { TOKENS, { 0 } }, { NONE, { 0 } }, { NONE, { 0 } } };
    const in_spec wide[3] = { { ROWS, { 32 } }, { NONE, { 0 } }, { NONE, { 0 } } };
    const in_spec back[3] = { { ROWS, { 6 } }, { NONE, { 0 } }, { NONE, { 0 } } };
    const in_spec routed[3] = { { ROWS, { 32 } }, { NONE, { 0 } }, { IDS, { 2, 5 } } };
    compare_layouts(&qn_op_embed, NULL, tokens, 0);
    compare_layouts(&qn_op_linear, NULL, wide, 0);
    compare_layouts(&qn_op_linears, NULL, wide, 0);
    compare_layouts(&qn_op_linear_dx, NULL, back, 0);
    const in_spec heads[3] = { { ROWS, { 64 } }, { NONE, { 0 } }, { NONE, { 0 } } };
    compare_layouts(&qn_op_head_linear, &(qn_attr_head_linear){ .n_heads = 2 }, heads, 0);
    compare_layouts(&qn_op_head_linear, &(qn_attr_head_linear){ .n_heads = 2, .transposed = true },
                    back, 0);
    compare_layouts(&qn_op_expert_linear, &(qn_attr_expert_linear){ .top_k = 2 }, routed, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_company),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
