/* part_rope.c - rotary positions on a value: from what rope.c read of a config, or a file's own divisors, to nodes.
 *
 * Frequencies and scaling kinds are rope.c's; this part honours the config's keys and records the ops. */
#include <math.h>

#include "blocks/parts.h"

/* The config's rotary keys are honoured where positions are used as it describes them. */
static void use_rope_keys(qn_build *b)
{
    static const char *const keys[] = { "rope_scaling",        "rope_parameters",
                                        "rope_theta",          "rope_interleaved",
                                        "rotary_pct",          "partial_rotary_factor",
                                        "rotary_emb_fraction", "rotary_emb_interleaved",
                                        "rotary_emb_base",     "original_max_position_embeddings" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        qn_config_used(b->c, keys[i]);
}

/* GGUF files of models with scaled positions store the divisors of the frequencies. NULL when there are none. */
static const float *stored_factors(qn_build *b, int n)
{
    const qn_weight *w = qn_checkpoint_weight(b->ck, "rope_freqs.weight");
    if (!w || !qn_part_fits_vector(b, w, n))
        return NULL;
    float *factors = qn_arena_alloc_n(&b->g->arena, (size_t)n, sizeof *factors);
    qn_weight_decode_row(w, 0, factors);
    for (int i = 0; i < n; i++)
        if (!(factors[i] > 0) || !isfinite(factors[i]))
            qn_graph_fail(b->g, QN_ERR_FORMAT, "tensor %s: element %d is no divisor", w->name, i);
    return factors;
}

qn_val qn_part_rope(qn_build *b, qn_val x, const qn_rope *rope, int head_dim)
{
    if (qn_failed(b) || rope->n_rot == 0)
        return x;
    const float *factors = stored_factors(b, rope->n_rot / 2);
    qn_attr_rope attr;
    qn_error err = { 0 };
    if (!qn_failed(b) && qn_rope_attr(&attr, &b->g->arena, rope, head_dim, factors, &err) != QN_OK)
        qn_graph_fail(b->g, err.code, "%s", err.msg);
    use_rope_keys(b);
    return qn_failed(b) ? x : QN_ADD(b->g, &qn_op_rope, &attr, x);
}

qn_val qn_part_grow_queries(qn_build *b, qn_val q, const qn_rope *rope)
{
    if (qn_failed(b) || rope->query_beta == 0)
        return q;
    qn_attr_position_scale attr = { .beta = rope->query_beta, .period = (float)rope->original_max };
    return QN_ADD(b->g, &qn_op_position_scale, &attr, q);
}
