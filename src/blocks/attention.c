/* attention.c - grouped-query attention: projections, norms of q and k, positions, the cache, output.
 *
 * Heads stay side by side in the width; the attention op knows them by number. Latent and linear attention are
 * other blocks. */
#include <math.h>

#include "blocks/parts.h"

/* A LayerNorm for each head: their weights side by side are one weight of the whole width. */
static qn_val norm_each(qn_build *b, const char *block, const char *leaf, qn_val x,
                        const qn_attn *a)
{
    if (qn_failed(b))
        return x;
    qn_shape in = qn_shape_of(b->g, x);
    int n = (int)(qn_shape_width(&in) / a->head_dim);
    const char *prefix = qn_arena_printf(&b->g->arena, "%s.norms", qn_part_name(b, block, leaf));
    const qn_weight *w = qn_part_join(b, prefix, n, a->head_dim);
    if (!w)
        return x;
    qn_attr_norm attr = { .eps = a->norm_eps, .group = a->head_dim, .center = true };
    qn_part_enter(b, block, leaf);
    return QN_ADD(b->g, &qn_op_norm, &attr, x, qn_graph_weight(b->g, w));
}

/* RMS norm of heads by a matrix with a row for each. */
static qn_val norm_own(qn_build *b, const char *block, const char *leaf, qn_val x, const qn_attn *a)
{
    if (qn_failed(b))
        return x;
    qn_shape in = qn_shape_of(b->g, x);
    const qn_attr_norm attr = { .eps = a->norm_eps, .group = a->head_dim };
    qn_val w = qn_part_numbers(b, block, leaf, (qn_part_shape){ 0, qn_shape_width(&in) }, NULL);
    return qn_failed(b) ? x : QN_ADD(b->g, &qn_op_norm, &attr, x, w);
}

static qn_val norm_heads(qn_build *b, const char *block, const char *leaf, qn_val x,
                         const qn_attn *a)
{
    qn_attr_norm attr = { .eps = a->norm_eps };
    if (a->qk_norm == QN_QK_EACH)
        return norm_each(b, block, leaf, x, a);
    if (a->qk_norm == QN_QK_OWN)
        return norm_own(b, block, leaf, x, a);
    if (a->qk_norm != QN_QK_FULL)
        attr.group = a->head_dim;
    if (a->qk_norm == QN_QK_BARE)
        return qn_failed(b) ? x : QN_ADD(b->g, &qn_op_norm, &attr, x);
    attr.center = a->qk_norm == QN_QK_LAYER;
    if (a->qk_norm == QN_QK_HEAD1)
        attr.offset = qn_part_norm_offset(b);
    return qn_part_norm(b, block, leaf, x, &attr);
}

static int v_dim_of(const qn_attn *a)
{
    return a->v_dim ? a->v_dim : a->head_dim;
}

/* Norm and positions of q or k, in the family's order. */
static qn_val place(qn_build *b, const char *block, const char *norm, qn_val x, const qn_attn *a)
{
    bool has_norm = a->qk_norm != QN_QK_PLAIN;
    if (has_norm && !a->norm_after_rope)
        x = norm_heads(b, block, norm, x, a);
    x = qn_part_rope(b, x, &a->rope, a->head_dim);
    if (has_norm && a->norm_after_rope)
        x = norm_heads(b, block, norm, x, a);
    return x;
}

/* q, k and v (so many columns of each) from one matrix. */
static void project_joined(qn_build *b, const char *name, qn_val x, const qn_attn *a,
                           const int64_t n[3], qn_val out[3])
{
    int64_t runs = a->qkv_runs > 1 ? a->qkv_runs : 1;
    const int order[3] = { 0, a->v_before_k ? 2 : 1, a->v_before_k ? 1 : 2 };
    if (n[0] % runs != 0 || n[1] % runs != 0 || n[2] % runs != 0)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: %lld runs do not divide %d heads",
                      (long long)runs, a->n_heads);
    qn_part_rows rows = { .total = n[0] + n[1] + n[2],
                          .runs = runs,
                          .inputs_first = a->inputs_first };
    for (int i = 0; i < 3; i++) {
        rows.n_out = n[order[i]];
        out[order[i]] = qn_part_linear_rows(b, name, a->qkv, x, rows);
        rows.start += rows.n_out / runs;
    }
    bool has_bias = qn_part_find(b, qn_part_name(b, name, a->qkv), ".bias") != NULL;
    qn_part_check_bias(b, a->bias_key ? a->bias_key : "attention_bias",
                       qn_part_name(b, name, a->qkv), has_bias);
}

