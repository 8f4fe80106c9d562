/* test_ops_attention.c - attention against a dense formula, and the rules of its cache: keys are read as
 * stored, pages may lie anywhere, and a sequence's rows do not depend on chunks or company (compared with ==). */
#include "ops/call.h"

#define HEADS  4
#define KV     2
#define DK     6
#define DV     4
#define PAGE   4
#define PAGES  12
#define QW     (HEADS * DK)
#define KW     (KV * DK)
#define VW     (KV * DV)
#define OW     (HEADS * DV)
#define TOKENS 11

static const qn_attr_attention plain = {
    .n_heads = HEADS, .n_kv_heads = KV, .k_dim = DK, .v_dim = DV, .scale = 0.4f
};

typedef struct rows {
    float q[MAX_ROWS * QW], k[MAX_ROWS * KW], v[MAX_ROWS * VW], y[MAX_ROWS * OW];
} rows;

static void rows_init(rows *r, uint64_t seed)
{
    rng_fill(&seed, r->q, MAX_ROWS * QW, -2, 2);
    rng_fill(&seed, r->k, MAX_ROWS * KW, -2, 2);
    rng_fill(&seed, r->v, MAX_ROWS * VW, -2, 2);
}

static void run(const qn_attr_attention *a, const test_batch *b, const qn_state *st, rows *r,
                const qn_weight *sinks)
{
    op_call t;
    int64_t n = b->b.n_tok;
    call_init(&t, &qn_op_attention, a, b);
    t.c.state = st;
    t.c.in[0] = tensor(r->q, n, QW);
    t.c.in[1] = tensor(r->k, n, KW);
    t.c.in[2] = tensor(r->v, n, VW);
    if (sinks)
        t.c.in[3] = weight_tensor(sinks);
    t.c.out[0] = tensor(r->y, n, OW);
    call_run(&t);
}

/* One sequence as a full matrix of scores with a mask, rows of it normalised. */
static void dense(const qn_attr_attention *a, const rows *r, const int32_t *see, int n,
                  const float *sinks, double *y)
{
    memset(y, 0, (size_t)n * OW * sizeof *y);
    for (int i = 0; i < n * HEADS; i++) {
        int row = i / HEADS, h = i % HEADS, g = h / (HEADS / KV);
        double p[MAX_ROWS], sum = sinks ? exp(sinks[h]) : 0;
        for (int j = 0; j < n; j++) {
            double t = 0;
            for (int d = 0; d < DK; d++)
                t += (double)r->q[row * QW + h * DK + d] * r->k[j * KW + g * DK + d];
            t *= a->scale;
            if (a->softcap > 0)
                t = a->softcap * tanh(t / a->softcap);
            if (a->slopes)
                t -= (double)a->slopes[h] * (row - j);
            int last = !a->both_ways ? see[row] : a->window ? row + a->window - 1 : n - 1;
            bool seen = j <= last && (!a->window || j > row - a->window);
            p[j] = seen ? exp(t) : 0;
            sum += p[j];
        }
        for (int j = 0; j < n * DV; j++)
            y[row * OW + h * DV + j % DV] += p[j / DV] / sum * r->v[j / DV * VW + g * DV + j % DV];
    }
}

static void test_dense(void **state)
{
    (void)state;
    const float sinks[HEADS] = { 0.5f, -1, 2, 0 };
    qn_weight w = floats_weight(sinks, 0, HEADS);
    static rows r;
    test_batch b;
    batch_init(&b, (int32_t[]){ TOKENS }, 1);
    const float slopes[HEADS] = { 0.5f, 0.25f, 0, 1 };
    for (int variant = 0; variant < 16; variant++) {
        qn_attr_attention a = plain;
        a.slopes = variant & 8 ? slopes : NULL;
        a.window = variant & 1 ? 3 : 0;
        a.softcap = variant & 2 ? 0.8f : 0;
        rows_init(&r, 10 + (uint64_t)variant);
        run(&a, &b, NULL, &r, variant & 4 ? &w : NULL);
        double want[TOKENS * OW];
        dense(&a, &r, b.see, TOKENS, variant & 4 ? sinks : NULL, want);
        assert_near(r.y, want, TOKENS * OW, 1e-6);
    }
}

