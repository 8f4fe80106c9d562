/* ssm.c - state-space mixers: products, a short convolution, the scan, a gate.
 *
 * The two kinds differ in where dt, B and C come from and in what a head is; the scan op serves both. Names of
 * parts are the same in every checkpoint that has them. */
#include <string.h>

#include "blocks/parts.h"

/* softplus(dt), after adding the vector `bias` where there is one. */
static qn_val positive_dt(qn_build *b, qn_val dt, qn_val bias)
{
    if (bias.id)
        dt = QN_ADD(b->g, &qn_op_add, NULL, dt, bias);
    return QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ QN_ACT_SOFTPLUS }, dt);
}

static qn_val gated(qn_build *b, qn_val y, qn_val z)
{
    z = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ QN_ACT_SILU }, z);
    return QN_ADD(b->g, &qn_op_mul, NULL, y, z);
}

/* Norm of dt, B or C of the first kind, if it has one. */
static qn_val norm_part(qn_build *b, const char *name, const char *leaf, qn_val x, const qn_ssm1 *a)
{
    if (leaf)
        return qn_part_norm(b, name, leaf, x, &(qn_attr_norm){ .eps = a->norm_eps });
    if (a->bare_eps > 0)
        return QN_ADD(b->g, &qn_op_norm, &(qn_attr_norm){ .eps = a->bare_eps }, x);
    return x;
}

