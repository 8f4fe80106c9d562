/* delta.c - layers of the gated delta rule: short convolutions of q, k and v, decays, and a gated norm of the result.
 *
 * Checkpoints keep the products together, apart, or side by side head by head; which, their tensors tell. Norms
 * of q and k to length 1 are RMS norms times 1 / sqrt(dim). */
#include <math.h>

#include "blocks/parts.h"

/* What the input gives: conv'd q, k, v; logarithms of decays before A; beta; the gate. */
typedef struct streams {
    qn_val q, k, v, a, beta, z;
} streams;

static int64_t key_width(const qn_delta *d)
{
    return (int64_t)d->n_key_heads * d->k_dim;
}

static int64_t value_width(const qn_delta *d)
{
    return (int64_t)d->n_heads * d->v_dim;
}

static bool has_part(qn_build *b, const char *name, const char *leaf)
{
    return qn_part_find(b, qn_part_name(b, name, leaf), ".weight") != NULL;
}

/* q, k, v and z stand together for each key head; so do beta and a. */
static streams by_heads(qn_build *b, const char *name, qn_val x, const qn_delta *d)
{
    int64_t each = d->n_heads / d->n_key_heads, v = each * d->v_dim, all = 2 * d->k_dim + 2 * v;
    qn_val h = qn_part_linear(b, name, "in_proj_qkvz", x, d->n_key_heads * all, NULL);
    qn_val g = qn_part_linear(b, name, "in_proj_ba", x, 2 * (int64_t)d->n_heads, NULL);
    return (streams){ .q = qn_part_split_groups(b, h, 0, d->k_dim, all),
                      .k = qn_part_split_groups(b, h, d->k_dim, d->k_dim, all),
                      .v = qn_part_split_groups(b, h, 2 * d->k_dim, v, all),
                      .z = qn_part_split_groups(b, h, 2 * d->k_dim + v, v, all),
                      .beta = qn_part_split_groups(b, g, 0, each, 2 * each),
                      .a = qn_part_split_groups(b, g, each, each, 2 * each) };
}

static streams together(qn_build *b, const char *name, qn_val x, const qn_delta *d)
{
    int64_t k = key_width(d), v = value_width(d);
    qn_val h = qn_part_linear(b, name, "in_proj_qkv", x, 2 * k + v, NULL);
    return (streams){ .q = qn_part_split(b, h, 0, k),
                      .k = qn_part_split(b, h, k, k),
                      .v = qn_part_split(b, h, 2 * k, v),
                      .z = qn_part_linear(b, name, "in_proj_z", x, v, NULL),
                      .beta = qn_part_linear(b, name, "in_proj_b", x, d->n_heads, NULL),
                      .a = qn_part_linear(b, name, "in_proj_a", x, d->n_heads, NULL) };
}

/* Product of two thin matrices, or of one, as the file has it. */
static qn_val thin(qn_build *b, const char *name, const char *leaf[3], qn_val x, int64_t n)
{
    if (has_part(b, name, leaf[0]))
        return qn_part_linear(b, name, leaf[0], x, n, NULL);
    const qn_weight *w = qn_part_find(b, qn_part_name(b, name, leaf[1]), ".weight");
    return qn_part_linear(b, name, leaf[2],
                          qn_part_linear(b, name, leaf[1], x, w ? w->dim[0] : n, NULL), n, NULL);
}

static streams apart(qn_build *b, const char *name, qn_val x, const qn_delta *d)
{
    int64_t k = key_width(d), v = value_width(d), n = d->channel_decay ? k : d->n_heads;
    return (
        streams){ .q = qn_part_linear(b, name, "q_proj", x, k, NULL),
                  .k = qn_part_linear(b, name, "k_proj", x, k, NULL),
                  .v = qn_part_linear(b, name, "v_proj", x, v, NULL),
                  .z = thin(b, name, (const char *[]){ "g_proj", "g_a_proj", "g_b_proj" }, x, v),
                  .beta = qn_part_linear(b, name, "b_proj", x, d->n_heads, NULL),
                  .a = thin(b, name, (const char *[]){ "a_proj", "f_a_proj", "f_b_proj" }, x, n) };
}

