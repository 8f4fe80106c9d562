/* basic.c - embedding, norms, element-wise parts and the head. */
#include <math.h>
#include <string.h>

#include "blocks/parts.h"

/* Element-wise nodes belong to the scope itself, not to the part recorded before them. */
static void back_to_scope(qn_build *b)
{
    if (strcmp(b->g->scope_name, b->scope) != 0)
        qn_graph_scope(b->g, b->layer, b->scope);
}

qn_val qn_embed(qn_build *b, const char *name, const qn_config *c)
{
    const char *full = qn_part_name(b, name, "");
    const qn_weight *w = qn_part_find(b, full, ".weight");
    if (!qn_part_fits(b, w, full, 0, c->n_vocab, c->d_model))
        return (qn_val){ 0 };
    b->embedding = w;
    qn_part_enter(b, name, "");
    qn_shape rows = { .dim = { -QN_SYM_TOK }, .n_dims = 1, .dtype = QN_I32 };
    qn_val token = qn_graph_input(b->g, "token", rows);
    return QN_ADD(b->g, &qn_op_embed, NULL, token, qn_graph_weight(b->g, w));
}

qn_val qn_add_positions(qn_build *b, const char *name, qn_val x, int skip)
{
    const char *full = qn_part_name(b, name, "");
    const qn_weight *w = qn_part_find(b, full, ".weight");
    if (qn_failed(b))
        return x;
    qn_shape in = qn_shape_of(b->g, x);
    if (!qn_part_fits(b, w, full, 0, (int64_t)b->c->max_pos + skip, qn_shape_width(&in)))
        return x;
    if (skip > 0)
        w = qn_part_slice(b, w, skip, b->c->max_pos);
    qn_part_enter(b, name, "");
    qn_shape rows = { .dim = { -QN_SYM_TOK }, .n_dims = 1, .dtype = QN_I32 };
    qn_val pos = qn_graph_input(b->g, "pos", rows);
    qn_val y = QN_ADD(b->g, &qn_op_embed, NULL, pos, qn_graph_weight(b->g, w));
    return qn_add(b, x, y);
}

qn_val qn_linear(qn_build *b, const char *name, qn_val x, int64_t n_out)
{
    return qn_part_linear(b, name, "", x, n_out, NULL);
}

qn_val qn_add(qn_build *b, qn_val x, qn_val y)
{
    back_to_scope(b);
    return QN_ADD(b->g, &qn_op_add, NULL, x, y);
}

qn_val qn_mul(qn_build *b, qn_val x, qn_val y)
{
    back_to_scope(b);
    return QN_ADD(b->g, &qn_op_mul, NULL, x, y);
}

qn_val qn_scale(qn_build *b, qn_val x, float factor)
{
    if (factor == 1 || !x.id)
        return x;
    back_to_scope(b);
    return QN_ADD(b->g, &qn_op_scale, &(qn_attr_scale){ factor }, x);
}

qn_val qn_concat(qn_build *b, qn_val x, qn_val y)
{
    back_to_scope(b);
    return QN_ADD(b->g, &qn_op_join, &(qn_attr_join){ 1 }, x, y);
}

float qn_inverse_root(float x)
{
    return 1 / sqrtf(x);
}

float qn_bf16_round(float x)
{
    return qn_bf16_to_f32(qn_f32_to_bf16(x));
}

qn_val qn_activate(qn_build *b, qn_val x, qn_act act)
{
    qn_part_use_act(b, act);
    if (!x.id)
        return x;
    back_to_scope(b);
    return QN_ADD(b->g, &qn_op_act, &(qn_attr_act){ (int32_t)act }, x);
}

qn_val qn_softcap(qn_build *b, qn_val x, float cap)
{
    if (cap == 0)
        return x;
    return qn_scale(b, qn_activate(b, qn_scale(b, x, 1 / cap), QN_ACT_TANH), cap);
}

