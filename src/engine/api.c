/* api.c - the public calls that need only a loaded model: opening, facts, tokens, rendering, defaults. */
#include <string.h>

#include "base/error.h"
#include "engine/model.h"
#include "engine/prompt.h"
#include "ops/ops.h"
#include "tokenizer/tokenizer.h"

/* ---- opening ---- */

int qn_model_open(qn_model **out, const char *path, const qn_model_options *opt, qn_error *err)
{
    static const qn_model_options defaults;
    *out = NULL;
    if (!opt)
        opt = &defaults;
    if (opt->device && strcmp(opt->device, "cpu") != 0)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "device %s: only cpu is there", opt->device);
    bool exact = opt->compute == QN_COMPUTE_F32;
    qn_load_options load = { .backend = { .n_threads = opt->n_threads, .exact = exact } };
    return qn_model_load(out, path, &load, err);
}

void qn_model_close(qn_model *m)
{
    qn_model_unload(m);
}

/* ---- facts ---- */

/* Bytes of a node's weights that one token makes it read: one row of a table it only looks up, the chosen
 * experts of a stack, all of anything else. */
static double bytes_read(const qn_graph *g, const qn_node *n)
{
    double sum = 0;
    for (int i = 0; i < n->n_in; i++) {
        const qn_node *in = qn_node_at(g, n->in[i]);
        if (n->in[i].id == 0 || in->op != &qn_op_weight)
            continue;
        const qn_weight *w = ((const qn_attr_weight *)in->attr)->weight;
        double bytes = (double)qn_weight_bytes(w);
        if (n->op == &qn_op_embed)
            bytes /= (double)qn_weight_rows(w);
        else if (n->op == &qn_op_expert_linear)
            bytes *= (double)((const qn_attr_expert_linear *)n->attr)->top_k / (double)w->dim[0];
        sum += bytes;
    }
    return sum;
}

void qn_model_get_info(const qn_model *m, qn_model_info *info)
{
    const qn_config *c = &m->config;
    double bytes = 0;
    int64_t params = 0;
    for (int32_t i = 1; i < m->plain.n_nodes; i++)
        bytes += bytes_read(&m->plain, &m->plain.node[i]);
    for (size_t i = 0; i < qn_checkpoint_count(m->ck); i++)
        params += qn_weight_elems(qn_checkpoint_at(m->ck, i));
    *info = (qn_model_info){ .architecture = c->model_type,
                             .n_params = params,
                             .weight_bytes = (int64_t)bytes,
                             .n_layers = c->n_layers,
                             .d_model = c->d_model,
                             .n_vocab = c->n_vocab,
                             .max_context = c->max_pos,
                             .has_tokenizer = m->tokenizer != NULL,
                             .has_template = m->chat != NULL };
}

/* ---- tokens and text ---- */

static int need_tokenizer(const qn_model *m, qn_error *err)
{
    if (m->tokenizer)
        return QN_OK;
    return qn_fail(err, QN_ERR_UNSUPPORTED, "%s has no tokenizer", m->path);
}

int32_t *qn_tokenize_dup(const qn_model *m, const char *text, size_t n, int flags, size_t *n_ids,
                         qn_error *err)
{
    *n_ids = 0;
    if (need_tokenizer(m, err) != QN_OK)
        return NULL;
    return qn_tokenizer_ids_dup(m->tokenizer, text, n, flags, n_ids, err);
}

char *qn_detokenize_dup(const qn_model *m, const int32_t *ids, size_t n, bool with_special,
                        size_t *len, qn_error *err)
{
    qn_buf b = { 0 };
    if (need_tokenizer(m, err) != QN_OK)
        return NULL;
    qn_buf_reserve(&b, n * 4); /* also makes an empty text a string */
    b.data[0] = '\0';
    qn_tokenizer_decode(m->tokenizer, ids, n, !with_special, &b);
    if (len)
        *len = b.len;
    return b.data;
}

char *qn_render_dup(const qn_model *m, const char *chat, qn_error *err)
{
    char *text;
    qn_prompt_render(&text, m, chat, err);
    return text;
}

/* ---- defaults ---- */

void qn_request_defaults(const qn_model *m, qn_request_options *opt)
{
    const qn_json *g = qn_checkpoint_generation(m->ck);
    qn_sampling s = { .temperature = (float)qn_json_num(qn_json_get(g, "temperature"), 1),
                      .top_k = (int)qn_json_int(qn_json_get(g, "top_k"), 0),
                      .top_p = (float)qn_json_num(qn_json_get(g, "top_p"), 1),
                      .min_p = (float)qn_json_num(qn_json_get(g, "min_p"), 0),
                      .repetition_penalty =
                          (float)qn_json_num(qn_json_get(g, "repetition_penalty"), 1),
                      .repetition_window = 256,
                      .seed = -1 };
    if (!qn_json_bool(qn_json_get(g, "do_sample"), true))
        s.temperature = 0;
    *opt = (qn_request_options){ .max_tokens = -1, .sampling = s, .n_logprobs = -1 };
}
