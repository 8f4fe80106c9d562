/* trace.c - see trace.h. Errors are measured against a value's own root mean square, not element by element:
 * rounding moves every element by a share of the sums it came from, and small elements are no more exact. */
#include "graph/trace.h"

#include <math.h>
#include <string.h>

void qn_trace_record(void *ctx, const qn_node *node, qn_val v, const qn_tensor *t)
{
    qn_trace *tr = ctx;
    (void)node; /* further results have names of their own */
    const qn_node *n = qn_node_at(tr->graph, v);
    QN_GROW(tr->v, tr->n, tr->cap);
    qn_trace_value *to = &tr->v[tr->n++];
    *to = (qn_trace_value){ .name = qn_strdup(n->name), .rows = t->rows, .width = t->width };
    to->ids = n->shape.dtype == QN_I32;
    size_t size = (size_t)(t->rows * t->width);
    to->x = qn_alloc_n(size, sizeof *to->x);
    if (!to->ids && size)
        memcpy(to->x, t->data, size * sizeof *to->x);
    for (size_t i = 0; to->ids && i < size; i++)
        to->x[i] = (float)((const int32_t *)t->data)[i];
}

void qn_trace_free(qn_trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        qn_free(t->v[i].name);
        qn_free(t->v[i].x);
    }
    qn_free(t->v);
    *t = (qn_trace){ 0 };
}

/* The value of b called like a; `from` is where the last one was found, and the search starts there: both
 * traces have nearly the same order. */
static const qn_trace_value *find(const qn_trace *b, const char *name, size_t *from)
{
    for (size_t i = 0; i < b->n; i++) {
        size_t at = (*from + i) % b->n;
        if (strcmp(b->v[at].name, name) == 0) {
            *from = at + 1;
            return &b->v[at];
        }
    }
    return NULL;
}

/* How far apart two elements are; infinite when only one is a number. */
static double distance(float a, float b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? 0 : INFINITY;
    return a == b ? 0 : fabs((double)a - b); /* equal infinities */
}

static qn_trace_gap gap_of(const qn_trace_value *a, const qn_trace_value *b)
{
    qn_trace_gap g = { .name = a->name };
    if (a->rows != b->rows || a->width != b->width) {
        g.error = INFINITY;
        return g;
    }
    double square = 0, most = 0;
    int64_t n = a->rows * a->width, at = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = distance(a->x[i], b->x[i]);
        square += (double)a->x[i] * a->x[i];
        at = d > most ? i : at;
        most = d > most ? d : most;
    }
    double rms = sqrt(square / (double)(n ? n : 1));
    g.error = most == 0 ? 0 : a->ids ? INFINITY : most / (rms > 0 ? rms : 1);
    g.row = n ? at / a->width : 0;
    g.col = n ? at % a->width : 0;
    g.a = n ? a->x[at] : 0;
    g.b = n ? b->x[at] : 0;
    return g;
}

size_t qn_trace_compare(const qn_trace *a, const qn_trace *b, double tolerance, qn_trace_gap *first,
                        qn_trace_gap *worst)
{
    size_t n = 0, from = 0;
    *first = *worst = (qn_trace_gap){ 0 };
    for (size_t i = 0; i < a->n; i++) {
        const qn_trace_value *other = find(b, a->v[i].name, &from);
        if (!other)
            continue;
        qn_trace_gap g = gap_of(&a->v[i], other);
        n++;
        /* Written so that a NaN error counts as beyond any tolerance. */
        if (!first->name && !(g.error <= tolerance))
            *first = g;
        if (!worst->name || !(g.error <= worst->error))
            *worst = g;
    }
    return n;
}

void qn_trace_print(const qn_trace_value *v, qn_buf *out)
{
    enum { ROWS = 4, COLS = 8 }; /* of the corner */
    double sum = 0, square = 0, low = INFINITY, high = -INFINITY;
    int64_t n = v->rows * v->width;
    for (int64_t i = 0; i < n; i++) {
        sum += v->x[i];
        square += (double)v->x[i] * v->x[i];
        low = fmin(low, v->x[i]);
        high = fmax(high, v->x[i]);
    }
    double count = n ? (double)n : 1;
    qn_buf_printf(out, "%s [%lld, %lld] mean %.6g rms %.6g min %.6g max %.6g\n", v->name,
                  (long long)v->rows, (long long)v->width, sum / count, sqrt(square / count), low,
                  high);
    for (int64_t r = 0; r < v->rows && r < ROWS; r++) {
        qn_buf_str(out, "   ");
        for (int64_t i = 0; i < v->width && i < COLS; i++)
            qn_buf_printf(out, " %.6g", v->x[r * v->width + i]);
        qn_buf_str(out, v->width > COLS ? " ...\n" : "\n");
    }
}
