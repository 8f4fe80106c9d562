/* fuse.c - the driver that rewrites a graph by rules, and expansion, which is one such rewrite.
 *
 * The old graph is walked in its order, so a rule sees a node when everything before it is written; what a
 * rule needs from further on (the weights of products it joins) is written on demand. Rules leave nodes behind
 * that only the replaced ones read; a sweep drops them, so backends see just what will run. A new value gets
 * the name of the old value it stands for: that is how dumps of both graphs are compared. */
#include "graph/fuse.h"

#include <assert.h>
#include <string.h>

#include "graph/grad.h"
#include "graph/op.h"

void qn_rewrite_set(qn_rewrite *rw, qn_val old, qn_val new_val)
{
    rw->map[old.id] = new_val;
    if (new_val.id < rw->first_new)
        return; /* it already stands for something else, and keeps that name; {0} after an error too */
    qn_node *n = &rw->to->node[new_val.id];
    n->name = qn_arena_strdup(&rw->to->arena, rw->from->node[old.id].name);
    n->layer = rw->from->node[old.id].layer;
}

/* Writes node `id` of the old graph as it is, and what it reads first. */
static void copy_node(qn_rewrite *rw, int32_t id)
{
    const qn_node *n = &rw->from->node[id];
    qn_val in[QN_MAX_IN], v;
    for (int k = 0; k < n->n_in; k++)
        in[k] = qn_rewrite_val(rw, n->in[k]);
    rw->first_new = rw->to->n_nodes;
    rw->to->scope_layer = n->layer;
    if (n->op == &qn_op_weight)
        v = qn_graph_weight(rw->to, ((const qn_attr_weight *)n->attr)->weight);
    else if (n->op == &qn_op_input)
        v = qn_graph_input(rw->to, n->name, n->shape);
    else
        v = qn_graph_add(rw->to, n->op, n->attr, in, n->n_in);
    for (int k = 0; k < n->n_out && v.id; k++)
        qn_rewrite_set(rw, (qn_val){ id + k }, qn_out(v, k));
}

qn_val qn_rewrite_val(qn_rewrite *rw, qn_val v)
{
    if (v.id == 0 || rw->to->err.code != QN_OK)
        return (qn_val){ 0 };
    if (rw->map[v.id].id == 0) {
        int32_t keep = rw->first_new; /* a rule may be in the middle of its own nodes */
        copy_node(rw, qn_graph_maker(rw->from, v.id));
        rw->first_new = keep;
    }
    return rw->map[v.id];
}

/* Marks what the outputs need: live[id] for every result of a needed node and for what it reads. */
static bool *find_live(const qn_graph *g)
{
    bool *live = qn_alloc_n((size_t)g->n_nodes, sizeof *live);
    for (int32_t i = 0; i < g->n_outputs; i++)
        live[g->output[i].v.id] = true;
    for (int32_t id = g->n_nodes - 1; id > 0; id--) {
        const qn_node *n = &g->node[id];
        for (int k = 1; k < n->n_out; k++)
            live[id] |= live[id + k];
        for (int k = 0; k < n->n_out; k++)
            live[id + k] = live[id];
        for (int k = 0; k < n->n_in && live[id]; k++)
            live[n->in[k].id] = true;
    }
    live[0] = false;
    return live;
}

static void count_uses(const qn_graph *g, const bool *live, int32_t *n_uses)
{
    for (int32_t id = 1; id < g->n_nodes; id++)
        for (int k = 0; live[id] && k < g->node[id].n_in; k++)
            n_uses[g->node[id].in[k].id]++;
    for (int32_t i = 0; i < g->n_outputs; i++)
        n_uses[g->output[i].v.id]++;
    n_uses[0] = 0;
}

/* Drops the nodes that no output needs and closes the gaps; order stays. */
static void sweep(qn_graph *g)
{
    bool *live = find_live(g);
    int32_t *new_id = qn_alloc_n((size_t)g->n_nodes, sizeof *new_id), n = 1;
    for (int32_t id = 1; id < g->n_nodes; id++) {
        if (!live[id])
            continue;
        new_id[id] = n;
        g->node[n] = g->node[id];
        for (int k = 0; k < g->node[n].n_in; k++)
            g->node[n].in[k].id = new_id[g->node[n].in[k].id];
        n++;
    }
    g->n_nodes = n;
    for (int32_t i = 0; i < g->n_outputs; i++)
        g->output[i].v.id = new_id[g->output[i].v.id];
    qn_free(new_id);
    qn_free(live);
}

static void start(qn_graph *to, const qn_graph *from)
{
    qn_graph_init(to);
    memcpy(to->symbol, from->symbol, sizeof to->symbol);
    to->n_symbols = from->n_symbols;
    for (int32_t i = 0; i < from->n_kv; i++)
        qn_graph_kv(to, from->kv[i]);      /* the same order gives the same groups and slots */
    to->state_floats = from->state_floats; /* nodes are copied with their offsets */
}

static bool apply_rules(qn_rewrite *rw, int32_t id, const qn_fuse_rule *const *rules)
{
    for (; *rules; rules++) {
        rw->first_new = rw->to->n_nodes;
        if ((*rules)->apply(rw, id))
            return true;
    }
    return false;
}

/* Replaces node `id` by what its op expands into. */
static bool apply_expand(qn_rewrite *rw, int32_t id)
{
    const qn_node *n = &rw->from->node[id];
    if (!n->op->expand)
        return false;
    qn_val in[QN_MAX_IN] = { 0 }, out[QN_MAX_OUT] = { 0 };
    for (int k = 0; k < n->n_in; k++)
        in[k] = qn_rewrite_val(rw, n->in[k]);
    rw->first_new = rw->to->n_nodes;
    n->op->expand(rw->to, n, in, out);
    for (int k = 0; k < n->n_out; k++)
        qn_rewrite_set(rw, (qn_val){ id + k }, out[k]);
    return true;
}

static const qn_fuse_rule expand_rule = { "expand", apply_expand };

int qn_graph_fuse(const qn_graph *from, qn_graph *to, const qn_fuse_rule *const *rules,
                  qn_error *err)
{
    start(to, from);
    if (from->err.code != QN_OK)
        return qn_fail(err, from->err.code, "%s", from->err.msg);
    bool *live = find_live(from);
    size_t n = (size_t)from->n_nodes;
    qn_rewrite rw = { .from = from, .to = to };
    rw.map = qn_alloc_n(n, sizeof *rw.map);
    rw.n_uses = qn_alloc_n(n, sizeof *rw.n_uses);
    count_uses(from, live, rw.n_uses);
    for (int32_t id = 1; id < from->n_nodes; id++) {
        const qn_node *node = &from->node[id];
        if (!live[id] || node->n_out == 0 || rw.map[id].id || to->err.code != QN_OK)
            continue;
        qn_graph_scope(to, node->layer, node->name);
        if (!apply_rules(&rw, id, rules))
            copy_node(&rw, id);
    }
    for (int32_t i = 0; i < from->n_outputs; i++)
        qn_graph_output(to, from->output[i].name, qn_rewrite_val(&rw, from->output[i].v));
    qn_free(live);
    qn_free(rw.map);
    qn_free(rw.n_uses);
    if (to->err.code != QN_OK)
        return qn_fail(err, to->err.code, "%s", to->err.msg);
    sweep(to);
    qn_graph_scope(to, -1, "");
    return QN_OK;
}

int qn_graph_expand(const qn_graph *g, qn_graph *out, qn_error *err)
{
    const qn_fuse_rule *const rules[] = { &expand_rule, NULL };
    return qn_graph_fuse(g, out, rules, err);
}
