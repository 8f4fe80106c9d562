/* grad.h - the gradient pass: reverse-mode differentiation of a graph into more nodes of the same graph.
 *
 * Fused ops must have been expanded (qn_graph_expand). Ops without a gradient on the path are an error that
 * names them. Caches must be empty: attention is differentiated over the rows of the step. */
#ifndef QN_GRAPH_GRAD_H
#define QN_GRAPH_GRAD_H

#include "graph/graph.h"

/* d loss / d wrt[i] into dwrt[i] ({0} where the loss does not depend on it). loss is [1]. */
int qn_graph_grad(qn_graph *g, qn_val loss, const qn_val *wrt, int n_wrt, qn_val *dwrt,
                  qn_error *err);

/* Copies g into `out` (initialised by the call) with every fused op replaced by its expansion. */
int qn_graph_expand(const qn_graph *g, qn_graph *out, qn_error *err);

#endif
