/* encoder.c - parts of models that read whole texts: learned tables, and the heads that score a text.
 *
 * The last step of an embedding (pooling, unit length) is no part of the graph: checkpoints describe it beside
 * the model. */
#include <string.h>

#include "blocks/parts.h"

const char *qn_root(qn_build *b, const char *prefix, const char *tensor)
{
    const char *root = qn_arena_printf(&b->g->arena, "%s.", prefix);
    return qn_has_tensor(b, qn_arena_printf(&b->g->arena, "%s%s", root, tensor)) ? root : "";
}

/* Other kinds of positions act within attention, and none of them is built here. */
static void check_positions(qn_build *b)
{
    const char *kind = qn_config_str(b->c, "position_embedding_type", "absolute");
    if (strcmp(kind, "absolute") != 0)
        qn_graph_fail(b->g, QN_ERR_UNSUPPORTED,
                      "config: position_embedding_type \"%s\" is not supported", kind);
}

qn_val qn_table(qn_build *b, const char *name, const char *input, int64_t n, int64_t skip)
{
    const char *full = qn_part_name(b, name, "");
    const qn_weight *w = qn_part_find(b, full, ".weight");
    if (!qn_part_fits(b, w, full, 0, n, b->c->d_model))
        return (qn_val){ 0 };
    if (strcmp(input, "pos") == 0)
        check_positions(b);
    if (skip < 0 || skip >= n) {
        qn_graph_fail(b->g, QN_ERR_FORMAT,
                      "tensor %s has %lld rows, of which the first %lld are "
                      "skipped",
                      w->name, (long long)n, (long long)skip);
        return (qn_val){ 0 };
    }
    if (skip > 0)
        w = qn_part_slice(b, w, skip, n - skip);
    qn_part_enter(b, name, "");
    const qn_shape rows = { .dim = { -QN_SYM_TOK }, .n_dims = 1, .dtype = QN_I32 };
    qn_val id = qn_graph_input(b->g, input, rows);
    return QN_ADD(b->g, &qn_op_embed, NULL, id, qn_graph_weight(b->g, w));
}

void qn_expect_bias(qn_build *b, const char *key, const char *name)
{
    const char *full = qn_part_name(b, name, "");
    qn_part_check_bias(b, key, full, qn_part_find(b, full, ".bias") != NULL);
}

void qn_hidden(qn_build *b, qn_val x)
{
    qn_mark_output(b, "hidden", x);
}

qn_val qn_first_rows(qn_build *b, qn_val x)
{
    if (qn_failed(b))
        return (qn_val){ 0 };
    const qn_shape wanted = { .dim = { -QN_SYM_OUT }, .n_dims = 1, .dtype = QN_I32 };
    return QN_ADD(b->g, &qn_op_rows, NULL, x, qn_graph_input(b->g, "out_row", wanted));
}

qn_val qn_mean_rows(qn_build *b, qn_val x)
{
    return qn_failed(b) ? (qn_val){ 0 } : QN_ADD(b->g, &qn_op_seq_mean, NULL, x);
}

/* The reference has two labels where a config names none. */
static int64_t count_labels(const qn_config *c)
{
    const qn_json *names = qn_config_get(c, "id2label");
    if (qn_json_is(names, QN_JSON_OBJECT) && names->n > 0)
        return names->n;
    return qn_config_int(c, "num_labels", 2);
}

void qn_labels(qn_build *b, const char *name, qn_val x)
{
    qn_mark_output(b, "score", qn_linear(b, name, x, count_labels(b->c)));
}
