/* model_text.c - what a checkpoint says about text: tokenizer, chat template and the ids that end an answer.
 *
 * A GGUF file carries all three in its metadata; a folder has files of the usual names. */
#include "engine/model.h"
#include "formats/gguf.h"

/* ---- ids that end an answer ---- */

static void add_eos(qn_model *m, int64_t id)
{
    if (id < 0 || id >= m->config.n_vocab || m->n_eos == QN_MAX_EOS)
        return;
    for (int i = 0; i < m->n_eos; i++)
        if (m->eos[i] == id)
            return;
    m->eos[m->n_eos++] = (int32_t)id;
}

/* A number or a list of numbers. False when there is neither. */
static bool add_eos_json(qn_model *m, const qn_json *v)
{
    if (qn_json_is_number(v)) {
        add_eos(m, qn_json_int(v, -1));
        return true;
    }
    if (!qn_json_is(v, QN_JSON_ARRAY))
        return false;
    for (uint32_t i = 0; i < v->n; i++)
        add_eos(m, qn_json_int(&v->items[i], -1));
    return true;
}

/* The generation config overrides the model's, whose text part overrides the whole. A GGUF file names the end
 * of the text and, for chat models, the end of a turn. */
static void collect_eos(qn_model *m)
{
    static const char key[] = "eos_token_id";
    if (!add_eos_json(m, qn_json_get(qn_checkpoint_generation(m->ck), key)) &&
        !add_eos_json(m, qn_json_get(m->config.json, key)))
        add_eos_json(m, qn_json_get(m->config.outer, key));
    const struct qn_gguf *g = qn_checkpoint_gguf(m->ck);
    if (g) {
        add_eos(m, qn_gguf_int(g, "tokenizer.ggml.eos_token_id", -1));
        add_eos(m, qn_gguf_int(g, "tokenizer.ggml.eot_token_id", -1));
        add_eos(m, qn_gguf_int(g, "tokenizer.ggml.eom_token_id", -1));
    }
}

int qn_model_load_text(qn_model *m, bool no_tokenizer, qn_error *err)
{
    (void)no_tokenizer;
    (void)err;
    collect_eos(m);
    return QN_OK;
}

void qn_model_unload_text(qn_model *m)
{
    (void)m;
}
