/* kv_store.h - keys and values as references read and write them: in the pages of a cache group, or (without a state)
 * among the step's own rows. Fast kernels have their own way to the same places. */
#ifndef QN_OPS_KV_STORE_H
#define QN_OPS_KV_STORE_H

#include "graph/op.h"

typedef enum qn_kv_part { QN_KV_KEYS, QN_KV_VALUES } qn_kv_part;

/* One layer's keys or values. */
typedef struct qn_kv_store {
    const qn_kv_group *group;
    const int32_t *table; /* [n_seq][max_pages] */
    int32_t max_pages, dim;
    size_t offset; /* bytes within a page */
    int input;     /* without a state: the call's input that holds the rows */
    uint8_t layout;
} qn_kv_store;

/* Keys are input 1 and values input 2 of the ops that have them. Without a state, dim is the caller's to set. */
qn_kv_store qn_kv_store_of(const qn_call *c, int32_t group, int32_t slot, qn_kv_part part);

/* Stores the step's rows x of n_heads heads, all of them. */
void qn_kv_store_rows(const qn_call *c, const qn_kv_store *st, const qn_tensor *x, int32_t n_heads);

/* What head h has at `index` of sequence s: dim floats, in place or in buf. */
const float *qn_kv_entry(const qn_call *c, const qn_kv_store *st, int32_t s, int32_t index,
                         int32_t h, float *buf);

#endif
