/* elementwise_avx2.c - sums, products and activations. Elements are independent, so threads cut the values
 * anywhere; only where an input is one row for all rows do they cut between rows. */
#include <math.h>

#include "kernels/kernel.h"
#include "kernels/math_ymm.h"
#include "kernels/rows/rows.h"
#include "ops/util.h"

#define GRAIN 64 /* elements: whole cache lines, so that threads do not write into each other's */

/* True when b is one row that serves all rows of a. */
static bool is_row(const qn_call *c)
{
    return c->in[1].weight || c->in[1].rows * c->in[1].width != c->out[0].rows * c->out[0].width;
}

static const float *row_input(const qn_call *c)
{
    float *buf = (float *)c->scratch + c->ith * c->out[0].width;
    return qn_tensor_vector(&c->in[1], buf);
}

static void add_span(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void mul_span(const float *a, const float *b, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void binary(const qn_call *c, void (*span)(const float *, const float *, float *, int64_t))
{
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *y = c->out[0].data;
    int64_t rows = c->out[0].rows, width = c->out[0].width, lo, hi;
    if (!is_row(c)) {
        qn_call_part(c, rows * width, GRAIN, &lo, &hi);
        span(a + lo, b + lo, y + lo, hi - lo);
        return;
    }
    b = row_input(c);
    qn_call_part(c, rows, 1, &lo, &hi);
    for (int64_t r = lo; r < hi; r++)
        span(a + r * width, b, y + r * width, width);
}

void qn_add_run_avx2(const qn_call *c)
{
    binary(c, add_span);
}

/* b may also be one factor for each run of columns, [R, G]; where G is W that is the plain case. */
void qn_mul_run_avx2(const qn_call *c)
{
    if (c->in[1].weight || c->in[1].width == c->out[0].width || c->in[1].rows != c->out[0].rows) {
        binary(c, mul_span);
        return;
    }
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *y = c->out[0].data;
    int64_t n_runs = c->in[1].width, run = c->out[0].width / n_runs, lo, hi;
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t g = lo * n_runs; g < hi * n_runs; g++)
        for (int64_t i = g * run; i < (g + 1) * run; i++)
            y[i] = a[i] * b[g];
}

void qn_clamp_run_avx2(const qn_call *c)
{
    const qn_attr_clamp *a = c->attr;
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    int64_t lo, hi;
    qn_call_part(c, c->out[0].rows * c->out[0].width, GRAIN, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        y[i] = x[i] < a->lo ? a->lo : x[i] > a->hi ? a->hi : x[i];
}

void qn_scale_run_avx2(const qn_call *c)
{
    const float *x = c->in[0].data, factor = ((const qn_attr_scale *)c->attr)->factor;
    float *y = c->out[0].data;
    int64_t lo, hi;
    qn_call_part(c, c->out[0].rows * c->out[0].width, GRAIN, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        y[i] = x[i] * factor;
}

void qn_expert_sum_run_avx2(const qn_call *c)
{
    int32_t top_k = ((const qn_attr_expert_sum *)c->attr)->top_k;
    int64_t width = c->out[0].width, lo, hi;
    qn_call_part(c, c->out[0].rows * width, GRAIN, &lo, &hi);
    for (int64_t at = lo, n; at < hi; at += n) {
        int64_t r = at / width, col = at % width;
        n = width - col < hi - at ? width - col : hi - at;
        const float *x = (const float *)c->in[0].data + r * top_k * width + col;
        const float *weight = (const float *)c->in[1].data + r * top_k;
        float *y = (float *)c->out[0].data + at;
        for (int64_t i = 0; i < n; i++)
            y[i] = weight[0] * x[i];
        for (int32_t k = 1; k < top_k; k++)
            for (int64_t i = 0; i < n; i++)
                y[i] += weight[k] * x[k * width + i];
    }
}

/* Eight activations. The few that models hardly use any more (erf, softplus) go by the definition. */
INLINE __m256 act_ymm(qn_act act, __m256 x)
{
    const __m256 zero = _mm256_setzero_ps();
    float lane[8];
    switch (act) {
    case QN_ACT_NONE:
        return x;
    case QN_ACT_SILU:
        return _mm256_mul_ps(x, sigmoid_ymm(x));
    case QN_ACT_GELU_TANH: { /* (1 + tanh u) / 2 = sigmoid(2 u) */
        __m256 x2 = _mm256_mul_ps(x, x);
        __m256 u = _mm256_fmadd_ps(x2, _mm256_set1_ps(0.0713548162726F), /* 0.044715 * 2 c */
                                   _mm256_set1_ps(1.59576912161F));      /* 2 sqrt(2 / pi) */
        return _mm256_mul_ps(x, sigmoid_ymm(_mm256_mul_ps(x, u)));
    }
    case QN_ACT_GELU_QUICK:
        return _mm256_mul_ps(x, sigmoid_ymm(_mm256_mul_ps(x, _mm256_set1_ps(1.702F))));
    case QN_ACT_RELU:
        return _mm256_max_ps(x, zero);
    case QN_ACT_RELU2: {
        __m256 y = _mm256_max_ps(x, zero);
        return _mm256_mul_ps(y, y);
    }
    case QN_ACT_SIGMOID:
        return sigmoid_ymm(x);
    default:
        _mm256_storeu_ps(lane, x);
        for (int i = 0; i < 8; i++)
            lane[i] = (float)qn_act_value(act, lane[i]);
        return _mm256_loadu_ps(lane);
    }
}

/* y = act(x) * up; up NULL = 1. `act` is constant in each caller, so that loops have no switch inside. */
INLINE void act_loop(qn_act act, const float *x, const float *up, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = act_ymm(act, load_part(x + i, n - i));
        if (up)
            v = _mm256_mul_ps(v, load_part(up + i, n - i));
        store_part(y + i, n - i, v);
    }
}

static void act_span(const qn_call *c, const float *up)
{
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    qn_act act = (qn_act)((const qn_attr_act *)c->attr)->act;
    int64_t lo, hi;
    qn_call_part(c, c->out[0].rows * c->out[0].width, GRAIN, &lo, &hi);
    up = up ? up + lo : NULL;
    if (act == QN_ACT_SILU)
        act_loop(QN_ACT_SILU, x + lo, up, y + lo, hi - lo);
    else if (act == QN_ACT_GELU_TANH)
        act_loop(QN_ACT_GELU_TANH, x + lo, up, y + lo, hi - lo);
    else
        act_loop(act, x + lo, up, y + lo, hi - lo);
}

void qn_act_run_avx2(const qn_call *c)
{
    act_span(c, NULL);
}

void qn_glu_run_avx2(const qn_call *c)
{
    act_span(c, c->in[1].data);
}