qn_val qn_ssm1_mixer(qn_build *b, const char *name, qn_val x, const qn_ssm1 *a)
{
    int64_t d = a->d_inner, n = a->d_state;
    qn_part_expect_bias(b, name, "in_proj", a->proj_bias);
    qn_part_expect_bias(b, name, "conv1d", a->conv_bias);
    qn_part_expect_bias(b, name, "out_proj", a->proj_bias);
    qn_val h = qn_part_linear(b, name, "in_proj", x, 2 * d, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_val z = qn_part_split(b, h, d, d);
    qn_val u = qn_part_conv(b, name, "conv1d", qn_part_split(b, h, 0, d), a->kernel, QN_ACT_SILU);
    qn_val parts = qn_part_linear(b, name, "x_proj", u, a->dt_rank + 2 * n, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_val dt = norm_part(b, name, a->dt_norm, qn_part_split(b, parts, 0, a->dt_rank), a);
    qn_val in = norm_part(b, name, a->b_norm, qn_part_split(b, parts, a->dt_rank, n), a);
    qn_val out = norm_part(b, name, a->c_norm, qn_part_split(b, parts, a->dt_rank + n, n), a);
    dt = positive_dt(b, qn_part_linear(b, name, "dt_proj", dt, d, NULL), (qn_val){ 0 });
    qn_val decay = qn_part_numbers(b, name, "A_log", (qn_part_shape){ d, n }, qn_part_minus_exp);
    qn_val skip = qn_part_numbers(b, name, "D", (qn_part_shape){ 0, d }, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_attr_scan attr = { .state = qn_graph_state(b->g, d * n),
                          .n_heads = a->d_inner,
                          .head_dim = 1,
                          .n_groups = 1,
                          .d_state = a->d_state };
    qn_val y = QN_ADD(b->g, &qn_op_scan, &attr, u, dt, decay, in, out, skip);
    return qn_part_linear(b, name, "out_proj", gated(b, y, z), b->c->d_model, NULL);
}

/* The factors on the parts of in_proj's result. */
static qn_val scale_parts(qn_build *b, qn_val h, const qn_ssm2 *a)
{
    static const float none[5], ones[5] = { 1, 1, 1, 1, 1 };
    int64_t d = (int64_t)a->n_heads * a->head_dim, n = (int64_t)a->n_groups * a->d_state;
    const int64_t width[5] = { d, d, n, n, a->n_heads };
    const qn_weight *factors;
    if (memcmp(a->scale, none, sizeof none) == 0 || memcmp(a->scale, ones, sizeof ones) == 0)
        return h;
    float *f =
        qn_part_fresh(b, "factors", (qn_part_shape){ 0, 2 * (d + n) + a->n_heads }, &factors);
    for (int i = 0; i < 5; i++)
        for (int64_t k = 0; k < width[i]; k++)
            *f++ = a->scale[i];
    return QN_ADD(b->g, &qn_op_mul, NULL, h, qn_graph_weight(b->g, factors));
}

/* One row's weight stands for all groups; qn_part_norm takes a weight as wide as a group. */
static qn_val norm_groups(qn_build *b, const char *name, qn_val y, const qn_ssm2 *a)
{
    int64_t d = (int64_t)a->n_heads * a->head_dim;
    qn_attr_norm attr = { .eps = a->norm_eps, .group = (int32_t)(d / a->n_groups) };
    qn_val w = qn_part_numbers(b, name, "norm.weight", (qn_part_shape){ 0, d }, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    return QN_ADD(b->g, &qn_op_norm, &attr, y, w);
}

static qn_val scan2(qn_build *b, const char *name, qn_val xbc, qn_val dt, const qn_ssm2 *a)
{
    int64_t d = (int64_t)a->n_heads * a->head_dim, n = (int64_t)a->n_groups * a->d_state;
    const qn_part_shape heads = { 0, a->n_heads };
    qn_val decay = qn_part_numbers(b, name, "A_log", heads, qn_part_minus_exp);
    qn_val skip = qn_part_numbers(b, name, "D", heads, NULL);
    qn_val bias = qn_part_numbers(b, name, "dt_bias", heads, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    dt = positive_dt(b, dt, bias);
    qn_attr_scan attr = { .state = qn_graph_state(b->g, d * a->d_state),
                          .n_heads = a->n_heads,
                          .head_dim = a->head_dim,
                          .n_groups = a->n_groups,
                          .d_state = a->d_state,
                          .dt_min = a->dt_min,
                          .dt_max = a->dt_max };
    return QN_ADD(b->g, &qn_op_scan, &attr, qn_part_split(b, xbc, 0, d), dt, decay,
                  qn_part_split(b, xbc, d, n), qn_part_split(b, xbc, d + n, n), skip);
}

qn_val qn_ssm2_mixer(qn_build *b, const char *name, qn_val x, const qn_ssm2 *a)
{
    int64_t d = (int64_t)a->n_heads * a->head_dim, n = (int64_t)a->n_groups * a->d_state;
    if (a->n_heads < 1 || a->n_groups < 1 || d < 1 || d % a->n_groups != 0)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: %d state-space heads of %d in %d groups",
                      a->n_heads, a->head_dim, a->n_groups);
    qn_part_expect_bias(b, name, "in_proj", a->proj_bias);
    qn_part_expect_bias(b, name, "conv1d", a->conv_bias);
    qn_part_expect_bias(b, name, "out_proj", a->out_bias);
    qn_val h = qn_part_linear(b, name, "in_proj", x, 2 * (d + n) + a->n_heads, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    h = scale_parts(b, h, a);
    qn_val z = qn_part_split(b, h, 0, d), xbc = qn_part_split(b, h, d, d + 2 * n);
    qn_val dt = qn_part_split(b, h, 2 * (d + n), a->n_heads);
    xbc = qn_part_conv(b, name, "conv1d", xbc, a->kernel, QN_ACT_SILU);
    qn_val y = scan2(b, name, xbc, dt, a);
    if (qn_failed(b))
        return (qn_val){ 0 };
    if (a->out == QN_NORM_THEN_GATE)
        y = norm_groups(b, name, y, a);
    y = gated(b, y, z);
    if (a->out == QN_GATE_THEN_NORM)
        y = norm_groups(b, name, y, a);
    return qn_part_linear(b, name, "out_proj", y, b->c->d_model, NULL);
}

/* RMS norm by a vector that is no ".weight". */
static qn_val norm_by(qn_build *b, const char *name, const char *leaf, qn_val x, float eps)
{
    qn_shape in = qn_shape_of(b->g, x);
    qn_val w = qn_part_numbers(b, name, leaf, (qn_part_shape){ 0, qn_shape_width(&in) }, NULL);
    return qn_failed(b) ? x : QN_ADD(b->g, &qn_op_norm, &(qn_attr_norm){ .eps = eps }, x, w);
}

qn_val qn_ssm3_mixer(qn_build *b, const char *name, qn_val x, const qn_ssm3 *a)
{
    int64_t p = a->head_dim, d = a->n_heads * p, n = a->d_state;
    const qn_part_shape heads = { 0, a->n_heads };
    qn_val h = qn_part_linear(b, name, "in_proj", x, 2 * d, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_val z = qn_part_split_groups(b, h, 0, p, 2 * p);
    qn_val u = qn_part_split_groups(b, h, p, p, 2 * p);
    u = qn_part_conv(b, name, "conv1d", u, a->kernel, QN_ACT_SILU);
    qn_val parts = qn_part_linear(b, name, "bcdt_proj", u, a->dt_rank + 2 * n, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_val in = norm_by(b, name, "B_norm_weight", qn_part_split(b, parts, 0, n), a->norm_eps);
    qn_val out = norm_by(b, name, "C_norm_weight", qn_part_split(b, parts, n, n), a->norm_eps);
    qn_val dt =
        norm_by(b, name, "dt_norm_weight", qn_part_split(b, parts, 2 * n, a->dt_rank), a->norm_eps);
    dt = qn_part_linear(b, name, "dt_proj", dt, a->n_heads, NULL);
    qn_val bias = qn_part_numbers(b, name, "dt_bias", heads, NULL);
    qn_val decay = qn_part_numbers(b, name, "A_log", heads, qn_part_minus_exp);
    qn_val skip = qn_part_numbers(b, name, "D", heads, NULL);
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_part_enter(b, name, "");
    qn_attr_scan attr = { .state = qn_graph_state(b->g, d * n),
                          .n_heads = a->n_heads,
                          .head_dim = a->head_dim,
                          .n_groups = 1,
                          .d_state = a->d_state };
    qn_val y = QN_ADD(b->g, &qn_op_scan, &attr, u, positive_dt(b, dt, bias), decay, in, out, skip);
    return qn_part_linear(b, name, "out_proj", gated(b, y, z), b->c->d_model, NULL);
}
