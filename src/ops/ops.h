/* ops.h - every op there is, with its attributes. One file an op; the head of that file has the mathematics.
 *
 * result, add, weight and input are declared in graph/op.h. Shapes are rows x width. R stands for any row count (a symbol or a number), W for any width. */
#ifndef QN_OPS_OPS_H
#define QN_OPS_OPS_H

#include "graph/op.h"

/* ---- plain ops ---- */
extern const qn_op qn_op_embed;  /* ids I32 [R], table [V, W] -> [R, W] */
extern const qn_op qn_op_linear; /* x [R, K], w [N, K], bias [N]? -> [R, N] = x w^T + bias */
extern const qn_op qn_op_mul;    /* a [R, W], b [R, W], [W] (a weight) or [R, G] -> a * b */
extern const qn_op qn_op_rows;   /* x [R, W], row I32 [M] -> [M, W]: x[row] */

extern const qn_op qn_op_seq_mean; /* x [n_tok, W] -> [n_seq, W]: the mean row of each sequence */

extern const qn_op qn_op_scale; /* x -> x * factor */
typedef struct qn_attr_scale {
    float factor;
} qn_attr_scale;

extern const qn_op qn_op_split; /* x [R, W] -> columns start, start + step .. of each group */
typedef struct qn_attr_split {
    int64_t start, width;
    int64_t group, step; /* 0: the whole row; neighbours */
} qn_attr_split;

extern const qn_op
    qn_op_join; /* a [R, G*A], b [R, G*B] -> [R, G*(A+B)]: group by group side by side */
typedef struct qn_attr_join {
    int64_t groups;
} qn_attr_join;

extern const qn_op qn_op_clamp; /* x -> min(max(x, lo), hi) */
typedef struct qn_attr_clamp {
    float lo, hi;
} qn_attr_clamp;

/* Every head's part of x by a block of rows of its own. */
extern const qn_op qn_op_head_linear; /* x [R, H*a], w [H*P, K] or [H, P, K] -> [R, H*b] */
typedef struct qn_attr_head_linear {
    int32_t n_heads;
    int64_t start, n; /* rows [start, start + n) of the P of each head; n 0 = all */
    bool transposed;  /* y = x W (a = n, b = K); else y = x W^T (a = K, b = n) */
} qn_attr_head_linear;

typedef enum qn_act {
    QN_ACT_NONE,
    QN_ACT_SILU,
    QN_ACT_GELU,       /* x Phi(x), by erf */
    QN_ACT_GELU_TANH,  /* the tanh approximation */
    QN_ACT_GELU_QUICK, /* x sigmoid(1.702 x) */
    QN_ACT_RELU,
    QN_ACT_RELU2, /* relu(x)^2 */
    QN_ACT_SIGMOID,
    QN_ACT_TANH,
    QN_ACT_SOFTPLUS,
} qn_act;

extern const qn_op qn_op_act; /* x -> act(x) */
typedef struct qn_attr_act {
    int32_t act; /* qn_act */
} qn_attr_act;

extern const qn_op qn_op_norm; /* x [R, W], w [W or group]?, bias? -> normed x */
typedef struct qn_attr_norm {
    float eps;
    float offset;  /* 1 when the file stores w - 1 (Gemma), else 0 */
    int32_t group; /* each run of `group` columns is normed by itself (a head); 0 = the whole row */
    bool center;   /* LayerNorm: subtract the mean first; else RMS norm */
} qn_attr_norm;

/* Rotary positions; frequencies are computed when the graph is built, and copied by it. */
extern const qn_op qn_op_rope; /* x [R, n_heads * head_dim] -> rotated, by the step's positions */
typedef struct qn_attr_rope {
    int32_t head_dim, n_rot; /* the first n_rot of each head are rotated */
    bool interleaved;        /* pairs (2i, 2i+1); else (i, i + n_rot/2) */
    bool inverse;            /* rotates back: the gradient */
    int32_t n_freqs;         /* n_rot / 2 */
    const float *inv_freq;   /* [n_freqs] */
    const float
        *inv_freq_long; /* [n_freqs] used when the sequence's rope_len > long_after; else NULL */
    int32_t long_after;
    float amplitude,
        amplitude_long; /* cos and sin are multiplied by it (YaRN, longrope); 1 = plain */
    float dynamic_theta,
        dynamic_factor;  /* dynamic NTK: theta grows with rope_len past long_after; 0 = off */
    const uint8_t *axis; /* [n_freqs] which row of batch->pos drives each pair; NULL = row 0 */
} qn_attr_rope;

