/* adamw.c - see adamw.h.
 *
 *   w *= 1 - lr * decay
 *   m  = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
 *   w -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 * Each element is computed in double and rounded when stored, so that the order of the factors is no matter. */
#include "train/adamw.h"

#include <math.h>

void qn_adamw_update(const qn_adamw *o, const qn_adamw_slice *s, int64_t t, double scale)
{
    double c1 = 1 - pow(o->beta1, (double)t), c2 = 1 - pow(o->beta2, (double)t);
    for (size_t i = 0; i < s->n; i++) {
        double g = s->g[i] * scale;
        double m = o->beta1 * s->m[i] + (1 - o->beta1) * g;
        double v = o->beta2 * s->v[i] + (1 - o->beta2) * g * g;
        s->m[i] = (float)m;
        s->v[i] = (float)v;
        double w = s->w[i] * (1 - o->lr * o->decay);
        s->w[i] = (float)(w - o->lr * (m / c1) / (sqrt(v / c2) + o->eps));
    }
}

double qn_clip_scale(double norm, double max_norm)
{
    double scale = max_norm / (norm + 1e-6);
    return max_norm > 0 && scale < 1 ? scale : 1;
}
