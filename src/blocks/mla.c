/* mla.c - multi-head latent attention, in the form where the heads come to the latent rows.
 *
 * With c_j the normed latent row of token j and r_j its rotated part, a head's key is [W_K c_j, r_j] and its value
 * W_V c_j. So its score is (W_K^T q_nope) . c_j + q_rope . r_j, and its result W_V (sum_j p_j c_j): attention with
 * one key head, keys [c_j, r_j] and values c_j. W_K and W_V are read where the file has them: the two parts of each
 * head's rows in kv_b_proj, or as embed_q and unembed_out, W_K transposed already. */
#include <math.h>

#include "blocks/parts.h"

/* The latent rows' norms have this epsilon whatever the config says, as in the reference. */
#define LATENT_EPS 1e-6f

/* 0 where the config says nothing sensible: the check of the dimensions names it. */
static int dim_of(const qn_config *c, const char *key)
{
    int64_t n = qn_config_int(c, key, 0);
    return n > 0 && n <= 1 << 16 ? (int)n : 0;
}

qn_mla qn_mla_of(const qn_config *c)
{
    qn_mla a = { .n_heads = c->n_heads,
                 .q_rank = dim_of(c, "q_lora_rank"),
                 .kv_rank = dim_of(c, "kv_lora_rank"),
                 .nope_dim = dim_of(c, "qk_nope_head_dim"),
                 .rope_dim = dim_of(c, "qk_rope_head_dim"),
                 .v_dim = dim_of(c, "v_head_dim"),
                 .rope = c->rope };
    if (qn_config_has(c, "index_topk")) {
        a.index_top_k = dim_of(c, "index_topk");
        a.index_heads = dim_of(c, "index_n_heads");
        a.index_dim = dim_of(c, "index_head_dim");
        a.index_interleaved = qn_config_bool(c, "indexer_rope_interleave", false);
    }
    a.rope.n_rot = a.rope_dim;
    a.rope.interleaved = qn_config_bool(c, "rope_interleave", true);
    /* A config may repeat the size of a head's q and k; another one is no latent attention we know. */
    if (qn_config_int(c, "qk_head_dim", a.nope_dim + a.rope_dim) != a.nope_dim + a.rope_dim)
        a.nope_dim = 0;
    a.scale = qn_rope_score_factor(&a.rope) / sqrtf((float)(a.nope_dim + a.rope_dim));
    return a;
}

static qn_val columns(qn_build *b, qn_val x, qn_attr_split part)
{
    return qn_failed(b) ? x : QN_ADD(b->g, &qn_op_split, &part, x);
}

static qn_val join(qn_build *b, qn_val x, qn_val y, int64_t groups)
{
    return qn_failed(b) ? x : QN_ADD(b->g, &qn_op_join, &(qn_attr_join){ groups }, x, y);
}

static qn_val scaled(qn_build *b, qn_val x, float factor)
{
    if (qn_failed(b) || factor == 0 || factor == 1)
        return x;
    return QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ factor }, x);
}

static qn_val latent_norm(qn_build *b, const char *name, const char *leaf, qn_val x)
{
    return qn_part_norm(b, name, leaf, x, &(qn_attr_norm){ .eps = LATENT_EPS });
}

/* The latent row that q is a product of, x itself where there is none. */
static qn_val query_latent(qn_build *b, const char *name, qn_val x, const qn_mla *a)
{
    if (a->q_rank == 0)
        return x;
    return latent_norm(b, name, "q_a_layernorm",
                       qn_part_linear(b, name, "q_a_proj", x, a->q_rank, NULL));
}

/* q of all heads: [n_tok, n_heads * (nope_dim + rope_dim)]. */
static qn_val queries(qn_build *b, const char *name, qn_val latent, const qn_mla *a)
{
    int64_t width = (int64_t)a->n_heads * (a->nope_dim + a->rope_dim);
    return qn_part_linear(b, name, a->q_rank ? "q_b_proj" : "q_proj", latent, width, NULL);
}

/* Rotates the first rope_dim columns of each head of the indexer. */
static qn_val rotate_index(qn_build *b, qn_val x, const qn_mla *a)
{
    qn_rope rope = a->rope;
    rope.interleaved = a->index_interleaved;
    return qn_part_rope(b, x, &rope, a->index_dim);
}

/* The keys each row will look at: {0} when it looks at all. */
static qn_val choose_keys(qn_build *b, const char *name, qn_val x, qn_val latent, const qn_mla *a)
{
    if (a->index_top_k == 0 || qn_failed(b))
        return (qn_val){ 0 };
    if (a->index_shared && a->keys && a->keys->id)
        return *a->keys;
    if (a->index_shared || a->index_heads == 0 || a->index_dim < a->rope_dim || a->q_rank == 0) {
        qn_graph_fail(b->g, QN_ERR_FORMAT,
                      "config: index_n_heads, index_head_dim, q_lora_rank or the layers that share "
                      "a choice of keys are missing or out of range");
        return (qn_val){ 0 };
    }
    const char *block = qn_arena_printf(&b->g->arena, "%s.indexer", name);
    const qn_attr_norm norm = { .eps = LATENT_EPS, .center = true };
    qn_val q =
        qn_part_linear(b, block, "wq_b", latent, (int64_t)a->index_heads * a->index_dim, NULL);
    qn_val k = qn_part_linear(b, block, "wk", x, a->index_dim, NULL);
    k = rotate_index(b, qn_part_norm(b, block, "k_norm", k, &norm), a);
    q = rotate_index(b, q, a);
    qn_val weights = qn_part_linear(b, block, "weights_proj", x, a->index_heads, NULL);
    weights = scaled(b, weights, 1 / sqrtf((float)a->index_heads));
    if (qn_failed(b))
        return (qn_val){ 0 };
    int kv = qn_graph_kv(b->g, (qn_kv_need){ .n_kv_heads = 1, .k_dim = a->index_dim });
    qn_attr_key_select attr = { .n_heads = a->index_heads,
                                .dim = a->index_dim,
                                .top_k = a->index_top_k,
                                .scale = 1 / sqrtf((float)a->index_dim),
                                .kv_group = b->g->kv[kv].group,
                                .kv_slot = b->g->kv[kv].slot };
    qn_part_enter(b, block, "");
    qn_val keys = QN_ADD(b->g, &qn_op_key_select, &attr, q, k, weights);
    if (a->keys)
        *a->keys = keys;
    return keys;
}

