/* trace.h - the named values of a run, kept to be compared with those of another run, or to be printed.
 *
 * Values are known by the names of their nodes; a fused value has the name of the plain one it stands for
 * (fuse.h), so runs of a plain and of a fused graph compare. Backends fill a trace through their dump hook. */
#ifndef QN_GRAPH_TRACE_H
#define QN_GRAPH_TRACE_H

#include "base/buf.h"
#include "graph/op.h"

typedef struct qn_trace_value {
    char *name;
    float *x; /* [rows, width]; ids are kept as floats */
    int64_t rows, width;
    bool ids; /* compared exactly */
} qn_trace_value;

typedef struct qn_trace {
    const qn_graph *graph; /* of the run that is being recorded */
    qn_trace_value *v;     /* [n] in the order of work */
    size_t n, cap;
} qn_trace; /* { .graph = g } is an empty one */

/* The form of a dump hook; ctx is the trace. Copies the value. */
void qn_trace_record(void *ctx, const qn_node *node, qn_val v, const qn_tensor *t);
void qn_trace_free(qn_trace *t);

/* Where two values of one name differ most. */
typedef struct qn_trace_gap {
    const char *name; /* of trace a; NULL = no value was compared */
    double error; /* |a - b| over the root mean square of a; infinite for NaN or another shape */
    int64_t row, col;
    float a, b;
} qn_trace_gap;

/* Compares, in a's order, the values that both traces have. *first is the first one whose error exceeds the
 * tolerance (error 0 and name NULL when there is none), *worst the largest of all. Returns how many were
 * compared. */
size_t qn_trace_compare(const qn_trace *a, const qn_trace *b, double tolerance, qn_trace_gap *first,
                        qn_trace_gap *worst);

/* Name, shape, statistics and the corner of a value, as text for people. */
void qn_trace_print(const qn_trace_value *v, qn_buf *out);

#endif