/* A softmax of two is a sigmoid of their difference. */
qn_val qn_blend(qn_build *b, qn_val y, qn_val z, qn_val mix)
{
    if (qn_failed(b))
        return y;
    back_to_scope(b);
    const qn_attr_split column[2] = { { .width = 1 }, { .start = 1, .width = 1 } };
    const qn_attr_scale minus = { -1 };
    const qn_attr_act sigmoid = { QN_ACT_SIGMOID };
    qn_val of_y = QN_ADD(b->g, &qn_op_split, &column[0], mix);
    qn_val of_z = QN_ADD(b->g, &qn_op_split, &column[1], mix);
    of_y = QN_ADD(b->g, &qn_op_add, NULL, of_y, QN_ADD(b->g, &qn_op_scale, &minus, of_z));
    of_z = QN_ADD(b->g, &qn_op_act, &sigmoid, QN_ADD(b->g, &qn_op_scale, &minus, of_y));
    of_y = QN_ADD(b->g, &qn_op_act, &sigmoid, of_y);
    y = QN_ADD(b->g, &qn_op_mul, NULL, y, of_y);
    return QN_ADD(b->g, &qn_op_add, NULL, y, QN_ADD(b->g, &qn_op_mul, NULL, z, of_z));
}

qn_val qn_rms_norm(qn_build *b, const char *name, qn_val x, float eps)
{
    return qn_part_norm(b, name, "", x, &(qn_attr_norm){ .eps = eps });
}

qn_val qn_rms_norm1(qn_build *b, const char *name, qn_val x, float eps)
{
    qn_attr_norm attr = { .eps = eps, .offset = qn_part_norm_offset(b) };
    return qn_part_norm(b, name, "", x, &attr);
}

qn_val qn_rms_norm_less(qn_build *b, const char *name, qn_val x, float eps, float less)
{
    qn_attr_norm attr = { .eps = eps, .offset = less };
    return qn_part_norm(b, name, "", x, &attr);
}

qn_val qn_layer_norm(qn_build *b, const char *name, qn_val x, float eps)
{
    return qn_part_norm(b, name, "", x, &(qn_attr_norm){ .eps = eps, .center = true });
}

qn_val qn_layer_norm1(qn_build *b, const char *name, qn_val x, float eps)
{
    qn_attr_norm attr = { .eps = eps, .center = true, .offset = qn_part_norm_offset(b) };
    return qn_part_norm(b, name, "", x, &attr);
}

qn_val qn_head(qn_build *b, const char *name, qn_val x, const qn_config *c)
{
    if (qn_failed(b))
        return (qn_val){ 0 };
    qn_hidden(b, x);
    qn_shape wanted = { .dim = { -QN_SYM_OUT }, .n_dims = 1, .dtype = QN_I32 };
    qn_val row = qn_graph_input(b->g, "out_row", wanted);
    back_to_scope(b);
    qn_val picked = QN_ADD(b->g, &qn_op_rows, NULL, x, row);

    /* The head's name is whole: it stands beside the model, not within its scope. */
    const char *tensor = qn_arena_printf(&b->g->arena, "%s.weight", name);
    qn_config_used(c, "tie_word_embeddings");
    bool silent = !qn_config_has(c, "tie_word_embeddings") && !qn_config_has(c, "tie_embedding");
    bool has_head = !c->tied && qn_checkpoint_weight(b->ck, tensor);
    bool tied = c->tied || (silent && !has_head);
    if (!tied && !has_head && qn_checkpoint_is_bare(b->ck))
        return (qn_val){ 0 };
    char scope[sizeof b->scope];
    memcpy(scope, b->scope, sizeof scope);
    qn_scope(b, -1, "%s", "");
    qn_val y = { 0 };
    if (tied && b->embedding) {
        qn_checkpoint_ignore(b->ck, tensor);
        qn_part_enter(b, name, "");
        y = QN_ADD(b->g, &qn_op_linear, NULL, picked, qn_graph_weight(b->g, b->embedding));
    } else {
        y = qn_part_linear(b, name, "", picked, c->n_vocab, NULL);
    }
    qn_scope(b, -1, "%s", scope);
    return y;
}

void qn_mark_output(qn_build *b, const char *name, qn_val v)
{
    if (v.id)
        qn_graph_output(b->g, name, v);
}

void qn_logits(qn_build *b, const char *name, qn_val x, const qn_config *c)
{
    qn_mark_output(b, "logits", qn_head(b, name, x, c));
}
