/* test_ops_recurrent.c - recurrences against a second formula in double, and the promises all of them make: a step cut
 * in two, rows among strangers, heads shared out over threads: the same bits. */
#include "ops/call.h"

enum { N_ROWS = 9, MAX_IN_WIDTH = 64, N_INPUTS = 6 };

/* An op with the widths of its row inputs (0 = absent) and its vectors. */
typedef struct recurrence {
    const qn_op *op;
    const void *attr;
    int64_t width[N_INPUTS], out, state;
    struct {
        int64_t rows, cols;
    } weight[N_INPUTS];
    bool fades[N_INPUTS]; /* at most 0 */
} recurrence;

static const qn_attr_conv conv = { .kernel = 4 };
static const qn_attr_scan scan1 = { .n_heads = 6, .head_dim = 1, .n_groups = 1, .d_state = 5 };
static const qn_attr_scan scan2 = {
    .n_heads = 4, .head_dim = 3, .n_groups = 2, .d_state = 5, .dt_min = 0.01f, .dt_max = 0.7f
};
static const qn_attr_delta delta = { .n_heads = 4, .n_key_heads = 2, .k_dim = 5, .v_dim = 3 };
static const qn_attr_lru lru = { 0 };
static const qn_attr_wkv wkv = { .n_heads = 3, .head_dim = 4 };

static const recurrence all[] = {
    { &qn_op_conv, &conv, { 7 }, 7, 21, { [1] = { 7, 4 }, [2] = { 0, 7 } }, { 0 } },
    { &qn_op_scan,
      &scan1,
      { 6, 6, 0, 5, 5 },
      6,
      30,
      { [2] = { 6, 5 }, [5] = { 0, 6 } },
      { [2] = true } },
    { &qn_op_scan,
      &scan2,
      { 12, 4, 0, 10, 10 },
      12,
      60,
      { [2] = { 0, 4 }, [5] = { 0, 4 } },
      { [2] = true } },
    { &qn_op_delta, &delta, { 10, 10, 12, 4, 4 }, 12, 60, { { 0 } }, { [3] = true } },
    { &qn_op_delta, &delta, { 10, 10, 12, 20, 4 }, 12, 60, { { 0 } }, { [3] = true } },
    { &qn_op_lru, &lru, { 5, 5 }, 5, 5, { { 0 } }, { [1] = true } },
    { &qn_op_wkv, &wkv, { 12, 12, 12, 12, 12, 12 }, 12, 48, { { 0 } }, { [1] = true } },
};
enum { N_ALL = sizeof all / sizeof *all };

typedef struct setting {
    op_call call;
    test_batch batch;
    qn_state state;
    int32_t slot[4];
    float slots[4 * 64];
    float in[N_INPUTS][N_ROWS * MAX_IN_WIDTH], number[N_INPUTS][64];
    qn_weight weight[N_INPUTS];
    float out[N_ROWS * MAX_IN_WIDTH];
} setting;

static void set_up(setting *s, const recurrence *r)
{
    uint64_t seed = 11;
    memset(s, 0, sizeof *s);
    call_init(&s->call, r->op, r->attr, NULL);
    s->state = (qn_state){ .slots = s->slots, .slot_floats = 64, .n_slots = 4 };
    s->call.node.n_in = N_INPUTS;
    for (int i = 0; i < N_INPUTS; i++) {
        float lo = r->fades[i] ? -2 : -1, hi = r->fades[i] ? -0.1f : 1;
        if (r->op == &qn_op_scan && i == 1) /* steps of time go forward */
            lo = 0;
        rng_fill(&seed, s->in[i], N_ROWS * MAX_IN_WIDTH, lo, hi);
        rng_fill(&seed, s->number[i], 64, lo, hi);
        s->weight[i] = floats_weight(s->number[i], r->weight[i].rows, r->weight[i].cols);
    }
}

