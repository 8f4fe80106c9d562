/* attention_avx2.c - grouped-query attention in tiles of keys, with a running softmax.
 *
 * Keys are cut at absolute indices: tiles of 32, splits of 256. A row goes through the tiles of a split in
 * ascending order with a running maximum and sum; the splits' results are merged in ascending order. Tiles a
 * row does not see are skipped, keys it does not see within a tile take no part. So what a row gets depends
 * on its own span only: not on rows beside it, chunks, threads, or whether splits ran at the same time.
 *
 * A unit of work is a block of rows of one sequence times the query heads of one key head: it reads a tile
 * once for all of them. When there are too few units for the threads, single splits become units, and single
 * heads too if that is not enough; the parts of splits are then merged after a barrier. Scores are dot
 * products in eight lanes of the head's width; heads that are no multiple of 8 wide are padded with zeros. */
#include <math.h>
#include <string.h>

#include "kernels/attention/attention.h"
#include "kernels/attention/cache.h"
#include "kernels/kernel.h"
#include "kernels/math_ymm.h"
#include "ops/util.h"

#define TILE  32
#define SPLIT 256
#define UNIT_QUERIES                                                                               \
    96 /* query rows times heads of a unit: their state stays in the second-level cache */

/* Running softmax of one query: maximum, sum, weighted values. */
typedef struct state {
    float max, sum, pad[6];
    float acc[]; /* [v_pad] */
} state;

typedef struct job {
    const qn_call *c;
    const qn_attr_attention *a;
    kv_store k, v;
    const float *sinks;
    int32_t k_pad, v_pad, group;  /* query heads a key head has */
    int32_t block_rows, n_blocks; /* rows a block; blocks of all sequences */
    int32_t unit_heads;           /* query heads a unit has: group, or 1 */
    int32_t n_splits;             /* 0: a unit does all its splits */
    size_t state_bytes, thread_bytes;
    uint8_t *parts; /* [n_tok][n_heads][n_splits] states, when split */
    /* this thread's */
    float *q, *k_tile, *v_tile; /* [queries][k_pad], [TILE][k_pad], [TILE][v_pad] */
    uint8_t *part, *total;      /* [queries] states */
} job;

/* A block of rows [row, row + n) and heads [head, head + n_heads) of key head kv_head. */
typedef struct unit {
    int32_t seq, row, n_rows, kv_head, head, n_heads;
    int32_t split;       /* the only one, or -1 */
    int32_t first, last; /* keys that any row sees */
    int32_t end;         /* keys there are */
} unit;

static state *state_at(const job *j, uint8_t *base, int64_t i)
{
    return (state *)(void *)(base + (size_t)i * j->state_bytes);
}

/* ---- work ---- */

static int32_t count_blocks(const qn_batch *b, int32_t rows)
{
    int32_t n = 0;
    for (int32_t s = 0; s < b->n_seq; s++)
        n += (b->q_start[s + 1] - b->q_start[s] + rows - 1) / rows;
    return n;
}

static int32_t most_keys(const qn_batch *b)
{
    int32_t most = 0;
    for (int32_t s = 0; s < b->n_seq; s++) {
        int32_t n = b->kv_len[s] + b->q_start[s + 1] - b->q_start[s];
        most = n > most ? n : most;
    }
    return most;
}