/* Convolutions of q, k and v: each its own, or rows of one over all three. */
static void convolve(qn_build *b, const char *name, streams *s, const qn_delta *d)
{
    int64_t k = key_width(d), v = value_width(d), all = 2 * k + v;
    qn_val *x[3] = { &s->q, &s->k, &s->v };
    const char *leaf[3] = { "q_conv1d", "k_conv1d", "v_conv1d" };
    const int64_t start[3] = { 0, k, 2 * k };
    bool one = has_part(b, name, "conv1d");
    for (int i = 0; i < 3; i++) {
        qn_part_conv_of part = { .kernel = d->kernel,
                                 .act = QN_ACT_SILU,
                                 .total = one ? all : 0,
                                 .start = one ? start[i] : 0 };
        *x[i] = qn_part_conv_rows(b, name, one ? "conv1d" : leaf[i], *x[i], &part);
    }
}

/* Every head made as long as `length`. */
static qn_val unit_heads(qn_build *b, qn_val x, int dim, double length)
{
    if (qn_failed(b))
        return x;
    const qn_attr_norm attr = { .eps = 1e-6f / (float)dim, .group = dim };
    x = QN_ADD(b->g, &qn_op_norm, &attr, x);
    return QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ (float)(length / sqrt(dim)) }, x);
}

/* -exp(A_log) softplus(a + dt_bias): the logarithm of what is kept. */
static qn_val decay(qn_build *b, const char *name, qn_val a, const qn_delta *d)
{
    int64_t n = d->channel_decay ? key_width(d) : d->n_heads;
    const qn_part_shape heads = { 0, d->n_heads };
    qn_val bias = qn_part_numbers(b, name, "dt_bias", (qn_part_shape){ 0, n }, NULL);
    qn_val rate = d->channel_decay
                      ? qn_part_spread(b, name, "A_log", d->n_heads, d->k_dim, qn_part_minus_exp)
                      : qn_part_numbers(b, name, "A_log", heads, qn_part_minus_exp);
    if (qn_failed(b))
        return (qn_val){ 0 };
    a = QN_ADD(b->g, &qn_op_add, NULL, a, bias);
    a = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ QN_ACT_SOFTPLUS }, a);
    return QN_ADD(b->g, &qn_op_mul, NULL, a, rate);
}

qn_val qn_gated_delta(qn_build *b, const char *name, qn_val x, const qn_delta *d)
{
    if (d->n_heads < 1 || d->n_key_heads < 1 || d->n_heads % d->n_key_heads != 0 || d->k_dim < 1 ||
        d->v_dim < 1)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: %d value heads of %d for %d key heads of %d",
                      d->n_heads, d->v_dim, d->n_key_heads, d->k_dim);
    if (qn_failed(b))
        return (qn_val){ 0 };
    streams s = has_part(b, name, "in_proj_qkvz")  ? by_heads(b, name, x, d)
                : has_part(b, name, "in_proj_qkv") ? together(b, name, x, d)
                                                   : apart(b, name, x, d);
    convolve(b, name, &s, d);
    qn_val fade = decay(b, name, s.a, d);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_val beta = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ QN_ACT_SIGMOID }, s.beta);
    if (d->beta_scale != 0 && d->beta_scale != 1)
        beta = QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ d->beta_scale }, beta);
    qn_attr_delta attr = { .state = qn_graph_state(b->g, value_width(d) * d->k_dim),
                           .n_heads = d->n_heads,
                           .n_key_heads = d->n_key_heads,
                           .k_dim = d->k_dim,
                           .v_dim = d->v_dim };
    qn_val y = QN_ADD(b->g, &qn_op_delta, &attr, unit_heads(b, s.q, d->k_dim, 1 / sqrt(d->k_dim)),
                      unit_heads(b, s.k, d->k_dim, 1), s.v, fade, beta);
    const qn_attr_norm norm = { .eps = d->norm_eps, .group = d->v_dim };
    y = qn_part_norm(b, name, d->norm ? d->norm : "norm", y, &norm);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_val gate = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)d->gate_act }, s.z);
    y = QN_ADD(b->g, &qn_op_mul, NULL, y, gate);
    return qn_part_linear(b, name, d->out ? d->out : "out_proj", y, b->c->d_model, NULL);
}
