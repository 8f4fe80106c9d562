/* graph.c - recording: nodes with inferred shapes, weights and inputs once each, names, symbols, cache needs.
 *
 * Nodes are one growing array; everything they point to lies in the graph's arena. It checks what builders
 * give it (arity, order, shapes) because graphs come from checkpoints, and a strange checkpoint must end in
 * one clear line. It does not rewrite: that is fuse.c and grad.c. */
#include "graph/graph.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "graph/op.h"

void qn_graph_init(qn_graph *g)
{
    *g = (qn_graph){ .n_nodes = 1, .n_symbols = QN_SYM_FIXED, .scope_layer = -1, .scope_name = "" };
    QN_GROW(g->node, 0, g->cap_nodes);
    g->node[0] = (qn_node){ .name = "", .layer = -1 };
}

void qn_graph_free(qn_graph *g)
{
    qn_free(g->node);
    qn_free(g->kv);
    qn_free(g->output);
    qn_arena_free(&g->arena);
    *g = (qn_graph){ 0 };
}

void qn_graph_fail(qn_graph *g, int code, const char *fmt, ...)
{
    if (g->err.code != QN_OK)
        return; /* the first cause explains the later ones */
    char msg[sizeof g->err.msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    qn_fail(&g->err, code, "%s", msg);
}

void qn_graph_scope(qn_graph *g, int layer, const char *name)
{
    g->scope_name = qn_arena_strdup(&g->arena, name);
    g->scope_layer = (int16_t)layer;
    g->scope_first = g->n_nodes;
}

/* "scope.op", and "scope.op.2" for the second of its kind: names tell values apart in dumps. */
static const char *node_name(qn_graph *g, const qn_op *op)
{
    int nth = 1;
    for (int32_t i = g->scope_first; i < g->n_nodes; i++)
        nth += g->node[i].op == op;
    const char *dot = g->scope_name[0] ? "." : "";
    if (nth == 1)
        return qn_arena_printf(&g->arena, "%s%s%s", g->scope_name, dot, op->name);
    return qn_arena_printf(&g->arena, "%s%s%s.%d", g->scope_name, dot, op->name, nth);
}

static const char *symbol_name(int32_t id, char *buf, size_t size)
{
    static const char *const fixed[QN_SYM_FIXED] = { "",      "tok",   "out",    "seq",
                                                     "patch", "frame", "height", "width" };
    if (id < QN_SYM_FIXED)
        return fixed[id];
    snprintf(buf, size, "s%d", id);
    return buf;
}

/* "[tok, 64]" for messages and prints; "-" for an absent input. */
static void put_shape(qn_buf *b, const qn_shape *s)
{
    if (s->n_dims == 0) {
        qn_buf_str(b, "-");
        return;
    }
    for (int i = 0; i < s->n_dims; i++) {
        char tmp[16];
        qn_buf_str(b, i ? ", " : "[");
        if (s->dim[i] < 0)
            qn_buf_str(b, symbol_name((int32_t)-s->dim[i], tmp, sizeof tmp));
        else
            qn_buf_printf(b, "%lld", (long long)s->dim[i]);
    }
    qn_buf_str(b, "]");
}

static void refuse(qn_graph *g, const qn_node *n, const qn_shape *in, const char *why)
{
    qn_buf b = { 0 };
    for (int i = 0; i < n->n_in; i++) {
        qn_buf_str(&b, i ? " " : "");
        put_shape(&b, &in[i]);
    }
    qn_graph_fail(g, QN_ERR_FORMAT, "%s: %s of %s: %s", n->name, n->op->name, qn_buf_cstr(&b),
                  why ? why : "shapes do not fit");
    qn_buf_free(&b);
}

static int32_t push(qn_graph *g, const qn_node *n)
{
    QN_GROW(g->node, g->n_nodes, g->cap_nodes);
    g->node[g->n_nodes] = *n;
    return g->n_nodes++;
}

/* The leading results that got a shape are the node's: an op may leave out its last ones. */
static int count_results(const qn_op *op, const qn_shape *out)
{
    int n = 0;
    while (n < op->n_out && out[n].n_dims > 0)
        n++;
    return n;
}

static bool infer(qn_graph *g, qn_node *n, qn_shape *out)
{
    qn_shape in[QN_MAX_IN] = { 0 };
    for (int i = 0; i < n->n_in; i++) {
        assert(n->in[i].id >= 0 && n->in[i].id < g->n_nodes); /* inputs come before their users */
        if (n->in[i].id)
            in[i] = g->node[n->in[i].id].shape;
    }
    const char *why = NULL;
    bool ok = n->n_in >= n->op->min_in && n->n_in <= n->op->max_in;
    if (!ok)
        why = "wrong number of inputs";
    else
        ok = n->op->infer(n, in, out, &why);
    if (!ok)
        refuse(g, n, in, why);
    n->n_out = (uint8_t)(ok ? count_results(n->op, out) : 0);
    assert(!ok || n->n_out > 0);
    return ok;
}

static const void *keep_attr(qn_graph *g, const qn_op *op, const void *attr)
{
    if (op->attr_size == 0)
        return NULL;
    assert(attr);
    void *copy = qn_arena_copy(&g->arena, attr, op->attr_size);
    if (op->adopt)
        op->adopt(&g->arena, copy);
    return copy;
}

/* Adds a node under a given name; the common end of all the ways to make one. */
static qn_val add_named(qn_graph *g, const qn_node *proto, const qn_val *in, int n_in)
{
    assert(n_in >= 0 && n_in <= QN_MAX_IN && proto->op->n_out <= QN_MAX_OUT);
    qn_node n = *proto;
    n.n_in = (uint8_t)n_in;
    n.attr = keep_attr(g, n.op, proto->attr);
    if (n_in > 0)
        memcpy(n.in, in, (size_t)n_in * sizeof *in);
    qn_shape out[QN_MAX_OUT] = { 0 };
    if (!infer(g, &n, out))
        return (qn_val){ 0 };
    n.shape = out[0];
    int32_t id = push(g, &n);
    for (int k = 1; k < n.n_out; k++) {
        qn_node r = { .op = &qn_op_result, .shape = out[k], .layer = n.layer };
        r.name = qn_arena_printf(&g->arena, "%s:%d", n.name, k);
        push(g, &r);
    }
    return (qn_val){ id };
}

qn_val qn_graph_add(qn_graph *g, const qn_op *op, const void *attr, const qn_val *in, int n_in)
{
    if (g->err.code != QN_OK)
        return (qn_val){ 0 };
    qn_node proto = { .op = op, .attr = attr, .layer = g->scope_layer };
    proto.name = node_name(g, op);
    return add_named(g, &proto, in, n_in);
}

static bool is_weight(const qn_node *n, const qn_weight *w)
{
    return n->op == &qn_op_weight && ((const qn_attr_weight *)n->attr)->weight == w;
}

qn_val qn_graph_weight(qn_graph *g, const qn_weight *w)
{
    if (g->err.code != QN_OK)
        return (qn_val){ 0 };
    int32_t i = 1;
    while (i < g->n_nodes && !is_weight(&g->node[i], w))
        i++;
    if (i < g->n_nodes)
        return (qn_val){ i };
    qn_attr_weight attr = { w };
    qn_node proto = { .op = &qn_op_weight, .attr = &attr, .layer = g->scope_layer };
    proto.name = qn_arena_strdup(&g->arena, w->name ? w->name : "weight");
    return add_named(g, &proto, NULL, 0);
}

static bool is_input(const qn_node *n, const char *name)
{
    return n->op == &qn_op_input && strcmp(n->name, name) == 0;
}

qn_val qn_graph_input(qn_graph *g, const char *name, qn_shape shape)
{
    if (g->err.code != QN_OK)
        return (qn_val){ 0 };
    int32_t i = 1;
    while (i < g->n_nodes && !is_input(&g->node[i], name))
        i++;
    if (i < g->n_nodes)
        return (qn_val){ i };
    qn_attr_input attr = { shape };
    qn_node proto = { .op = &qn_op_input, .attr = &attr, .layer = -1 };
    proto.name = qn_arena_strdup(&g->arena, name);
    return add_named(g, &proto, NULL, 0);
}

qn_val qn_graph_ones(qn_graph *g, int64_t rows, int64_t cols)
{
    qn_weight w = { .name = "ones", .layout = QN_F32, .n_dims = rows ? 2 : 1, .global_scale = 1 };
    w.dim[0] = rows ? rows : cols;
    w.dim[1] = rows ? cols : 0;
    size_t n = (size_t)(rows ? rows : 1) * (size_t)cols;
    float *data = qn_arena_alloc_n(&g->arena, n, sizeof *data);
    for (size_t i = 0; i < n; i++)
        data[i] = 1;
    w.data = data;
    return qn_graph_weight(g, qn_arena_copy(&g->arena, &w, sizeof w));
}

void qn_graph_output(qn_graph *g, const char *name, qn_val v)
{
    if (g->err.code != QN_OK)
        return;
    assert(v.id > 0 && v.id < g->n_nodes);
    QN_GROW(g->output, g->n_outputs, g->cap_outputs);
    g->output[g->n_outputs++] = (qn_output){ qn_arena_strdup(&g->arena, name), v };
}

qn_val qn_graph_find_output(const qn_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_outputs; i++)
        if (strcmp(g->output[i].name, name) == 0)
            return g->output[i].v;
    return (qn_val){ 0 };
}

