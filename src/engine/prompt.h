/* prompt.h - from what a caller gives (text, conversation, ids) to the token ids of a prompt. */
#ifndef QN_ENGINE_PROMPT_H
#define QN_ENGINE_PROMPT_H

#include "engine/model.h"

typedef struct qn_prompt {
    int32_t *id;
    size_t n, cap;
    bool opens_thought; /* the rendered conversation ends inside a thought */
} qn_prompt;            /* {0} is an empty one */

int qn_prompt_make(qn_prompt *p, const qn_model *m, const qn_request_options *opt, qn_error *err);
/* The text that the model's template makes of `chat` (JSON, see quern.h). The string is the caller's. */
int qn_prompt_render(char **out, const qn_model *m, const char *chat, qn_error *err);

void qn_prompt_free(qn_prompt *p);

#endif
