/* pooling.c - the arithmetic of modules.h: rows to one vector, and what is done with that.
 *
 * A vector has a few hundred numbers, so this is plain code: sums are in double and ascending, and a text's vector
 * depends on its own rows only. */
#include <math.h>
#include <string.h>

#include "ops/util.h"
#include "pipeline/modules.h"

int32_t qn_modules_pooled_width(const qn_modules *m, int32_t width)
{
    return width * __builtin_popcount(m->pooling);
}

int32_t qn_modules_width(const qn_modules *m, int32_t width)
{
    return m->n_stages ? m->stage[m->n_stages - 1].n_out : qn_modules_pooled_width(m, width);
}

/* The sum of rows [skip, n), each times its number from 1 on when weighted; returns the sum of the weights. */
static double add_rows(const float *rows, int32_t n, int32_t width, int32_t skip, bool weighted,
                       double *sum)
{
    double total = 0;
    memset(sum, 0, (size_t)width * sizeof *sum);
    for (int32_t r = skip; r < n; r++) {
        double w = weighted ? r + 1 : 1;
        total += w;
        for (int32_t i = 0; i < width; i++)
            sum[i] += w * rows[(int64_t)r * width + i];
    }
    return total;
}

static void pool_mean(unsigned kind, const float *rows, int32_t n, int32_t width, int32_t skip,
                      float *out)
{
    double *sum = qn_alloc_n((size_t)width, sizeof *sum);
    double total = add_rows(rows, n, width, skip, kind == QN_POOL_WEIGHTED, sum);
    double by = kind == QN_POOL_MEAN_SQRT ? sqrt(total) : total;
    for (int32_t i = 0; i < width; i++)
        out[i] = (float)(sum[i] / fmax(by, 1e-9));
    qn_free(sum);
}

static void pool_max(const float *rows, int32_t n, int32_t width, int32_t skip, float *out)
{
    for (int32_t i = 0; i < width; i++) {
        float most = -INFINITY;
        for (int32_t r = skip; r < n; r++)
            most = fmaxf(most, rows[(int64_t)r * width + i]);
        out[i] = most;
    }
}

void qn_modules_pool(const qn_modules *m, const float *rows, const qn_passage *p, int32_t width,
                     float *out)
{
    int32_t n = p->n, skip = m->include_prompt ? 0 : p->n_prompt;
    skip = skip < n ? skip : n - 1; /* a text of nothing but its prompt still has a vector */
    for (unsigned kind = 1; kind < QN_POOL_ALL; kind <<= 1) {
        if (!(m->pooling & kind))
            continue;
        if (kind == QN_POOL_CLS || kind == QN_POOL_LAST)
            memcpy(out, rows + (kind == QN_POOL_CLS ? 0 : (int64_t)(n - 1) * width),
                   (size_t)width * sizeof *out);
        else if (kind == QN_POOL_MAX)
            pool_max(rows, n, width, skip, out);
        else
            pool_mean(kind, rows, n, width, skip, out);
        out += width;
    }
}

static void run_dense(const qn_stage *s, const float *in, float *out)
{
    for (int32_t o = 0; o < s->n_out; o++) {
        double y = qn_ref_dot(s->w + (int64_t)o * s->n_in, in, s->n_in);
        out[o] = (float)qn_act_value(s->act, y + (s->bias ? s->bias[o] : 0));
    }
}

void qn_unit_length(float *x, int32_t n)
{
    double length = fmax(sqrt(qn_ref_dot(x, x, n)), 1e-12);
    for (int32_t i = 0; i < n; i++)
        x[i] = (float)(x[i] / length);
}

void qn_stage_run(const qn_stage *s, const float *in, float *out, int32_t width)
{
    static const qn_attr_norm layer_norm = { .eps = 1e-5F, .center = true };
    switch (s->kind) {
    case QN_STAGE_DENSE:
        run_dense(s, in, out);
        break;
    case QN_STAGE_NORMALIZE:
        memcpy(out, in, (size_t)width * sizeof *out);
        qn_unit_length(out, width);
        break;
    case QN_STAGE_LAYER_NORM: {
        const qn_norm_params p = { .w = s->w, .bias = s->bias, .n = width };
        qn_norm_row(&layer_norm, &p, in, out, width);
        break;
    }
    }
}