int64_t qn_graph_symbol(qn_graph *g, int32_t of, int32_t a, int32_t b, int32_t c)
{
    for (int32_t i = QN_SYM_FIXED; i < g->n_symbols; i++) {
        const qn_symbol *s = &g->symbol[i];
        if (s->of == of && s->a == a && s->b == b && s->c == c)
            return -(int64_t)i;
    }
    if (of < 1 || of >= g->n_symbols || c < 1)
        qn_graph_fail(g, QN_ERR_FORMAT, "size floor((%d * s%d + %d) / %d) has no meaning", a, of, b,
                      c);
    else if (g->n_symbols == QN_SYM_MAX)
        qn_graph_fail(g, QN_ERR_LIMIT, "more than %d sizes in one graph", QN_SYM_MAX);
    if (g->err.code != QN_OK)
        return -QN_SYM_TOK; /* some dim, so that a failed build can go on to its end */
    g->symbol[g->n_symbols] = (qn_symbol){ of, a, b, c };
    return -(int64_t)g->n_symbols++;
}

int qn_graph_kv(qn_graph *g, qn_kv_need need)
{
    need.group = -1;
    need.slot = 0;
    for (int32_t i = 0; i < g->n_kv; i++) {
        const qn_kv_need *k = &g->kv[i];
        if (k->window == need.window && k->n_kv_heads == need.n_kv_heads &&
            k->k_dim == need.k_dim && k->v_dim == need.v_dim) {
            need.group = k->group;
            need.slot = k->slot + 1;
        }
    }
    if (need.group < 0) {
        if (g->n_kv_groups == QN_MAX_KV_GROUPS) {
            qn_graph_fail(g, QN_ERR_LIMIT, "more than %d kinds of attention cache",
                          QN_MAX_KV_GROUPS);
            need.group = 0;
        } else {
            need.group = g->n_kv_groups++;
        }
    }
    QN_GROW(g->kv, g->n_kv, g->cap_kv);
    g->kv[g->n_kv] = need;
    return g->n_kv++;
}

