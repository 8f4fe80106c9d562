/* opcase.h - one table line describes an op to test: its inputs, its attributes, the shape it must infer.
 *
 * From the line alone the harness builds the graph, runs the reference, checks every gradient against finite
 * differences, and compares a fused op with its expansion bit by bit. */
#ifndef QN_TESTS_OPS_OPCASE_H
#define QN_TESTS_OPS_OPCASE_H

#include <math.h>

#include "ops/run.h"

enum { NONE, ROWS, OUT_ROWS, VEC, MAT, STACK, IDS, TOKENS, PICK, LABELS };

/* ROWS {width}: f32 [tok, width], a value. VEC, MAT, STACK {dims}: f32 weights. IDS {k, below}: i32 [tok, k] of
 * distinct numbers. TOKENS, PICK, LABELS: the batch's. NONE: absent. */
typedef struct in_spec {
    int kind;
    int64_t d[3];
} in_spec;

#define MAX_CASE_IN 6

typedef struct op_case {
    const char *what;
    const qn_op *op;
    const void *attr;
    const char *shape; /* of the result that is checked, as printed: "[tok, 8]" */
    int result;        /* which result the gradient check follows */
    float lo, hi;      /* range of random numbers; 0, 0 = [-1, 1] */
    in_spec in[MAX_CASE_IN];
} op_case;

typedef struct op_bench {
    const op_case *c;
    qn_graph g;
    test_batch batch;
    qn_val in[MAX_CASE_IN], y;
    int n_in;
    float *data[MAX_CASE_IN]; /* of float inputs, else NULL */
    size_t n[MAX_CASE_IN];
    int32_t *ids;
    qn_weight weight[MAX_CASE_IN];
    char name[MAX_CASE_IN][8];
    feed feeds[MAX_CASE_IN + 2];
    float *coef; /* of the result: the loss is their dot product */
} op_bench;

static inline qn_shape shape_of(int64_t rows, int64_t width, uint8_t dtype)
{
    return (qn_shape){ .dim = { rows, width }, .n_dims = width ? 2 : 1, .dtype = dtype };
}

static inline void make_weight(op_bench *t, int i, const in_spec *s, uint64_t *seed)
{
    qn_weight *w = &t->weight[i];
    *w = (qn_weight){ .name = t->name[i], .layout = QN_F32, .global_scale = 1 };
    w->n_dims = (uint8_t)(s->kind == VEC ? 1 : s->kind == MAT ? 2 : 3);
    t->n[i] = 1;
    for (int d = 0; d < w->n_dims; d++) {
        w->dim[d] = s->d[d];
        t->n[i] *= (size_t)s->d[d];
    }
    t->data[i] = calloc(t->n[i], sizeof(float));
    rng_fill(seed, t->data[i], t->n[i], t->c->lo, t->c->hi);
    w->data = t->data[i];
    t->in[i] = qn_graph_weight(&t->g, w);
}

static inline void make_rows(op_bench *t, int i, const in_spec *s, uint64_t *seed)
{
    int64_t rows = s->kind == ROWS ? -QN_SYM_TOK : -QN_SYM_OUT;
    t->n[i] = (size_t)t->batch.b.n_tok * (size_t)s->d[0];
    t->data[i] = calloc(t->n[i], sizeof(float));
    rng_fill(seed, t->data[i], t->n[i], t->c->lo, t->c->hi);
    t->in[i] = qn_graph_input(&t->g, t->name[i], shape_of(rows, s->d[0], QN_F32));
    t->feeds[i] = (feed){ t->name[i], t->data[i] };
}

/* Distinct ids in each row, as a router gives them. */
static inline void make_ids(op_bench *t, int i, const in_spec *s)
{
    t->ids = calloc(MAX_ROWS * (size_t)s->d[0], sizeof(int32_t));
    for (int64_t r = 0; r < t->batch.b.n_tok; r++)
        for (int64_t k = 0; k < s->d[0]; k++)
            t->ids[r * s->d[0] + k] = (int32_t)((r * 3 + k) % s->d[1]);
    t->in[i] = qn_graph_input(&t->g, t->name[i], shape_of(-QN_SYM_TOK, s->d[0], QN_I32));
    t->feeds[i] = (feed){ t->name[i], t->ids };
}