static void make_job(const qn_call *c, job *j)
{
    const qn_attr_attention *a = c->attr;
    *j = (job){ .c = c, .a = a, .k = kv_store_of(c, false), .v = kv_store_of(c, true) };
    j->group = a->n_heads / a->n_kv_heads;
    j->k_pad = (a->k_dim + 7) / 8 * 8;
    j->v_pad = (a->v_dim + 7) / 8 * 8;
    j->state_bytes = (sizeof(state) + (size_t)j->v_pad * sizeof(float) + 63) / 64 * 64;
    j->block_rows = j->group < UNIT_QUERIES ? UNIT_QUERIES / j->group : 1;
    j->n_blocks = count_blocks(c->batch, j->block_rows);
    j->unit_heads = j->group;
    int64_t units = (int64_t)j->n_blocks * a->n_kv_heads, enough = 2 * (int64_t)c->nth;
    if (units < enough) {
        /* Splits first: they share no keys, while single heads each convert the same tiles again. */
        int32_t splits = (most_keys(c->batch) + SPLIT - 1) / SPLIT;
        if (units * splits < enough)
            j->unit_heads = 1;
        j->n_splits = splits > 1 ? splits : 0;
    }
    int32_t queries = j->block_rows * j->unit_heads;
    j->thread_bytes =
        2 * (size_t)queries * j->state_bytes + 64 +
        ((size_t)(queries + TILE) * (size_t)j->k_pad + TILE * (size_t)j->v_pad) * sizeof(float);
    j->thread_bytes = (j->thread_bytes + 63) / 64 * 64;
}

static size_t parts_bytes(const job *j)
{
    return (size_t)j->c->batch->n_tok * (size_t)j->a->n_heads * (size_t)j->n_splits *
           j->state_bytes;
}

static size_t sinks_bytes(const job *j)
{
    return ((size_t)j->a->n_heads * sizeof(float) + 63) / 64 * 64;
}

size_t qn_attention_scratch(const qn_call *c)
{
    job j;
    make_job(c, &j);
    return (j.thread_bytes + sinks_bytes(&j)) * (size_t)c->nth + parts_bytes(&j);
}

static void share_scratch(job *j)
{
    const qn_call *c = j->c;
    size_t thread = j->thread_bytes + sinks_bytes(j);
    int32_t queries = j->block_rows * j->unit_heads;
    uint8_t *at = (uint8_t *)c->scratch + thread * (size_t)c->ith;
    j->parts = (uint8_t *)c->scratch + thread * (size_t)c->nth;
    j->sinks = qn_tensor_vector(&c->in[3], (float *)(void *)at);
    at += sinks_bytes(j);
    j->part = at;
    j->total = j->part + (size_t)queries * j->state_bytes;
    j->q = (float *)(void *)(j->total + (size_t)queries * j->state_bytes);
    j->k_tile = j->q + (size_t)queries * (size_t)j->k_pad;
    j->v_tile = j->k_tile + TILE * (size_t)j->k_pad;
}

/* Unit i of the job. Blocks are counted from the last: late rows see most keys, and the longest work first
 * keeps threads from waiting for one another at the end. */
static unit unit_at(const job *j, int64_t i)
{
    const qn_batch *b = j->c->batch;
    int32_t per_kv = j->group / j->unit_heads, splits = j->n_splits ? j->n_splits : 1;
    unit u = { .n_heads = j->unit_heads };
    u.split = j->n_splits ? (int32_t)(i % splits) : -1;
    i /= splits;
    int32_t part = (int32_t)(i % per_kv);
    i /= per_kv;
    u.kv_head = (int32_t)(i % j->a->n_kv_heads);
    u.head = u.kv_head * j->group + part * j->unit_heads;
    int32_t block = j->n_blocks - 1 - (int32_t)(i / j->a->n_kv_heads);
    for (;; u.seq++) {
        int32_t rows = b->q_start[u.seq + 1] - b->q_start[u.seq];
        int32_t n = (rows + j->block_rows - 1) / j->block_rows;
        if (block >= n) {
            block -= n;
            continue;
        }
        u.row = b->q_start[u.seq] + block * j->block_rows;
        u.n_rows = b->q_start[u.seq + 1] - u.row;
        u.n_rows = u.n_rows < j->block_rows ? u.n_rows : j->block_rows;
        u.end = b->kv_len[u.seq] + rows;
        break;
    }
    u.first = INT32_MAX;
    u.last = -1;
    for (int32_t r = u.row; r < u.row + u.n_rows; r++) {
        qn_attn_span s = qn_attn_row_span(j->c, r);
        u.first = s.first < u.first ? s.first : u.first;
        u.last = s.last > u.last ? s.last : u.last;
    }
    u.last = u.last < u.end ? u.last : u.end - 1;
    return u;
}

