/* mixers.c - recurrent mixers with little in common but their size: linear attention that forgets at fixed rates, the
 * gated linear recurrence, and mixing of tokens with those before them. */
#include <math.h>

#include "blocks/parts.h"

static qn_val act(qn_build *b, qn_val x, qn_act a)
{
    return QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)a }, x);
}

static qn_val mul(qn_build *b, qn_val x, qn_val y)
{
    return QN_ADD(b->g, &qn_op_mul, NULL, x, y);
}

static qn_val add(qn_build *b, qn_val x, qn_val y)
{
    return QN_ADD(b->g, &qn_op_add, NULL, x, y);
}

static qn_val scale(qn_build *b, qn_val x, float f)
{
    return QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ f }, x);
}

/* ---- linear attention ---- */

/* Head h forgets by exp(-2^(-8 (h + 1) / H)) a token, the less the deeper the layer. */
static qn_val rates(qn_build *b, const qn_fading *a)
{
    const qn_weight *w;
    double depth = 1 - a->depth / (b->c->n_layers - 1 + 1e-5) + 1e-5;
    float *rate = qn_part_fresh(b, "rates", (qn_part_shape){ 0, a->n_heads }, &w);
    for (int h = 0; h < a->n_heads; h++)
        rate[h] = (float)-(exp2(-8.0 * (h + 1) / a->n_heads) * depth);
    return qn_graph_weight(b->g, w);
}

qn_val qn_fading_attention(qn_build *b, const char *name, qn_val x, const qn_fading *a)
{
    int64_t d = a->head_dim, width = a->n_heads * d;
    qn_val qkv = qn_part_linear(b, name, "qkv_proj", x, 3 * width, NULL);
    qn_val gate = qn_part_linear(b, name, "output_gate", x, width, NULL);
    qn_part_use_act(b, a->act);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qkv = act(b, qkv, a->act);
    qn_attr_scan attr = { .state = qn_graph_state(b->g, width * d),
                          .n_heads = a->n_heads,
                          .head_dim = a->head_dim,
                          .n_groups = a->n_heads,
                          .d_state = a->head_dim };
    qn_val q = qn_part_split_groups(b, qkv, 0, d, 3 * d);
    qn_val k = qn_part_split_groups(b, qkv, d, d, 3 * d);
    qn_val v = qn_part_split_groups(b, qkv, 2 * d, d, 3 * d);
    qn_val y = QN_ADD(b->g, &qn_op_scan, &attr, v, (qn_val){ 0 }, rates(b, a), k, q);
    y = qn_part_norm(b, name, "norm", y, &(qn_attr_norm){ .eps = 1e-6f });
    if (qn_failed(b))
        return (qn_val){ 0 };
    y = mul(b, y, act(b, gate, QN_ACT_SIGMOID));
    return qn_part_linear(b, name, "out_proj", y, b->c->d_model, NULL);
}

/* ---- gated linear recurrence ---- */

/* sigmoid of the product of every head of x with its own matrix [inputs, outputs]. */
static qn_val head_gate(qn_build *b, const char *name, const char *leaf, qn_val x, const qn_lru *a)
{
    const char *w_name = qn_arena_printf(&b->g->arena, "%s_weight", leaf);
    const char *bias_name = qn_arena_printf(&b->g->arena, "%s_bias", leaf);
    int64_t n = a->width / a->n_heads;
    const char *full = qn_part_name(b, name, w_name);
    const qn_weight *w = qn_part_find(b, full, "");
    qn_val bias = qn_part_numbers(b, name, bias_name, (qn_part_shape){ 0, a->width }, NULL);
    if (!qn_part_fits(b, w, full, a->n_heads, n, n))
        return (qn_val){ 0 };
    const qn_attr_head_linear attr = { .n_heads = a->n_heads, .transposed = true };
    qn_val y = QN_ADD(b->g, &qn_op_head_linear, &attr, x, qn_graph_weight(b->g, w));
    return act(b, add(b, y, bias), QN_ACT_SIGMOID);
}

/* -8 softplus(x): how fast a channel forgets where its gate is open. */
static float rate_of(float x)
{
    return -8 * (x > 20 ? x : log1pf(expf(x)));
}

