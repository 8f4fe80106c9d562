/* prompt.c - see prompt.h. A rendered conversation already holds its special tokens as text; plain text gets
 * what the tokenizer itself puts around it. */
#include "engine/prompt.h"

#include <string.h>

#include "base/error.h"
#include "engine/reply.h"
#include "tokenizer/template.h"
#include "tokenizer/tokenizer.h"

static int encode(qn_prompt *p, const qn_model *m, const char *text, size_t n, unsigned flags,
                  qn_error *err)
{
    if (!m->tokenizer)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s has no tokenizer: give token ids", m->path);
    qn_ids ids = { 0 };
    int rc = qn_tokenizer_encode(m->tokenizer, text, n, flags, &ids, err);
    *p = (qn_prompt){ .id = ids.v, .n = ids.n, .cap = ids.cap };
    return rc;
}

/* A conversation whose messages hold no text at all asks nothing. */
static bool is_blank(const qn_json *messages)
{
    for (uint32_t i = 0; i < messages->n; i++) {
        const qn_json *content = qn_json_get(&messages->items[i], "content");
        const char *s = qn_json_str(content, content ? "x" : "");
        if (s[strspn(s, " \t\r\n")])
            return false;
    }
    return true;
}

int qn_prompt_render(char **out, const qn_model *m, const char *chat, qn_error *err)
{
    qn_arena a = { 0 };
    qn_rendering r = { 0 };
    *out = NULL;
    if (!m->chat)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s has no chat template", m->path);
    const qn_json *request = qn_json_parse(&a, chat, strlen(chat), err);
    int rc = request ? QN_OK : qn_fail_in(err, QN_ERR_ARGUMENT, "chat");
    const qn_json *messages = qn_json_get(request, "messages");
    if (rc == QN_OK && (!qn_json_is(messages, QN_JSON_ARRAY) || is_blank(messages)))
        rc = qn_fail(err, QN_ERR_ARGUMENT, "chat.messages: no message with any text");
    if (rc == QN_OK)
        rc = qn_template_render(m->chat, request, NULL, &r, err);
    if (rc == QN_OK)
        *out = qn_strndup(qn_buf_cstr(&r.text), r.text.len);
    qn_rendering_free(&r);
    qn_arena_free(&a);
    return rc;
}

static int from_chat(qn_prompt *p, const qn_model *m, const char *chat, qn_error *err)
{
    char *text;
    int rc = qn_prompt_render(&text, m, chat, err);
    if (rc != QN_OK)
        return rc;
    rc = encode(p, m, text, strlen(text), QN_ENCODE_PARSE, err);
    p->opens_thought = qn_prompt_opens_thought(text, strlen(text));
    qn_free(text);
    return rc;
}

static int from_ids(qn_prompt *p, const qn_model *m, const int32_t *ids, size_t n, qn_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= m->config.n_vocab)
            return qn_fail(err, QN_ERR_ARGUMENT, "ids[%zu] is %d, outside the vocabulary of %d", i,
                           ids[i], m->config.n_vocab);
    p->id = qn_alloc_n(n + 1, sizeof *p->id);
    p->n = n;
    p->cap = n + 1;
    if (n > 0)
        memcpy(p->id, ids, n * sizeof *ids);
    return QN_OK;
}

int qn_prompt_make(qn_prompt *p, const qn_model *m, const qn_request_options *opt, qn_error *err)
{
    if (opt->ids)
        return from_ids(p, m, opt->ids, opt->n_ids, err);
    if (opt->chat)
        return from_chat(p, m, opt->chat, err);
    unsigned flags = QN_ENCODE_SPECIAL;
    if (m->tokenizer && qn_tokenizer_parses(m->tokenizer))
        flags |= QN_ENCODE_PARSE;
    return encode(p, m, opt->text, strlen(opt->text), flags, err);
}

void qn_prompt_free(qn_prompt *p)
{
    qn_free(p->id);
    *p = (qn_prompt){ 0 };
}
