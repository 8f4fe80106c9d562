/* session.c - a conversation: its messages, and a lease on the cache between turns.
 *
 * The truth is the list of messages: each turn renders and tokenises all of it, and computes what the lease does
 * not already hold. Nothing is remembered as text of the prompt, so a template that writes old turns anew (a
 * thought removed, say) is simply a shorter common prefix. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "engine/engine.h"

struct qn_session {
    qn_engine *engine;
    qn_lease *lease;
    qn_buf messages; /* JSON objects with commas between */
    qn_buf turn;     /* the user's message of the turn under way */
    qn_request *in_flight;
};

/* Appends {"role": ..., "content": ...} with a comma in front when one is due. */
static void put_message(qn_buf *b, const char *role, const char *content, const char *reasoning)
{
    qn_buf_printf(b, "%s{\"role\":\"%s\",\"content\":", b->len ? "," : "", role);
    qn_json_put_str(b, content, strlen(content));
    if (reasoning && *reasoning) {
        qn_buf_str(b, ",\"reasoning_content\":");
        qn_json_put_str(b, reasoning, strlen(reasoning));
    }
    qn_buf_char(b, '}');
}

int qn_session_open(qn_session **out, qn_engine *e, const char *system, qn_error *err)
{
    *out = NULL;
    if (!e->model->chat)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s has no chat template", e->model->path);
    qn_session *s = qn_alloc(sizeof *s);
    s->engine = e;
    s->lease = qn_engine_lease(e);
    if (system && *system)
        put_message(&s->messages, "system", system, NULL);
    *out = s;
    return QN_OK;
}

void qn_session_close(qn_session *s)
{
    if (!s)
        return;
    qn_engine_end_lease(s->engine, s->lease);
    qn_buf_free(&s->messages);
    qn_buf_free(&s->turn);
    qn_free(s);
}

int qn_session_reset(qn_session *s, const char *system, qn_error *err)
{
    if (s->in_flight)
        return qn_fail(err, QN_ERR_ARGUMENT, "a turn is under way");
    qn_buf_clear(&s->messages);
    if (system && *system)
        put_message(&s->messages, "system", system, NULL);
    return QN_OK;
}

char *qn_session_messages_dup(const qn_session *s)
{
    qn_buf b = { 0 };
    qn_buf_printf(&b, "[%s]", qn_buf_cstr(&s->messages));
    return b.data;
}

/* The turn's DONE was taken, or its request closed before: keep the turn or take it back. */
static void end_turn(qn_request *r, void *ctx)
{
    qn_session *s = ctx;
    const qn_result *res = &r->result;
    s->in_flight = NULL;
    r->on_done = NULL;
    if (!r->done_taken || res->finish == QN_FINISH_CANCELLED || res->finish == QN_FINISH_ERROR)
        return;
    qn_buf_printf(&s->messages, "%s%s", s->messages.len ? "," : "", s->turn.data);
    put_message(&s->messages, "assistant", res->text, res->reasoning);
}

int qn_session_send(qn_request **out, qn_session *s, const char *text,
                    const qn_request_options *opt, qn_error *err)
{
    qn_request_options o;
    *out = NULL;
    if (s->in_flight)
        return qn_fail(err, QN_ERR_ARGUMENT, "a turn is under way");
    if (opt)
        o = *opt;
    else
        qn_request_defaults(s->engine->model, &o);
    qn_buf chat = { 0 };
    qn_buf_clear(&s->turn);
    put_message(&s->turn, "user", text, NULL);
    qn_buf_printf(&chat, "{\"messages\":[%s%s%s]}", qn_buf_cstr(&s->messages),
                  s->messages.len ? "," : "", s->turn.data);
    o.text = NULL;
    o.ids = NULL;
    o.chat = chat.data;
    int rc = qn_request_make(out, s->engine, &o, err);
    qn_buf_free(&chat);
    if (rc != QN_OK)
        return rc;
    qn_request_lease(*out, s->lease);
    (*out)->on_done = end_turn;
    (*out)->on_done_ctx = s;
    rc = qn_engine_submit(s->engine, *out, err);
    if (rc != QN_OK) {
        atomic_fetch_sub(&s->lease->users, 1);
        qn_request_unref(*out);
        *out = NULL;
        return rc;
    }
    s->in_flight = *out;
    return QN_OK;
}
