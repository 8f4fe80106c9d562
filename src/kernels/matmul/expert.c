/* expert.c - the driver of expert_linear: rows are gathered by the expert they chose, and each panel of an
 * expert meets all of its rows. A product's value depends on its row and expert only, so the order in which
 * rows stand beside each other does not matter. */
#include <assert.h>
#include <string.h>

#include "kernels/kernel.h"

#define CHUNK_BYTES (64 * 1024) /* most bytes of panels handed out at once */

typedef struct job {
    const qn_call *c;
    const qn_matmul_kernels *t;
    const qn_weight *w;
    qn_weight view; /* of a weight that is a value of the graph */
    qn_panel_plan plan;
    const uint8_t *packed;
    int64_t k, n;              /* columns, rows of an expert */
    int64_t n_inputs, n_pairs; /* rows of x; choices: pair p belongs to input p or p / top_k */
    int32_t top_k;
    bool per_slot;
    /* shared scratch */
    uint8_t *quantised;
    int32_t *start;  /* [experts + 1] where an expert's pairs begin in `pair` */
    int32_t *pair;   /* [n_pairs] by expert, ascending */
    int32_t *active; /* [experts] those that were chosen */
    int32_t *n_active;
    /* this thread's */
    uint8_t *panel_buf;
    float *row_buf, *bias_buf;
} job;

static size_t round_up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static void make_job(const qn_call *c, job *j)
{
    const qn_attr_expert_linear *a = c->attr;
    const qn_tensor *w = &c->in[1];
    *j = (job){ .c = c, .t = &((const qn_kernels *)c->kernels)->matmul, .w = w->weight };
    j->top_k = a->top_k;
    j->per_slot = a->x_per_slot;
    j->k = c->in[0].width / (a->x_per_slot ? a->top_k : 1);
    j->n = c->out[0].width / a->top_k;
    j->n_inputs = c->in[0].rows * (a->x_per_slot ? a->top_k : 1);
    j->n_pairs = c->in[0].rows * a->top_k;
    if (!j->w) {
        j->view = (qn_weight){ .name = "value",
                               .dim = { w->rows * w->width / (j->k * j->n), j->n, j->k },
                               .n_dims = 3,
                               .layout = QN_F32,
                               .data = w->data };
        j->w = &j->view;
    }
    j->plan = qn_panel_plan_of(j->t, j->w, c->exact);
    j->packed = w->packed;
}

/* Lays the scratch out from `at` (NULL to learn its size only). */
static size_t lay_out(job *j, uint8_t *at)
{
    size_t experts = (size_t)j->plan.n_matrices, used = 0;
    j->quantised = at;
    if (j->plan.integer)
        used += round_up((size_t)j->n_inputs * qn_act_row_bytes(j->k));
    j->start = (int32_t *)(void *)(at + used);
    used += round_up((2 * experts + 2 + (size_t)j->n_pairs) * sizeof(int32_t));
    j->n_active = j->start + experts + 1;
    j->active = j->n_active + 1;
    j->pair = j->active + experts;
    size_t panel = j->packed ? 0 : round_up(j->plan.panel_bytes);
    size_t row = round_up((size_t)j->k * sizeof(float)),
           bias = round_up((size_t)j->n * sizeof(float));
    j->panel_buf = at + used + (panel + row + bias) * (size_t)j->c->ith;
    j->row_buf = (float *)(void *)(j->panel_buf + panel);
    j->bias_buf = (float *)(void *)(j->panel_buf + panel + row);
    return used + (panel + row + bias) * (size_t)j->c->nth;
}

size_t qn_expert_linear_scratch(const qn_call *c)
{
    job j;
    make_job(c, &j);
    static uint8_t none[64]; /* only distances from it are used */
    return lay_out(&j, none);
}