static inline void make_input(op_bench *t, int i, uint64_t *seed)
{
    const in_spec *s = &t->c->in[i];
    snprintf(t->name[i], sizeof t->name[i], "x%d", i);
    t->feeds[i] = (feed){ "-", NULL };
    switch (s->kind) {
    case ROWS:
    case OUT_ROWS:
        make_rows(t, i, s, seed);
        break;
    case VEC:
    case MAT:
    case STACK:
        make_weight(t, i, s, seed);
        break;
    case IDS:
        make_ids(t, i, s);
        break;
    case TOKENS:
        t->in[i] = qn_graph_input(&t->g, "token", shape_of(-QN_SYM_TOK, 0, QN_I32));
        break;
    case PICK:
        t->in[i] = qn_graph_input(&t->g, "out_row", shape_of(-QN_SYM_OUT, 0, QN_I32));
        break;
    case LABELS:
        t->in[i] = qn_graph_input(&t->g, "label", shape_of(-QN_SYM_TOK, 0, QN_I32));
        break;
    default:
        break;
    }
    if (s->kind != NONE)
        t->n_in = i + 1;
}

static inline void bench_init(op_bench *t, const op_case *c)
{
    *t = (op_bench){ .c = c };
    qn_graph_init(&t->g);
    batch_init(&t->batch, (const int32_t[]){ 3, 1, 4 }, 3);
    t->batch.label[2] = -100; /* a row that does not count */
    uint64_t seed = 42;
    for (int i = 0; i < MAX_CASE_IN; i++)
        make_input(t, i, &seed);
    t->feeds[MAX_CASE_IN] = (feed){ "coef", NULL };
    t->y = qn_graph_add(&t->g, c->op, c->attr, t->in, t->n_in);
    if (t->g.err.code)
        fail_msg("%s: %s", c->what, t->g.err.msg);
    t->y = qn_out(t->y, c->result);
}

static inline void bench_free(op_bench *t)
{
    for (int i = 0; i < MAX_CASE_IN; i++)
        free(t->data[i]);
    free(t->ids);
    free(t->coef);
    qn_graph_free(&t->g);
}

/* sum(y * coef) in double, and the sum of magnitudes, which bounds what rounding y to f32 can do. */
static inline double bench_loss(op_bench *t, const qn_graph *forward, double *magnitude)
{
    float *y[2];
    run_graph(forward, &t->batch.b, NULL, t->feeds, y);
    qn_bind bind = qn_bind_of_batch(&t->batch.b);
    qn_shape s = qn_shape_of(&t->g, t->y);
    int64_t n = qn_dim_value(&t->g, &bind, s.dim[0]) * qn_shape_width(&s);
    double sum = 0, mag = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)y[0][i] * t->coef[i];
        mag += fabs((double)y[0][i] * t->coef[i]);
    }
    free(y[0]);
    *magnitude = mag;
    return sum;
}

/* The same loss as nodes: y * coef, summed over width by a product with ones, then over rows. */
static inline qn_val loss_nodes(op_bench *t, qn_graph *g, qn_val y)
{
    qn_shape s = qn_shape_of(g, y);
    if (s.n_dims == 1) /* a loss already */
        return y;
    qn_val coef = qn_graph_input(g, "coef", shape_of(s.dim[0], s.dim[1], QN_F32));
    qn_val prod = QN_ADD(g, &qn_op_mul, NULL, y, coef);
    qn_val row = QN_ADD(g, &qn_op_linear, NULL, prod, qn_graph_ones(g, 1, s.dim[1]));
    (void)t;
    return QN_ADD(g, &qn_op_sum_rows, NULL, row);
}

/* Central differences with one Richardson step. The tolerance is what the method itself can be off by: the
 * change between the two step sizes, and the rounding of f32 results divided by the step. */
static inline double check_element(op_bench *t, const qn_graph *forward, float *x, double got)
{
    const float h = 1.0f / 64;
    float at = *x;
    double d[2], mag = 0;
    for (int i = 0; i < 2; i++) {
        float step = h / (float)(1 << i);
        *x = at + step;
        double up = bench_loss(t, forward, &mag);
        *x = at - step;
        double down = bench_loss(t, forward, &mag);
        d[i] = (up - down) / ((double)(at + step) - (double)(at - step));
    }
    *x = at;
    double want = (4 * d[1] - d[0]) / 3;
    double tol = fabs(d[1] - d[0]) / 2 + 8 * ldexp(mag, -24) / h + 1e-6;
    if (!(fabs(got - want) <= tol))
        fail_msg("%s: gradient %g, by differences %g, tolerance %g", t->c->what, got, want, tol);
    return fabs(got - want);
}

