/* linears.c - fused: up to four products of the same rows (q, k and v; gate and up), without biases.
 *
 * x [R, K], w0 [N0, K], w1 [N1, K], ... -> [R, N0], [R, N1], ... Expands into linears. x is read (and, where a
 * backend does so, quantised) once. */
#include "ops/util.h"

/* As many results as weights: the count of inputs decides. */
static bool infer(const qn_node *n, const qn_shape *in, qn_shape *out, const char **why)
{
    if (!qn_is_rows(&in[0]))
        return qn_refuse(why, "x is f32 [R, K]");
    for (int i = 1; i < n->n_in; i++) {
        if (!qn_is_mat(&in[i]) || in[i].dim[1] != in[0].dim[1])
            return qn_refuse(why, "each w is [N, K]");
        out[i - 1] = qn_shape2(in[0].dim[0], in[i].dim[0], QN_F32);
    }
    return true;
}

/* Each product by the definition of linear: the same call with one weight and one result. */
static void ref(const qn_call *c)
{
    for (int i = 0; i < c->node->n_out; i++) {
        qn_call one = *c;
        one.in[1] = c->in[1 + i];
        one.in[2] = (qn_tensor){ 0 };
        one.out[0] = c->out[i];
        qn_op_linear.ref(&one);
    }
}

static void expand(qn_graph *g, const qn_node *n, const qn_val *in, qn_val *out)
{
    for (int i = 0; i < n->n_out; i++)
        out[i] = QN_ADD(g, &qn_op_linear, NULL, in[0], in[1 + i]);
}

const qn_op qn_op_linears = { .name = "linears",
                              .min_in = 2,
                              .max_in = 1 + QN_MAX_OUT,
                              .n_out = QN_MAX_OUT,
                              .infer = infer,
                              .ref = ref,
                              .expand = expand };