/* Runs rows [from, from + n) as the only sequence, whose cache holds `before` entries, in slot 2. */
static void run_rows(setting *s, const recurrence *r, int32_t from, int32_t n, int32_t before)
{
    batch_init(&s->batch, &n, 1);
    s->batch.kv_len[0] = before;
    s->slot[0] = 2;
    s->batch.b.state_slot = s->slot;
    s->call.c.batch = &s->batch.b;
    s->call.c.state = &s->state;
    for (int i = 0; i < N_INPUTS; i++) {
        if (r->weight[i].cols)
            s->call.c.in[i] = weight_tensor(&s->weight[i]);
        else if (r->width[i])
            s->call.c.in[i] = tensor(s->in[i] + from * r->width[i], n, r->width[i]);
    }
    s->call.c.out[0] = tensor(s->out + from * r->out, n, r->out);
    s->call.node.n_out = 1;
    s->call.c.node = &s->call.node;
}

/* Whatever a slot held before, and wherever the step is cut, rows and state come out the same. */
static void test_cuts(void **state)
{
    (void)state;
    for (int k = 0; k < N_ALL; k++) {
        const recurrence *r = &all[k];
        setting whole, cut;
        set_up(&whole, r);
        run_rows(&whole, r, 0, N_ROWS, 0);
        r->op->ref(&whole.call.c);
        for (int32_t at = 1; at < N_ROWS; at++) {
            set_up(&cut, r);
            for (int i = 0; i < 4 * 64; i++)
                cut.slots[i] = 99;
            run_rows(&cut, r, 0, at, 0);
            r->op->ref(&cut.call.c);
            run_rows(&cut, r, at, N_ROWS - at, at);
            r->op->ref(&cut.call.c);
            assert_memory_equal(cut.out, whole.out, N_ROWS * (size_t)r->out * sizeof(float));
            assert_memory_equal(cut.slots + 2 * 64, whole.slots + 2 * 64,
                                (size_t)r->state * sizeof(float));
            assert_true(cut.slots[2 * 64 - 1] == 99 && cut.slots[3 * 64] == 99);
        }
    }
}

/* Threads that share out heads and channels do all of them once; without a state the result is that of a
 * sequence that begins. */
static void test_threads(void **state)
{
    (void)state;
    for (int k = 0; k < N_ALL; k++) {
        const recurrence *r = &all[k];
        setting one, many;
        set_up(&one, r);
        run_rows(&one, r, 0, N_ROWS, 0);
        one.call.c.state = NULL;
        r->op->ref(&one.call.c);
        set_up(&many, r);
        run_rows(&many, r, 0, N_ROWS, 0);
        many.call.c.nth = 3;
        for (many.call.c.ith = 0; many.call.c.ith < 3; many.call.c.ith++)
            r->op->ref(&many.call.c);
        assert_memory_equal(one.out, many.out, N_ROWS * (size_t)r->out * sizeof(float));
    }
}

/* m <- (I - beta k k^T) fade m + beta k v^T, as the matrix it is. */
static void delta_by_matrix(double m[5][3], const float *k, const float *v, double fade,
                            double beta)
{
    double next[5][3];
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 3; j++) {
            next[i][j] = beta * k[i] * v[j];
            for (int l = 0; l < 5; l++)
                next[i][j] += ((i == l) - beta * k[i] * k[l]) * fade * m[l][j];
        }
    memcpy(m, next, sizeof next);
}

static void test_delta_by_matrices(void **state)
{
    (void)state;
    setting s;
    set_up(&s, &all[3]);
    run_rows(&s, &all[3], 0, N_ROWS, 0);
    qn_op_delta.ref(&s.call.c);
    for (int h = 0; h < 4; h++) {
        double m[5][3] = { { 0 } };
        for (int t = 0; t < N_ROWS; t++) {
            const float *q = &s.in[0][t * 10 + h / 2 * 5];
            double y[3] = { 0 };
            delta_by_matrix(m, &s.in[1][t * 10 + h / 2 * 5], &s.in[2][t * 12 + h * 3],
                            exp(s.in[3][t * 4 + h]), s.in[4][t * 4 + h]);
            for (int i = 0; i < 5; i++)
                for (int j = 0; j < 3; j++)
                    y[j] += m[i][j] * q[i];
            assert_near(&s.out[t * 12 + h * 3], y, 3, 2e-5);
        }
    }
}

