/* test_attention.c - the attention kernel against its reference, and the promise of decision 6: a row's result
 * is the same to the bit in one chunk or many, alone or in company, on any number of threads.
 *
 * The bound: a score is a sum of k_dim products (k_dim + 4 epsilon of the sum of their sizes), rounded twice
 * more, and its exponential errs by the score's error plus 4 epsilon. Weights are those divided by their sum,
 * so an output moves by at most twice that times the largest value, plus n + 8 roundings of its own sum. */
#include <float.h>
#include <stdlib.h>

#include "kernels/harness.h"
#include "ops/util.h"

#define N_SEQ     3
#define PAGE      16
#define MAX_LEN   700
#define MAX_PAGES ((MAX_LEN + PAGE - 1) / PAGE)
#define MAX_ROWS  (N_SEQ * MAX_LEN)

typedef struct model {
    qn_attr_attention a;
    uint8_t layout;
    bool spans; /* rows look ahead, in blocks of 5 */
    const float *sinks;
    int32_t len[N_SEQ];
    float *q[N_SEQ], *k[N_SEQ], *v[N_SEQ], *y[N_SEQ]; /* y: what the first run gave */
} model;

typedef struct step {
    qn_batch b;
    qn_state state;
    qn_kv_slot slot[2];
    int32_t seq[MAX_ROWS], see[MAX_ROWS], q_start[N_SEQ + 1], kv_len[N_SEQ];
    int32_t table[N_SEQ * MAX_PAGES];
} step;

static step st;

static void open_cache(const model *m)
{
    size_t bytes = m->layout == QN_F32 ? 4 : 2;
    size_t k = (size_t)(m->a.n_kv_heads * PAGE * m->a.k_dim) * bytes;
    size_t v = (size_t)(m->a.n_kv_heads * PAGE * m->a.v_dim) * bytes;
    memset(&st, 0, sizeof st);
    for (int i = 0; i < 2; i++) /* two layers share a page; the test uses the second */
        st.slot[i] = (qn_kv_slot){ .k_offset = (size_t)i * (k + v),
                                   .v_offset = (size_t)i * (k + v) + k,
                                   .n_kv_heads = m->a.n_kv_heads,
                                   .k_dim = m->a.k_dim,
                                   .v_dim = m->a.v_dim,
                                   .k_layout = m->layout,
                                   .v_layout = m->layout };
    size_t page = 2 * (k + v);
    st.state.n_kv = 1;
    st.state.kv[0] = (qn_kv_group){ .page_bytes = page,
                                    .page_size = PAGE,
                                    .n_pages = N_SEQ * MAX_PAGES,
                                    .n_slots = 2,
                                    .slot = st.slot };
    st.state.kv[0].base = qn_alloc(page * N_SEQ * MAX_PAGES);
    memset(st.state.kv[0].base, 0xFF, page * N_SEQ * MAX_PAGES); /* NaN: never to be read */
    for (int i = 0; i < N_SEQ * MAX_PAGES; i++)
        st.table[i] = (i * 37) % (N_SEQ * MAX_PAGES); /* pages of a sequence lie apart */
    st.b = (qn_batch){ .seq = st.seq,
                       .see = st.see,
                       .q_start = st.q_start,
                       .kv_len = st.kv_len,
                       .max_pages = MAX_PAGES,
                       .page_table = { st.table } };
}

static void close_cache(void)
{
    qn_free(st.state.kv[0].base);
}

/* One step of `rows[s]` rows of each sequence from kv_len[s]; false means by reference. Compares with, or (when
 * `want` is NULL) writes, the results kept in y. */
