/* blocks.h - the parts that families are built from: attention, MLPs, mixtures of experts, norms.
 *
 * A block looks its weights up by name below the current scope, checks their shapes against the config, and
 * records nodes. Errors are sticky in qn_build: the first cause is kept and later calls do nothing. */
#ifndef QN_BLOCKS_BLOCKS_H
#define QN_BLOCKS_BLOCKS_H

#include "blocks/config.h"
#include "formats/checkpoint.h"
#include "ops/ops.h"

typedef struct qn_build {
    qn_graph *g;
    qn_checkpoint *ck;
    char scope[256]; /* prefix of weight names: "model.layers.3" */
} qn_build;

void qn_scope(qn_build *b, int layer, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

typedef struct qn_rope {
    float theta;
    int n_rot;              /* 0 = head_dim */
    bool interleaved;       /* pairs are neighbours */
    const qn_json *scaling; /* rope_scaling / rope_parameters, NULL = none */
    int max_pos;
} qn_rope;

typedef struct qn_attn {
    int n_heads, n_kv_heads, head_dim, window;
    float scale, softcap; /* scale 0 = 1/sqrt(head_dim) */
    qn_rope rope;
    bool no_rope;
    const char *q, *k, *v,
        *o; /* weight names below the block's; NULL = q_proj, k_proj, v_proj, o_proj */
} qn_attn;

typedef struct qn_mlp {
    int d_ff;
    qn_act act;
    const char *gate, *up, *down; /* NULL = gate_proj, up_proj, down_proj */
} qn_mlp;

typedef struct qn_moe {
    int n_experts, top_k, d_ff;
    qn_act act;
    bool renorm;
    int score; /* QN_ROUTE_* */
    const char *router, *gate, *up,
        *down; /* "%d" stands for the expert when they are stored singly */
} qn_moe;

qn_val qn_embed(qn_build *b, const char *name, const qn_config *c);
qn_val qn_rms_norm(qn_build *b, const char *name, qn_val x, float eps);
qn_val qn_linear(qn_build *b, const char *name, qn_val x,
                 int64_t n_out); /* bias used when present */
qn_val qn_attention(qn_build *b, const char *name, qn_val x, const qn_attn *a);
qn_val qn_gated_mlp(qn_build *b, const char *name, qn_val x, const qn_mlp *m);
qn_val qn_moe_mlp(qn_build *b, const char *name, qn_val x, const qn_moe *m);
qn_val qn_add(qn_build *b, qn_val x, qn_val y);
/* Picks the wanted rows, multiplies with the head (the embedding when tied), and makes output "logits". */
void qn_logits(qn_build *b, const char *name, qn_val x, const qn_config *c);

#endif
