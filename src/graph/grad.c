/* grad.c - reverse-mode differentiation: one sweep back over the nodes, each op emitting its own gradient.
 *
 * Only nodes that lie between what is differentiated and the loss take part: those that depend on some wrt
 * (swept forwards) and have received a gradient (swept backwards). Where a value is read several times its
 * gradients are added in the order they come, which is the reverse order of its readers: fixed, so training
 * is reproducible bit for bit. New nodes are appended; nothing of the forward graph changes. */
#include "graph/grad.h"

#include <assert.h>

#include "graph/op.h"

typedef struct pass {
    qn_graph *g;
    bool *needs;      /* [n] depends on something differentiated */
    qn_val *d;        /* [n] gradient so far, {0} = none yet */
    int32_t n_before; /* nodes of the forward graph */
} pass;

static void mark_needs(pass *p, const qn_val *wrt, int n_wrt)
{
    for (int i = 0; i < n_wrt; i++)
        p->needs[wrt[i].id] = true;
    p->needs[0] = false;
    for (int32_t id = 1; id < p->n_before; id++) {
        const qn_node *n = &p->g->node[id];
        for (int k = 0; k < n->n_in; k++)
            p->needs[id] |= p->needs[n->in[k].id];
        for (int k = 1; k < n->n_out; k++)
            p->needs[id + k] |= p->needs[id]; /* results share what they depend on */
    }
}

static void accumulate(pass *p, qn_val v, qn_val dv)
{
    if (v.id == 0 || dv.id == 0 || !p->needs[v.id])
        return;
    p->d[v.id] = p->d[v.id].id ? QN_ADD(p->g, &qn_op_add, NULL, p->d[v.id], dv) : dv;
}

/* Passes the gradients of node `id`'s results on to its inputs. */
static void visit(pass *p, int32_t id)
{
    const qn_node n = p->g->node[id]; /* a copy: adding nodes moves the array */
    qn_val dout[QN_MAX_OUT] = { 0 }, din[QN_MAX_IN] = { 0 };
    bool reached = false;
    for (int k = 0; k < n.n_out; k++) {
        dout[k] = p->d[id + k];
        reached |= dout[k].id != 0;
    }
    if (!reached || !p->needs[id] || n.n_in == 0)
        return;
    if (!n.op->grad) {
        qn_graph_fail(p->g, QN_ERR_UNSUPPORTED, "%s: the op %s has no gradient", n.name,
                      n.op->name);
        return;
    }
    qn_graph_scope(p->g, n.layer, qn_arena_printf(&p->g->arena, "d.%s", n.name));
    n.op->grad(p->g, (qn_val){ id }, dout, din);
    for (int k = 0; k < n.n_in; k++)
        accumulate(p, n.in[k], din[k]);
}

int qn_graph_grad(qn_graph *g, qn_val loss, const qn_val *wrt, int n_wrt, qn_val *dwrt,
                  qn_error *err)
{
    qn_shape shape = qn_shape_of(g, loss);
    if (g->err.code == QN_OK && (shape.n_dims != 1 || shape.dim[0] != 1))
        qn_graph_fail(g, QN_ERR_ARGUMENT, "%s: a loss is one number", qn_node_at(g, loss)->name);
    const char *scope = g->scope_name;
    int16_t layer = g->scope_layer;
    pass p = { .g = g, .n_before = g->n_nodes };
    p.needs = qn_alloc_n((size_t)p.n_before, sizeof *p.needs);
    p.d = qn_alloc_n((size_t)p.n_before, sizeof *p.d);
    mark_needs(&p, wrt, n_wrt);
    if (g->err.code == QN_OK)
        p.d[loss.id] = qn_graph_ones(g, 0, 1);
    for (int32_t id = loss.id; id > 0 && g->err.code == QN_OK; id--)
        if (g->node[id].n_out > 0)
            visit(&p, id);
    for (int i = 0; i < n_wrt; i++)
        dwrt[i] = p.d[wrt[i].id];
    qn_free(p.needs);
    qn_free(p.d);
    qn_graph_scope(g, layer, scope);
    return g->err.code == QN_OK ? QN_OK : qn_fail(err, g->err.code, "%s", g->err.msg);
}
