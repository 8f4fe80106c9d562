/* kv.c - see kv.h. */
#include "cache/kv.h"

#include <assert.h>

#include "base/error.h"

enum { ALIGN = 64 }; /* of K and V runs inside a page: a cache line */

static size_t align_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static int32_t pages_for(int64_t n_tok)
{
    return (int32_t)((n_tok + QN_KV_PAGE - 1) / QN_KV_PAGE);
}

static int32_t min32(int64_t a, int64_t b)
{
    return (int32_t)(a < b ? a : b);
}

/* ---- sizes ---- */

/* What a group's pages look like; slots are counted by the caller's array. */
typedef struct group_form {
    size_t page_bytes;
    int32_t n_slots, window;
} group_form;

/* Lays the slots of group `id` out in a page. slot may be NULL when only the size is wanted. */
static group_form lay_out(const qn_graph *g, int32_t id, bool exact, qn_kv_slot *slot)
{
    group_form f = { 0 };
    size_t elem = exact ? 4 : 2;
    for (int32_t i = 0; i < g->n_kv; i++) {
        const qn_kv_need *need = &g->kv[i];
        if (need->group != id)
            continue;
        size_t rows = (size_t)need->n_kv_heads * QN_KV_PAGE;
        size_t k_at = f.page_bytes, v_at = k_at + align_up(rows * (size_t)need->k_dim * elem);
        if (slot)
            slot[need->slot] = (qn_kv_slot){ .k_offset = k_at,
                                             .v_offset = v_at,
                                             .n_kv_heads = need->n_kv_heads,
                                             .k_dim = need->k_dim,
                                             .v_dim = need->v_dim,
                                             .k_layout = exact ? QN_F32 : QN_F16,
                                             .v_layout = exact ? QN_F32 : QN_F16 };
        f.page_bytes = v_at + align_up(rows * (size_t)need->v_dim * elem);
        f.window = need->window;
        if (need->slot >= f.n_slots)
            f.n_slots = need->slot + 1;
    }
    return f;
}

/* Pages a group of this window needs when `tokens` entries are kept by up to n_seqs sequences. A window
 * holds its own length, the rows of a step, and a page torn at either end. */
static int32_t group_pages(int32_t window, const qn_kv_options *o, int64_t tokens)
{
    int64_t all = pages_for(tokens);
    if (window == 0)
        return (int32_t)all;
    int64_t one = pages_for(min32(o->context, (int64_t)window + o->chunk)) + 2;
    return min32(one * o->max_seqs, all + 2 * (int64_t)o->max_seqs);
}

static size_t total_bytes(const group_form *form, int32_t n, const qn_kv_options *o, int64_t tokens)
{
    size_t sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += (size_t)group_pages(form[i].window, o, tokens) * form[i].page_bytes;
    return sum;
}

size_t qn_kv_bytes(const qn_graph *g, int64_t n_tok, bool exact)
{
    qn_kv_options o = { .context = min32(n_tok, INT32_MAX), .max_seqs = 1 };
    size_t sum = 0;
    for (int32_t id = 0; id < g->n_kv_groups; id++) {
        group_form f = lay_out(g, id, exact, NULL);
        sum += total_bytes(&f, 1, &o, n_tok);
    }
    return sum;
}

size_t qn_kv_state_bytes(const qn_graph *g)
{
    return (size_t)g->state_floats * sizeof(float);
}

/* The largest number of tokens, in whole pages, whose cache fits max_bytes; bisection, as windows make
 * the sum no straight line. */
static int64_t fit_tokens(const group_form *form, int32_t n, const qn_kv_options *o, int64_t tokens)
{
    if (o->max_bytes == 0 || total_bytes(form, n, o, tokens) <= o->max_bytes)
        return tokens;
    int64_t low = 0, high = pages_for(tokens);
    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;
        if (total_bytes(form, n, o, mid * QN_KV_PAGE) <= o->max_bytes)
            low = mid;
        else
            high = mid;
    }
    return low * QN_KV_PAGE;
}

/* ---- opening ---- */

static int open_group(qn_kv_cache *c, int32_t id, const group_form *f, int32_t n_pages,
                      qn_error *err)
{
    size_t bytes = (size_t)n_pages * f->page_bytes;
    uint8_t *base = c->backend->alloc(c->backend, bytes);
    if (!base)
        return qn_fail(err, QN_ERR_MEMORY,
                       "the key/value cache needs %.1f MB, which %s does not have",
                       (double)bytes / 1e6, c->backend->name);
    c->state.kv[id] = (qn_kv_group){ .base = base,
                                     .page_bytes = f->page_bytes,
                                     .page_size = QN_KV_PAGE,
                                     .n_pages = n_pages,
                                     .n_slots = f->n_slots,
                                     .slot = c->slots[id] };
    c->window[id] = f->window;
    c->bytes += bytes;
    qn_pages_init(&c->pages[id], n_pages);
    return QN_OK;
}