static double dot5(const float *a, const float *b)
{
    double sum = 0;
    for (int i = 0; i < 5; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

/* The scan as a sum over all rows so far: y_t = sum_u exp(a sum_{u < w <= t} dt_w) dt_u x_u (b_u . c_t) + d x_t. */
static void test_scan_as_sum(void **state)
{
    (void)state;
    setting s;
    set_up(&s, &all[2]);
    run_rows(&s, &all[2], 0, N_ROWS, 0);
    qn_op_scan.ref(&s.call.c);
    for (int t = 0; t < N_ROWS; t++)
        for (int h = 0; h < 4; h++) {
            double want[3] = { 0 }, since = 0;
            const float *c = &s.in[4][t * 10 + h / 2 * 5];
            for (int u = t; u >= 0; u--) {
                double dt = fmin(fmax(s.in[1][u * 4 + h], 0.01f), 0.7f);
                double dot = dot5(&s.in[3][u * 10 + h / 2 * 5], c);
                for (int p = 0; p < 3; p++)
                    want[p] += exp(s.number[2][h] * since) * dt * s.in[0][u * 12 + h * 3 + p] * dot;
                since += dt;
            }
            for (int p = 0; p < 3; p++)
                want[p] += (double)s.number[5][h] * s.in[0][t * 12 + h * 3 + p];
            assert_near(&s.out[t * 12 + h * 3], want, 3, 1e-5);
        }
}

/* The convolution by its definition, and the unit's first row taken whole. */
static void test_conv_and_lru(void **state)
{
    (void)state;
    setting s;
    set_up(&s, &all[0]);
    run_rows(&s, &all[0], 0, N_ROWS, 0);
    qn_op_conv.ref(&s.call.c);
    for (int t = 0; t < N_ROWS; t++)
        for (int i = 0; i < 7; i++) {
            double sum = s.number[2][i];
            for (int j = 0; j < 4 && j <= t; j++)
                sum += (double)s.number[1][i * 4 + 3 - j] * s.in[0][(t - j) * 7 + i];
            assert_near(&s.out[t * 7 + i], &sum, 1, 2e-6);
        }
    set_up(&s, &all[5]);
    run_rows(&s, &all[5], 0, N_ROWS, 0);
    qn_op_lru.ref(&s.call.c);
    for (int i = 0; i < 5; i++) {
        double y = 0;
        for (int t = 0; t < N_ROWS; t++) {
            double a = exp(s.in[1][t * 5 + i]);
            y = a * y + (t ? sqrt(1 - a * a) : 1) * s.in[0][t * 5 + i];
            assert_near(&s.out[t * 5 + i], &y, 1, 2e-6);
        }
    }
}

/* RWKV's rule with a = -k, b = beta k and v scaled by beta is the plain delta rule with channel decays, but for
 * the order: what is removed is read before the fading. */
static void test_wkv_by_rows(void **state)
{
    (void)state;
    setting s;
    set_up(&s, &all[6]);
    run_rows(&s, &all[6], 0, N_ROWS, 0);
    qn_op_wkv.ref(&s.call.c);
    double m[12][4] = { { 0 } };
    for (int t = 0; t < N_ROWS; t++)
        for (int row = 0; row < 12; row++) {
            int at = t * 12 + row / 4 * 4;
            double removed = 0, y = 0;
            for (int j = 3; j >= 0; j--)
                removed += m[row][j] * s.in[4][at + j];
            for (int j = 3; j >= 0; j--) {
                m[row][j] = m[row][j] * exp(s.in[1][at + j]) + removed * s.in[5][at + j] +
                            (double)s.in[3][t * 12 + row] * s.in[2][at + j];
                y += m[row][j] * s.in[0][at + j];
            }
            assert_near(&s.out[t * 12 + row], &y, 1, 1e-4);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_delta_by_matrices),
        cmocka_unit_test(test_scan_as_sum),
        cmocka_unit_test(test_conv_and_lru),
        cmocka_unit_test(test_wkv_by_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