/* Rows 3..6 see each other in both directions; the window still counts from each row's own place. */
static void test_span(void **state)
{
    (void)state;
    static rows r;
    test_batch b;
    batch_init(&b, (int32_t[]){ TOKENS }, 1);
    for (int i = 3; i <= 6; i++)
        b.see[i] = 6;
    for (int window = 0; window < 4; window += 3) {
        qn_attr_attention a = plain;
        a.window = window;
        rows_init(&r, 30);
        run(&a, &b, NULL, &r, NULL);
        double want[TOKENS * OW];
        dense(&a, &r, b.see, TOKENS, NULL, want);
        assert_near(r.y, want, TOKENS * OW, 1e-6);
    }
}

/* An encoder's rows see all of their sequence, or a window to either side, whatever `see` says; and a state that
 * other layers keep is not touched. */
static void test_both_ways(void **state)
{
    (void)state;
    static rows r;
    test_batch b;
    qn_state other = { 0 };
    batch_init(&b, (int32_t[]){ TOKENS }, 1);
    for (int window = 0; window < 5; window++) {
        qn_attr_attention a = plain;
        a.window = window;
        a.both_ways = true;
        a.kv_group = QN_NO_CACHE;
        rows_init(&r, 40 + (uint64_t)window);
        run(&a, &b, &other, &r, NULL);
        double want[TOKENS * OW];
        dense(&a, &r, b.see, TOKENS, NULL, want);
        assert_near(r.y, want, TOKENS * OW, 1e-6);
    }
}

/* A cache of one group and two slots; the tests use the second slot, so offsets count. */
typedef struct cache {
    qn_state st;
    qn_kv_slot slot[2];
    int32_t table[2 * PAGES];
    uint8_t *memory;
} cache;

static void cache_init(cache *c, uint8_t layout)
{
    size_t elem = layout == QN_F32 ? 4 : 2, k = KV * PAGE * DK * elem, v = KV * PAGE * DV * elem;
    *c = (cache){ 0 };
    for (size_t i = 0; i < 2; i++)
        c->slot[i] = (qn_kv_slot){ .k_offset = i * (k + v),
                                   .v_offset = i * (k + v) + k,
                                   .n_kv_heads = KV,
                                   .k_dim = DK,
                                   .v_dim = DV,
                                   .k_layout = layout,
                                   .v_layout = layout };
    c->memory = calloc(PAGES, 2 * (k + v));
    c->st.n_kv = 1;
    c->st.kv[0] = (qn_kv_group){ .base = c->memory,
                                 .page_bytes = 2 * (k + v),
                                 .page_size = PAGE,
                                 .n_pages = PAGES,
                                 .n_slots = 2,
                                 .slot = c->slot };
    for (int i = 0; i < 2 * PAGES; i++) /* two sequences, pages scattered and interleaved */
        c->table[i] = (i / PAGES + i % PAGES * 2 + 5) % PAGES;
}

static void use_cache(test_batch *b, const cache *c)
{
    b->b.page_table[0] = c->table;
    b->b.max_pages = PAGES;
}

/* Feeds rows [from, from + n) of one sequence as a step on top of what the cache has. */
static void feed_chunk(const qn_attr_attention *a, cache *c, const rows *all, int from, int n,
                       rows *out)
{
    static rows part;
    test_batch b;
    batch_init(&b, (int32_t[]){ n }, 1);
    b.kv_len[0] = from;
    for (int i = 0; i < n; i++)
        b.pos[i] = b.see[i] = from + i;
    use_cache(&b, c);
    memcpy(part.q, all->q + from * QW, (size_t)n * QW * sizeof(float));
    memcpy(part.k, all->k + from * KW, (size_t)n * KW * sizeof(float));
    memcpy(part.v, all->v + from * VW, (size_t)n * VW * sizeof(float));
    run(a, &b, &c->st, &part, NULL);
    memcpy(out->y + from * OW, part.y, (size_t)n * OW * sizeof(float));
}