/* A slot for each sequence that may run. */
static int open_states(qn_kv_cache *c, const qn_graph *g, int32_t n_seqs, qn_error *err)
{
    size_t bytes;
    qn_state *s = &c->state;
    if (g->state_floats == 0)
        return QN_OK;
    if (!__builtin_mul_overflow(qn_kv_state_bytes(g), (size_t)n_seqs, &bytes))
        s->slots = c->backend->alloc(c->backend, bytes);
    if (!s->slots)
        return qn_fail(err, QN_ERR_MEMORY,
                       "the states of %d sequences need %.1f MB, which %s does not have", n_seqs,
                       (double)qn_kv_state_bytes(g) * n_seqs / 1e6, c->backend->name);
    s->slot_floats = g->state_floats;
    s->n_slots = n_seqs;
    c->bytes += bytes;
    qn_pages_init(&c->states, n_seqs);
    return QN_OK;
}

/* Bytes of the budget that pages may take; 0 stays no limit, so a budget that is used up is 1. */
static size_t left_for_pages(const qn_graph *g, const qn_kv_options *o)
{
    size_t states = qn_kv_state_bytes(g), n = (size_t)o->max_seqs;
    if (o->max_bytes == 0 || states == 0)
        return o->max_bytes;
    return states < o->max_bytes / n ? o->max_bytes - states * n : 1;
}

int qn_kv_open(qn_kv_cache **out, qn_backend *be, const qn_graph *g, const qn_kv_options *opt,
               qn_error *err)
{
    group_form form[QN_MAX_KV_GROUPS];
    *out = NULL;
    assert(g->n_kv_groups <= QN_MAX_KV_GROUPS && opt->context > 0 && opt->max_seqs > 0);
    qn_kv_cache *c = qn_alloc(sizeof *c);
    c->backend = be;
    c->state.n_kv = g->n_kv_groups;
    for (int32_t id = 0; id < g->n_kv_groups; id++) {
        c->slots[id] = qn_alloc_n((size_t)g->n_kv, sizeof **c->slots);
        form[id] = lay_out(g, id, opt->exact, c->slots[id]);
    }
    int64_t want = opt->tokens ? opt->tokens : opt->context;
    qn_kv_options pages = *opt; /* what the states leave of the budget */
    pages.max_bytes = left_for_pages(g, opt);
    int64_t tokens = fit_tokens(form, g->n_kv_groups, &pages, want);
    c->context = min32(opt->context, tokens);
    int rc = QN_OK;
    if (tokens == 0)
        rc = qn_fail(err, QN_ERR_MEMORY,
                     "the key/value cache needs at least %.1f MB, and may have %.1f MB",
                     (double)total_bytes(form, g->n_kv_groups, opt, QN_KV_PAGE) / 1e6,
                     (double)opt->max_bytes / 1e6);
    for (int32_t id = 0; id < g->n_kv_groups && rc == QN_OK; id++)
        rc = open_group(c, id, &form[id], group_pages(form[id].window, opt, tokens), err);
    if (rc == QN_OK)
        rc = open_states(c, g, opt->max_seqs, err);
    if (rc != QN_OK) {
        qn_kv_close(c);
        return rc;
    }
    *out = c;
    return QN_OK;
}

void qn_kv_close(qn_kv_cache *c)
{
    if (!c)
        return;
    for (int32_t id = 0; id < c->state.n_kv; id++) {
        if (c->state.kv[id].base)
            c->backend->free(c->backend, c->state.kv[id].base);
        qn_pages_free(&c->pages[id]);
        qn_free(c->slots[id]);
    }
    if (c->state.slots)
        c->backend->free(c->backend, c->state.slots);
    qn_pages_free(&c->states);
    qn_free(c);
}

int64_t qn_kv_free_tokens(const qn_kv_cache *c)
{
    int64_t least = INT32_MAX;
    for (int32_t id = 0; id < c->state.n_kv; id++)
        if (c->window[id] == 0 && c->pages[id].n_free < least)
            least = c->pages[id].n_free;
    return least * QN_KV_PAGE;
}

/* ---- sequences ---- */

/* Pages a table still lacks for entries [0, end). */
static int32_t missing(const qn_kv_table *t, int64_t end)
{
    int32_t need = pages_for(end);
    return need > t->n ? need - t->n : 0;
}

/* A slot for the sequence's state, unless it has one. False when all are taken. */
static bool take_state(qn_kv_seq *s)
{
    if (s->has_state || !s->cache->state.slots)
        return true;
    s->state_slot = qn_pages_take(&s->cache->states);
    s->has_state = s->state_slot >= 0;
    return s->has_state;
}

static float *state_of(const qn_kv_seq *s)
{
    return s->cache->state.slots + s->state_slot * s->cache->state.slot_floats;
}

