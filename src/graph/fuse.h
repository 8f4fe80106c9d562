/* fuse.h - the fusion driver: rewrites a graph by rules, one rule a file, chosen by the backend.
 *
 * The driver walks the old graph in order and writes a new one. At each node it offers the node to every rule;
 * the first that takes it emits the replacement and says which old values the new ones stand for. */
#ifndef QN_GRAPH_FUSE_H
#define QN_GRAPH_FUSE_H

#include "graph/graph.h"

typedef struct qn_rewrite {
    const qn_graph *from;
    qn_graph *to;
    qn_val *map; /* [from->n_nodes] new value of each old one; {0} = not yet written */
    int32_t
        *n_uses; /* [from->n_nodes] how many needed nodes and outputs of `from` read each value */
    int32_t first_new; /* the driver's: nodes of `to` from here on were made for the current node */
} qn_rewrite;

/* The new value of old v, writing it (and what it needs) first where that has not been done. */
qn_val qn_rewrite_val(qn_rewrite *rw, qn_val v);
/* From now on `new_val` stands for `old`, and has its name. */
void qn_rewrite_set(qn_rewrite *rw, qn_val old, qn_val new_val);

typedef struct qn_fuse_rule {
    const char *name;
    /* True when it replaced old node `id` (with qn_rewrite_set for each of its results that is used). */
    bool (*apply)(qn_rewrite *rw, int32_t id);
} qn_fuse_rule;

/* `to` is initialised by the call and keeps outputs, symbols and cache needs; weights stay borrowed, constants
 * that `from` made (qn_graph_ones) too. rules ends with NULL. */
int qn_graph_fuse(const qn_graph *from, qn_graph *to, const qn_fuse_rule *const *rules,
                  qn_error *err);

#endif
