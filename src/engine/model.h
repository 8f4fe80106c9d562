/* model.h - a loaded model: checkpoint, config, graph, tokenizer and template, ready for an engine. */
#ifndef QN_ENGINE_MODEL_H
#define QN_ENGINE_MODEL_H

#include "backend/backend.h"
#include "families/family.h"

#define QN_MAX_EOS 16

typedef struct qn_load_options {
    qn_backend_options backend;
    bool no_tokenizer; /* neither tokenizer nor template are looked for */
} qn_load_options;

struct qn_tokenizer;
struct qn_template;

struct qn_model {
    char *path;
    qn_checkpoint *ck;
    qn_arena arena; /* config and what it points to */
    qn_config config;
    const qn_family *family;
    qn_graph plain; /* as the family built it */
    qn_graph graph; /* after the backend's fusions */
    qn_backend *backend;
    bool exact;                     /* the backend computes in f32, so the cache is to be f32 too */
    struct qn_tokenizer *tokenizer; /* NULL when there is none */
    struct qn_template *chat;       /* NULL when there is none */
    int32_t eos[QN_MAX_EOS];        /* ids that end an answer, each once */
    int n_eos;
};

typedef struct qn_model qn_model;

/* Opens folder or .gguf, finds the family, builds, fuses and prepares. A checkpoint without a tokenizer loads;
 * one whose tokenizer is broken does not. *out is NULL on failure, and err names file and field. */
int qn_model_load(qn_model **out, const char *path, const qn_load_options *opt, qn_error *err);
void qn_model_unload(qn_model *m); /* NULL is fine */

/* Opens the tokenizer and the chat template of the checkpoint and collects the ids that end an answer; part of
 * loading, in model_text.c. */
int qn_model_load_text(qn_model *m, bool no_tokenizer, qn_error *err);
void qn_model_unload_text(qn_model *m);

#endif
