/* util.c - see util.h. */
#include "ops/util.h"

#include <assert.h>
#include <string.h>

bool qn_shape_eq(const qn_shape *a, const qn_shape *b)
{
    return a->n_dims == b->n_dims && memcmp(a->dim, b->dim, a->n_dims * sizeof a->dim[0]) == 0;
}

/* Packed integers are no numbers to compute with; every float or quantised layout is. */
static bool is_number(uint8_t dtype)
{
    return dtype != QN_I32 && dtype < QN_N_LAYOUTS;
}

bool qn_is_rows(const qn_shape *s)
{
    return s->n_dims == 2 && s->dtype == QN_F32 && s->dim[1] > 0;
}

bool qn_is_ids(const qn_shape *s)
{
    return (s->n_dims == 1 || s->n_dims == 2) && s->dtype == QN_I32;
}

bool qn_is_vec(const qn_shape *s, int64_t n)
{
    return s->n_dims == 1 && is_number(s->dtype) && s->dim[0] == n && n >= 0;
}

bool qn_is_opt_vec(const qn_shape *s, int64_t n)
{
    return s->n_dims == 0 || qn_is_vec(s, n);
}

bool qn_is_mat(const qn_shape *s)
{
    return s->n_dims == 2 && is_number(s->dtype) && s->dim[0] > 0 && s->dim[1] > 0;
}

bool qn_is_stack(const qn_shape *s)
{
    return s->n_dims == 3 && is_number(s->dtype) && s->dim[0] > 0 && s->dim[1] > 0 && s->dim[2] > 0;
}

const float *qn_ref_row(const qn_tensor *t, int64_t row, int64_t width, float *buf)
{
    if (t->data)
        return (const float *)t->data + row * width;
    assert(t->weight && qn_weight_cols(t->weight) == width);
    qn_weight_decode_row(t->weight, row, buf);
    return buf;
}

float *qn_ref_floats_dup(const qn_tensor *t, int64_t n)
{
    if (qn_absent(t))
        return NULL;
    float *v = qn_alloc_n((size_t)n, sizeof *v);
    if (t->data) {
        memcpy(v, t->data, (size_t)n * sizeof *v);
        return v;
    }
    int64_t cols = qn_weight_cols(t->weight);
    for (int64_t r = 0; r * cols < n; r++)
        qn_weight_decode_row(t->weight, r, v + r * cols);
    return v;
}

qn_ref_span qn_ref_sequence(const qn_call *c, int32_t s, int64_t at, int64_t n, float *own)
{
    const qn_batch *b = c->batch;
    qn_ref_span span = { b->q_start[s], b->q_start[s + 1], own };
    if (c->state) {
        assert(b->state_slot[s] >= 0 && b->state_slot[s] < c->state->n_slots);
        assert(at >= 0 && at + n <= c->state->slot_floats);
        span.state = c->state->slots + b->state_slot[s] * c->state->slot_floats + at;
    }
    if (!c->state || b->kv_len[s] == 0)
        memset(span.state, 0, (size_t)n * sizeof *span.state);
    return span;
}

void qn_ref_part(const qn_call *c, int64_t n, int64_t *lo, int64_t *hi)
{
    *lo = n * c->ith / c->nth;
    *hi = n * (c->ith + 1) / c->nth;
}

double qn_ref_dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}
