/* batch.h - one step: a ragged list of rows from any number of sequences, and the state they reach.
 *
 * A sequence's rows stand together and in order. `index` below is a row's place in its sequence's cache,
 * kv_len[s] + (row - q_start[s]); for text it equals its position. */
#ifndef QN_GRAPH_BATCH_H
#define QN_GRAPH_BATCH_H

#include <stddef.h>
#include <stdint.h>

#define QN_MAX_POS_AXES  4
#define QN_MAX_KV_GROUPS 8

typedef struct qn_batch {
    int32_t n_tok, n_seq, n_out;
    const int32_t *token;   /* [n_tok] */
    const int32_t *seq;     /* [n_tok] which of the n_seq sequences */
    const int32_t *pos;     /* [n_axes][n_tok] rotary positions */
    const int32_t *see;     /* [n_tok] last index a row may see: its own when causal */
    const int32_t *q_start; /* [n_seq + 1] first row of each sequence */
    const int32_t *kv_len;  /* [n_seq] entries in the cache before this step */
    const int32_t
        *rope_len; /* [n_seq] length that length-dependent rope goes by, fixed at admission */
    const int32_t *page_table[QN_MAX_KV_GROUPS]; /* per group [n_seq][max_pages] */
    int32_t max_pages;
    const int32_t
        *state_slot; /* [n_seq] recurrent and convolution state; NULL when the model has none */
    const int32_t *out_row; /* [n_out] rows whose logits are wanted, ascending */
    const int32_t
        *segment; /* [n_tok] which text of a pair a row is of (token types); NULL = none say */
    const int32_t *label; /* [n_tok] training: the token to predict, -100 = none; else NULL */
} qn_batch;

/* Where one attention layer keeps its keys and values inside a page of its group:
 * K of (head h, token t) at k_offset + (h * page_size + t) * k_dim elements of k_layout; V likewise. */
typedef struct qn_kv_slot {
    size_t k_offset, v_offset; /* bytes from the page's start */
    int32_t n_kv_heads, k_dim, v_dim;
    uint8_t k_layout, v_layout; /* QN_F32, QN_F16, QN_BF16 */
} qn_kv_slot;

/* The layers of one window and layout share page tables. */
typedef struct qn_kv_group {
    uint8_t *base;
    size_t page_bytes;
    int32_t page_size; /* tokens */
    int32_t n_pages, n_slots;
    const qn_kv_slot *slot;
} qn_kv_group;

/* Recurrent and convolution states live in slots, one a sequence: each layer has its floats at a fixed offset
 * (qn_graph_state). A sequence whose kv_len is 0 starts from zeros, whatever its slot still holds. */
typedef struct qn_state {
    qn_kv_group kv[QN_MAX_KV_GROUPS];
    int32_t n_kv;
    float *slots; /* [n_slots][slot_floats]; NULL when no layer has a state */
    int64_t slot_floats;
    int32_t n_slots;
} qn_state;

#endif
