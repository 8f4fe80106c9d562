/* modules.h - what a checkpoint's own files say is done with a text before the model and with its rows after it:
 * the layout of sentence-transformers (modules.json, 1_Pooling, 2_Dense, config_sentence_transformers.json). */
#ifndef QN_PIPELINE_MODULES_H
#define QN_PIPELINE_MODULES_H

#include "base/error.h"
#include "base/json.h"
#include "engine/encoder.h"

/* Ways to make one vector of rows, as bits; several are put side by side in this order. */
enum {
    QN_POOL_CLS = 1, /* the first row */
    QN_POOL_MAX = 2,
    QN_POOL_MEAN = 4,
    QN_POOL_MEAN_SQRT = 8, /* the sum over the square root of the count */
    QN_POOL_WEIGHTED = 16, /* the mean with weights 1, 2, 3 ... */
    QN_POOL_LAST = 32,
    QN_POOL_ALL = 63
};

/* What happens to the pooled vector, one after the other. */
typedef struct qn_stage {
    enum { QN_STAGE_DENSE, QN_STAGE_NORMALIZE, QN_STAGE_LAYER_NORM } kind;
    int32_t n_in, n_out;
    float *w, *bias; /* [n_out][n_in], [n_out]; of a norm both [n_out]; bias may be NULL */
    qn_act act;
} qn_stage;

typedef struct qn_modules {
    qn_arena arena;
    unsigned pooling;    /* QN_POOL_* */
    bool include_prompt; /* the prompt's rows are pooled too */
    bool lowercase;      /* of the text, before the tokenizer */
    int32_t max_tokens;  /* longer texts are cut; 0 = not said */
    int32_t dims;        /* the vector is cut to this; 0 = whole */
    qn_stage *stage;     /* [n_stages] */
    int32_t n_stages;
    const qn_json *prompts; /* object of name and text, or NULL */
    const char *default_prompt;
} qn_modules;

/* Reads the files of folder `path` for a model whose rows are `width` wide. A folder without them (or a file that
 * is no folder) means the mean of all rows, as sentence-transformers has it. Unknown modules are errors by name. */
int qn_modules_read(qn_modules *m, const char *path, int32_t width, qn_error *err);
void qn_modules_free(qn_modules *m);

int32_t qn_modules_pooled_width(const qn_modules *m, int32_t width);
int32_t qn_modules_width(const qn_modules *m, int32_t width); /* after the last stage */

/* Makes one vector of the passage's rows [n][width]; those of its prompt are left out where the checkpoint says so.
 * `out` has the pooled width. */
void qn_modules_pool(const qn_modules *m, const float *rows, const qn_passage *p, int32_t width,
                     float *out);
/* Runs a vector through a stage. in and out may not overlap. */
void qn_stage_run(const qn_stage *s, const float *in, float *out, int32_t width);

/* Scales x to unit length; zeros stay. */
void qn_unit_length(float *x, int32_t n);

#endif
