/* fuse_glu.c - act(gate) * up in one pass over memory. */
#include "backend/cpu/cpu.h"

/* v when it is an activation that only this product reads. */
static const qn_node *act_of(const qn_rewrite *rw, qn_val v)
{
    const qn_node *n = qn_node_at(rw->from, v);
    return v.id && n->op == &qn_op_act && rw->n_uses[v.id] == 1 ? n : NULL;
}

static bool apply(qn_rewrite *rw, int32_t id)
{
    const qn_graph *g = rw->from;
    const qn_node *n = &g->node[id];
    if (n->op != &qn_op_mul)
        return false;
    int side = act_of(rw, n->in[0]) ? 0 : 1;
    const qn_node *act = act_of(rw, n->in[side]);
    if (!act)
        return false;
    qn_val up = n->in[1 - side];
    qn_shape a = qn_shape_of(g, act->in[0]), b = qn_shape_of(g, up);
    /* A factor a row or a column is no gate. */
    if (b.n_dims != 2 || a.dim[0] != b.dim[0] || a.dim[1] != b.dim[1])
        return false;
    qn_val gate = qn_rewrite_val(rw, act->in[0]);
    up = qn_rewrite_val(rw, up);
    qn_rewrite_set(rw, (qn_val){ id }, QN_ADD(rw->to, &qn_op_glu, act->attr, gate, up));
    return true;
}

const qn_fuse_rule qn_cpu_fuse_glu = { "glu", apply };