/* The frequency of pair i, and the factor on cos and sin, for a sequence of that rope_len. */
float qn_rope_inv_freq(const qn_attr_rope *a, int32_t i, int32_t rope_len);
float qn_rope_amplitude(const qn_attr_rope *a, int32_t rope_len);

extern const qn_op
    qn_op_position_scale; /* x -> x * (1 + beta log(1 + floor((pos + shift) / period))) */
typedef struct qn_attr_position_scale {
    float beta, period, shift;
} qn_attr_position_scale;

/* Grouped-query attention over the cache. Stores k and v of the step, then reads them as stored. */
#define QN_NO_CACHE                                                                                \
    (-1) /* kv_group: the rows of the step are all there is, and nothing is stored */
/* keys: the only ones each row looks at, from key_select. */
extern const qn_op
    qn_op_attention; /* q [R, H*dk], k [R, Hkv*dk], v [R, Hkv*dv], sinks [H]?, keys? -> [R, H*dv] */
typedef struct qn_attr_attention {
    int32_t n_heads, n_kv_heads, k_dim, v_dim;
    float scale, softcap; /* softcap 0 = none: scores become cap * tanh(score / cap) */
    int32_t window;       /* a row sees index > its own - window; 0 = everything */
    int32_t
        chunk; /* and no index before the multiple of chunk that its own follows; 0 = everything */
    int32_t kv_group, kv_slot;
    bool
        both_ways; /* a row sees its whole sequence, or index < its own + window too; not by `see` */
    /* [n_heads] a key's score falls by this with each position that it lies back; NULL = it does not */
    const float *slopes;
} qn_attr_attention; /* with c->state NULL: k and v of this step only, in f32 (training) */

extern const qn_op
    qn_op_key_select; /* q [R, H*D], k [R, D], weights [R, H] -> keys I32 [R, top_k] */
typedef struct qn_attr_key_select {
    int32_t n_heads, dim, top_k;
    float scale;
    int32_t kv_group, kv_slot; /* where the keys are kept, without values */
} qn_attr_key_select;

/* ---- recurrences ----
 * They run over the rows of each sequence in order, from the state its slot holds (zeros for a sequence that
 * begins, and for all when c->state is NULL) and leave there what the last row made of it. `state` is the place
 * in the slot, from qn_graph_state. Heads and channels are independent, so threads may share them out. */

extern const qn_op
    qn_op_conv; /* x [R, C], w [C, K], bias [C]? -> [R, C]: each channel over its last K rows */
typedef struct qn_attr_conv {
    int64_t state; /* (K - 1) * C floats */
    int32_t kernel;
} qn_attr_conv;

extern const qn_op
    qn_op_scan; /* x [R, H*P], dt [R, H]?, a [H] or [H, N], b, c [R, G*N], d [H]? -> [R, H*P] */
typedef struct qn_attr_scan {
    int64_t state; /* H * P * N floats */
    int32_t n_heads, head_dim, n_groups, d_state;
    float dt_min, dt_max; /* dt is clamped to this; dt_max 0 = no upper bound */
} qn_attr_scan;

extern const qn_op
    qn_op_delta; /* q, k [R, Hk*dk], v [R, H*dv], decay [R, H] or [R, H*dk], beta [R, H] -> [R, H*dv] */
typedef struct qn_attr_delta {
    int64_t state; /* H * dk * dv floats */
    int32_t n_heads, n_key_heads, k_dim, v_dim;
} qn_attr_delta;

extern const qn_op qn_op_lru; /* x [R, W], decay [R, W] -> [R, W] */
typedef struct qn_attr_lru {
    int64_t state; /* W floats */
} qn_attr_lru;

extern const qn_op qn_op_wkv; /* r, decay, k, v, a, b: all [R, H*d] -> [R, H*d] */
typedef struct qn_attr_wkv {
    int64_t state; /* H * d * d floats */
    int32_t n_heads, head_dim;
} qn_attr_wkv;

/* Mixture of experts: choose, multiply, sum. */
extern const qn_op
    qn_op_route; /* logits [R, E], selection bias [E]? -> ids I32 [R, k], weights [R, k] */
