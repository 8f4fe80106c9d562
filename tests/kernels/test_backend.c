/* test_backend.c - the CPU backend as a whole on a small graph: references, fused and plain graphs, packed and
 * unpacked weights, thread counts, errors. Same kernels in another order of work must give equal bits; fused
 * ops and references differ by rounding only. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <float.h>

#include "backend/backend.h"
#include "kernels/harness.h"

enum { VOCAB = 50, D = 64, FF = 96, HEADS = 4, KV_HEADS = 2, HEAD = 16, ROWS = 13 };

typedef struct model {
    qn_graph g;
    qn_weight embed, norm, norm_f16, q, k, v, o, gate, up, down;
    void *owned[10];
    int n_owned;
} model;

static qn_weight matrix(model *m, qn_layout layout, int64_t rows, int64_t cols)
{
    qn_weight w = random_weight(layout, rows, cols);
    m->owned[m->n_owned++] = (void *)(uintptr_t)w.data;
    return w;
}

static qn_weight vector(model *m, qn_layout layout, int64_t n)
{
    qn_weight w = matrix(m, layout, 1, n);
    w.n_dims = 1;
    w.dim[0] = n;
    return w;
}

/* One layer of a decoder, and the logits of the rows that are wanted. */
static void build(model *m)
{
    static const float freq[HEAD / 2] = { 1, 0.5F, 0.25F, 0.1F, 0.05F, 0.02F, 0.01F, 0.001F };
    qn_graph *g = &m->g;
    qn_graph_init(g);
    m->embed = matrix(m, QN_Q8_0, VOCAB, D);
    m->norm = vector(m, QN_F32, D);
    m->norm_f16 = vector(m, QN_BF16, D);
    m->q = matrix(m, QN_Q4_1, HEADS * HEAD, D);
    m->k = matrix(m, QN_Q4_0, KV_HEADS * HEAD, D);
    m->v = matrix(m, QN_Q8_0, KV_HEADS * HEAD, D);
    m->o = matrix(m, QN_BF16, D, HEADS * HEAD);
    m->gate = matrix(m, QN_Q4_1, FF, D);
    m->up = matrix(m, QN_Q4_1, FF, D);
    m->down = matrix(m, QN_Q5_1, D, FF);
    const qn_attr_norm norm = { .eps = 1e-5F };
    const qn_attr_rope rope = { .head_dim = HEAD,
                                .n_rot = HEAD,
                                .n_freqs = HEAD / 2,
                                .inv_freq = freq,
                                .amplitude = 1,
                                .amplitude_long = 1 };
    const qn_attr_attention attn = {
        .n_heads = HEADS, .n_kv_heads = KV_HEADS, .k_dim = HEAD, .v_dim = HEAD, .scale = 0.25F
    };
    qn_shape tok = { .dim = { -QN_SYM_TOK }, .n_dims = 1, .dtype = QN_I32 }, out = tok;
    out.dim[0] = -QN_SYM_OUT;
    qn_val w = qn_graph_weight(g, &m->embed);
    qn_val x = QN_ADD(g, &qn_op_embed, NULL, qn_graph_input(g, "token", tok), w);
    qn_val h = QN_ADD(g, &qn_op_norm, &norm, x, qn_graph_weight(g, &m->norm));
    qn_val q = QN_ADD(g, &qn_op_linear, NULL, h, qn_graph_weight(g, &m->q));
    qn_val k = QN_ADD(g, &qn_op_linear, NULL, h, qn_graph_weight(g, &m->k));
    qn_val v = QN_ADD(g, &qn_op_linear, NULL, h, qn_graph_weight(g, &m->v));
    q = QN_ADD(g, &qn_op_rope, &rope, q);
    k = QN_ADD(g, &qn_op_rope, &rope, k);
    h = QN_ADD(g, &qn_op_attention, &attn, q, k, v);
    h = QN_ADD(g, &qn_op_linear, NULL, h, qn_graph_weight(g, &m->o));
    x = QN_ADD(g, &qn_op_add, NULL, x, h);
    h = QN_ADD(g, &qn_op_norm, &norm, x, qn_graph_weight(g, &m->norm_f16));
    qn_val gate = QN_ADD(g, &qn_op_linear, NULL, h, qn_graph_weight(g, &m->gate));
    qn_val up = QN_ADD(g, &qn_op_linear, NULL, h, qn_graph_weight(g, &m->up));
    gate = QN_ADD(g, &qn_op_act, &(qn_attr_act){ QN_ACT_SILU }, gate);
    h = QN_ADD(g, &qn_op_mul, NULL, gate, up);
    h = QN_ADD(g, &qn_op_linear, NULL, h, qn_graph_weight(g, &m->down));
    x = QN_ADD(g, &qn_op_add, NULL, x, h);
    x = QN_ADD(g, &qn_op_rows, NULL, x, qn_graph_input(g, "out_row", out));
    x = QN_ADD(g, &qn_op_norm, &norm, x, qn_graph_weight(g, &m->norm));
    qn_graph_output(g, "logits", QN_ADD(g, &qn_op_linear, NULL, x, w));
    assert_int_equal(g->err.code, QN_OK);
}