static inline void fill_coef(op_bench *t)
{
    qn_shape s = qn_shape_of(&t->g, t->y);
    uint64_t seed = 7;
    size_t n = MAX_ROWS * (size_t)qn_shape_width(&s);
    t->coef = calloc(n, sizeof(float));
    rng_fill(&seed, t->coef, n, 0.25f, 1);
    if (s.n_dims == 1)
        t->coef[0] = 1;
    t->feeds[MAX_CASE_IN].data = t->coef;
}

/* All float inputs, up to 40 elements of each. Returns the largest error. */
static inline double check_grad(const op_case *c)
{
    op_bench t;
    bench_init(&t, c);
    fill_coef(&t);
    qn_error err = { 0 };
    qn_graph forward, full, plain;
    qn_graph_output(&t.g, "y", t.y);
    assert_int_equal(qn_graph_expand(&t.g, &forward, &err), QN_OK);
    assert_int_equal(qn_graph_expand(&t.g, &plain, &err), QN_OK);
    full = plain; /* gradients are taken on plain ops */
    qn_val wrt[MAX_CASE_IN], dwrt[MAX_CASE_IN];
    int which[MAX_CASE_IN], n = 0;
    for (int i = 0; i < t.n_in; i++) {
        if (!t.data[i])
            continue;
        which[n] = i;
        wrt[n] = (qn_val){ 0 }; /* stays so when this result does not read the input */
        for (int32_t id = 1; id < full.n_nodes; id++)
            if (strcmp(full.node[id].name, t.name[i]) == 0)
                wrt[n] = (qn_val){ id };
        n++;
    }
    qn_val loss = loss_nodes(&t, &full, full.output[0].v);
    if (qn_graph_grad(&full, loss, wrt, n, dwrt, &err) != QN_OK)
        fail_msg("%s: %s", c->what, err.msg);
    full.n_outputs = 0;
    for (int i = 0; i < n; i++) {
        qn_graph_output(&full, "d", dwrt[i].id ? dwrt[i] : loss);
        if (dwrt[i].id) {
            qn_shape a = qn_shape_of(&full, dwrt[i]), b = qn_shape_of(&full, wrt[i]);
            assert_int_equal(a.n_dims, b.n_dims);
            assert_memory_equal(a.dim, b.dim, a.n_dims * sizeof a.dim[0]);
        }
    }
    float *d[MAX_CASE_IN];
    run_graph(&full, &t.batch.b, NULL, t.feeds, d);
    double worst = 0;
    for (int i = 0; i < n; i++) {
        size_t size = t.n[which[i]], step = size > 40 ? size / 40 : 1;
        for (size_t e = 0; e < size; e += step)
            worst = fmax(
                worst, check_element(&t, &forward, &t.data[which[i]][e], dwrt[i].id ? d[i][e] : 0));
        free(d[i]);
    }
    qn_graph_free(&full);
    qn_graph_free(&forward);
    bench_free(&t);
    return worst;
}

static inline void check_shape(const op_case *c)
{
    op_bench t;
    bench_init(&t, c);
    char *text = qn_graph_print_dup(&t.g);
    if (!strstr(text, c->shape))
        fail_msg("%s: no %s in\n%s", c->what, c->shape, text);
    qn_free(text);
    bench_free(&t);
}

/* All results of a fused op equal those of its expansion, bit by bit. */
static inline void check_expansion(const op_case *c)
{
    op_bench t;
    bench_init(&t, c);
    qn_val y0 = { qn_graph_maker(&t.g, t.y.id) };
    int n_out = qn_node_at(&t.g, y0)->n_out;
    for (int k = 0; k < n_out; k++)
        qn_graph_output(&t.g, "y", qn_out(y0, k));
    qn_graph plain;
    qn_error err = { 0 };
    assert_int_equal(qn_graph_expand(&t.g, &plain, &err), QN_OK);
    float *a[QN_MAX_OUT], *b[QN_MAX_OUT];
    run_graph(&t.g, &t.batch.b, NULL, t.feeds, a);
    run_graph(&plain, &t.batch.b, NULL, t.feeds, b);
    for (int k = 0; k < n_out; k++) {
        qn_shape s = qn_shape_of(&t.g, qn_out(y0, k));
        size_t n = (size_t)t.batch.b.n_tok * (size_t)s.dim[1];
        assert_memory_equal(a[k], b[k], n * sizeof(float));
        free(a[k]);
        free(b[k]);
    }
    for (int32_t id = 1; id < plain.n_nodes; id++)
        assert_null(plain.node[id].op->expand);
    qn_graph_free(&plain);
    bench_free(&t);
}

#endif
