/* checkpoint_internal.h - what the parts of the checkpoint loader share.
 *
 * checkpoint.c holds the list of weights; checkpoint_folder.c fills it from safetensors, checkpoint_gguf.c from
 * GGUF; packed.c makes one weight of a module's packed tensors; gguf_names.c translates. */
#ifndef QN_FORMATS_CHECKPOINT_INTERNAL_H
#define QN_FORMATS_CHECKPOINT_INTERNAL_H

#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "formats/name_index.h"
#include "formats/safetensors.h"

struct qn_checkpoint {
    qn_arena arena;
    const char *path, *format;
    qn_st *st;
    qn_gguf *gguf;
    const qn_json *config, *generation;
    qn_weight *weight; /* fixed once opened: pointers into it are handed out */
    bool *used;
    size_t n_weights, cap_weights;
    bool bare; /* see qn_checkpoint_is_bare */
    qn_name_index names;
    struct stack *stacks; /* made by qn_checkpoint_stack and _transposed, newest first */
    void **copy;          /* memory of misaligned tensors and of gathered stacks */
    size_t n_copies, cap_copies;
};

/* Appends a weight; its name must live as long as the checkpoint. */
void qn_checkpoint_add(qn_checkpoint *c, const qn_weight *w);

/* `data` itself when it is aligned to `align`, else a copy that the checkpoint owns; NULL when there is no
 * memory for one. */
const void *qn_checkpoint_aligned(qn_checkpoint *c, const void *data, size_t bytes, size_t align);
/* Memory that the checkpoint owns; NULL when there is none. */
void *qn_checkpoint_memory(qn_checkpoint *c, size_t bytes);

int qn_checkpoint_fill_folder(qn_checkpoint *c, qn_error *err);
/* Makes weights of all tensors of c->st by the rules of c->config. */
int qn_checkpoint_add_tensors(qn_checkpoint *c, qn_error *err);
int qn_checkpoint_fill_gguf(qn_checkpoint *c, qn_error *err);

#endif