static void drop(model *m)
{
    qn_graph_free(&m->g);
    for (int i = 0; i < m->n_owned; i++)
        qn_free(m->owned[i]);
}

/* Logits [2][VOCAB] of one step; `fused` by the backend's own rules. */
static void logits(const model *m, const qn_backend_options *opt, bool fused, bool prepare,
                   float *out)
{
    static const int32_t token[ROWS] = { 1, 7, 3, 49, 0, 12, 12, 31, 2, 8, 40, 22, 5 };
    static const int32_t out_row[2] = { 6, ROWS - 1 }, q_start[3] = { 0, 7, ROWS };
    static const int32_t kv_len[2] = { 0, 0 };
    int32_t seq[ROWS], pos[ROWS];
    for (int r = 0; r < ROWS; r++) {
        seq[r] = r >= 7;
        pos[r] = r - q_start[seq[r]];
    }
    const qn_batch b = { .n_tok = ROWS,
                         .n_seq = 2,
                         .n_out = 2,
                         .token = token,
                         .seq = seq,
                         .pos = pos,
                         .see = pos,
                         .q_start = q_start,
                         .kv_len = kv_len,
                         .out_row = out_row };
    qn_backend *be;
    qn_error err;
    assert_int_equal(qn_backend_cpu_open(&be, opt, &err), QN_OK);
    qn_graph g2;
    const qn_graph *g = &m->g;
    if (fused) {
        assert_int_equal(qn_graph_fuse(&m->g, &g2, be->rules, &err), QN_OK);
        assert_true(g2.n_nodes < m->g.n_nodes);
        g = &g2;
    }
    if (prepare)
        assert_int_equal(be->prepare(be, g, &err), QN_OK);
    qn_bind bind = qn_bind_of_batch(&b);
    qn_plan *plan = qn_plan_new(g, &bind, opt->reference, &err);
    assert_non_null(plan);
    for (int i = 0; i < 3; i++) /* what a step leaves behind does not show in the next */
        assert_int_equal(be->run(be, plan, &b, NULL, &err), QN_OK);
    memcpy(out, be->output(be, plan, qn_graph_find_output(g, "logits")), 2 * VOCAB * sizeof *out);
    qn_plan_free(plan);
    if (fused)
        qn_graph_free(&g2);
    be->close(be);
}

static double largest(const float *x)
{
    double most = 0;
    for (int i = 0; i < 2 * VOCAB; i++)
        most = fmax(most, fabs(x[i]));
    return most;
}

/* Every way through the backend, at each level. A layer mixes all sums, so the bound of exact computing is some
 * hundred roundings of the largest logit; quantised activations are judged by their own tests, here only that
 * they stay near. */
static void test_ways(void **state)
{
    (void)state;
    model m = { 0 };
    float ref[2 * VOCAB], first[2 * VOCAB], got[2 * VOCAB];
    build(&m);
    logits(&m, &(qn_backend_options){ .reference = true }, false, false, ref);
    double size = largest(ref);
    for (int level = 0; level < N_LEVELS; level++) {
        if (!use_level(level))
            continue;
        for (int exact = 0; exact < 2; exact++) {
            logits(&m, &(qn_backend_options){ .n_threads = 1, .exact = exact }, false, false,
                   first);
            for (int i = 0; i < 2 * VOCAB; i++)
                assert_true(fabs(first[i] - ref[i]) <= (exact ? 512 * FLT_EPSILON : 0.05) * size);
            for (int way = 0; way < 12; way++) {
                const qn_backend_options opt = { .n_threads = 1 + way % 3,
                                                 .exact = exact,
                                                 .repack_bytes = way >= 6 ? 3000 : 0 };
                logits(&m, &opt, way & 1, true, got);
                assert_memory_equal(got, first, sizeof got);
            }
        }
    }
    qn_cpu_force(
        "ref"); /* fast kernels off: references on one thread, equal to the reference mode */
    logits(&m, &(qn_backend_options){ .n_threads = 2 }, true, true, got);
    for (int i = 0; i < 2 * VOCAB; i++)
        assert_true(fabs(got[i] - ref[i]) <= 16 * FLT_EPSILON * size);
    drop(&m);
}