typedef struct qn_attr_route {
    int32_t n_experts, top_k;
    enum {
        QN_ROUTE_SOFTMAX,
        QN_ROUTE_SOFTMAX_TOPK,
        QN_ROUTE_SIGMOID,
        QN_ROUTE_SPARSEMIX
    } score;                      /* TOPK: softmax over the chosen; SPARSEMIX: see route.c */
    bool renorm;                  /* chosen weights are divided by their sum */
    float factor;                 /* then multiplied by this */
    int32_t n_groups, top_groups; /* group-limited choice; 0 = off */
    bool group_pairs;             /* a group is worth its two best experts, for softmax too */
    float jitter;                 /* SPARSEMIX: how far below the best a score still counts */
} qn_attr_route;

extern const qn_op qn_op_expert_linear; /* x, w [E, N, K], ids [R, k], bias [E, N]? -> [R, k*N] */
typedef struct qn_attr_expert_linear {
    int32_t top_k;
    bool x_per_slot; /* x is [R, k*K]: each choice has its own input; else [R, K] */
} qn_attr_expert_linear;

extern const qn_op qn_op_expert_sum; /* y [R, k*W], weights [R, k] -> [R, W], added in rank order */
typedef struct qn_attr_expert_sum {
    int32_t top_k;
} qn_attr_expert_sum;

extern const qn_op
    qn_op_identity_experts; /* ids, weights [R, k] -> ids', weights', share [R, 1] of the input */
typedef struct qn_attr_identity_experts {
    int32_t n_experts; /* ids from here on give their input itself */
} qn_attr_identity_experts;

/* ---- training ---- */
extern const qn_op
    qn_op_cross_entropy; /* logits [R, V], label I32 [R] -> loss [1], mean over label >= 0 */
typedef struct qn_attr_cross_entropy {
    float smoothing;
} qn_attr_cross_entropy;

extern const qn_op qn_op_cross_entropy_grad; /* logits, label, dloss [1] -> dlogits */
extern const qn_op qn_op_embed_grad;         /* ids, dout, table -> dtable, f32 */
extern const qn_op qn_op_linear_dx;          /* dout [R, N], w [N, K] -> [R, K] */
extern const qn_op qn_op_linear_dw;          /* dout [R, N], x [R, K] -> [N, K] */
extern const qn_op qn_op_sum_rows;           /* x [R, W] -> [W] */
extern const qn_op qn_op_act_grad;           /* x, dout -> dx; attr qn_attr_act */
extern const qn_op qn_op_norm_grad;          /* x, w?, dout -> dx, dw, dbias; attr qn_attr_norm */
extern const qn_op qn_op_rows_grad;          /* dout [M, W], row [M], x [R, W] -> [R, W] */
extern const qn_op qn_op_split_grad;     /* dout [R, width], x [R, W] -> [R, W], zero elsewhere */
extern const qn_op qn_op_clamp_grad;     /* x, dout -> dx; attr qn_attr_clamp */
extern const qn_op qn_op_head_linear_dw; /* x, dout, w -> as w; attr qn_attr_head_linear */
extern const qn_op qn_op_attention_grad; /* q, k, v, sinks?, dout -> dq, dk, dv, dsinks */
extern const qn_op
    qn_op_identity_experts_grad; /* ids, weights, dweights?, dshare? -> dweights of the routing */
extern const qn_op qn_op_route_grad;       /* logits, ids, weights, dweights -> dlogits */
extern const qn_op qn_op_expert_linear_dx; /* dout [R, k*N], w, ids, x -> dx as x */
extern const qn_op qn_op_expert_linear_dw; /* dout, x, ids, w -> [E, N, K] */
extern const qn_op qn_op_expert_sum_grad;  /* y, weights, dout -> dy, dweights */

/* ---- fused: each expands into the ops above ---- */
extern const qn_op qn_op_glu;      /* gate [R, W], up [R, W] -> act(gate) * up; attr qn_attr_act */
extern const qn_op qn_op_add_norm; /* a, b, w?, bias? -> a + b, norm(a + b); attr qn_attr_norm */
extern const qn_op
    qn_op_linears; /* x, w0 [N0, K], w1, ..: up to 4 products of the same x; no biases */

#endif