/* ---- the cache ---- */

static void put_floats(uint8_t layout, uint8_t *at, const float *x, int32_t n)
{
    uint16_t *half = (uint16_t *)(void *)at;
    if (layout == QN_F32) {
        memcpy(at, x, (size_t)n * sizeof *x);
        return;
    }
    int32_t i = 0;
    for (; layout == QN_F16 && i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(half + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++)
        half[i] = layout == QN_F16 ? qn_f32_to_f16(x[i]) : qn_f32_to_bf16(x[i]);
}

static void get_floats(uint8_t layout, const uint8_t *at, float *x, int32_t n)
{
    const uint16_t *half = (const uint16_t *)(const void *)at;
    int32_t i = 0;
    if (layout == QN_F32) {
        memcpy(x, at, (size_t)n * sizeof *x);
        return;
    }
    for (; i + 8 <= n; i += 8) {
        __m128i raw = _mm_loadu_si128((const void *)(half + i));
        __m256 wide = layout == QN_F16
                          ? _mm256_cvtph_ps(raw)
                          : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
        _mm256_storeu_ps(x + i, wide);
    }
    for (; i < n; i++)
        x[i] = layout == QN_F16 ? qn_f16_to_f32(half[i]) : qn_bf16_to_f32(half[i]);
}

/* Stores this thread's share of the step's rows. */
static void store_rows(const qn_call *c, const kv_store *s, const qn_tensor *x)
{
    const qn_batch *b = c->batch;
    int32_t n_heads = ((const qn_attr_attention *)c->attr)->n_kv_heads, run;
    int64_t lo, hi;
    qn_call_part(c, x->rows * n_heads, 1, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        int32_t r = (int32_t)(i / n_heads), h = (int32_t)(i % n_heads), seq = b->seq[r];
        int32_t index = b->kv_len[seq] + r - b->q_start[seq];
        put_floats(s->layout, kv_entry(s, seq, index, h, &run),
                   (const float *)x->data + r * x->width + (int64_t)h * s->dim, s->dim);
    }
}

/* Entries [at, at + TILE) of the unit's sequence as padded floats; those past its end are zeros. */
static void load_tile(const kv_store *s, const unit *u, int32_t at, float *tile, int32_t pad)
{
    int32_t n = u->end - at < TILE ? u->end - at : TILE, run = 0;
    size_t bytes = (size_t)s->dim * (s->layout == QN_F32 ? 4 : 2);
    const uint8_t *p = NULL;
    for (int32_t i = 0; i < n; i++, run--, p += bytes) {
        if (run == 0)
            p = kv_entry(s, u->seq, at + i, u->kv_head, &run);
        float *x = tile + i * pad;
        get_floats(s->layout, p, x, s->dim);
        for (int32_t d = s->dim; d < pad; d++)
            x[d] = 0.0F;
    }
    memset(tile + n * pad, 0, (size_t)((TILE - n) * pad) * sizeof *tile);
}

/* ---- arithmetic ---- */

/* Lane sums of four vectors, each in the same order: ((0+1)+(2+3)) + ((4+5)+(6+7)). */
INLINE __m128 sum_four(const __m256 *v)
{
    __m256 t = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    return _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1));
}

