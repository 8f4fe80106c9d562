/* adamw.h - the AdamW update of one array of numbers, and clipping by the global norm.
 *
 * Moments and weights are f32; the rule is that of the PyTorch optimiser of the same name, with decay on
 * every weight it is given. */
#ifndef QN_TRAIN_ADAMW_H
#define QN_TRAIN_ADAMW_H

#include <stddef.h>
#include <stdint.h>

typedef struct qn_adamw {
    double lr, beta1, beta2, eps, decay;
} qn_adamw;

#define QN_ADAMW_DEFAULT                                                                           \
    ((qn_adamw){ .lr = 2e-5, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.01 })

/* Update number t (from 1) of n weights by gradient g * scale; m and v are their moments, zero before the
 * first one. */
typedef struct qn_adamw_slice {
    float *w, *m, *v;
    const float *g;
    size_t n;
} qn_adamw_slice;

void qn_adamw_update(const qn_adamw *o, const qn_adamw_slice *s, int64_t t, double scale);

/* The factor that brings a gradient of this norm down to max_norm: min(1, max_norm / (norm + 1e-6)). */
double qn_clip_scale(double norm, double max_norm);

#endif
