/* cache.h - one layer's keys or values: in the pages of a group, or (without a state) the step's own rows. */
#ifndef QN_KERNELS_ATTENTION_CACHE_H
#define QN_KERNELS_ATTENTION_CACHE_H

#include <assert.h>

#include "ops/util.h"

typedef struct kv_store {
    /* pages */
    const qn_kv_group *group;
    const int32_t *table; /* [n_seq][max_pages] */
    size_t offset;        /* of the layer within a page */
    /* or rows */
    const float *rows;
    const int32_t *q_start;
    int64_t row_width;

    int32_t max_pages, dim;
    uint8_t layout;
} kv_store;

static inline kv_store kv_store_of(const qn_call *c, bool values)
{
    const qn_attr_attention *a = c->attr;
    const qn_tensor *x = &c->in[values ? 2 : 1];
    kv_store s = { .dim = values ? a->v_dim : a->k_dim, .layout = QN_F32 };
    if (!qn_attn_is_cached(c)) {
        s.rows = x->data;
        s.row_width = x->width;
        s.q_start = c->batch->q_start;
        return s;
    }
    const qn_kv_group *g = &c->state->kv[a->kv_group];
    assert(a->kv_group < c->state->n_kv && a->kv_slot < g->n_slots);
    const qn_kv_slot *slot = &g->slot[a->kv_slot];
    assert(slot->n_kv_heads == a->n_kv_heads && s.dim == (values ? slot->v_dim : slot->k_dim));
    s.group = g;
    s.table = c->batch->page_table[a->kv_group];
    s.offset = values ? slot->v_offset : slot->k_offset;
    s.layout = values ? slot->v_layout : slot->k_layout;
    s.max_pages = c->batch->max_pages;
    return s;
}

/* Where entry `index` of sequence `seq` lies, for key head h; *run entries from it lie one after the other. */
static inline uint8_t *kv_entry(const kv_store *s, int32_t seq, int32_t index, int32_t h,
                                int32_t *run)
{
    if (s->rows) {
        *run = 1;
        const float *row = s->rows + (s->q_start[seq] + (int64_t)index) * s->row_width;
        return (uint8_t *)(uintptr_t)(row + (int64_t)h * s->dim);
    }
    int32_t size = s->group->page_size, in_page = index % size;
    int32_t page = s->table[(int64_t)seq * s->max_pages + index / size];
    assert(page >= 0 && page < s->group->n_pages);
    *run = size - in_page;
    size_t element = ((size_t)h * (size_t)size + (size_t)in_page) * (size_t)s->dim;
    return s->group->base + (size_t)page * s->group->page_bytes + s->offset +
           element * (s->layout == QN_F32 ? 4 : 2);
}

#endif