/* score[i][0 .. TILE) = q[i] . tile for nq queries one after the other. */
INLINE void dot_tile(const float *q, const float *tile, int32_t pad, float *score, const int nq)
{
    for (int key = 0; key < TILE; key += 4) {
        const float *k = tile + key * pad;
        __m256 sum[2][4];
        for (int i = 0; i < nq; i++)
            for (int l = 0; l < 4; l++)
                sum[i][l] = _mm256_setzero_ps();
        for (int32_t d = 0; d < pad; d += 8)
            for (int i = 0; i < nq; i++) {
                __m256 x = _mm256_loadu_ps(q + i * pad + d);
                for (int l = 0; l < 4; l++)
                    sum[i][l] = _mm256_fmadd_ps(x, _mm256_loadu_ps(k + l * pad + d), sum[i][l]);
            }
        for (int i = 0; i < nq; i++)
            _mm_storeu_ps(score + i * TILE + key, sum_four(sum[i]));
    }
}

/* How a query weighs the keys of a tile, and by how much what it had before shrinks. */
typedef struct weights {
    float p[TILE];
    int32_t lo, hi; /* keys it sees */
    int32_t ahead;  /* the tile's first key, counted from the query's own index */
    float slope;    /* by which scores fall with distance */
    float shrink;
} weights;

/* Turns scores into weights: p = exp(t - max), for keys outside [lo, hi] nothing. */
static void weigh(const qn_attr_attention *a, const float *score, weights *w, state *s)
{
    const __m256 none = _mm256_set1_ps(-INFINITY), scale = _mm256_set1_ps(a->scale);
    const __m256i low = _mm256_set1_epi32(w->lo - 1);
    const __m256i high = _mm256_set1_epi32(w->hi + 1);
    __m256 t[TILE / 8], most = none;
    __m256i key = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (int i = 0; i < TILE / 8; i++, key = _mm256_add_epi32(key, _mm256_set1_epi32(8))) {
        t[i] = _mm256_mul_ps(_mm256_loadu_ps(score + 8 * i), scale);
        if (a->softcap > 0) { /* cap * tanh(t / cap), tanh u = 2 sigmoid(2 u) - 1 */
            __m256 u = sigmoid_ymm(_mm256_mul_ps(t[i], _mm256_set1_ps(2.0F / a->softcap)));
            t[i] =
                _mm256_fmsub_ps(u, _mm256_set1_ps(2.0F * a->softcap), _mm256_set1_ps(a->softcap));
        }
        if (w->slope != 0) {
            __m256i at = _mm256_add_epi32(key, _mm256_set1_epi32(w->ahead));
            t[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(at), _mm256_set1_ps(w->slope), t[i]);
        }
        __m256i seen =
            _mm256_and_si256(_mm256_cmpgt_epi32(key, low), _mm256_cmpgt_epi32(high, key));
        t[i] = _mm256_blendv_ps(none, t[i], _mm256_castsi256_ps(seen));
        most = _mm256_max_ps(most, t[i]);
    }
    float max = fmaxf(s->max, max_lanes(most));
    __m256 sum = _mm256_setzero_ps();
    for (int i = 0; i < TILE / 8; i++) {
        __m256 p = exp_ymm(_mm256_sub_ps(t[i], _mm256_set1_ps(max)));
        _mm256_storeu_ps(w->p + 8 * i, p);
        sum = _mm256_add_ps(sum, p);
    }
    w->shrink = _mm256_cvtss_f32(exp_ymm(_mm256_set1_ps(s->max - max)));
    s->sum = s->sum * w->shrink + sum_lanes(sum);
    s->max = max;
}

/* acc[0 .. 8 n) = acc * shrink + sum over keys of weight * value, keys ascending. */
INLINE void add_values(float *acc, const float *v, int32_t pad, const weights *w, const int n)
{
    __m256 sum[8];
    for (int i = 0; i < n; i++)
        sum[i] = _mm256_mul_ps(_mm256_loadu_ps(acc + 8 * i), _mm256_set1_ps(w->shrink));
    for (int32_t key = w->lo; key <= w->hi; key++) {
        __m256 p = _mm256_broadcast_ss(w->p + key);
        for (int i = 0; i < n; i++)
            sum[i] = _mm256_fmadd_ps(p, _mm256_loadu_ps(v + key * pad + 8 * i), sum[i]);
    }
    for (int i = 0; i < n; i++)
        _mm256_storeu_ps(acc + 8 * i, sum[i]);
}