/* q, k and v of x, from three matrices or from one. */
static void project(qn_build *b, const char *name, qn_val x, const qn_attn *a, qn_val out[3])
{
    int64_t n_q = (int64_t)a->n_heads * a->head_dim, n_k = (int64_t)a->n_kv_heads * a->head_dim;
    int64_t n_v = (int64_t)a->n_kv_heads * v_dim_of(a);
    if (a->qkv) {
        project_joined(b, name, x, a, (const int64_t[]){ n_q, n_k, n_v }, out);
    } else {
        const char *q = a->q ? a->q : "q_proj";
        bool has_bias = false;
        out[0] = qn_part_linear(b, name, q, x, a->gate_in_q ? 2 * n_q : n_q, &has_bias);
        qn_part_check_bias(b, a->bias_key ? a->bias_key : "attention_bias",
                           qn_part_name(b, name, q), has_bias);
        out[1] = qn_part_linear(b, name, a->k ? a->k : "k_proj", x, n_k, NULL);
        out[2] = qn_part_linear(b, name, a->v ? a->v : "v_proj", x, n_v, NULL);
    }
    const qn_attr_clamp clip = { .lo = -a->clip, .hi = a->clip };
    for (int i = 0; i < 3 && a->clip > 0 && !qn_failed(b); i++)
        out[i] = QN_ADD(b->g, &qn_op_clamp, &clip, out[i]);
    if (a->v_scale != 0 && a->v_scale != 1 && !qn_failed(b))
        out[2] = QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ a->v_scale }, out[2]);
    if (a->k_scale != 0 && a->k_scale != 1 && !qn_failed(b))
        out[1] = QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ a->k_scale }, out[1]);
}

/* y faded by a product of x. */
static qn_val fade(qn_build *b, const char *name, qn_val x, qn_val gate, qn_val y, const qn_attn *a)
{
    if ((!a->gate && !a->gate_in_q) || qn_failed(b))
        return y;
    int64_t n = a->gate_heads ? a->n_heads : (int64_t)a->n_heads * v_dim_of(a);
    if (a->gate)
        gate = qn_part_linear(b, name, a->gate, x, n, NULL);
    if (qn_failed(b))
        return y;
    qn_part_enter(b, name, "");
    gate = QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)a->gate_act }, gate);
    return QN_ADD(b->g, &qn_op_mul, NULL, y, gate);
}

/* A score for each head that takes its share of the softmax and gives nothing. */
static qn_val sinks_of(qn_build *b, const char *name, const qn_attn *a)
{
    if (!a->sinks || qn_failed(b))
        return (qn_val){ 0 };
    const char *full = qn_part_name(b, name, a->sinks);
    const qn_weight *w = qn_part_find(b, full, "");
    w = w ? w : qn_part_find(b, full, ".weight");
    if (!w)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s is missing", full);
    return w && qn_part_fits_vector(b, w, a->n_heads) ? qn_graph_weight(b->g, w) : (qn_val){ 0 };
}

/* Rows that see later ones cannot be cached piece by piece: such sequences come whole. A config that makes a
 * decoder of an encoder asks for another model. */
static void cache_of(qn_build *b, const qn_attn *a, qn_attr_attention *attr)
{
    if (a->both_ways) {
        attr->kv_group = QN_NO_CACHE;
        if (qn_config_bool(b->c, "is_decoder", false) ||
            qn_config_bool(b->c, "add_cross_attention", false))
            qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                          "config: is_decoder and add_cross_attention are not supported for %s",
                          b->c->model_type);
        return;
    }
    /* What lies before a row's chunk lies before a window of that length too: pages come free by it. */
    int window = a->chunk > 0 && (a->window == 0 || a->chunk < a->window) ? a->chunk : a->window;
    int kv = qn_graph_kv(b->g, (qn_kv_need){ .n_kv_heads = a->n_kv_heads,
                                             .k_dim = a->head_dim,
                                             .v_dim = v_dim_of(a),
                                             .window = window });
    attr->kv_group = b->g->kv[kv].group;
    attr->kv_slot = b->g->kv[kv].slot;
}

