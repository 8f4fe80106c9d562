/* pack.c - the store of repacked weights, and qn_backend.prepare that fills it.
 *
 * Weights that products read are rewritten as panels (kernels/matmul), of the same size as the file's bytes or
 * nearly, in one block of memory a graph. The file's own pages are then given back, weight by weight, so that
 * a model is never resident twice; what still reads them (an embedding look-up in a tied matrix) faults single
 * pages in again. Vectors that are not f32 are decoded once. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/cpu.h"
#include "base/log.h"
#include "base/mem.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* A weight is known by where its data lies and its shape: views made twice are the same. */
typedef struct entry {
    const void *data; /* NULL = free */
    int64_t rows, cols;
    const void *packed;
} entry;

typedef struct block {
    void *p;
    size_t bytes;
} block;

struct qn_pack_store {
    entry *entry; /* open addressing, n_entries * 2 <= cap, a power of two */
    size_t cap, n;
    block *block;
    size_t n_blocks, cap_blocks;
    size_t bytes; /* of all blocks */
};

static size_t hash_of(const void *data, int64_t rows)
{
    uint64_t h = (uint64_t)(uintptr_t)data * 0x9E3779B97F4A7C15U + (uint64_t)rows;
    return (size_t)(h ^ h >> 29);
}

static entry *slot_of(entry *table, size_t cap, const void *data, int64_t rows, int64_t cols)
{
    for (size_t i = hash_of(data, rows);; i++) {
        entry *e = &table[i & (cap - 1)];
        if (!e->data || (e->data == data && e->rows == rows && e->cols == cols))
            return e;
    }
}

static void store_put(qn_pack_store *s, const qn_weight *w, const void *packed)
{
    if ((s->n + 1) * 2 > s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        entry *table = qn_alloc_n(cap, sizeof *table);
        for (size_t i = 0; i < s->cap; i++) {
            const entry *e = &s->entry[i];
            if (e->data)
                *slot_of(table, cap, e->data, e->rows, e->cols) = *e;
        }
        qn_free(s->entry);
        s->entry = table;
        s->cap = cap;
    }
    int64_t rows = qn_weight_rows(w), cols = qn_weight_cols(w);
    entry *e = slot_of(s->entry, s->cap, w->data, rows, cols);
    *e = (entry){ w->data, rows, cols, packed };
    s->n++;
}

qn_pack_store *qn_pack_store_new(void)
{
    return qn_alloc(sizeof(qn_pack_store));
}

void qn_pack_store_free(qn_pack_store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_blocks; i++)
        munmap(s->block[i].p, s->block[i].bytes);
    qn_free(s->block);
    qn_free(s->entry);
    qn_free(s);
}

const void *qn_pack_store_find(const qn_pack_store *s, const qn_weight *w)
{
    if (s->n == 0 || !w->data)
        return NULL;
    return slot_of(s->entry, s->cap, w->data, qn_weight_rows(w), qn_weight_cols(w))->packed;
}

/* ---- which memory may be given back ---- */

typedef struct range {
    uintptr_t lo, hi;
} range;

/* Read-only mappings of files: only their pages come back as they were when dropped. */
typedef struct file_maps {
    range *r;
    size_t n, cap;
} file_maps;

static file_maps read_file_maps(void)
{
    file_maps m = { 0 };
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    while (f && fgets(line, sizeof line, f)) {
        uintptr_t lo, hi;
        char mode[8];
        unsigned long inode;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %lu", &lo, &hi, mode, &inode) != 4)
            continue; /* the rest of a line longer than the buffer */
        if (inode == 0 || mode[1] == 'w')
            continue;
        QN_GROW(m.r, m.n, m.cap);
        m.r[m.n++] = (range){ lo, hi };
    }
    if (f)
        fclose(f);
    return m;
}

static void give_back(const file_maps *m, const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), lo = (uintptr_t)data, hi = lo + bytes;
    lo = (lo + page - 1) / page * page;
    hi = hi / page * page;
    for (size_t i = 0; i < m->n; i++)
        if (lo < hi && lo >= m->r[i].lo && hi <= m->r[i].hi)
            madvise((void *)lo, hi - lo, MADV_DONTNEED);
}

/* ---- repacking ---- */

typedef struct packing {
    qn_cpu *cpu;
    const qn_weight *w;
    qn_panel_plan plan;
    uint8_t *dst;
} packing;

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t packed_bytes(const packing *p)
{
    return round_up(p->plan.panel_bytes * (size_t)(p->plan.n_panels * p->plan.n_matrices), 64);
}

/* Panels a thread takes at a time. */
#define TAKE 16

static void pack_thread(void *ctx, int ith)
{
    const packing *p = ctx;
    int64_t n = p->plan.n_panels * p->plan.n_matrices;
    (void)ith;
    for (int64_t i; (i = qn_pool_take(p->cpu->pool) * TAKE) < n;)
        for (int64_t k = i; k < i + TAKE && k < n; k++)
            qn_panel_pack(&p->cpu->kernels.matmul, &p->plan, p->w, k,
                          p->dst + (size_t)k * p->plan.panel_bytes, NULL);
}