static void tile_values(const job *j, state *s, const weights *w)
{
    int32_t d = 0, pad = j->v_pad;
    for (; d + 64 <= pad; d += 64)
        add_values(s->acc + d, j->v_tile + d, pad, w, 8);
    for (; d + 32 <= pad; d += 32)
        add_values(s->acc + d, j->v_tile + d, pad, w, 4);
    for (; d < pad; d += 8)
        add_values(s->acc + d, j->v_tile + d, pad, w, 1);
}

static void clear_state(const job *j, state *s)
{
    s->max = -INFINITY;
    s->sum = 0.0F;
    memset(s->acc, 0, (size_t)j->v_pad * sizeof(float));
}

/* Adds a split's result to those of the splits before it. */
static void merge(const job *j, state *total, const state *part)
{
    if (part->sum == 0.0F && part->max == -INFINITY)
        return; /* the row sees nothing of this split */
    float max = fmaxf(total->max, part->max);
    __m256 a = exp_ymm(_mm256_set1_ps(total->max - max));
    __m256 b = exp_ymm(_mm256_set1_ps(part->max - max));
    for (int32_t d = 0; d < j->v_pad; d += 8) {
        __m256 t = _mm256_mul_ps(_mm256_loadu_ps(total->acc + d), a);
        t = _mm256_fmadd_ps(_mm256_loadu_ps(part->acc + d), b, t);
        _mm256_storeu_ps(total->acc + d, t);
    }
    total->sum = total->sum * _mm256_cvtss_f32(a) + part->sum * _mm256_cvtss_f32(b);
    total->max = max;
}

/* The row's output from its state; the sink takes its share of the sum and gives nothing. */
static void finish(const job *j, const state *s, int32_t row, int32_t head)
{
    int32_t n = j->a->v_dim;
    float *y = (float *)j->c->out[0].data + row * j->c->out[0].width + (int64_t)head * n;
    float sum = s->sum, grow = 1.0F;
    if (j->sinks) {
        float max = fmaxf(s->max, j->sinks[head]);
        grow = _mm256_cvtss_f32(exp_ymm(_mm256_set1_ps(s->max - max)));
        sum = sum * grow + _mm256_cvtss_f32(exp_ymm(_mm256_set1_ps(j->sinks[head] - max)));
    }
    const __m256 f = _mm256_set1_ps(sum != 0.0F ? grow / sum : 0.0F); /* a NaN sum stays */
    for (int32_t d = 0; d < n; d += 8)
        store_part(y + d, n - d, _mm256_mul_ps(_mm256_loadu_ps(s->acc + d), f));
}

/* ---- a unit ---- */

static void load_queries(const job *j, const unit *u)
{
    const qn_tensor *x = &j->c->in[0];
    int32_t dim = j->a->k_dim;
    float *q = j->q;
    for (int32_t r = u->row; r < u->row + u->n_rows; r++)
        for (int32_t h = u->head; h < u->head + u->n_heads; h++, q += j->k_pad) {
            memcpy(q, (const float *)x->data + r * x->width + (int64_t)h * dim,
                   (size_t)dim * sizeof *q);
            memset(q + dim, 0, (size_t)(j->k_pad - dim) * sizeof *q);
        }
}