qn_val qn_lru_mixer(qn_build *b, const char *name, qn_val x, const qn_lru *a)
{
    if (a->n_heads < 1 || a->width < 1 || a->width % a->n_heads != 0)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: lru_width %d is no multiple of %d heads",
                      a->width, a->n_heads);
    qn_val y = qn_part_linear(b, name, "linear_y", x, a->width, NULL);
    qn_val u = qn_part_linear(b, name, "linear_x", x, a->width, NULL);
    u = qn_part_conv(b, name, "conv_1d", u, a->kernel, QN_ACT_NONE);
    qn_part_use_act(b, a->act);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_val in = head_gate(b, name, "rg_lru.input_gate", u, a);
    qn_val forget = head_gate(b, name, "rg_lru.recurrent_gate", u, a);
    qn_val rate =
        qn_part_numbers(b, name, "rg_lru.recurrent_param", (qn_part_shape){ 0, a->width }, rate_of);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_attr_lru attr = { .state = qn_graph_state(b->g, a->width) };
    u = QN_ADD(b->g, &qn_op_lru, &attr, mul(b, u, in), mul(b, forget, rate));
    return qn_part_linear(b, name, "linear_out", mul(b, u, act(b, y, a->act)), b->c->d_model, NULL);
}

/* ---- mixing with the token before ---- */

/* The row before each row less the row itself: a convolution of two taps. */
static qn_val step_back(qn_build *b, qn_val x)
{
    const qn_weight *w;
    int64_t d = b->c->d_model;
    if (qn_failed(b))
        return (qn_val){ 0 };
    float *taps = qn_part_fresh(b, "step_back", (qn_part_shape){ d, 2 }, &w);
    for (int64_t i = 0; i < d; i++) {
        taps[2 * i] = 1;
        taps[2 * i + 1] = -1;
    }
    qn_attr_conv attr = { .state = qn_graph_state(b->g, d), .kernel = 2 };
    return QN_ADD(b->g, &qn_op_conv, &attr, x, qn_graph_weight(b->g, w));
}

/* A vector of the block as wide as the stream. */
static qn_val vector(qn_build *b, const char *name, const char *leaf, float (*f)(float))
{
    return qn_part_numbers(b, name, leaf, (qn_part_shape){ 0, b->c->d_model }, f);
}

/* x + back * "<leaf>": each column by itself between the row and the one before. */
static qn_val blend(qn_build *b, const char *name, const char *leaf, qn_val x, qn_val back)
{
    qn_val share = vector(b, name, leaf, NULL);
    return qn_failed(b) ? x : add(b, x, mul(b, back, share));
}

typedef struct thin_of {
    const char *leaf;
    int rank;
} thin_of;

/* Two thin products with an activation between. */
static qn_val thin(qn_build *b, const char *name, thin_of of, qn_val x, qn_act a)
{
    const char *in = qn_arena_printf(&b->g->arena, "%s.lora.0", of.leaf);
    const char *out = qn_arena_printf(&b->g->arena, "%s.lora.2", of.leaf);
    qn_val h = qn_part_linear(b, name, in, x, of.rank, NULL);
    if (a != QN_ACT_NONE && !qn_failed(b))
        h = act(b, h, a);
    return qn_part_linear(b, name, out, h, b->c->d_model, NULL);
}

static float rest(float x)
{
    return 1 - x;
}

/* The blend of a layer's values with those of the first layer, which it sets. */
static qn_val blend_values(qn_build *b, const char *name, qn_val v, qn_val xv, qn_val *first,
                           int rank)
{
    if (first->id == 0) {
        *first = v;
        return v;
    }
    qn_val share = thin(b, name, (thin_of){ "v_lora", rank }, xv, QN_ACT_NONE);
    if (qn_failed(b))
        return v;
    qn_val gap = add(b, *first, scale(b, v, -1));
    return add(b, v, mul(b, gap, act(b, share, QN_ACT_SIGMOID)));
}

/* What a token sees of itself: its value times the sum of r k r_k over each head. */
static qn_val own_share(qn_build *b, const char *name, qn_val rk, qn_val v, int64_t heads)
{
    int64_t d = b->c->d_model / heads;
    qn_val w = qn_part_numbers(b, name, "r_k", (qn_part_shape){ heads, d }, NULL);
    if (qn_failed(b))
        return v;
    const qn_attr_head_linear attr = { .n_heads = (int32_t)heads };
    return mul(b, v, QN_ADD(b->g, &qn_op_head_linear, &attr, rk, w));
}

