/* model_text.c - what a checkpoint says about text: tokenizer, chat template and the ids that end an answer.
 *
 * A GGUF file carries all three in its metadata; a folder has files of the usual names. */
#include "base/log.h"
#include "engine/gguf_tokenizer.h"
#include "engine/model.h"
#include "tokenizer/template.h"
#include "tokenizer/tokenizer.h"

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

/* The generation config overrides the model's, whose text part overrides the whole. A chat model's tokenizer
 * may know the end of a turn; where nothing else is said its end of text counts. */
static void collect_eos(qn_model *m)
{
    static const char key[] = "eos_token_id";
    if (!add_eos_json(m, qn_json_get(qn_checkpoint_generation(m->ck), key)) &&
        !add_eos_json(m, qn_json_get(m->config.json, key)))
        add_eos_json(m, qn_json_get(m->config.outer, key));
    if (m->tokenizer && m->n_eos == 0)
        add_eos(m, qn_tokenizer_special(m->tokenizer, QN_TOK_EOS));
    if (m->tokenizer)
        add_eos(m, qn_tokenizer_special(m->tokenizer, QN_TOK_EOT));
}

static int open_tokenizer(qn_model *m, qn_error *err)
{
    const struct qn_gguf *g = qn_checkpoint_gguf(m->ck);
    if (g)
        return qn_gguf_tokenizer_open(&m->tokenizer, g, err);
    return qn_tokenizer_open(&m->tokenizer, m->path, err);
}

int qn_model_load_text(qn_model *m, bool no_tokenizer, qn_error *err)
{
    int rc = no_tokenizer ? QN_OK : open_tokenizer(m, err);
    if (rc != QN_OK && rc != QN_ERR_NOT_FOUND)
        return rc;
    rc = no_tokenizer ? QN_OK : qn_template_load(&m->chat, m->path, err);
    if (rc != QN_OK && rc != QN_ERR_NOT_FOUND) /* text can still be continued without it */
        qn_log(QN_LOG_WARN, "no chat template: %s", err->msg);
    collect_eos(m);
    *err = (qn_error){ 0 };
    return QN_OK;
}

void qn_model_unload_text(qn_model *m)
{
    qn_template_close(m->chat);
    qn_tokenizer_close(m->tokenizer);
}
