/* norm.c - RMS norm and LayerNorm, of whole rows or of each head by itself.
 *
 *   u = x - mean(x)  when `center`, else x
 *   y = u / sqrt(mean(u^2) + eps) * (w + offset) + bias
 * over each group of `group` columns (0 = the whole row). w and bias are [group] (shared by all groups) or
 * [W]; both are optional. Statistics are in double: a row of thousands of squares is where f32 would lose
 * first. In place: y may lie on x. */
#include <math.h>

#include "ops/util.h"

/* A group is a head. A row that groups do not fill would leave columns unnormed. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_norm *a = n->attr;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, W]");
    int64_t width = in[0].dim[1], group = a->group ? a->group : width;
    if (group <= 0 || width % group != 0)
        return qn_refuse(why, "the groups do not fill the row");
    for (int k = 1; k < n->n_in; k++)
        if (!qn_is_opt_vec(&in[k], group) && !qn_is_vec(&in[k], width))
            return qn_refuse(why, "weight and bias are as wide as a group or a row");
    if (n->n_in > 2 && in[2].n_dims && (!in[1].n_dims || in[1].dim[0] != in[2].dim[0]))
        return qn_refuse(why, "a bias comes with a weight of its size");
    out[0] = in[0];
    return true;
}

/* One group: x, w and bias start at it. */
static void norm_group(const qn_attr_norm *a, const float *x, const float *w, const float *bias,
                       float *y, int64_t n)
{
    double mean = 0, square = 0;
    if (a->center) {
        for (int64_t i = 0; i < n; i++)
            mean += x[i];
        mean /= (double)n;
    }
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean);
    double inv = 1 / sqrt(square / (double)n + a->eps);
    for (int64_t i = 0; i < n; i++) {
        float u = (float)((x[i] - mean) * inv);
        if (w)
            u *= w[i] + a->offset;
        y[i] = bias ? u + bias[i] : u;
    }
}

void qn_norm_row(const qn_attr_norm *a, const qn_norm_params *p, const float *x, float *y,
                 int64_t width)
{
    int64_t group = a->group ? a->group : width;
    for (int64_t at = 0; at < width; at += group) {
        int64_t o = p->n == width ? at : 0; /* where this group's weights start */
        norm_group(a, x + at, p->w ? p->w + o : NULL, p->bias ? p->bias + o : NULL, y + at, group);
    }
}

qn_norm_params qn_norm_params_read(const qn_attr_norm *a, const qn_tensor *w, const qn_tensor *bias,
                                   int64_t width)
{
    qn_norm_params p = { .n = a->group ? a->group : width };
    if (w->weight)
        p.n = qn_weight_elems(w->weight);
    else if (w->data)
        p.n = w->rows; /* a vector has one number a row */
    p.w = qn_ref_floats_dup(w, p.n);
    p.bias = qn_ref_floats_dup(bias, p.n);
    return p;
}

void qn_norm_params_free(qn_norm_params *p)
{
    qn_free(p->w);
    qn_free(p->bias);
}

static void ref(const qn_call *c)
{
    int64_t width = c->out[0].width;
    qn_norm_params p = qn_norm_params_read(c->attr, &c->in[1], &c->in[2], width);
    for (int64_t r = 0; r < c->out[0].rows; r++)
        qn_norm_row(c->attr, &p, (const float *)c->in[0].data + r * width,
                    (float *)c->out[0].data + r * width, width);
    qn_norm_params_free(&p);
}

/* One op gives all three, since they share the statistics. Without a weight only dx exists. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    qn_val d = QN_ADD(g, &qn_op_norm_grad, n.attr, n.in[0], n.in[1], dout[0]);
    din[0] = d;
    if (n.in[1].id)
        din[1] = qn_out(d, 1);
    if (n.in[2].id)
        din[2] = qn_out(d, 2);
}

const qn_op qn_op_norm = { .name = "norm",
                           .attr_size = sizeof(qn_attr_norm),
                           .min_in = 1,
                           .max_in = 3,
                           .n_out = 1,
                           .in_place = true,
                           .infer = infer,
                           .ref = ref,
                           .grad = grad };