static void run_step(const model *m, const int32_t *rows, int threads, bool keep)
{
    int64_t qw = m->a.n_heads * m->a.k_dim, kw = m->a.n_kv_heads * m->a.k_dim;
    int64_t vw = m->a.n_kv_heads * m->a.v_dim, yw = m->a.n_heads * m->a.v_dim;
    int32_t n = 0;
    for (int s = 0; s < N_SEQ; s++) {
        st.q_start[s] = n;
        for (int32_t r = 0; r < rows[s]; r++, n++) {
            int32_t index = st.kv_len[s] + r, end = index / 5 * 5 + 4;
            st.seq[n] = s;
            st.see[n] = m->spans ? (end < m->len[s] ? end : m->len[s] - 1) : index;
        }
    }
    st.q_start[N_SEQ] = n;
    st.b.n_tok = n;
    st.b.n_seq = N_SEQ;
    float *q = qn_alloc_n((size_t)(n * qw), 4), *k = qn_alloc_n((size_t)(n * kw), 4);
    float *v = qn_alloc_n((size_t)(n * vw), 4);
    for (int s = 0; s < N_SEQ; s++) {
        size_t r = (size_t)rows[s], at = (size_t)st.q_start[s], from = (size_t)st.kv_len[s];
        memcpy(q + at * (size_t)qw, m->q[s] + from * (size_t)qw, r * (size_t)qw * 4);
        memcpy(k + at * (size_t)kw, m->k[s] + from * (size_t)kw, r * (size_t)kw * 4);
        memcpy(v + at * (size_t)vw, m->v[s] + from * (size_t)vw, r * (size_t)vw * 4);
    }
    kcase c = { .node = { .op = &qn_op_attention, .attr = &m->a },
                .call = { .batch = &st.b, .state = &st.state } };
    add_input(&c, 0, q, n, qw);
    add_input(&c, 1, k, n, kw);
    add_input(&c, 2, v, n, vw);
    if (m->sinks)
        add_input(&c, 3, m->sinks, m->a.n_heads, 1);
    add_output(&c, 0, n, yw);
    if (threads > 0)
        run_kernel(&c, threads);
    else
        run_ref(&c);
    for (int s = 0; s < N_SEQ; s++) {
        const float *got = (float *)c.call.out[0].data + st.q_start[s] * yw;
        float *want = m->y[s] + st.kv_len[s] * yw;
        size_t bytes = (size_t)rows[s] * (size_t)yw * 4;
        if (keep)
            memcpy(want, got, bytes);
        else
            assert_memory_equal(got, want, bytes);
        st.kv_len[s] += rows[s];
    }
    free_case(&c);
    qn_free(q);
    qn_free(k);
    qn_free(v);
}

/* Everything in steps of at most chunk[s] rows; a sequence with chunk 0 is left out. */
static void run_chunks(const model *m, const int32_t *chunk, int threads, bool keep)
{
    open_cache(m);
    for (bool more = true; more;) {
        int32_t rows[N_SEQ];
        more = false;
        for (int s = 0; s < N_SEQ; s++) {
            int32_t left = m->len[s] - st.kv_len[s];
            rows[s] = left < chunk[s] ? left : chunk[s];
            more = more || rows[s] > 0;
        }
        if (more)
            run_step(m, rows, threads, keep);
    }
    close_cache();
}

static float *random_rows(int64_t n)
{
    float *x = qn_alloc_n((size_t)n, sizeof *x);
    fill(x, n);
    return x;
}

static void open_model(model *m)
{
    m->a.kv_slot = 1;
    m->a.scale = 1.5F / sqrtf((float)m->a.k_dim);
    for (int s = 0; s < N_SEQ; s++) {
        m->q[s] = random_rows((int64_t)m->len[s] * m->a.n_heads * m->a.k_dim);
        m->k[s] = random_rows((int64_t)m->len[s] * m->a.n_kv_heads * m->a.k_dim);
        m->v[s] = random_rows((int64_t)m->len[s] * m->a.n_kv_heads * m->a.v_dim);
        m->y[s] = random_rows((int64_t)m->len[s] * m->a.n_heads * m->a.v_dim);
    }
}

static void close_model(model *m)
{
    for (int s = 0; s < N_SEQ; s++) {
        qn_free(m->q[s]);
        qn_free(m->k[s]);
        qn_free(m->v[s]);
        qn_free(m->y[s]);
    }
}