/* Source pages of a mapped file are given back; memory that is not a file's is left alone. */
static void test_give_back(void **state)
{
    (void)state;
    enum { N = 512, K = 1024 };
    if (!use_level(0))
        skip();
    char path[] = "/tmp/quern-test-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    qn_weight heap = random_weight(QN_Q8_0, N, K), mapped = heap;
    size_t bytes = qn_weight_bytes(&heap);
    assert_int_equal(write(fd, heap.data, bytes), (ssize_t)bytes);
    void *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(p != MAP_FAILED);
    mapped.data = p;
    uint8_t *copy = qn_alloc(bytes);
    memcpy(copy, heap.data, bytes);

    qn_graph g;
    qn_graph_init(&g);
    qn_shape in = { .dim = { -QN_SYM_TOK, K }, .n_dims = 2, .dtype = QN_F32 };
    qn_val x = qn_graph_input(&g, "x", in);
    QN_ADD(&g, &qn_op_linear, NULL, x, qn_graph_weight(&g, &heap));
    QN_ADD(&g, &qn_op_linear, NULL, x, qn_graph_weight(&g, &mapped));
    qn_backend *be;
    qn_error err;
    assert_int_equal(qn_backend_cpu_open(&be, &(qn_backend_options){ .n_threads = 2 }, &err),
                     QN_OK);
    assert_int_equal(be->prepare(be, &g, &err), QN_OK);
    unsigned char resident[(N * K / 32 * 34 + 4095) / 4096];
    /* The page cache still holds the file, so only that the data reads the same can be seen here. */
    assert_int_equal(mincore(p, bytes, resident), 0);
    assert_memory_equal(heap.data, copy, bytes);
    assert_memory_equal(mapped.data, copy, bytes);
    be->close(be);
    qn_graph_free(&g);
    munmap(p, bytes);
    close(fd);
    qn_free(copy);
    qn_free((void *)(uintptr_t)heap.data);
}

static void test_refusals(void **state)
{
    (void)state;
    qn_backend *be;
    qn_error err = { 0 };
    assert_int_equal(qn_backend_cpu_open(&be, &(qn_backend_options){ .n_threads = 100000 }, &err),
                     QN_ERR_ARGUMENT);
    assert_null(be);
    assert_non_null(strstr(err.msg, "100000"));
    model m = { 0 };
    build(&m);
    assert_int_equal(qn_backend_cpu_open(&be, &(qn_backend_options){ .n_threads = 1 }, &err),
                     QN_OK);
    qn_bind small = { 0 };
    small.size[QN_SYM_TOK] = small.size[QN_SYM_OUT] = small.size[QN_SYM_SEQ] = 1;
    qn_plan *plan = qn_plan_new(&m.g, &small, false, &err);
    qn_batch b = { .n_tok = 2, .n_seq = 1, .n_out = 1 };
    assert_int_equal(be->run(be, plan, &b, NULL, &err), QN_ERR_ARGUMENT); /* larger than planned */
    b.n_tok = 1;
    assert_int_equal(be->run(be, plan, &b, NULL, &err), QN_ERR_UNSUPPORTED); /* no token array */
    assert_non_null(strstr(err.msg, "token"));
    qn_plan_free(plan);
    be->close(be);
    drop(&m);
}

/* A dump sees every node once, in order, with its results. */
static void count_dump(void *ctx, const qn_node *node, qn_val v, const qn_tensor *t)
{
    assert_non_null(node);
    assert_true(v.id > 0);
    assert_non_null(t->data);
    ++*(int *)ctx;
}

static void test_dump(void **state)
{
    (void)state;
    qn_backend *be;
    qn_error err;
    model m = { 0 };
    build(&m);
    const int32_t zero[4] = { 0 }, q_start[2] = { 0, 1 };
    const qn_batch b = { .n_tok = 1,
                         .n_seq = 1,
                         .n_out = 1,
                         .token = zero,
                         .seq = zero,
                         .pos = zero,
                         .see = zero,
                         .q_start = q_start,
                         .kv_len = zero,
                         .out_row = zero };
    qn_bind bind = qn_bind_of_batch(&b);
    for (int reference = 0; reference < 2; reference++) {
        int n = 0;
        const qn_backend_options opt = { .n_threads = 2, .reference = reference };
        assert_int_equal(qn_backend_cpu_open(&be, &opt, &err), QN_OK);
        be->set_dump(be, count_dump, &n);
        qn_plan *plan = qn_plan_new(&m.g, &bind, true, &err);
        assert_int_equal(be->run(be, plan, &b, NULL, &err), QN_OK);
        assert_int_equal(n, plan->n_steps);
        qn_plan_free(plan);
        be->close(be);
    }
    drop(&m);
}

int main(void)
{
    qn_cpu_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_give_back),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_dump),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