/* True for input i of a node when it is a matrix that products read. */
static bool is_matrix_input(const qn_node *n, int i)
{
    return (n->op == &qn_op_linear && i == 1) || (n->op == &qn_op_linears && i > 0) ||
           (n->op == &qn_op_expert_linear && i == 1);
}

static bool is_small_vector(const qn_weight *w)
{
    return w->n_dims == 1 && w->layout != QN_F32;
}

/* The weights of g that gain from another form and have none yet, each once. */
static packing *find_work(qn_cpu *cpu, const qn_graph *g, size_t *n_work)
{
    packing *work = NULL;
    size_t n = 0, cap = 0;
    bool *seen = qn_alloc_n((size_t)g->n_nodes, sizeof *seen);
    for (int32_t id = 1; id < g->n_nodes; id++) {
        const qn_node *node = &g->node[id];
        for (int i = 0; i < node->n_in; i++) {
            const qn_node *in = qn_node_at(g, node->in[i]);
            if (node->in[i].id == 0 || in->op != &qn_op_weight || seen[node->in[i].id])
                continue;
            const qn_weight *w = ((const qn_attr_weight *)in->attr)->weight;
            packing p = { .cpu = cpu, .w = w };
            if (is_matrix_input(node, i))
                p.plan = qn_panel_plan_of(&cpu->kernels.matmul, w, cpu->opt.exact);
            else if (!is_small_vector(w))
                continue;
            seen[node->in[i].id] = true;
            if (p.plan.decoded || !w->data || qn_pack_store_find(cpu->packs, w))
                continue;
            QN_GROW(work, n, cap);
            work[n++] = p;
        }
    }
    qn_free(seen);
    *n_work = n;
    return work;
}

static size_t bytes_of(const packing *p)
{
    return p->plan.panel_bytes ? packed_bytes(p)
                               : round_up((size_t)qn_weight_elems(p->w) * sizeof(float), 64);
}

/* A block of zeroed memory for the store; NULL when there is none. Huge pages where the system gives them:
 * decode reads all of it for each token. */
static uint8_t *store_block(qn_pack_store *s, size_t bytes)
{
    size_t size = round_up(bytes, HUGE_PAGE) + HUGE_PAGE;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    QN_GROW(s->block, s->n_blocks, s->cap_blocks);
    s->block[s->n_blocks++] = (block){ p, size };
    s->bytes += bytes;
    uint8_t *at = (uint8_t *)round_up((uintptr_t)p, HUGE_PAGE);
    madvise(at, size - HUGE_PAGE, MADV_HUGEPAGE);
    return at;
}

/* Keeps what fits in the budget; returns its bytes. Earlier layers first: which does not matter. */
static size_t fit_budget(const qn_cpu *cpu, packing *work, size_t *n_work)
{
    size_t total = 0, kept = 0, budget = cpu->opt.repack_bytes;
    for (size_t i = 0; i < *n_work; i++) {
        size_t bytes = bytes_of(&work[i]);
        if (budget && (bytes > budget || cpu->packs->bytes + total > budget - bytes))
            continue;
        total += bytes;
        work[kept++] = work[i];
    }
    if (kept < *n_work)
        qn_log(QN_LOG_WARN, "cpu: %zu of %zu weights are repacked, the budget of %zu MB ends there",
               kept, *n_work, budget >> 20);
    *n_work = kept;
    return total;
}

int qn_cpu_prepare(qn_backend *be, const qn_graph *g, qn_error *err)
{
    qn_cpu *cpu = (qn_cpu *)be;
    (void)err; /* without repacked weights everything works, only slower */
    if (cpu->kernels.n == 0)
        return QN_OK;
    size_t n_work;
    packing *work = find_work(cpu, g, &n_work);
    size_t total = fit_budget(cpu, work, &n_work);
    uint8_t *at = total ? store_block(cpu->packs, total) : NULL;
    if (total && !at)
        qn_log(QN_LOG_WARN, "cpu: no memory (%zu MB) to repack weights: products will be slow",
               total >> 20);
    file_maps maps = at ? read_file_maps() : (file_maps){ 0 };
    for (size_t i = 0; at && i < n_work; i++) {
        packing *p = &work[i];
        p->dst = at;
        if (p->plan.panel_bytes) {
            qn_pool_run(cpu->pool, pack_thread, p);
            give_back(&maps, p->w->data, qn_weight_row_bytes(p->w) * (size_t)qn_weight_rows(p->w));
        } else {
            qn_weight_decode_row(p->w, 0, (float *)(void *)at);
        }
        store_put(cpu->packs, p->w, at);
        at += bytes_of(p);
    }
    qn_free(maps.r);
    qn_free(work);
    return QN_OK;
}
