/* fuse_add_norm.c - a residual sum and the norm that reads it: one pass over the row, and one step less that a
 * single thread does while the others wait. */
#include "backend/cpu/cpu.h"

/* The first norm of v, or 0. */
static int32_t norm_of(const qn_rewrite *rw, int32_t v)
{
    const qn_graph *g = rw->from;
    for (int32_t i = v + 1; i < g->n_nodes; i++)
        if (g->node[i].op == &qn_op_norm && g->node[i].in[0].id == v && rw->n_uses[i] > 0)
            return i;
    return 0;
}

static bool apply(qn_rewrite *rw, int32_t id)
{
    const qn_graph *g = rw->from;
    const qn_node *n = &g->node[id];
    if (n->op != &qn_op_add)
        return false;
    qn_shape a = qn_shape_of(g, n->in[0]), b = qn_shape_of(g, n->in[1]);
    if (a.n_dims != 2 || b.n_dims != 2 || a.dim[0] != b.dim[0] || a.dim[1] != b.dim[1])
        return false;
    int32_t id2 = norm_of(rw, id);
    if (id2 == 0)
        return false;
    const qn_node *norm = &g->node[id2];
    qn_val in[QN_MAX_IN] = { qn_rewrite_val(rw, n->in[0]), qn_rewrite_val(rw, n->in[1]) };
    for (int k = 1; k < norm->n_in; k++) { /* weights: there at any time */
        if (norm->in[k].id && qn_node_at(g, norm->in[k])->op != &qn_op_weight)
            return false;
        in[1 + k] = qn_rewrite_val(rw, norm->in[k]);
    }
    qn_val y = qn_graph_add(rw->to, &qn_op_add_norm, norm->attr, in, 1 + norm->n_in);
    qn_rewrite_set(rw, (qn_val){ id }, y);
    qn_rewrite_set(rw, (qn_val){ id2 }, qn_out(y, 1));
    return true;
}

const qn_fuse_rule qn_cpu_fuse_add_norm = { "add_norm", apply };