static void test_cache_f32_equals_none(void **state)
{
    (void)state;
    qn_attr_attention a = plain;
    a.kv_slot = 1;
    static rows r, cached;
    rows_init(&r, 50);
    test_batch b;
    batch_init(&b, (int32_t[]){ TOKENS }, 1);
    run(&a, &b, NULL, &r, NULL);
    cache c;
    cache_init(&c, QN_F32);
    feed_chunk(&a, &c, &r, 0, TOKENS, &cached);
    assert_memory_equal(r.y, cached.y, TOKENS * OW * sizeof(float));
    free(c.memory);
}

static void test_chunks_and_company(void **state)
{
    (void)state;
    const uint8_t layouts[] = { QN_F32, QN_F16, QN_BF16 };
    static rows r, whole, parts, both;
    rows_init(&r, 60);
    for (int l = 0; l < 3; l++) {
        qn_attr_attention a = plain;
        a.kv_slot = 1;
        a.window = l == 1 ? 5 : 0;
        cache c;
        cache_init(&c, layouts[l]);
        feed_chunk(&a, &c, &r, 0, TOKENS, &whole);
        memset(c.memory, 0xFF, PAGES * c.st.kv[0].page_bytes); /* NaN: nothing stale may be read */
        feed_chunk(&a, &c, &r, 0, 3, &parts);
        feed_chunk(&a, &c, &r, 3, 6, &parts);
        for (int i = 9; i < TOKENS; i++)
            feed_chunk(&a, &c, &r, i, 1, &parts);
        assert_memory_equal(whole.y, parts.y, TOKENS * OW * sizeof(float));
        /* The same rows as the second of two sequences. */
        test_batch b;
        batch_init(&b, (int32_t[]){ 4, TOKENS }, 2);
        use_cache(&b, &c);
        rows_init(&both, 61);
        memcpy(both.q + 4 * QW, r.q, TOKENS * QW * sizeof(float));
        memcpy(both.k + 4 * KW, r.k, TOKENS * KW * sizeof(float));
        memcpy(both.v + 4 * VW, r.v, TOKENS * VW * sizeof(float));
        run(&a, &b, &c.st, &both, NULL);
        assert_memory_equal(whole.y, both.y + 4 * OW, TOKENS * OW * sizeof(float));
        free(c.memory);
    }
}