/* One of the two products between heads and latent rows: from the part of each head's rows in kv_b_proj that
 * `part` names, or from a stack of its own. */
static qn_val by_heads(qn_build *b, const char *name, const char *own, qn_val x, const qn_mla *a,
                       const qn_attr_head_linear *part)
{
    if (qn_failed(b))
        return x;
    qn_attr_head_linear attr = *part;
    const char *both = qn_part_name(b, name, "kv_b_proj");
    const qn_weight *w = qn_part_find(b, both, ".weight");
    bool fits;
    if (w) {
        fits =
            qn_part_fits(b, w, both, 0, (int64_t)a->n_heads * (a->nope_dim + a->v_dim), a->kv_rank);
    } else {
        w = qn_part_find(b, qn_part_name(b, name, own), ".weight");
        attr = (qn_attr_head_linear){ .n_heads = a->n_heads };
        int64_t rows = part->transposed ? a->kv_rank : a->v_dim;
        fits =
            qn_part_fits(b, w, both, a->n_heads, rows, part->transposed ? a->nope_dim : a->kv_rank);
    }
    if (!fits)
        return x;
    qn_part_enter(b, name, own);
    return QN_ADD(b->g, &qn_op_head_linear, &attr, x, qn_graph_weight(b->g, w));
}

static bool check_dims(qn_build *b, const qn_mla *a)
{
    if (a->kv_rank == 0 || a->nope_dim == 0 || a->rope_dim == 0 || a->v_dim == 0)
        qn_graph_fail(b->g, QN_ERR_FORMAT,
                      "config: kv_lora_rank %d, qk_nope_head_dim %d, qk_rope_head_dim %d or "
                      "v_head_dim %d is missing or out of range",
                      a->kv_rank, a->nope_dim, a->rope_dim, a->v_dim);
    return !qn_failed(b);
}

/* Attention of all heads with the latent rows: [n_tok, n_heads * kv_rank]. */
static qn_val attend(qn_build *b, const char *name, const qn_val qkv[3], qn_val keys,
                     const qn_mla *a)
{
    if (qn_failed(b))
        return (qn_val){ 0 };
    int k_dim = a->kv_rank + a->rope_dim;
    int kv =
        qn_graph_kv(b->g, (qn_kv_need){ .n_kv_heads = 1, .k_dim = k_dim, .v_dim = a->kv_rank });
    qn_attr_attention attr = { .n_heads = a->n_heads,
                               .n_kv_heads = 1,
                               .k_dim = k_dim,
                               .v_dim = a->kv_rank,
                               .scale = a->scale,
                               .kv_group = b->g->kv[kv].group,
                               .kv_slot = b->g->kv[kv].slot };
    qn_part_enter(b, name, "");
    return QN_ADD(b->g, &qn_op_attention, &attr, qkv[0], qkv[1], qkv[2], (qn_val){ 0 }, keys);
}

qn_val qn_mla_attention(qn_build *b, const char *name, qn_val x, const qn_mla *a)
{
    if (!check_dims(b, a))
        return (qn_val){ 0 };
    int64_t H = a->n_heads, dn = a->nope_dim, dr = a->rope_dim, rank = a->kv_rank;
    bool has_bias = false;
    qn_val latent = qn_part_linear(b, name, "kv_a_proj_with_mqa", x, rank + dr, &has_bias);
    qn_part_check_bias(b, "attention_bias", qn_part_name(b, name, "kv_a_proj_with_mqa"), has_bias);
    qn_val k_rope = columns(b, latent, (qn_attr_split){ .start = rank, .width = dr });
    latent = columns(b, latent, (qn_attr_split){ .width = rank });
    latent = scaled(b, latent_norm(b, name, "kv_a_layernorm", latent), a->kv_scale);
    qn_val k = join(b, latent, qn_part_rope(b, k_rope, &a->rope, a->rope_dim), 1);

    qn_val q_latent = query_latent(b, name, x, a);
    qn_val keys = choose_keys(b, name, x, q_latent, a);
    qn_val q = scaled(b, queries(b, name, q_latent, a), a->q_scale);
    q = qn_part_grow_queries(b, q, &a->rope);
    qn_val q_nope = columns(b, q, (qn_attr_split){ .width = dn, .group = dn + dr });
    qn_val q_rope = columns(b, q, (qn_attr_split){ .start = dn, .width = dr, .group = dn + dr });
    q_nope = by_heads(b, name, "embed_q", q_nope, a,
                      &(qn_attr_head_linear){ .n_heads = a->n_heads, .n = dn, .transposed = true });
    q = join(b, q_nope, qn_part_rope(b, q_rope, &a->rope, a->rope_dim), H);

    qn_val y = attend(b, name, (const qn_val[]){ q, k, latent }, keys, a);
    y = by_heads(b, name, "unembed_out", y, a,
                 &(qn_attr_head_linear){ .n_heads = a->n_heads, .start = dn, .n = a->v_dim });
    return qn_part_linear(b, name, "o_proj", y, b->c->d_model, NULL);
}
