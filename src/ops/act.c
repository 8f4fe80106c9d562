/* act.c - activations, element by element: y = act(x). In place: y may lie on x.
 *
 *   silu       x s(x)              with s(x) = 1 / (1 + exp(-x))
 *   gelu       x Phi(x)            Phi the normal distribution function, by erf
 *   gelu_tanh  x (1 + tanh(c (x + 0.044715 x^3))) / 2,  c = sqrt(2 / pi)
 *   gelu_quick x s(1.702 x)
 *   relu2      max(x, 0)^2
 *   softplus   log(1 + exp(x)), as x + log(1 + exp(-x)) for large x
 * Each is computed in double and rounded once; the slopes below are their derivatives. */
#include <math.h>

#include "ops/util.h"

static const double gelu_c = 0.79788456080286535588; /* sqrt(2 / pi) */
static const double gelu_k = 0.044715;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double qn_act_value(qn_act act, double x)
{
    switch (act) {
    case QN_ACT_NONE:
        return x;
    case QN_ACT_SILU:
        return x * sigmoid(x);
    case QN_ACT_GELU:
        return x * 0.5 * (1 + erf(x * M_SQRT1_2));
    case QN_ACT_GELU_TANH:
        return x * 0.5 * (1 + tanh(gelu_c * (x + gelu_k * x * x * x)));
    case QN_ACT_GELU_QUICK:
        return x * sigmoid(1.702 * x);
    case QN_ACT_RELU:
        return x > 0 ? x : 0;
    case QN_ACT_RELU2:
        return x > 0 ? x * x : 0;
    case QN_ACT_SIGMOID:
        return sigmoid(x);
    case QN_ACT_TANH:
        return tanh(x);
    case QN_ACT_SOFTPLUS:
        return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    }
    return x;
}

static double gelu_tanh_slope(double x)
{
    double t = tanh(gelu_c * (x + gelu_k * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * gelu_c * (1 + 3 * gelu_k * x * x);
}

double qn_act_slope(qn_act act, double x)
{
    double s;
    switch (act) {
    case QN_ACT_NONE:
        return 1;
    case QN_ACT_SILU:
        s = sigmoid(x);
        return s * (1 + x * (1 - s));
    case QN_ACT_GELU:
        return 0.5 * (1 + erf(x * M_SQRT1_2)) + x * exp(-0.5 * x * x) * gelu_c / 2;
    case QN_ACT_GELU_TANH:
        return gelu_tanh_slope(x);
    case QN_ACT_GELU_QUICK:
        s = sigmoid(1.702 * x);
        return s * (1 + 1.702 * x * (1 - s));
    case QN_ACT_RELU:
        return x > 0;
    case QN_ACT_RELU2:
        return x > 0 ? 2 * x : 0;
    case QN_ACT_SIGMOID:
        s = sigmoid(x);
        return s * (1 - s);
    case QN_ACT_TANH:
        s = tanh(x);
        return 1 - s * s;
    case QN_ACT_SOFTPLUS:
        return sigmoid(x);
    }
    return 1;
}

/* The number comes from a config; an unknown one is refused and never guessed. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    const qn_attr_act *a = n->attr;
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, W]");
    if (a->act < QN_ACT_NONE || a->act > QN_ACT_SOFTPLUS)
        return qn_refuse(why, "no such activation");
    out[0] = in[0];
    return true;
}

static void ref(const qn_call *c)
{
    qn_act act = (qn_act)((const qn_attr_act *)c->attr)->act;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < c->out[0].rows * c->out[0].width; i++)
        y[i] = (float)qn_act_value(act, x[i]);
}

/* Through x and not through y: several of these have no inverse. */
static void grad(qn_graph *g, qn_val self, const qn_val *dout, qn_val *din)
{
    const qn_node n = *qn_node_at(g, self);
    din[0] = QN_ADD(g, &qn_op_act_grad, n.attr, n.in[0], dout[0]);
}

const qn_op qn_op_act = { .name = "act",
                          .attr_size = sizeof(qn_attr_act),
                          .min_in = 1,
                          .max_in = 1,
                          .n_out = 1,
                          .in_place = true,
                          .infer = infer,
                          .ref = ref,
                          .grad = grad };