/* Streams of the rule, after norms and gates. */
typedef struct mix {
    qn_val r, decay, k, v, remove, put;
} mix;

static qn_val run_rule(qn_build *b, const char *name, const mix *m, const qn_time_mix *a)
{
    int64_t d = b->c->d_model;
    qn_attr_wkv attr = { .state = qn_graph_state(b->g, d * a->head_dim),
                         .n_heads = (int32_t)(d / a->head_dim),
                         .head_dim = a->head_dim };
    qn_val y = QN_ADD(b->g, &qn_op_wkv, &attr, m->r, m->decay, m->k, m->v, m->remove, m->put);
    const qn_attr_norm norm = { .eps = a->norm_eps * (float)a->head_dim,
                                .group = a->head_dim,
                                .center = true };
    qn_val w = vector(b, name, "g_norm.weight", NULL), bias = vector(b, name, "g_norm.bias", NULL);
    if (qn_failed(b))
        return y;
    y = QN_ADD(b->g, &qn_op_norm, &norm, y, w, bias);
    return add(b, y, own_share(b, name, mul(b, m->r, m->k), m->v, attr.n_heads));
}

qn_val qn_time_mixer(qn_build *b, const char *name, qn_val x, qn_val *first, const qn_time_mix *a)
{
    int64_t d = b->c->d_model;
    if (a->head_dim < 1 || d % a->head_dim != 0)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: hidden_size %lld is no multiple of head_dim %d",
                      (long long)d, a->head_dim);
    qn_part_enter(b, name, "");
    qn_val back = step_back(b, x), xv = blend(b, name, "x_v", x, back);
    mix m = { .r = qn_part_linear(b, name, "r_proj", blend(b, name, "x_r", x, back), d, NULL),
              .k = qn_part_linear(b, name, "k_proj", blend(b, name, "x_k", x, back), d, NULL),
              .v = qn_part_linear(b, name, "v_proj", xv, d, NULL) };
    m.v = blend_values(b, name, m.v, xv, first, a->value_rank);
    qn_val learn = thin(b, name, (thin_of){ "a_lora", a->learn_rank },
                        blend(b, name, "x_a", x, back), QN_ACT_NONE);
    qn_val gate = thin(b, name, (thin_of){ "g_lora", a->gate_rank }, blend(b, name, "x_g", x, back),
                       QN_ACT_SIGMOID);
    m.decay = thin(b, name, (thin_of){ "w_lora", a->decay_rank }, blend(b, name, "x_w", x, back),
                   QN_ACT_TANH);
    qn_val k_k = vector(b, name, "k_k", NULL), k_a = vector(b, name, "k_a", NULL);
    qn_val k_rest = vector(b, name, "k_a", rest);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    learn = act(b, learn, QN_ACT_SIGMOID);
    m.decay = scale(b, act(b, m.decay, QN_ACT_SIGMOID), -0.606531f); /* -exp(-1/2) */
    /* The removed key has length 1: an RMS norm over the square root of its size. */
    const qn_attr_norm unit = { .eps = 1e-14f / (float)a->head_dim, .group = a->head_dim };
    qn_val key = QN_ADD(b->g, &qn_op_norm, &unit, mul(b, m.k, k_k));
    key = scale(b, key, 1 / sqrtf((float)a->head_dim));
    m.remove = scale(b, key, -1);
    m.put = mul(b, key, learn);
    m.k = mul(b, m.k, add(b, mul(b, learn, k_a), k_rest));
    qn_val y = run_rule(b, name, &m, a);
    if (qn_failed(b))
        return (qn_val){ 0 };
    return qn_part_linear(b, name, "o_proj", mul(b, y, gate), d, NULL);
}

qn_val qn_channel_mixer(qn_build *b, const char *name, qn_val x, int64_t d_ff)
{
    qn_part_enter(b, name, "");
    qn_val h = blend(b, name, "x_k", x, step_back(b, x));
    h = qn_part_linear(b, name, "key", h, d_ff, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    return qn_part_linear(b, name, "value", act(b, h, QN_ACT_RELU2), b->c->d_model, NULL);
}