int64_t qn_graph_state(qn_graph *g, int64_t floats)
{
    enum {
        LINE = 16
    }; /* floats of a cache line: threads that share out layers do not share lines */
    int64_t at = g->state_floats, end;
    if (floats <= 0 || __builtin_add_overflow(at, floats, &end) || end > INT64_MAX / 64) {
        qn_graph_fail(g, QN_ERR_LIMIT, "a layer's state of %lld numbers is too large",
                      (long long)floats);
        return 0;
    }
    g->state_floats = (end + LINE - 1) / LINE * LINE;
    return at;
}

int32_t qn_graph_maker(const qn_graph *g, int32_t id)
{
    while (g->node[id].n_out == 0 && id > 0)
        id--;
    return id;
}

int64_t qn_shape_width(const qn_shape *s)
{
    int64_t w = 1;
    for (int i = 1; i < s->n_dims; i++) {
        assert(s->dim[i] >= 0);
        /* Sizes come from files; saturating keeps a hostile product from wrapping into a small one. */
        if (__builtin_mul_overflow(w, s->dim[i], &w))
            return INT64_MAX;
    }
    return w;
}

char *qn_graph_print_dup(const qn_graph *g)
{
    qn_buf b = { 0 };
    for (int32_t i = 1; i < g->n_nodes; i++) {
        const qn_node *n = &g->node[i];
        qn_buf_printf(&b, "%5d %-14s ", i, n->op->name);
        put_shape(&b, &n->shape);
        qn_buf_str(&b, " ");
        qn_buf_str(&b, n->name);
        for (int k = 0; k < n->n_in; k++)
            qn_buf_printf(&b, "%s%d", k ? " " : " <- ", n->in[k].id);
        qn_buf_str(&b, "\n");
    }
    for (int32_t i = 0; i < g->n_outputs; i++)
        qn_buf_printf(&b, "output %s = %d\n", g->output[i].name, g->output[i].v.id);
    char *text = qn_strdup(qn_buf_cstr(&b));
    qn_buf_free(&b);
    return text;
}
