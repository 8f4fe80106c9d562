/* trainer.h - full fine-tuning of a model's graph: loss, gradients and AdamW steps.
 *
 * A trainer copies the graph as its family built it, gives every weight a float copy of its own, appends the
 * loss and the gradient of every weight, and runs that through a backend. The model it came from is not
 * touched. It does not read data files or templates, and does not write checkpoints. */
#ifndef QN_TRAIN_TRAINER_H
#define QN_TRAIN_TRAINER_H

#include "backend/backend.h"
#include "train/adamw.h"

typedef struct qn_trainer qn_trainer;

typedef struct qn_train_options {
    qn_adamw adamw;
    double max_norm;  /* of the whole gradient; 0 = no clipping */
    double smoothing; /* of labels, [0, 1) */
} qn_train_options;

#define QN_TRAIN_DEFAULT ((qn_train_options){ .adamw = QN_ADAMW_DEFAULT, .max_norm = 1 })

/* One example: label[i] is the token at place i, or negative where it does not count. Row i learns label[i + 1]:
 * the shift is made here. */
typedef struct qn_train_seq {
    const int32_t *id, *label; /* [n] */
    int32_t n;
} qn_train_seq;

typedef struct qn_train_result {
    double loss;      /* mean over the labels that count; 0 when there are none */
    double grad_norm; /* before clipping */
    int64_t n_labels;
    bool updated; /* false: no label counted, or a number was not finite; weights are as before */
} qn_train_result;

/* `graph` is a model's plain graph with output "logits"; it and its weights are borrowed until the close, as
 * is the backend, which must run references or kernels for every op. Fails when an op has no gradient or the
 * floats do not fit in memory. */
int qn_trainer_open(qn_trainer **out, const qn_graph *graph, qn_backend *be,
                    const qn_train_options *opt, qn_error *err);
void qn_trainer_close(qn_trainer *t); /* NULL is fine */

/* Loss and gradients of one batch; weights stay. Ids and labels outside the vocabulary are an error. */
int qn_trainer_run(qn_trainer *t, const qn_train_seq *seqs, int32_t n_seqs, qn_train_result *r,
                   qn_error *err);
/* The same, and one update. */
int qn_trainer_step(qn_trainer *t, const qn_train_seq *seqs, int32_t n_seqs, qn_train_result *r,
                    qn_error *err);

/* The weights by number: names as in the checkpoint, values and the last gradients as floats, n elements.
 * Values may be written between runs. */
size_t qn_trainer_count(const qn_trainer *t);
const char *qn_trainer_name(const qn_trainer *t, size_t i);
size_t qn_trainer_size(const qn_trainer *t, size_t i);
float *qn_trainer_weight(qn_trainer *t, size_t i);
const float *qn_trainer_grad(const qn_trainer *t, size_t i); /* NULL: the loss ignores it */

#endif