bool qn_kv_reserve(qn_kv_seq *s, int32_t n)
{
    qn_kv_cache *c = s->cache;
    int64_t end = (int64_t)s->len + n;
    for (int32_t id = 0; id < c->state.n_kv; id++)
        if (missing(&s->table[id], end) > c->pages[id].n_free)
            return false;
    if (!take_state(s))
        return false;
    for (int32_t id = 0; id < c->state.n_kv; id++) {
        qn_kv_table *t = &s->table[id];
        for (int32_t k = missing(t, end); k > 0; k--) {
            QN_GROW(t->page, t->n, t->cap);
            t->page[t->n++] = qn_pages_take(&c->pages[id]);
        }
    }
    return true;
}

/* Gives back a group's pages that no row at index >= len can see. Their table entries become 0: kernels may
 * load (and mask) a whole tile, so every entry must name a page that exists. */
static void drop_left_window(qn_kv_seq *s, int32_t id)
{
    qn_kv_table *t = &s->table[id];
    int32_t window = s->cache->window[id];
    if (window == 0)
        return;
    /* The row at index i sees j > i - window; the next row is at len. */
    int32_t first_seen = s->len - window + 1;
    while (t->first < t->n && (t->first + 1) * QN_KV_PAGE <= first_seen) {
        qn_pages_drop(&s->cache->pages[id], t->page[t->first]);
        t->page[t->first++] = 0;
    }
}

static void give_pages(qn_kv_seq *s)
{
    for (int32_t id = 0; s->cache && id < s->cache->state.n_kv; id++) {
        qn_kv_table *t = &s->table[id];
        while (t->n > t->first)
            qn_pages_drop(&s->cache->pages[id], t->page[--t->n]);
        qn_free(t->page);
        *t = (qn_kv_table){ 0 };
    }
}

void qn_kv_commit(qn_kv_seq *s, int32_t n)
{
    s->len += n;
    for (int32_t id = 0; id < s->cache->state.n_kv; id++) {
        assert(missing(&s->table[id], s->len) == 0);
        drop_left_window(s, id);
    }
}

/* Whether the row at index n would find all it may see. */
static bool can_resume(const qn_kv_seq *s, int32_t n)
{
    for (int32_t id = 0; id < s->cache->state.n_kv; id++) {
        int32_t window = s->cache->window[id], first = s->table[id].first;
        int32_t first_seen = n - window + 1 > 0 ? n - window + 1 : 0;
        if (window && first_seen < n && first_seen < first * QN_KV_PAGE)
            return false;
    }
    return true;
}

/* n, or less when entry n would be written into a page that another sequence reads. */
static int32_t writable(const qn_kv_seq *s, int32_t n)
{
    int32_t at = n / QN_KV_PAGE;
    for (int32_t id = 0; id < s->cache->state.n_kv && n % QN_KV_PAGE; id++) {
        const qn_kv_table *t = &s->table[id];
        if (at >= t->first && at < t->n && s->cache->pages[id].refs[t->page[at]] > 1)
            return at * QN_KV_PAGE;
    }
    return n;
}

int32_t qn_kv_truncate(qn_kv_seq *s, int32_t n)
{
    assert(n >= 0 && n <= s->len);
    n = writable(s, n);
    if (!can_resume(s, n) || (s->has_state && n < s->len))
        n = 0;
    else if (n == s->len) /* pages reserved for what comes next stay */
        return n;
    if (n == 0) {
        qn_kv_release(s);
        return 0;
    }
    for (int32_t id = 0; id < s->cache->state.n_kv; id++) {
        qn_kv_table *t = &s->table[id];
        while (t->n > pages_for(n) && t->n > t->first)
            qn_pages_drop(&s->cache->pages[id], t->page[--t->n]);
    }
    s->len = n;
    return n;
}

int32_t qn_kv_share(qn_kv_seq *s, const qn_kv_seq *src, int32_t n)
{
    assert(s->len == 0 && s->cache == src->cache);
    int32_t n_pages = min32(n, src->len) / QN_KV_PAGE;
    if (n_pages == 0 || !can_resume(src, n_pages * QN_KV_PAGE))
        return 0;
    if (src->has_state && (n_pages * QN_KV_PAGE != src->len || !take_state(s)))
        return 0;
    give_pages(s);
    if (src->has_state)
        s->cache->backend->copy(s->cache->backend, state_of(s), state_of(src),
                                (size_t)s->cache->state.slot_floats * sizeof(float));
    for (int32_t id = 0; id < s->cache->state.n_kv; id++) {
        qn_kv_table *t = &s->table[id];
        t->first = src->table[id].first < n_pages ? src->table[id].first : n_pages;
        for (int32_t i = 0; i < n_pages; i++) {
            QN_GROW(t->page, t->n, t->cap);
            t->page[t->n++] = src->table[id].page[i];
            if (i >= t->first)
                qn_pages_ref(&s->cache->pages[id], t->page[i]);
        }
    }
    s->len = n_pages * QN_KV_PAGE;
    return s->len;
}

void qn_kv_release(qn_kv_seq *s)
{
    give_pages(s);
    if (s->has_state)
        qn_pages_drop(&s->cache->states, s->state_slot);
    s->has_state = false;
    s->len = 0;
}
