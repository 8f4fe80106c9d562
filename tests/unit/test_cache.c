/* test_cache.c - the paged cache under random work: pages are never lost, shared wrongly, or handed out twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/kv.h"

static void *fake_alloc(qn_backend *be, size_t bytes)
{
    (void)be;
    return bytes > (1u << 30) ? NULL : calloc(1, bytes);
}

static void fake_free(qn_backend *be, void *p)
{
    (void)be;
    free(p);
}

static void fake_copy(qn_backend *be, void *dst, const void *src, size_t bytes)
{
    (void)be;
    memcpy(dst, src, bytes);
}

static qn_backend fake = {
    .name = "fake", .alloc = fake_alloc, .free = fake_free, .copy = fake_copy
};

static uint32_t random_below(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % n;
}

/* A graph that only has cache needs: `n` layers, every second one with the window. */
static void make_graph(qn_graph *g, int n, int window)
{
    qn_graph_init(g);
    for (int i = 0; i < n; i++)
        qn_graph_kv(
            g,
            (qn_kv_need){ .n_kv_heads = 3, .k_dim = 10, .v_dim = 6, .window = i % 2 ? window : 0 });
    assert_int_equal(g->err.code, QN_OK);
}

static qn_kv_cache *make_cache(const qn_graph *g, qn_kv_options opt)
{
    qn_kv_cache *c;
    qn_error err = { 0 };
    assert_int_equal(qn_kv_open(&c, &fake, g, &opt, &err), QN_OK);
    return c;
}

static void pages_random(void **state)
{
    (void)state;
    enum { N = 37, STEPS = 20000 };
    qn_pages p;
    int refs[N] = { 0 };
    uint64_t rng = 1;
    qn_pages_init(&p, N);
    for (int i = 0; i < STEPS; i++) {
        int page = (int)random_below(&rng, N);
        if (random_below(&rng, 3) == 0) {
            int got = qn_pages_take(&p);
            int used = 0;
            for (int k = 0; k < N; k++)
                used += refs[k] > 0;
            assert_int_equal(got < 0, used == N);
            if (got >= 0) {
                assert_int_equal(refs[got], 0);
                refs[got] = 1;
            }
        } else if (refs[page] > 0 && random_below(&rng, 3) == 0) {
            qn_pages_ref(&p, page);
            refs[page]++;
        } else if (refs[page] > 0) {
            qn_pages_drop(&p, page);
            refs[page]--;
        }
    }
    for (int k = 0; k < N; k++)
        while (refs[k]-- > 0)
            qn_pages_drop(&p, k);
    assert_int_equal(p.n_free, N);
    qn_pages_free(&p);
}

/* Fresh pages come in ascending order and a returned one comes first: untouched memory stays untouched. */
static void pages_order(void **state)
{
    (void)state;
    qn_pages p;
    qn_pages_init(&p, 3);
    assert_int_equal(qn_pages_take(&p), 0);
    assert_int_equal(qn_pages_take(&p), 1);
    qn_pages_drop(&p, 0);
    assert_int_equal(qn_pages_take(&p), 0);
    assert_int_equal(qn_pages_take(&p), 2);
    assert_int_equal(qn_pages_take(&p), -1);
    qn_pages_free(&p);
}

/* Runs of K and V must not overlap, must lie within the page, and must be aligned. */
static void layout(void **state)
{
    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        qn_graph g;
        make_graph(&g, 5, 40);
        qn_kv_cache *c = make_cache(
            &g, (qn_kv_options){ .context = 100, .max_seqs = 2, .chunk = 8, .exact = exact });
        assert_int_equal(c->state.n_kv, 2);
        assert_int_equal(c->state.kv[0].n_slots + c->state.kv[1].n_slots, 5);
        size_t elem = exact ? 4 : 2;
        for (int id = 0; id < 2; id++) {
            const qn_kv_group *kv = &c->state.kv[id];
            size_t end = 0;
            for (int s = 0; s < kv->n_slots; s++) {
                const qn_kv_slot *slot = &kv->slot[s];
                assert_int_equal(slot->k_layout, exact ? QN_F32 : QN_F16);
                assert_int_equal(slot->k_offset % 64, 0);
                assert_true(slot->k_offset >= end);
                end = slot->k_offset + 3 * QN_KV_PAGE * 10 * elem;
                assert_int_equal(slot->v_offset % 64, 0);
                assert_true(slot->v_offset >= end);
                end = slot->v_offset + 3 * QN_KV_PAGE * 6 * elem;
            }
            assert_true(end <= kv->page_bytes);
        }
        assert_true(qn_kv_bytes(&g, 100, exact) <= c->bytes);
        qn_kv_close(c);
        qn_graph_free(&g);
    }
}

