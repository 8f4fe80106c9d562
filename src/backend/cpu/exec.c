/* exec.c - runs a step: every thread walks the plan's nodes in order and meets the others between them.
 *
 * Each thread makes the call of a node for itself (a few loads), so nothing needs to be handed over. A node
 * without a kernel, or too small to share, is run by thread 0 alone; between two such nodes there is no
 * barrier, which in decode saves one in three. Values lie where the plan says; they are not cleared between
 * steps. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/mem.h"

typedef struct exec {
    qn_cpu *cpu;
    const qn_plan *plan;
    const qn_batch *batch;
    const qn_state *state;
    qn_bind bind; /* the step's true sizes */
} exec;

/* The per-row data of a step that graphs may name as inputs. */
static const int32_t *batch_input(const qn_batch *b, const char *name)
{
    const struct {
        const char *name;
        const int32_t *data;
    } inputs[] = {
        { "token", b->token },     { "out_row", b->out_row }, { "label", b->label },
        { "seq", b->seq },         { "pos", b->pos },         { "see", b->see },
        { "segment", b->segment },
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (strcmp(name, inputs[i].name) == 0)
            return inputs[i].data;
    return NULL;
}

static qn_tensor tensor_of(const exec *e, qn_val v)
{
    if (v.id == 0)
        return (qn_tensor){ 0 };
    const qn_node *n = qn_node_at(e->plan->graph, v);
    if (n->op == &qn_op_weight) {
        const qn_weight *w = ((const qn_attr_weight *)n->attr)->weight;
        return (qn_tensor){ .weight = w,
                            .packed = qn_pack_store_find(e->cpu->packs, w),
                            .rows = qn_weight_rows(w),
                            .width = qn_weight_cols(w) };
    }
    qn_tensor t = { .rows = qn_dim_value(e->plan->graph, &e->bind, n->shape.dim[0]),
                    .width = qn_shape_width(&n->shape) };
    if (n->op == &qn_op_input)
        t.data = (void *)(uintptr_t)batch_input(e->batch, n->name);
    else
        t.data = e->cpu->values + e->plan->place[v.id];
    return t;
}

static void sync_pool(const qn_call *c)
{
    qn_pool_sync(c->pool);
}

static void sync_alone(const qn_call *c)
{
    (void)c;
}

static void make_call(const exec *e, int32_t id, qn_call *c)
{
    const qn_node *n = &e->plan->graph->node[id];
    c->node = n;
    c->attr = n->attr;
    for (int i = 0; i < QN_MAX_IN; i++) /* inputs that were not given read as absent */
        c->in[i] = i < n->n_in ? tensor_of(e, n->in[i]) : (qn_tensor){ 0 };
    for (int i = 0; i < n->n_out; i++)
        c->out[i] = tensor_of(e, (qn_val){ id + i });
    c->batch = e->batch;
    c->state = e->state;
    c->exact = e->cpu->opt.exact;
    c->scratch = e->cpu->scratch;
    c->pool = e->cpu->pool;
    c->kernels = &e->cpu->kernels;
}

/* True when the node is left to thread 0. */
static bool is_solo(const qn_call *c, const qn_kernel *k)
{
    return !k || c->out[0].rows * c->out[0].width <= k->solo_elems;
}

static void dump_node(const exec *e, int32_t id)
{
    const qn_node *n = &e->plan->graph->node[id];
    for (int i = 0; i < n->n_out; i++) {
        qn_tensor t = tensor_of(e, (qn_val){ id + i });
        e->cpu->dump(e->cpu->dump_ctx, n, (qn_val){ id + i }, &t);
    }
}

static void run_thread(void *ctx, int ith)
{
    const exec *e = ctx;
    qn_call c = { 0 };
    int n_threads = qn_pool_size(e->cpu->pool);
    bool apart = false; /* something was run since the threads last met */
    bool last_solo = true;
    for (int32_t i = 0; i < e->plan->n_steps; i++) {
        int32_t id = e->plan->step[i];
        make_call(e, id, &c);
        const qn_kernel *k = qn_kernels_find(&e->cpu->kernels, c.node->op);
        bool solo = is_solo(&c, k);
        if (apart && !(solo && last_solo))
            qn_pool_sync(e->cpu->pool);
        apart = true;
        last_solo = solo;
        c.ith = solo ? 0 : ith;
        c.nth = solo ? 1 : n_threads;
        c.sync = solo ? sync_alone : sync_pool;
        if (!solo)
            k->run(&c);
        else if (ith == 0)
            (k ? k->run : c.node->op->ref)(&c);
        if (e->cpu->dump) {
            qn_pool_sync(e->cpu->pool);
            if (ith == 0)
                dump_node(e, id);
        }
    }
}

static int grow(uint8_t **p, size_t *have, size_t want, const char *what, qn_error *err)
{
    if (want <= *have)
        return QN_OK;
    qn_free(*p);
    *have = 0;
    *p = qn_try_alloc(want);
    if (!*p)
        return qn_fail(err, QN_ERR_MEMORY, "cpu: no memory for the %s of a step (%zu bytes)", what,
                       want);
    *have = want;
    return QN_OK;
}

/* The largest scratch any node of this step asks for. */
static size_t scratch_need(const exec *e)
{
    size_t most = 0;
    qn_call c = { 0 };
    for (int32_t i = 0; i < e->plan->n_steps; i++) {
        const qn_node *n = &e->plan->graph->node[e->plan->step[i]];
        const qn_kernel *k = qn_kernels_find(&e->cpu->kernels, n->op);
        if (!k || !k->scratch)
            continue;
        make_call(e, e->plan->step[i], &c);
        c.nth = is_solo(&c, k) ? 1 : qn_pool_size(e->cpu->pool);
        size_t need = k->scratch(&c);
        most = need > most ? need : most;
    }
    return most;
}

/* Our own callers plan for the step they run, so these name our bugs; but a wrong step must not write
 * outside the plan's memory, and is refused. */
static int check_step(const exec *e, qn_error *err)
{
    const qn_graph *g = e->plan->graph;
    for (int s = QN_SYM_TOK; s < QN_SYM_FIXED; s++)
        if (e->bind.size[s] > e->plan->bind.size[s])
            return qn_fail(err, QN_ERR_ARGUMENT, "cpu: the step is larger than its plan");
    for (int32_t i = 0; i < e->plan->n_steps; i++) {
        const qn_node *n = &g->node[e->plan->step[i]];
        for (int k = 0; k < n->n_in; k++) {
            const qn_node *in = qn_node_at(g, n->in[k]);
            if (n->in[k].id && in->op == &qn_op_input && !batch_input(e->batch, in->name))
                return qn_fail(err, QN_ERR_UNSUPPORTED, "cpu: the step does not carry the input %s",
                               in->name);
        }
    }
    return QN_OK;
}

int qn_cpu_run(qn_backend *be, const qn_plan *plan, const qn_batch *b, const qn_state *state,
               qn_error *err)
{
    qn_cpu *cpu = (qn_cpu *)be;
    exec e = { .cpu = cpu, .plan = plan, .batch = b, .state = state, .bind = qn_bind_of_batch(b) };
    int rc = check_step(&e, err);
    if (rc == QN_OK)
        rc = grow(&cpu->values, &cpu->values_bytes, plan->bytes, "values", err);
    if (rc == QN_OK)
        rc = grow(&cpu->scratch, &cpu->scratch_bytes, scratch_need(&e), "scratch", err);
    if (rc != QN_OK)
        return rc;
    qn_pool_run(cpu->pool, run_thread, &e);
    return QN_OK;
}