qn_val qn_attention(qn_build *b, const char *name, qn_val x, const qn_attn *a)
{
    qn_val qkv[3] = { 0 };
    if (a->n_heads < 1 || a->head_dim < 1)
        qn_graph_fail(b->g, QN_ERR_FORMAT, "config: num_attention_heads is missing");
    project(b, name, x, a, qkv);
    qn_val gate = { 0 };
    if (a->gate_in_q && !qn_failed(b)) {
        gate = qn_part_split_groups(b, qkv[0], a->head_dim, a->head_dim, 2 * a->head_dim);
        qkv[0] = qn_part_split_groups(b, qkv[0], 0, a->head_dim, 2 * a->head_dim);
    }
    qn_val q = place(b, name, a->q_norm ? a->q_norm : "q_norm", qkv[0], a);
    qn_val k = place(b, name, a->k_norm ? a->k_norm : "k_norm", qkv[1], a);
    q = qn_part_grow_queries(b, q, &a->rope);
    if (a->query_growth.beta != 0 && !qn_failed(b))
        q = QN_ADD(b->g, &qn_op_position_scale, &a->query_growth, q);
    qn_val sinks = sinks_of(b, name, a);
    if (qn_failed(b))
        return (qn_val){ 0 };
    if (a->window > 0 && a->window == b->c->window)
        qn_config_used(b->c, "sliding_window");

    float scale = a->scale != 0 ? a->scale : 1 / sqrtf((float)a->head_dim);
    qn_attr_attention attr = { .n_heads = a->n_heads,
                               .n_kv_heads = a->n_kv_heads,
                               .k_dim = a->head_dim,
                               .v_dim = v_dim_of(a),
                               .scale = scale,
                               .softcap = a->softcap,
                               .window = a->window,
                               .chunk = a->chunk,
                               .both_ways = a->both_ways,
                               .slopes = qn_part_slopes(b, a->n_heads, a->alibi,
                                                        a->alibi_scaled ? scale : 1) };
    cache_of(b, a, &attr);
    qn_part_enter(b, name, "");
    qn_val y = QN_ADD(b->g, &qn_op_attention, &attr, q, k, qkv[2], sinks);
    y = fade(b, name, x, gate, y, a);
    return qn_part_linear_rows(b, name, a->o ? a->o : "o_proj", y,
                               (qn_part_rows){ .total = b->c->d_model,
                                               .n_out = b->c->d_model,
                                               .inputs_first = a->inputs_first });
}

/* Kind of a layer in a layer_types list; fails on kinds that are no attention over a window or everything. */
static int window_by_type(qn_build *b, const qn_json *types, int layer)
{
    const qn_json *kind = qn_json_at(types, (size_t)layer);
    if (qn_json_eq(kind, "full_attention"))
        return 0;
    if (qn_json_eq(kind, "sliding_attention") && b->c->window > 0)
        return b->c->window;
    qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                  "config: layer_types says \"%s\" for layer %d of %d (sliding_window %d)",
                  qn_json_str(kind, "nothing"), layer, b->c->n_layers, b->c->window);
    return 0;
}

bool qn_layer_is_kind(qn_build *b, int layer, const char *kind, const char *other, bool silent)
{
    const qn_json *types = qn_config_get(b->c, "layer_types");
    if (!types)
        return silent;
    const qn_json *is = qn_json_at(types, (size_t)layer);
    if (!qn_json_eq(is, kind) && !qn_json_eq(is, other))
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                      "config: layer_types says \"%s\" for layer %d of %d",
                      qn_json_str(is, "nothing"), layer, b->c->n_layers);
    return qn_json_eq(is, kind);
}

int qn_layer_window(qn_build *b, int layer, int pattern)
{
    const qn_config *c = b->c;
    bool on = qn_config_bool(c, "use_sliding_window", true);
    const qn_json *types = qn_config_get(c, "layer_types");
    int64_t first = qn_config_int(c, "max_window_layers", 0);
    qn_config_used(c, "sliding_window");
    qn_config_used(c, "sliding_window_size");
    if (types) { /* the patterns say the same less exactly, some of them in letters */
        qn_config_used(c, "sliding_window_pattern");
        qn_config_used(c, "_sliding_window_pattern");
        return window_by_type(b, types, layer);
    }
    int64_t every = qn_config_int(c, "_sliding_window_pattern", pattern);
    every = qn_config_int(c, "sliding_window_pattern", every);
    if (!on || c->window == 0)
        return 0;
    if (every > 0)
        return (layer + 1) % every == 0 ? 0 : c->window;
    /* Only configs with the switch give the first windowed layer. */
    if (qn_config_has(c, "use_sliding_window") && layer < first)
        return 0;
    return c->window;
}

int qn_window_each_way(int64_t total)
{
    return total >= 0 && total < INT32_MAX ? (int)(total / 2) + 1 : 0;
}