/* What a sequence's next rows may see must always be on pages of its own or shared with it rightly. */
static void check_seq(const qn_kv_seq *s, int32_t *users[QN_MAX_KV_GROUPS])
{
    for (int id = 0; id < s->cache->state.n_kv; id++) {
        const qn_kv_table *t = &s->table[id];
        int window = s->cache->window[id];
        int first_seen = window && s->len - window + 1 > 0 ? s->len - window + 1 : 0;
        assert_true(t->n * QN_KV_PAGE >= s->len);
        if (s->len > first_seen)
            assert_true(t->first * QN_KV_PAGE <= first_seen);
        for (int i = t->first; i < t->n; i++)
            users[id][t->page[i]]++;
        for (int i = 0; i < t->n; i++)
            assert_in_range(t->page[i], 0, s->cache->pages[id].n_pages - 1);
        if (window) /* pages wholly behind the window went back */
            assert_true((t->first + 1) * QN_KV_PAGE > first_seen || t->first == t->n);
    }
}

static void check_all(qn_kv_cache *c, const qn_kv_seq *seqs, int n)
{
    int32_t *users[QN_MAX_KV_GROUPS] = { 0 };
    for (int id = 0; id < c->state.n_kv; id++)
        users[id] = calloc((size_t)c->pages[id].n_pages, sizeof **users);
    for (int i = 0; i < n; i++)
        check_seq(&seqs[i], users);
    for (int id = 0; id < c->state.n_kv; id++) {
        for (int p = 0; p < c->pages[id].n_pages; p++)
            assert_int_equal(users[id][p], c->pages[id].refs[p]);
        free(users[id]);
    }
}

static void sequences_random(void **state)
{
    (void)state;
    enum { N = 5, STEPS = 6000 };
    qn_graph g;
    make_graph(&g, 4, 50);
    qn_kv_cache *c = make_cache(
        &g, (qn_kv_options){ .context = 600, .max_seqs = N, .chunk = 64, .tokens = 1500 });
    qn_kv_seq seqs[N];
    uint64_t rng = 7;
    for (int i = 0; i < N; i++)
        seqs[i] = (qn_kv_seq){ .cache = c };
    for (int step = 0; step < STEPS; step++) {
        qn_kv_seq *s = &seqs[random_below(&rng, N)], *other = &seqs[random_below(&rng, N)];
        int n = (int)random_below(&rng, 64) + 1;
        switch (random_below(&rng, 8)) {
        case 0:
            qn_kv_truncate(s, (int)random_below(&rng, (uint32_t)s->len + 1));
            break;
        case 1:
            if (s != other && s->len == 0)
                qn_kv_share(s, other, (int)random_below(&rng, (uint32_t)other->len + 1));
            break;
        case 2:
            qn_kv_release(s);
            break;
        default:
            if (s->len + n <= 600 && qn_kv_reserve(s, n))
                qn_kv_commit(s, n);
        }
        check_all(c, seqs, N);
    }
    for (int i = 0; i < N; i++)
        qn_kv_release(&seqs[i]);
    for (int id = 0; id < c->state.n_kv; id++)
        assert_int_equal(c->pages[id].n_free, c->pages[id].n_pages);
    qn_kv_close(c);
    qn_graph_free(&g);
}

/* A window of w costs about w, however long the sequence grows; going back is possible only within it. */
static void window_gives_pages_back(void **state)
{
    (void)state;
    qn_graph g;
    make_graph(&g, 2, 64);
    qn_kv_cache *c = make_cache(&g, (qn_kv_options){ .context = 4096, .max_seqs = 1, .chunk = 32 });
    int windowed = c->window[0] ? 0 : 1;
    qn_kv_seq s = { .cache = c };
    for (int i = 0; i < 4096; i += 32) {
        assert_true(qn_kv_reserve(&s, 32));
        qn_kv_commit(&s, 32);
    }
    const qn_kv_table *t = &s.table[windowed];
    assert_true((t->n - t->first) * QN_KV_PAGE <= 64 + 32 + QN_KV_PAGE);
    assert_true(c->pages[windowed].n_pages * QN_KV_PAGE <= 64 + 32 + 3 * QN_KV_PAGE);
    assert_int_equal(qn_kv_truncate(&s, 4095), 4095);
    assert_int_equal(qn_kv_truncate(&s, 2000), 0);
    assert_int_equal(s.len, 0);
    qn_kv_close(c);
    qn_graph_free(&g);
}

/* Cutting into a page that another sequence reads keeps only whole pages. */
static void shared_pages_are_not_written(void **state)
{
    (void)state;
    qn_graph g;
    make_graph(&g, 1, 0);
    qn_kv_cache *c = make_cache(&g, (qn_kv_options){ .context = 512, .max_seqs = 2, .chunk = 512 });
    qn_kv_seq a = { .cache = c }, b = { .cache = c };
    assert_true(qn_kv_reserve(&a, 100));
    qn_kv_commit(&a, 100);
    assert_int_equal(qn_kv_share(&b, &a, 99), 96);
    assert_int_equal(b.table[0].page[2], a.table[0].page[2]);
    assert_int_equal(qn_kv_truncate(&a, 70), 64);
    assert_int_equal(qn_kv_truncate(&b, 64), 64);
    assert_true(qn_kv_reserve(&b, 1));
    assert_int_not_equal(c->pages[0].refs[b.table[0].page[2]], 2);
    qn_kv_release(&a);
    qn_kv_release(&b);
    assert_int_equal(qn_kv_free_tokens(c), 512);
    qn_kv_close(c);
    qn_graph_free(&g);
}

