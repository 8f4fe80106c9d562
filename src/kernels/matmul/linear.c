/* linear.c - the drivers of linear and linears: quantise the rows once, then hand out panels.
 *
 * With few rows every thread quantises all of them for itself, which is cheaper than a barrier. Prompts go
 * through blocks of rows that stay in the second-level cache while a chunk of panels passes over them. */
#include <assert.h>
#include <string.h>

#include "kernels/kernel.h"

#define MAX_PRODUCTS  4
#define PRIVATE_ELEMS 4096         /* quantised by every thread for itself up to here */
#define ROW_BLOCK     (128 * 1024) /* bytes of activations that are used again from the cache */
#define CHUNK_BYTES   (64 * 1024)  /* most bytes of panels handed out at once */
#define CHUNKS_THREAD 6 /* least chunks a thread, so that a late one does not hold all up */

typedef struct product {
    qn_weight view; /* of a weight that is a value of the graph */
    const qn_weight *w;
    qn_panel_plan plan;
    const uint8_t *packed; /* all panels, or NULL: made as they are needed */
    const float *bias;
    float *out; /* [n_rows, n] */
} product;

typedef struct job {
    const qn_matmul_kernels *t;
    int n_products;
    product p[MAX_PRODUCTS];
    int64_t k, n_rows, n_panels; /* panels of all products together */
    const float *x;              /* [n_rows, k] */
    size_t row_bytes;            /* of a quantised row */
    uint8_t *quantised;          /* rows of qn_act_row_bytes(k), or NULL */
    bool shared;                 /* by all threads */
    uint8_t *panel_buf;          /* this thread's: one panel, one decoded row, one bias */
} job;

static size_t round_up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static void add_product(job *j, const qn_call *c, const qn_tensor *w, float *out)
{
    product *p = &j->p[j->n_products++];
    p->w = w->weight;
    if (!p->w) {
        p->view = (qn_weight){ .name = "value",
                               .dim = { w->rows, w->width },
                               .n_dims = 2,
                               .layout = QN_F32,
                               .data = w->data };
        p->w = &p->view;
    }
    p->plan = qn_panel_plan_of(j->t, p->w, c->exact);
    p->packed = w->packed;
    p->out = out;
    j->n_panels += p->plan.n_panels;
}

static void make_job(const qn_call *c, job *j)
{
    const qn_node *n = c->node;
    *j = (job){ .t = &((const qn_kernels *)c->kernels)->matmul,
                .k = c->in[0].width,
                .n_rows = c->in[0].rows,
                .x = c->in[0].data,
                .row_bytes = qn_act_row_bytes(c->in[0].width) };
    if (n->op == &qn_op_linears) {
        for (int i = 1; i < n->n_in; i++)
            add_product(j, c, &c->in[i], c->out[i - 1].data);
    } else {
        add_product(j, c, &c->in[1], c->out[0].data);
    }
    j->shared = j->n_rows * j->k > PRIVATE_ELEMS;
}

/* Bytes of quantised rows, and of what each thread needs to make panels. */
static void scratch_parts(const job *j, size_t *rows, size_t *thread)
{
    bool integer = false;
    size_t panel = 0, bias = 0;
    for (int i = 0; i < j->n_products; i++) {
        const qn_panel_plan *p = &j->p[i].plan;
        integer |= p->integer;
        if (!j->p[i].packed && panel < p->panel_bytes)
            panel = p->panel_bytes;
        bias = (size_t)p->n * sizeof(float);
    }
    *rows = integer ? round_up((size_t)j->n_rows * j->row_bytes) : 0;
    *thread = round_up(panel) + round_up((size_t)j->k * sizeof(float)) + round_up(bias);
}

size_t qn_linear_scratch(const qn_call *c)
{
    job j;
    size_t rows, thread;
    make_job(c, &j);
    scratch_parts(&j, &rows, &thread);
    return (j.shared ? rows : rows * (size_t)c->nth) + thread * (size_t)c->nth;
}

/* Gives this thread its part of the scratch, and quantises. */
static void start(const qn_call *c, job *j)
{
    size_t rows, thread;
    scratch_parts(j, &rows, &thread);
    uint8_t *at = c->scratch;
    j->panel_buf = at + (j->shared ? rows : rows * (size_t)c->nth) + thread * (size_t)c->ith;
    if (rows == 0)
        return;
    j->quantised = j->shared ? at : at + rows * (size_t)c->ith;
    int64_t lo = 0, hi = j->n_rows;
    if (j->shared)
        qn_call_part(c, j->n_rows, 1, &lo, &hi);
    for (int64_t r = lo; r < hi; r++)
        j->t->quant(j->x + r * j->k, j->k, j->quantised + (size_t)r * j->row_bytes);
    if (j->shared)
        c->sync(c);
}

