/* kv_store.c - see kv_store.h. */
#include "ops/kv_store.h"

#include <assert.h>
#include <string.h>

#include "ops/ops.h"

qn_kv_store qn_kv_store_of(const qn_call *c, int32_t group, int32_t slot, qn_kv_part part)
{
    bool values = part == QN_KV_VALUES;
    if (!c->state || group == QN_NO_CACHE)
        return (qn_kv_store){ .input = values ? 2 : 1 };
    const qn_kv_group *g = &c->state->kv[group];
    assert(group < c->state->n_kv && slot < g->n_slots);
    const qn_kv_slot *s = &g->slot[slot];
    return (qn_kv_store){ .group = g,
                          .table = c->batch->page_table[group],
                          .max_pages = c->batch->max_pages,
                          .dim = values ? s->v_dim : s->k_dim,
                          .offset = values ? s->v_offset : s->k_offset,
                          .layout = values ? s->v_layout : s->k_layout };
}

/* Where entry `index` of sequence s lies, for key head h. */
static uint8_t *entry_at(const qn_kv_store *st, int32_t s, int32_t index, int32_t h)
{
    const qn_kv_group *g = st->group;
    int32_t page = st->table[(int64_t)s * st->max_pages + index / g->page_size];
    assert(page >= 0 && page < g->n_pages);
    size_t element = (size_t)(h * g->page_size + index % g->page_size) * (size_t)st->dim;
    size_t bytes = st->layout == QN_F32 ? 4 : 2;
    return g->base + (size_t)page * g->page_bytes + st->offset + element * bytes;
}

static void put_entry(uint8_t layout, uint8_t *at, const float *x, int32_t n)
{
    uint16_t *half = (uint16_t *)at;
    if (layout == QN_F32)
        memcpy(at, x, (size_t)n * sizeof *x);
    for (int32_t i = 0; layout != QN_F32 && i < n; i++)
        half[i] = layout == QN_F16 ? qn_f32_to_f16(x[i]) : qn_f32_to_bf16(x[i]);
}

static const float *get_entry(uint8_t layout, const uint8_t *at, float *buf, int32_t n)
{
    const uint16_t *half = (const uint16_t *)at;
    if (layout == QN_F32)
        return (const float *)at;
    for (int32_t i = 0; i < n; i++)
        buf[i] = layout == QN_F16 ? qn_f16_to_f32(half[i]) : qn_bf16_to_f32(half[i]);
    return buf;
}

void qn_kv_store_rows(const qn_call *c, const qn_kv_store *st, const qn_tensor *x, int32_t n_heads)
{
    const qn_batch *b = c->batch;
    for (int64_t r = 0; r < x->rows; r++) {
        int32_t s = b->seq[r];
        int32_t index = b->kv_len[s] + (int32_t)r - b->q_start[s];
        for (int32_t h = 0; h < n_heads; h++)
            put_entry(st->layout, entry_at(st, s, index, h),
                      (const float *)x->data + r * x->width + h * st->dim, st->dim);
    }
}

const float *qn_kv_entry(const qn_call *c, const qn_kv_store *st, int32_t s, int32_t index,
                         int32_t h, float *buf)
{
    if (st->group)
        return get_entry(st->layout, entry_at(st, s, index, h), buf, st->dim);
    const qn_tensor *x = &c->in[st->input];
    int64_t row = c->batch->q_start[s] + index;
    return (const float *)x->data + row * x->width + (int64_t)h * st->dim;
}