static void budget(void **state)
{
    (void)state;
    qn_graph g;
    qn_error err = { 0 };
    make_graph(&g, 4, 50);
    qn_kv_options opt = { .context = 100000, .max_seqs = 2, .chunk = 64 };
    opt.max_bytes = 4 << 20;
    qn_kv_cache *c = make_cache(&g, opt);
    assert_true(c->bytes <= opt.max_bytes);
    assert_true(c->bytes > opt.max_bytes / 10 * 9); /* and uses what it may */
    assert_true(c->context < 100000 && c->context > 1000);
    qn_kv_close(c);

    opt.max_bytes = 1000;
    assert_int_equal(qn_kv_open(&c, &fake, &g, &opt, &err), QN_ERR_MEMORY);
    assert_null(c);
    assert_non_null(strstr(err.msg, "needs at least"));

    opt.max_bytes = 0; /* no limit given, and the backend has not as much */
    opt.context = INT32_MAX / 2;
    assert_int_equal(qn_kv_open(&c, &fake, &g, &opt, &err), QN_ERR_MEMORY);
    qn_graph_free(&g);
}

/* A failed reservation leaves the sequence as it was. */
static void reserve_is_all_or_nothing(void **state)
{
    (void)state;
    qn_graph g;
    make_graph(&g, 2, 64);
    qn_kv_cache *c = make_cache(&g, (qn_kv_options){ .context = 128, .max_seqs = 1, .chunk = 32 });
    qn_kv_seq s = { .cache = c };
    assert_true(qn_kv_reserve(&s, 64));
    int before[2] = { c->pages[0].n_free, c->pages[1].n_free };
    assert_false(qn_kv_reserve(&s, 1000));
    assert_int_equal(c->pages[0].n_free, before[0]);
    assert_int_equal(c->pages[1].n_free, before[1]);
    qn_kv_release(&s);
    qn_kv_close(c);
    qn_graph_free(&g);
}

/* Slots go with sequences: as many as there are sequences, given back with them, copied with a shared prefix;
 * a sequence that has a state is kept whole or not at all. */
static void states(void **state)
{
    (void)state;
    qn_graph g;
    make_graph(&g, 1, 0);
    int64_t first = qn_graph_state(&g, 5), second = qn_graph_state(&g, 40);
    assert_int_equal(first, 0);
    assert_true(second >= 5 && second % 16 == 0 && g.state_floats >= second + 40);
    assert_int_equal(qn_kv_state_bytes(&g), g.state_floats * 4);
    qn_kv_cache *c = make_cache(&g, (qn_kv_options){ .context = 256, .max_seqs = 2, .chunk = 64 });
    qn_kv_seq a = { .cache = c }, b = { .cache = c }, d = { .cache = c };
    assert_true(qn_kv_reserve(&a, 64));
    qn_kv_commit(&a, 64);
    c->state.slots[a.state_slot * c->state.slot_floats + second + 39] = 7;
    assert_int_equal(qn_kv_share(&b, &a, 63), 0); /* the state is that of 64 tokens */
    assert_int_equal(qn_kv_share(&b, &a, 64), 64);
    assert_int_not_equal(a.state_slot, b.state_slot);
    assert_true(c->state.slots[b.state_slot * c->state.slot_floats + second + 39] == 7);
    int32_t free_pages = c->pages[0].n_free;
    assert_false(qn_kv_reserve(&d, 1)); /* two slots, both taken */
    assert_int_equal(c->pages[0].n_free, free_pages);
    assert_int_equal(qn_kv_truncate(&b, 64), 64);
    assert_int_equal(qn_kv_truncate(&b, 32), 0);
    assert_true(qn_kv_reserve(&d, 1));
    qn_kv_release(&a);
    qn_kv_release(&d);
    assert_int_equal(c->states.n_free, 2);
    qn_kv_close(c);
    /* States are taken out of the budget before pages. */
    size_t page = qn_kv_bytes(&g, QN_KV_PAGE, false), both = 2 * qn_kv_state_bytes(&g);
    qn_kv_options tight = { .context = 256, .max_seqs = 2, .chunk = 64 };
    tight.max_bytes = 3 * page + both;
    c = make_cache(&g, tight);
    assert_int_equal(c->context, 3 * QN_KV_PAGE);
    assert_int_equal(c->bytes, tight.max_bytes);
    qn_kv_close(c);
    tight.max_bytes = both / 2;
    qn_error err = { 0 };
    assert_int_equal(qn_kv_open(&c, &fake, &g, &tight, &err), QN_ERR_MEMORY);
    qn_graph_state(&g, INT64_MAX - 100);
    assert_int_equal(g.err.code, QN_ERR_LIMIT);
    qn_graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_random),
        cmocka_unit_test(states),
        cmocka_unit_test(pages_order),
        cmocka_unit_test(layout),
        cmocka_unit_test(sequences_random),
        cmocka_unit_test(window_gives_pages_back),
        cmocka_unit_test(shared_pages_are_not_written),
        cmocka_unit_test(budget),
        cmocka_unit_test(reserve_is_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