static double largest(const float *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* The kernel's results (in m->y) against the reference's, on a cache of the same layout. */
static void check_values(model *m)
{
    model ref = *m;
    for (int s = 0; s < N_SEQ; s++)
        ref.y[s] = random_rows((int64_t)m->len[s] * m->a.n_heads * m->a.v_dim);
    run_chunks(&ref, m->len, 0, true);
    for (int s = 0; s < N_SEQ; s++) {
        double q = largest(m->q[s], (int64_t)m->len[s] * m->a.n_heads * m->a.k_dim);
        double k = largest(m->k[s], (int64_t)m->len[s] * m->a.n_kv_heads * m->a.k_dim);
        double v = largest(m->v[s], (int64_t)m->len[s] * m->a.n_kv_heads * m->a.v_dim);
        double size = m->a.scale * q * k * m->a.k_dim; /* of a score, at most */
        double score = FLT_EPSILON * ((m->a.k_dim + 4) * size + 2 * size + 4 * m->a.softcap + 4);
        double bound = v * (2 * score + (m->len[s] + 8) * FLT_EPSILON);
        for (int64_t i = 0; i < (int64_t)m->len[s] * m->a.n_heads * m->a.v_dim; i++)
            if (!(fabs(m->y[s][i] - ref.y[s][i]) <= bound))
                fail_msg("sequence %d, [%d]: %g, not %g +- %g", s, (int)i, m->y[s][i], ref.y[s][i],
                         bound);
        qn_free(ref.y[s]);
    }
}

static void check_model(model *m)
{
    open_model(m);
    run_chunks(m, m->len, 1, true);
    check_values(m);
    if (m->spans) { /* a span is never cut by a chunk */
        run_chunks(m, (const int32_t[]){ 35, 5, 700 }, 2, false);
        close_model(m);
        return;
    }
    run_chunks(m, m->len, 2, false);
    run_chunks(m, (const int32_t[]){ 700, 0, 0 }, 3, false);
    run_chunks(m, (const int32_t[]){ 0, 0, 33 }, 2, false);
    run_chunks(m, (const int32_t[]){ 61, 1, 7 }, 2, false);
    run_chunks(m, (const int32_t[]){ 0, 1, 0 }, 3, false);
    close_model(m);
}

static void test_shapes(void **state)
{
    (void)state;
    static const int32_t shapes[][4] = { /* heads, key heads, key width, value width */
                                         { 9, 3, 64, 64 },
                                         { 4, 1, 40, 24 },
                                         { 2, 2, 128, 136 },
                                         { 3, 3, 5, 3 }
    };
    static const uint8_t layouts[] = { QN_F16, QN_F32, QN_BF16 };
    for (int i = 0; i < 4; i++)
        for (int l = 0; l < 3; l++) {
            model m = { .layout = layouts[l], .len = { 130, 41, 33 } };
            m.a = (qn_attr_attention){ .n_heads = shapes[i][0],
                                       .n_kv_heads = shapes[i][1],
                                       .k_dim = shapes[i][2],
                                       .v_dim = shapes[i][3] };
            check_model(&m);
        }
}

static void test_kinds(void **state)
{
    (void)state;
    const float sinks[4] = { 0.5F, -3.0F, 9.0F, 0.0F };
    static const float slopes[4] = { 0.5F, 0.03F, 0.0F, 0.1F };
    for (int kind = 0; kind < 32; kind++) {
        model m = { .layout = QN_F16, .len = { 70, 37, 100 }, .spans = kind & 1 };
        m.a = (qn_attr_attention){ .n_heads = 4, .n_kv_heads = 2, .k_dim = 16, .v_dim = 16 };
        m.a.window = kind & 2 ? 21 : 0;
        m.a.softcap = kind & 4 ? 2.5F : 0;
        m.sinks = kind & 8 ? sinks : NULL;
        m.a.slopes = kind & 16 ? slopes : NULL;
        check_model(&m);
    }
}

/* Long enough for several splits, also token by token. */
static void test_splits(void **state)
{
    (void)state;
    for (int window = 0; window <= 300; window += 300) {
        model m = { .layout = QN_F16, .len = { 600, 530, 257 } };
        m.a = (qn_attr_attention){ .n_heads = 2, .n_kv_heads = 1, .k_dim = 16, .v_dim = 16 };
        m.a.window = window;
        check_model(&m);
    }
}

/* Without a state the step's own rows are all there is, in f32: the form that training and encoders use. */
static void check_stateless(qn_attr_attention a)
{
    enum { ROWS = 45, W = 32 };
    float *q = random_rows(ROWS * 2 * W), *k = random_rows(ROWS * W), *v = random_rows(ROWS * W);
    a.n_heads = 4;
    a.n_kv_heads = 2;
    a.k_dim = a.v_dim = 16;
    a.scale = 0.25F;
    const int32_t q_start[] = { 0, 12, ROWS }, kv_len[2] = { 0 };
    int32_t seq[ROWS], see[ROWS];
    for (int r = 0; r < ROWS; r++) {
        seq[r] = r >= 12;
        see[r] = r - q_start[seq[r]];
    }
    const qn_batch b = {
        .n_tok = ROWS, .n_seq = 2, .seq = seq, .see = see, .q_start = q_start, .kv_len = kv_len
    };
    kcase c = { .node = { .op = &qn_op_attention, .attr = &a }, .call = { .batch = &b } };
    add_input(&c, 0, q, ROWS, 2 * W);
    add_input(&c, 1, k, ROWS, W);
    add_input(&c, 2, v, ROWS, W);
    kcase ref = c;
    add_output(&c, 0, ROWS, 2 * W);
    add_output(&ref, 0, ROWS, 2 * W);
    run_kernel(&c, 2);
    run_ref(&ref);
    double size = 0.25 * 16 * 16 * 16; /* inputs are at most 4 */
    double bound = 4 * FLT_EPSILON * (2 * (20 * size + 4) + ROWS + 8);
    for (int i = 0; i < ROWS * 2 * W; i++)
        assert_true(fabs(((float *)c.call.out[0].data)[i] - ((float *)ref.call.out[0].data)[i]) <=
                    bound);
    free_case(&c);
    free_case(&ref);
    qn_free(q);
    qn_free(k);
    qn_free(v);
}

static void test_stateless(void **state)
{
    (void)state;
    check_stateless((qn_attr_attention){ 0 });
    for (int window = 0; window < 40; window += 13)
        check_stateless(
            (qn_attr_attention){ .window = window, .both_ways = true, .kv_group = QN_NO_CACHE });
}

int main(void)
{
    qn_cpu_init();
    if (!use_level(0))
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_stateless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