static const uint8_t *panel_at(const job *j, const product *p, int64_t index)
{
    if (p->packed)
        return p->packed + (size_t)index * p->plan.panel_bytes;
    size_t bytes = round_up(p->plan.panel_bytes);
    qn_panel_pack(j->t, &p->plan, p->w, index, j->panel_buf,
                  (float *)(void *)(j->panel_buf + bytes));
    return j->panel_buf;
}

static const void *row_at(const job *j, const product *p, int64_t r)
{
    return p->plan.integer ? (const void *)(j->quantised + (size_t)r * j->row_bytes)
                           : (const void *)(j->x + r * j->k);
}

/* Rows [lo, hi) times one panel. The tile is the caller's, with what all panels of a product share. */
static void panel_rows(const job *j, const product *p, qn_tile *tile, int64_t index, int64_t lo,
                       int64_t hi)
{
    float edge[QN_TILE_X][QN_MAX_ROWS];
    int64_t first = index * j->t->rows, n = p->plan.n;
    int64_t width = n - first < j->t->rows ? n - first : j->t->rows;
    tile->panel = panel_at(j, p, index);
    for (int64_t r = lo; r < hi; r += tile->n_x) {
        float *out = p->out + r * n + first;
        tile->n_x = (int32_t)(hi - r < j->t->n_x ? hi - r : j->t->n_x);
        for (int i = 0; i < tile->n_x; i++) {
            tile->x[i] = row_at(j, p, r + i);
            tile->out[i] = width < j->t->rows ? edge[i] : out + i * n;
        }
        j->t->tile[p->plan.form](tile);
        if (width == j->t->rows && !p->bias)
            continue;
        for (int i = 0; i < tile->n_x; i++, out += n) {
            if (width < j->t->rows)
                memcpy(out, edge[i], (size_t)width * sizeof(float));
            for (int64_t l = 0; p->bias && l < width; l++)
                out[l] += p->bias[first + l];
        }
    }
}

/* Panels [lo, hi) of the products taken together, for the rows [row, row_end). */
static void panels(const job *j, int64_t lo, int64_t hi, int64_t row, int64_t row_end)
{
    for (int i = 0; i < j->n_products; i++) {
        const product *p = &j->p[i];
        int64_t n = p->plan.n_panels;
        qn_tile tile = { .k = j->k, .group = p->w->group, .scale_layout = p->w->scale_layout };
        for (int64_t index = lo > 0 ? lo : 0; index < hi && index < n; index++)
            panel_rows(j, p, &tile, index, row, row_end);
        lo -= n;
        hi -= n;
    }
}

void qn_linear_run(const qn_call *c)
{
    job j;
    make_job(c, &j);
    start(c, &j);
    if (c->node->op == &qn_op_linear && (c->in[2].data || c->in[2].weight)) {
        size_t rows, thread;
        scratch_parts(&j, &rows, &thread);
        size_t bias = round_up((size_t)j.p[0].plan.n * sizeof(float));
        j.p[0].bias = qn_tensor_vector(&c->in[2], (void *)(j.panel_buf + thread - bias));
    }
    bool packed = true;
    size_t bytes = 0;
    for (int i = 0; i < j.n_products; i++) {
        packed = packed && j.p[i].packed;
        bytes = j.p[i].plan.panel_bytes > bytes ? j.p[i].plan.panel_bytes : bytes;
    }
    /* A panel that is made on the fly is made once: all rows pass over it. */
    int64_t row_block = packed ? (int64_t)(ROW_BLOCK / j.row_bytes) : j.n_rows;
    row_block = row_block < QN_TILE_X ? QN_TILE_X : row_block / QN_TILE_X * QN_TILE_X;
    int64_t chunk = bytes ? (int64_t)(CHUNK_BYTES / bytes) : 1;
    int64_t most = j.n_panels / (CHUNKS_THREAD * c->nth);
    chunk = chunk < most ? chunk : most;
    chunk = chunk > 0 ? chunk : 1;
    int64_t n_chunks = (j.n_panels + chunk - 1) / chunk;
    for (int64_t i = qn_chunk_first(c); i < n_chunks; i = qn_chunk_next(c, i)) {
        int64_t hi = (i + 1) * chunk < j.n_panels ? (i + 1) * chunk : j.n_panels;
        for (int64_t r = 0; r < j.n_rows; r += row_block)
            panels(&j, i * chunk, hi, r, r + row_block < j.n_rows ? r + row_block : j.n_rows);
    }
}
