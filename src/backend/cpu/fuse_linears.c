/* fuse_linears.c - products of one input (q, k and v; gate and up) become one op: the input is quantised once,
 * the threads meet once, and small matrices share the work of a large one. */
#include "backend/cpu/cpu.h"

#define MAX_PRODUCTS 4

/* A product of x with a matrix and without a bias. */
static bool is_product(const qn_graph *g, int32_t id, qn_val x)
{
    const qn_node *n = &g->node[id];
    return n->op == &qn_op_linear && n->in[0].id == x.id && (n->n_in < 3 || n->in[2].id == 0) &&
           qn_node_at(g, n->in[1])->op == &qn_op_weight;
}

static bool apply(qn_rewrite *rw, int32_t id)
{
    const qn_graph *g = rw->from;
    qn_val x = g->node[id].in[0];
    int32_t found[MAX_PRODUCTS], n = 0;
    if (!is_product(g, id, x))
        return false;
    for (int32_t i = id; i < g->n_nodes && n < MAX_PRODUCTS; i++)
        if (is_product(g, i, x) && rw->n_uses[i] > 0 && rw->map[i].id == 0)
            found[n++] = i;
    if (n < 2)
        return false;
    qn_val in[1 + MAX_PRODUCTS] = { qn_rewrite_val(rw, x) };
    for (int32_t i = 0; i < n; i++)
        in[1 + i] = qn_rewrite_val(rw, g->node[found[i]].in[1]);
    qn_val y = qn_graph_add(rw->to, &qn_op_linears, NULL, in, 1 + n);
    for (int32_t i = 0; i < n; i++)
        qn_rewrite_set(rw, (qn_val){ found[i] }, qn_out(y, i));
    return true;
}

const qn_fuse_rule qn_cpu_fuse_linears = { "linears", apply };
