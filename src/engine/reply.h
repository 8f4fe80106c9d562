/* reply.h - the one pipeline between a sequence's text and its reader: thoughts are split off, then stop texts
 * end the answer. Streaming and whole answers both come out of it, so they cannot differ.
 *
 * Text goes in in whole characters, cut anywhere between them; it comes out at the end of `text` or `reasoning`.
 * What could still become part of a tag or of a stop text is held back until it is known. */
#ifndef QN_ENGINE_REPLY_H
#define QN_ENGINE_REPLY_H

#include <stdbool.h>

#include "base/buf.h"

typedef enum qn_reply_state {
    QN_REPLY_START,   /* nothing but white space so far: a thought may open */
    QN_REPLY_THOUGHT, /* between the tags */
    QN_REPLY_GAP,     /* white space between thought and answer, dropped */
    QN_REPLY_ANSWER
} qn_reply_state;

typedef struct qn_reply {
    qn_buf text, reasoning; /* what may be shown */
    bool stopped;           /* a stop text came: nothing more will be added */
    qn_reply_state state;
    qn_buf held; /* not yet known to be what */
    const char *const *stop;
    int n_stop;
} qn_reply;

/* The stop texts (UTF-8, not empty) are borrowed. `split`: look for <think> at the start of the output;
 * `opened`: the prompt already ended with the opening tag. */
void qn_reply_init(qn_reply *o, const char *const *stop, int n_stop, bool split, bool opened);
void qn_reply_free(qn_reply *o);

void qn_reply_add(qn_reply *o, const char *s, size_t n);
void qn_reply_end(qn_reply *o); /* no more will come: what was held is let out */

/* Whether `prompt` ends inside a thought: its last tag is an opening one with only white space behind it. */
bool qn_prompt_opens_thought(const char *prompt, size_t n);

#endif