/* What is read is what the cache type holds: rounding k and v first changes nothing. */
static void test_reads_as_stored(void **state)
{
    (void)state;
    qn_attr_attention a = plain;
    static rows r, first, second;
    rows_init(&r, 70);
    cache c;
    cache_init(&c, QN_F16);
    feed_chunk(&a, &c, &r, 0, TOKENS, &first);
    for (int i = 0; i < MAX_ROWS * KW; i++)
        r.k[i] = qn_f16_to_f32(qn_f32_to_f16(r.k[i]));
    for (int i = 0; i < MAX_ROWS * VW; i++)
        r.v[i] = qn_f16_to_f32(qn_f32_to_f16(r.v[i]));
    feed_chunk(&a, &c, &r, 0, TOKENS, &second);
    assert_memory_equal(first.y, second.y, TOKENS * OW * sizeof(float));
    double want[TOKENS * OW];
    int32_t see[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        see[i] = i;
    dense(&a, &r, see, TOKENS, NULL, want);
    assert_near(first.y, want, TOKENS * OW, 1e-6);
    free(c.memory);
}

/* A list of exactly the keys that a window or a chunk shows gives the bits of the window or the chunk. */
static void test_chosen_keys(void **state)
{
    (void)state;
    enum { MOST = 6 };
    static rows r;
    rows_init(&r, 5);
    test_batch b;
    batch_init(&b, (const int32_t[]){ TOKENS, 3 }, 2);
    for (int chunked = 0; chunked < 2; chunked++) {
        qn_attr_attention a = plain;
        a.window = chunked ? 0 : 3;
        a.chunk = chunked ? 4 : 0;
        run(&a, &b, NULL, &r, NULL);
        float want[(TOKENS + 3) * OW];
        memcpy(want, r.y, sizeof want);
        int32_t list[(TOKENS + 3) * MOST];
        for (int i = 0; i < TOKENS + 3; i++) {
            int32_t at = b.see[i], from = chunked ? at - at % 4 : at - 2 > 0 ? at - 2 : 0, n = 0;
            for (int32_t j = from; j <= at; j++)
                list[i * MOST + n++] = j;
            for (; n < MOST; n++)
                list[i * MOST + n] = -1;
        }
        op_call t;
        call_init(&t, &qn_op_attention, &plain, &b);
        t.c.in[0] = tensor(r.q, TOKENS + 3, QW);
        t.c.in[1] = tensor(r.k, TOKENS + 3, KW);
        t.c.in[2] = tensor(r.v, TOKENS + 3, VW);
        t.c.in[4] = tensor(list, TOKENS + 3, MOST);
        t.c.out[0] = tensor(r.y, TOKENS + 3, OW);
        call_run(&t);
        assert_memory_equal(r.y, want, sizeof want);
    }
}

/* Choosing by a full sort, ties to the lower index; one head has a negative weight. */
static void test_key_select(void **state)
{
    (void)state;
    enum { D = 3, H = 2, TOP = 4, N = 12 };
    float q[N * H * D], k[N * D], w[N * H];
    int32_t got[N * TOP];
    uint64_t seed = 77;
    rng_fill(&seed, q, N * H * D, -1, 1);
    rng_fill(&seed, k, N * D, -1, 1);
    rng_fill(&seed, w, N * H, -0.3f, 1);
    memcpy(k + 5 * D, k + 2 * D, D * sizeof *k); /* equal keys: equal scores */
    test_batch b;
    batch_init(&b, (const int32_t[]){ N }, 1);
    const qn_attr_key_select a = { .n_heads = H, .dim = D, .top_k = TOP, .scale = 0.5f };
    op_call t;
    call_init(&t, &qn_op_key_select, &a, &b);
    t.c.in[0] = tensor(q, N, H * D);
    t.c.in[1] = tensor(k, N, D);
    t.c.in[2] = tensor(w, N, H);
    t.c.out[0] = tensor(got, N, TOP);
    call_run(&t);
    for (int r = 0; r < N; r++) {
        double s[N];
        for (int j = 0; j <= r; j++) {
            s[j] = 0;
            for (int h = 0; h < H; h++) {
                double dot = 0;
                for (int d = 0; d < D; d++)
                    dot += (double)q[(r * H + h) * D + d] * k[j * D + d];
                s[j] += w[r * H + h] * (dot > 0 ? a.scale * dot : 0);
            }
        }
        int n = 0;
        for (int j = 0; j <= r;
             j++) { /* chosen when fewer than TOP are better, or equal and before it */
            int better = 0;
            for (int i = 0; i <= r; i++)
                better += s[i] > s[j] || (s[i] == s[j] && i < j);
            if (better < TOP)
                assert_int_equal(got[r * TOP + n++], j);
        }
        for (; n < TOP; n++)
            assert_int_equal(got[r * TOP + n], -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_span),
        cmocka_unit_test(test_both_ways),
        cmocka_unit_test(test_cache_f32_equals_none),
        cmocka_unit_test(test_chunks_and_company),
        cmocka_unit_test(test_reads_as_stored),
        cmocka_unit_test(test_chosen_keys),
        cmocka_unit_test(test_key_select),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