/* Sorts the pairs by expert, keeping their order. */
static void gather(const job *j)
{
    const int32_t *id = j->c->in[2].data;
    int32_t experts = (int32_t)j->plan.n_matrices, at = 0;
    memset(j->start, 0, ((size_t)experts + 1) * sizeof *j->start);
    for (int64_t p = 0; p < j->n_pairs; p++) {
        assert(id[p] >= 0 && id[p] < experts);
        j->start[id[p]]++;
    }
    *j->n_active = 0;
    for (int32_t e = 0; e < experts; e++) {
        int32_t n = j->start[e];
        if (n > 0)
            j->active[(*j->n_active)++] = e;
        j->start[e] = at;
        at += n;
    }
    for (int64_t p = 0; p < j->n_pairs; p++) /* moves each start to the expert's end ... */
        j->pair[j->start[id[p]]++] = (int32_t)p;
    for (int32_t e = experts; e > 0; e--) /* ... which is where the next one starts */
        j->start[e] = j->start[e - 1];
    j->start[0] = 0;
}

static void quantise(const job *j)
{
    const float *x = j->c->in[0].data;
    int64_t lo, hi;
    qn_call_part(j->c, j->n_inputs, 1, &lo, &hi);
    for (int64_t r = lo; r < hi && j->plan.integer; r++)
        j->t->quant(x + r * j->k, j->k, j->quantised + (size_t)r * qn_act_row_bytes(j->k));
}

static const float *bias_of(const job *j, int32_t expert)
{
    const qn_tensor *b = &j->c->in[3];
    if (b->data)
        return (const float *)b->data + expert * j->n;
    if (!b->weight)
        return NULL;
    qn_weight_decode_row(b->weight, expert, j->bias_buf);
    return j->bias_buf;
}

/* One panel of an expert times all rows that chose it. */
static void expert_panel(const job *j, int32_t expert, int64_t index, const float *bias)
{
    float edge[QN_TILE_X][QN_MAX_ROWS];
    int64_t first = index * j->t->rows, width = j->n - first;
    width = width < j->t->rows ? width : j->t->rows;
    int64_t at = expert * j->plan.n_panels + index;
    const uint8_t *panel = j->panel_buf;
    if (j->packed)
        panel = j->packed + (size_t)at * j->plan.panel_bytes;
    else
        qn_panel_pack(j->t, &j->plan, j->w, at, j->panel_buf, j->row_buf);
    qn_tile tile = {
        .panel = panel, .k = j->k, .group = j->w->group, .scale_layout = j->w->scale_layout
    };
    for (int32_t i = j->start[expert]; i < j->start[expert + 1]; i += tile.n_x) {
        int32_t left = j->start[expert + 1] - i;
        tile.n_x = left < j->t->n_x ? left : j->t->n_x;
        for (int32_t l = 0; l < tile.n_x; l++) {
            int64_t r = j->per_slot ? j->pair[i + l] : j->pair[i + l] / j->top_k;
            tile.x[l] = j->plan.integer
                            ? (const void *)(j->quantised + (size_t)r * qn_act_row_bytes(j->k))
                            : (const void *)((const float *)j->c->in[0].data + r * j->k);
            tile.out[l] = edge[l];
        }
        j->t->tile[j->plan.form](&tile);
        for (int32_t l = 0; l < tile.n_x; l++) {
            float *y = (float *)j->c->out[0].data + j->pair[i + l] * j->n + first;
            for (int64_t o = 0; o < width; o++)
                y[o] = bias ? edge[l][o] + bias[first + o] : edge[l][o];
        }
    }
}

void qn_expert_linear_run(const qn_call *c)
{
    job j;
    make_job(c, &j);
    lay_out(&j, c->scratch);
    quantise(&j);
    if (c->ith == c->nth - 1)
        gather(&j);
    c->sync(c);
    int64_t chunk = (int64_t)(CHUNK_BYTES / (j.plan.panel_bytes + 1)) + 1;
    int64_t chunks = (j.plan.n_panels + chunk - 1) / chunk, n = chunks * *j.n_active;
    for (int64_t i = qn_chunk_first(c); i < n; i = qn_chunk_next(c, i)) {
        int32_t expert = j.active[i / chunks];
        const float *bias = bias_of(&j, expert);
        int64_t from = i % chunks * chunk;
        int64_t to = from + chunk < j.plan.n_panels ? from + chunk : j.plan.n_panels;
        for (int64_t p = from; p < to; p++)
            expert_panel(&j, expert, p, bias);
    }
}
