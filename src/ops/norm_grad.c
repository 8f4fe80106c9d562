/* norm_grad.c - the gradient of norm (see norm.c for u, the groups and the parameters).
 *
 * With s = 1 / sqrt(mean(u^2) + eps), n = u s (the normed values) and e = dout * (w + offset):
 *   dx     = s * (e - n * mean(e n))            and, when centred, minus s * mean(e)
 *   dw     = sum over rows (and groups that share w) of dout * n
 *   dbias  = sum over rows (and groups) of dout
 * x [R, W], w?, dout [R, W] -> dx [R, W], dw like w, dbias like w; only dx when there is no w. */
#include <math.h>

#include "ops/util.h"

/* A bias always has the weight's size, so its gradient does, whether or not there is a bias. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    qn_node norm = *n;
    norm.n_in = 2;
    if (!qn_op_norm.infer(&norm, in, out, why))
        return false;
    if (!qn_shape_eq(&in[2], &in[0]))
        return qn_refuse(why, "dout is like x");
    if (in[1].n_dims)
        out[1] = out[2] = qn_shape1(in[1].dim[0], QN_F32);
    return true;
}

typedef struct group_call {
    const qn_attr_norm *attr;
    const float *x, *w, *dy; /* one group; w NULL = none */
    float *dx;
    double *dw, *dbias; /* what this group adds to; NULL = none */
    int64_t n;
} group_call;

static void group_grad(const group_call *g)
{
    double mean = 0, square = 0, mean_e = 0, mean_en = 0, n = (double)g->n;
    for (int64_t i = 0; g->attr->center && i < g->n; i++)
        mean += g->x[i] / n;
    for (int64_t i = 0; i < g->n; i++)
        square += (g->x[i] - mean) * (g->x[i] - mean);
    double s = 1 / sqrt(square / n + g->attr->eps);
    for (int64_t i = 0; i < g->n; i++) {
        double norm = (g->x[i] - mean) * s;
        double e = g->dy[i] * (g->w ? (double)g->w[i] + g->attr->offset : 1.0);
        mean_e += e / n;
        mean_en += e * norm / n;
        if (g->dw)
            g->dw[i] += g->dy[i] * norm;
        if (g->dbias)
            g->dbias[i] += g->dy[i];
    }
    for (int64_t i = 0; i < g->n; i++) {
        double norm = (g->x[i] - mean) * s;
        double e = g->dy[i] * (g->w ? (double)g->w[i] + g->attr->offset : 1.0);
        g->dx[i] = (float)(s * (e - norm * mean_en - (g->attr->center ? mean_e : 0)));
    }
}

static void put_floats(float *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)x[i];
}

/* dw and dbias are summed in double over all rows; two sweeps a group, statistics first. */
static void ref(const qn_call *c)
{
    const qn_attr_norm *a = c->attr;
    int64_t width = c->out[0].width, group = a->group ? a->group : width;
    qn_norm_params p = qn_norm_params_read(a, &c->in[1], &(qn_tensor){ 0 }, width);
    double *dw = qn_alloc_n((size_t)p.n * 2, sizeof *dw), *dbias = dw + p.n;
    for (int64_t at = 0; at < c->out[0].rows * width; at += group) {
        int64_t o = p.n == width ? at % width : 0;
        group_grad(&(group_call){ .attr = a,
                                  .x = (const float *)c->in[0].data + at,
                                  .w = p.w ? p.w + o : NULL,
                                  .dy = (const float *)c->in[2].data + at,
                                  .dx = (float *)c->out[0].data + at,
                                  .dw = dw + o,
                                  .dbias = dbias + o,
                                  .n = group });
    }
    if (p.w) {
        put_floats(c->out[1].data, dw, p.n);
        put_floats(c->out[2].data, dbias, p.n);
    }
    qn_free(dw);
    qn_norm_params_free(&p);
}

const qn_op qn_op_norm_grad = { .name = "norm_grad",
                                .attr_size = sizeof(qn_attr_norm),
                                .min_in = 3,
                                .max_in = 3,
                                .n_out = 3,
                                .infer = infer,
                                .ref = ref };