/* One tile for all queries of a unit that see any of it. Two at a time, so that a key is read once for both. */
static void do_tile(const job *j, const unit *u, int32_t at)
{
    float score[2][TILE];
    load_tile(&j->k, u, at, j->k_tile, j->k_pad);
    load_tile(&j->v, u, at, j->v_tile, j->v_pad);
    int32_t n = u->n_rows * u->n_heads;
    for (int32_t i = 0; i < n; i += 2) {
        const float *q = j->q + i * j->k_pad;
        int32_t both = i + 1 < n;
        if (both)
            dot_tile(q, j->k_tile, j->k_pad, score[0], 2);
        else
            dot_tile(q, j->k_tile, j->k_pad, score[0], 1);
        for (int32_t k = 0; k <= both; k++) {
            qn_attn_span span = qn_attn_row_span(j->c, u->row + (i + k) / u->n_heads);
            int32_t last = span.last < u->end ? span.last : u->end - 1;
            weights w = { .slope = j->a->slopes ? j->a->slopes[u->head + (i + k) % u->n_heads] : 0,
                          .ahead = at - span.index,
                          .lo = span.first > at ? span.first - at : 0,
                          .hi = last < at + TILE ? last - at : TILE - 1 };
            if (w.lo > w.hi)
                continue;
            state *s = state_at(j, j->part, i + k);
            weigh(j->a, score[k], &w, s);
            tile_values(j, s, &w);
        }
    }
}

/* One split of a unit, into j->part. */
static void do_split(const job *j, const unit *u, int32_t split)
{
    int32_t n = u->n_rows * u->n_heads, from = split * SPLIT;
    for (int32_t i = 0; i < n; i++)
        clear_state(j, state_at(j, j->part, i));
    for (int32_t at = from; at < from + SPLIT && at <= u->last; at += TILE)
        if (at + TILE > u->first)
            do_tile(j, u, at);
}

static void do_unit(job *j, const unit *u)
{
    int32_t n = u->n_rows * u->n_heads;
    load_queries(j, u);
    if (u->split >= 0) { /* parts of all splits are merged later */
        do_split(j, u, u->split);
        for (int32_t i = 0; i < n; i++) {
            int64_t query =
                (int64_t)(u->row + i / u->n_heads) * j->a->n_heads + u->head + i % u->n_heads;
            memcpy(state_at(j, j->parts, query * j->n_splits + u->split), state_at(j, j->part, i),
                   j->state_bytes);
        }
        return;
    }
    for (int32_t i = 0; i < n; i++)
        clear_state(j, state_at(j, j->total, i));
    for (int32_t s = u->first / SPLIT; s * SPLIT <= u->last; s++) {
        do_split(j, u, s);
        for (int32_t i = 0; i < n; i++)
            merge(j, state_at(j, j->total, i), state_at(j, j->part, i));
    }
    for (int32_t i = 0; i < n; i++)
        finish(j, state_at(j, j->total, i), u->row + i / u->n_heads, u->head + i % u->n_heads);
}

static void merge_parts(const job *j)
{
    int64_t lo, hi;
    state *total = state_at(j, j->total, 0);
    qn_call_part(j->c, (int64_t)j->c->batch->n_tok * j->a->n_heads, 1, &lo, &hi);
    for (int64_t i = lo; i < hi; i++) {
        clear_state(j, total);
        for (int32_t s = 0; s < j->n_splits; s++)
            merge(j, total, state_at(j, j->parts, i * j->n_splits + s));
        finish(j, total, (int32_t)(i / j->a->n_heads), (int32_t)(i % j->a->n_heads));
    }
}

void qn_attention_run_avx2(const qn_call *c)
{
    if (c->in[4].data) { /* chosen keys: by the definition, which is one thread's work */
        if (c->ith == 0)
            c->node->op->ref(c);
        return;
    }
    job j;
    make_job(c, &j);
    share_scratch(&j);
    if (qn_attn_is_cached(c)) {
        store_rows(c, &j.k, &c->in[1]);
        store_rows(c, &j.v, &c->in[2]);
        c->sync(c);
    }
    int64_t n = (int64_t)j.n_blocks * j.a->n_kv_heads * (j.group / j.unit_heads) *
                (j.n_splits ? j.n_splits : 1);
    for (int64_t i = qn_chunk_first(c); i < n; i = qn_chunk_next(c, i)) {
        unit u = unit_at(&j, i);
        do_unit(&j, &u);
    }
    if (j.n_splits) {
        c->sync(c);
        merge_parts(&j);
    }
}
