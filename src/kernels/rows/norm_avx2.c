/* norm_avx2.c - norm and add_norm, a row (or a group of its columns) at a time. Statistics are in double, in
 * eight lanes that are added in one order whatever the width. */
#include <math.h>

#include "kernels/kernel.h"
#include "kernels/math_ymm.h"
#include "kernels/rows/rows.h"

typedef struct params {
    const float *w, *bias; /* or NULL */
    int64_t n;             /* numbers in each: a group's or a row's */
    float eps, offset;
    bool center;
} params;

static int64_t vector_size(const qn_tensor *t)
{
    return t->rows * t->width; /* a weight vector has one row, a value one column */
}

static params read_params(const qn_call *c, int first)
{
    const qn_attr_norm *a = c->attr;
    float *buf = (float *)c->scratch + 2 * c->ith * c->out[0].width;
    params p = { .eps = a->eps, .offset = a->offset, .center = a->center };
    p.w = qn_tensor_vector(&c->in[first], buf);
    p.bias = qn_tensor_vector(&c->in[first + 1], buf + c->out[0].width);
    p.n = vector_size(&c->in[first]);
    return p;
}

/* Four doubles from each half of eight floats, less the mean. */
INLINE __m256d low_pd(__m256 v, __m256d mean)
{
    return _mm256_sub_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)), mean);
}
INLINE __m256d high_pd(__m256 v, __m256d mean)
{
    return _mm256_sub_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)), mean);
}

static double sum_pd(__m256d a, __m256d b)
{
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(a, b));
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static double mean_of(const float *x, int64_t n)
{
    const __m256d zero = _mm256_setzero_pd();
    __m256d lo = zero, hi = zero;
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = load_part(x + i, n - i);
        lo = _mm256_add_pd(lo, low_pd(v, zero));
        hi = _mm256_add_pd(hi, high_pd(v, zero));
    }
    return sum_pd(lo, hi) / (double)n;
}

static double mean_square(const float *x, int64_t n, double mean)
{
    const __m256d m = _mm256_set1_pd(mean);
    __m256d lo = _mm256_setzero_pd(), hi = lo;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m256d a = low_pd(v, m), b = high_pd(v, m);
        lo = _mm256_fmadd_pd(a, a, lo);
        hi = _mm256_fmadd_pd(b, b, hi);
    }
    if (i < n) { /* lanes past the end must read as the mean, not as 0 */
        float rest[8];
        for (int j = 0; j < 8; j++)
            rest[j] = i + j < n ? x[i + j] : 0.0F;
        double d[8];
        for (int j = 0; j < 8; j++)
            d[j] = i + j < n ? rest[j] - mean : 0.0;
        __m256d a = _mm256_loadu_pd(d), b = _mm256_loadu_pd(d + 4);
        lo = _mm256_fmadd_pd(a, a, lo);
        hi = _mm256_fmadd_pd(b, b, hi);
    }
    return sum_pd(lo, hi) / (double)n;
}

/* One group of n columns; w and bias start at it. */
static void norm_group(const params *p, const float *x, const float *w, const float *bias, float *y,
                       int64_t n)
{
    double mean = p->center ? mean_of(x, n) : 0;
    double inv = 1 / sqrt(mean_square(x, n, mean) + p->eps);
    const __m256d m = _mm256_set1_pd(mean), f = _mm256_set1_pd(inv);
    const __m256 offset = _mm256_set1_ps(p->offset);
    for (int64_t i = 0; i < n; i += 8) {
        __m256 v = load_part(x + i, n - i);
        __m128 lo = _mm256_cvtpd_ps(_mm256_mul_pd(low_pd(v, m), f));
        __m128 hi = _mm256_cvtpd_ps(_mm256_mul_pd(high_pd(v, m), f));
        v = _mm256_set_m128(hi, lo);
        if (w)
            v = _mm256_mul_ps(v, _mm256_add_ps(load_part(w + i, n - i), offset));
        if (bias)
            v = _mm256_add_ps(v, load_part(bias + i, n - i));
        store_part(y + i, n - i, v);
    }
}

static void norm_row(const qn_attr_norm *a, const params *p, const float *x, float *y,
                     int64_t width)
{
    int64_t group = a->group ? a->group : width;
    for (int64_t at = 0; at < width; at += group) {
        int64_t o = p->n == width ? at : 0;
        norm_group(p, x + at, p->w ? p->w + o : NULL, p->bias ? p->bias + o : NULL, y + at, group);
    }
}

void qn_norm_run_avx2(const qn_call *c)
{
    params p = read_params(c, 1);
    int64_t width = c->out[0].width, lo, hi;
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t r = lo; r < hi; r++)
        norm_row(c->attr, &p, (const float *)c->in[0].data + r * width,
                 (float *)c->out[0].data + r * width, width);
}

void qn_add_norm_run_avx2(const qn_call *c)
{
    params p = read_params(c, 2);
    const float *a = c->in[0].data, *b = c->in[1].data;
    float *s = c->out[0].data, *y = c->out[1].data;
    int64_t width = c->out[0].width, lo, hi;
    qn_call_part(c, c->out[0].rows, 1, &lo, &hi);
    for (int64_t r = lo; r < hi; r++) {
        for (int64_t i = r * width; i < (r + 1) * width; i++)
            s[i] = a[i] + b[i];
        norm_row(c->attr, &p, s + r * width, y + r * width, width);
    }
}
