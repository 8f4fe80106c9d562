/* reply.c - see reply.h. A small state machine over one held buffer: each state takes from the buffer's front
 * what it is sure of, and either moves on to the next state or waits for more. */
#include "engine/reply.h"

#include <string.h>

static const char open_tag[] = "<think>", close_tag[] = "</think>";

void qn_reply_init(qn_reply *o, const char *const *stop, int n_stop, bool split, bool opened)
{
    *o = (qn_reply){ .stop = stop, .n_stop = n_stop };
    o->state = !split ? QN_REPLY_ANSWER : opened ? QN_REPLY_THOUGHT : QN_REPLY_START;
}

void qn_reply_free(qn_reply *o)
{
    qn_buf_free(&o->text);
    qn_buf_free(&o->reasoning);
    qn_buf_free(&o->held);
}

/* ---- looking into the held text ---- */

static size_t spaces(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r'))
        i++;
    return i;
}

static size_t spaces_at_end(const char *s, size_t n)
{
    size_t i = n;
    while (i > 0 && spaces(s + i - 1, 1))
        i--;
    return n - i;
}

static bool found_at(const char *s, size_t n, const char *pattern)
{
    size_t len = strlen(pattern);
    return n >= len && !memcmp(s, pattern, len);
}

/* Whether s[0..n) is a beginning of the pattern, but not all of it. */
static bool begins(const char *s, size_t n, const char *pattern)
{
    return n < strlen(pattern) && !memcmp(s, pattern, n);
}

/* Drops the first n held bytes. */
static void consume(qn_reply *o, size_t n)
{
    memmove(o->held.data, o->held.data + n, o->held.len - n + 1);
    o->held.len -= n;
}

static void emit(qn_reply *o, qn_buf *to, size_t n)
{
    qn_buf_add(to, o->held.data, n);
    consume(o, n);
}

/* ---- the states; each returns true when it moved on and the buffer is worth another look ---- */

static bool at_start(qn_reply *o, bool end)
{
    size_t skip = spaces(o->held.data, o->held.len);
    const char *s = o->held.data + skip;
    size_t n = o->held.len - skip;
    if (found_at(s, n, open_tag)) {
        consume(o, skip + strlen(open_tag));
        o->state = QN_REPLY_THOUGHT;
        return true;
    }
    if (!end && begins(s, n, open_tag)) /* n = 0 too: white space alone decides nothing */
        return false;
    o->state = QN_REPLY_ANSWER; /* the white space belongs to it */
    return true;
}

/* Lets the thought out up to the closing tag. White space round it is the template's, not the thought's: at the
 * front it is dropped, at the back held until more follows. */
static bool in_thought(qn_reply *o, bool end)
{
    if (o->reasoning.len == 0)
        consume(o, spaces(o->held.data, o->held.len));
    const char *s = o->held.data;
    for (size_t i = 0; i < o->held.len; i++) {
        bool whole = found_at(s + i, o->held.len - i, close_tag);
        if (!whole && (end || !begins(s + i, o->held.len - i, close_tag)))
            continue;
        size_t tail = spaces_at_end(s, i);
        emit(o, &o->reasoning, i - tail);
        if (!whole)
            return false;
        consume(o, tail + strlen(close_tag));
        o->state = QN_REPLY_GAP;
        return true;
    }
    emit(o, &o->reasoning, o->held.len - spaces_at_end(s, o->held.len));
    return false;
}

static bool in_gap(qn_reply *o)
{
    consume(o, spaces(o->held.data, o->held.len));
    if (o->held.len == 0)
        return false;
    o->state = QN_REPLY_ANSWER;
    return true;
}

/* The first stop text at s, or NULL; *may is set when one may be on its way. Of two that begin at the same
 * place either one ends the answer there, so the order does not matter. */
static bool stop_at(const qn_reply *o, const char *s, size_t n, bool *may)
{
    for (int i = 0; i < o->n_stop; i++) {
        if (found_at(s, n, o->stop[i]))
            return true;
        if (begins(s, n, o->stop[i]))
            *may = true;
    }
    return false;
}

static bool in_answer(qn_reply *o, bool end)
{
    size_t keep_from = o->held.len; /* where a stop text may have begun */
    for (size_t i = 0; i < o->held.len; i++) {
        bool may = false;
        if (stop_at(o, o->held.data + i, o->held.len - i, &may)) {
            /* A longer one that began earlier and is still open loses to the one that is whole. */
            emit(o, &o->text, i);
            qn_buf_clear(&o->held);
            o->stopped = true;
            return false;
        }
        if (may && !end && i < keep_from)
            keep_from = i;
    }
    emit(o, &o->text, keep_from);
    return false;
}

static void advance(qn_reply *o, bool end)
{
    bool again = true;
    while (again && !o->stopped && o->held.len > 0) {
        switch (o->state) {
        case QN_REPLY_START:
            again = at_start(o, end);
            break;
        case QN_REPLY_THOUGHT:
            again = in_thought(o, end);
            break;
        case QN_REPLY_GAP:
            again = in_gap(o);
            break;
        case QN_REPLY_ANSWER:
            again = in_answer(o, end);
            break;
        }
    }
}

void qn_reply_add(qn_reply *o, const char *s, size_t n)
{
    if (o->stopped || n == 0)
        return;
    qn_buf_add(&o->held, s, n);
    advance(o, false);
}

void qn_reply_end(qn_reply *o)
{
    advance(o, true);
    qn_buf_clear(&o->held);
}

bool qn_prompt_opens_thought(const char *prompt, size_t n)
{
    n -= spaces_at_end(prompt, n);
    size_t len = strlen(open_tag);
    return n >= len && !memcmp(prompt + n - len, open_tag, len);
}
