/* blocks.h - the parts that families are built from: attention, MLPs, mixtures of experts, norms.
 *
 * A block looks its weights up by name below the current scope ("model.layers.3" + "self_attn" + "q_proj"),
 * checks their shapes against what the family says, and records nodes; nothing runs. A bias is used where the
 * checkpoint has one. Errors are sticky in the graph: the first cause is kept and later calls do nothing, so
 * families test nothing. Values are [n_tok, width]; 0 or NULL in a struct means the usual thing. */
#ifndef QN_BLOCKS_BLOCKS_H
#define QN_BLOCKS_BLOCKS_H

#include "blocks/config.h"
#include "formats/checkpoint.h"
#include "ops/ops.h"

typedef struct qn_build {
    qn_graph *g;
    qn_checkpoint *ck;
    const qn_config *c;
    const qn_weight *embedding; /* of qn_embed, for tied heads */
    int layer;
    char scope[256]; /* prefix of weight names: "model.layers.3" */
} qn_build;

/* Names below are relative to this from now on; layer -1 is outside the layers. "" = no prefix. */
void qn_scope(qn_build *b, int layer, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Does the checkpoint hold a tensor of this full name? It counts as used from then on. */
bool qn_has_tensor(qn_build *b, const char *name);

/* Tensors whose names begin with this are no part of what is built (prediction heads, say). */
void qn_ignore(qn_build *b, const char *prefix);

/* The same for "model.layers.<i>." past the last layer, as many as num_nextn_predict_layers says. */
void qn_ignore_prediction_layers(qn_build *b);

/* A key of the config that must be this where it is there: the only kind that is supported. */
void qn_require(qn_build *b, const char *key, const char *value);

/* What the config asks for is not supported: fails and names it. */
void qn_unsupported(qn_build *b, const char *what);

/* The tensor of that name in the current scope is none of the model's weights (a stored mask, say). */
void qn_ignore_part(qn_build *b, const char *leaf);

/* Is "<name>.weight" stored [n_in, n_out], inputs first? Its sides must differ to tell. */
bool qn_stores_inputs_first(qn_build *b, const char *name, int64_t n_out, int64_t n_in);

/* ---- whole-width parts ---- */

/* Rows of the table "<name>.weight" [n_vocab, d_model] for the step's tokens: [n_tok, d_model]. */
qn_val qn_embed(qn_build *b, const char *name, const qn_config *c);
/* x w^T (+ bias) with "<name>.weight" [n_out, width of x]. */
qn_val qn_linear(qn_build *b, const char *name, qn_val x, int64_t n_out);
/* x plus row `position + skip` of the table "<name>.weight" [skip + max_position_embeddings, width of x]. */
qn_val qn_add_positions(qn_build *b, const char *name, qn_val x, int skip);
qn_val qn_add(qn_build *b, qn_val x, qn_val y);
qn_val qn_mul(qn_build *b, qn_val x, qn_val y);       /* y [n_tok, width], [width] or [n_tok, 1] */
qn_val qn_scale(qn_build *b, qn_val x, float factor); /* x itself when factor is 1 */
qn_val qn_concat(qn_build *b, qn_val x, qn_val y);    /* columns of x, then those of y */
float qn_inverse_root(float x);                       /* 1 / sqrt(x), as scores are scaled */
/* A factor as models that were computed in bf16 have it. */
float qn_bf16_round(float x);
qn_val qn_activate(qn_build *b, qn_val x, qn_act act);
qn_val qn_softcap(qn_build *b, qn_val x, float cap); /* cap tanh(x / cap); x itself for cap 0 */

/* y and z mixed by a softmax of the two columns of `mix` [n_tok, 2]. */
qn_val qn_blend(qn_build *b, qn_val y, qn_val z, qn_val mix);

/* ---- norms ---- */

qn_val qn_rms_norm(qn_build *b, const char *name, qn_val x, float eps);
/* The same with the stored weight meaning w - 1, unless the file says that 1 was added already. */
qn_val qn_rms_norm1(qn_build *b, const char *name, qn_val x, float eps);
/* Weight and bias each as present; neither is a norm without parameters. */
/* The same with a stored weight of w - `less`. */
qn_val qn_rms_norm_less(qn_build *b, const char *name, qn_val x, float eps, float less);
qn_val qn_layer_norm(qn_build *b, const char *name, qn_val x, float eps);
/* Its weight stored less one, as in qn_rms_norm1. */
qn_val qn_layer_norm1(qn_build *b, const char *name, qn_val x, float eps);

/* ---- attention ---- */

typedef enum qn_qk_norm {
    QN_QK_PLAIN,
    QN_QK_HEAD,  /* RMS norm of every head of q and k, weight [head_dim] */
    QN_QK_HEAD1, /* the same with a stored weight of w - 1 */
    QN_QK_EACH,  /* LayerNorm of every head with a weight of its own: "<q_norm>.norms.<head>" */
    QN_QK_OWN,   /* RMS norm of every head with weights of its own: a tensor [n_heads, head_dim] */
    QN_QK_LAYER, /* LayerNorm of every head with one weight and bias [head_dim] */
    QN_QK_BARE,  /* RMS norm of every head, without weights */
    QN_QK_FULL   /* RMS norm over all heads together, weight [n_heads * head_dim] */
} qn_qk_norm;

typedef struct qn_attn {
    int n_heads, n_kv_heads, head_dim;
    int v_dim;      /* of a head's values; 0 = head_dim */
    int window;     /* a row sees the last `window` positions, its own included; 0 = all */
    int chunk;      /* and only positions of its own run of `chunk`; 0 = all */
    bool both_ways; /* an encoder's: and as many that follow; the sequence comes whole, uncached */
    float scale, softcap; /* scale 0 = 1 / sqrt(head_dim) */
    qn_rope rope;         /* n_rot 0 = no positions */
    qn_qk_norm qk_norm;   /* before rope, unless: */
    bool norm_after_rope;
    float norm_eps;
    const char *q, *k, *v, *o; /* names below the block's; NULL = q_proj, k_proj, v_proj, o_proj */
    const char *qkv;      /* the three in one matrix, in this order; then q, k, v are not read */
    int qkv_runs;         /* that matrix is so many runs, each with its share of the three; 0 = 1 */
    const char *bias_key; /* the config's word on biases of q, k and v; NULL = attention_bias */
    bool v_before_k;      /* in the matrix or its runs */
    bool inputs_first;    /* matrices are stored [inputs, outputs] */
    /* ALiBi: scores fall with distance, at slopes from 2^-(alibi / n_heads) to 2^-alibi; 0 = they do not. */
    float alibi;
    bool alibi_scaled;                   /* the fall is multiplied by `scale` too */
    const char *q_norm, *k_norm;         /* NULL = q_norm, k_norm */
    qn_attr_position_scale query_growth; /* beta 0 = not; see position_scale.c */
    float clip;                          /* q, k and v are kept within +-clip; 0 = not */
    float v_scale;                       /* on values; 0 = 1 */
    /* A product of x that, activated, multiplies the result: a number for each column, or for each head. */
    const char *gate;
    qn_act gate_act;
    bool gate_heads;
    bool gate_in_q; /* such a product stands behind each head of q, in the same matrix */
    float k_scale;  /* on keys; 0 = 1 */
    const char
        *sinks; /* vector [n_heads]: a score of each head that takes its share; NULL = none */
} qn_attn;

/* Grouped-query attention of x with itself and the cache. */
qn_val qn_attention(qn_build *b, const char *name, qn_val x, const qn_attn *a);

/* Latent attention: keys and values of all heads are products of one short row a token, which is what the cache
 * holds. A head's q is multiplied into the latent space, its result out of it, for every row, so that results do
 * not depend on how many rows there are. */
typedef struct qn_mla {
    int n_heads;
    int q_rank, kv_rank; /* widths of the latent rows; q_rank 0 = q is a product of x itself */
    int nope_dim, rope_dim, v_dim; /* of a head: what has no positions, what has, values */
    float scale;                   /* of the scores */
    float q_scale, kv_scale;       /* on q and on the normed latent row; 0 = 1 */
    qn_rope rope;                  /* of the rope_dim columns; n_rot 0 = no positions */
    /* Sparse attention: a small attention of its own chooses index_top_k keys for each row. 0 = all keys. */
    int index_top_k, index_heads, index_dim;
    bool index_interleaved; /* its first rope_dim columns rotate, as neighbours or as halves */
    qn_val
        *keys; /* the last choice: where this layer puts its own, or, if `index_shared`, finds it */
    bool index_shared;
} qn_mla;

/* What the config says in the usual keys: kv_lora_rank, q_lora_rank, qk_nope_head_dim, qk_rope_head_dim,
 * v_head_dim, rope_interleave (true where it is silent), YaRN's factor on the scores; index_topk, index_n_heads and
 * index_head_dim, indexer_rope_interleave (false where it is silent). */
qn_mla qn_mla_of(const qn_config *c);
qn_val qn_mla_attention(qn_build *b, const char *name, qn_val x, const qn_mla *a);

/* Window of layer `layer` by what the config says: layer_types, use_sliding_window with max_window_layers, a
 * pattern (every pattern-th layer sees everything; `pattern` where the config is silent, 0 = no such layers),
 * or sliding_window for every layer. 0 = the layer sees everything. */
int qn_layer_window(qn_build *b, int layer, int pattern);

/* Is layer `layer` of this kind by layer_types, which has no third kind beside it and `other`? `silent` where the
 * config has no such list. */
bool qn_layer_is_kind(qn_build *b, int layer, const char *kind, const char *other, bool silent);

/* The window of a layer that sees the rows at most total / 2 away, to either side. */
int qn_window_each_way(int64_t total);

/* ---- recurrences: layers whose memory of a sequence is a state of fixed size ---- */

typedef struct qn_short_conv {
    int kernel;
    bool bias;                   /* must agree with the file */
    const char *in, *conv, *out; /* NULL = in_proj, conv, out_proj */
} qn_short_conv;

/* Three products u, v, x of the input: out(v * conv(u * x)), a convolution over the last `kernel` rows. */
qn_val qn_gated_conv(qn_build *b, const char *name, qn_val x, const qn_short_conv *a);

/* State-space layers of the first kind: every channel is a head with d_state decays of its own. */
typedef struct qn_ssm1 {
    int d_inner, d_state, dt_rank, kernel;
    bool proj_bias,
        conv_bias;  /* of in_proj and out_proj, and of conv1d: as the file must have it */
    float bare_eps; /* dt, B and C are RMS-normed by this without weights; 0 = not */
    const char *dt_norm, *b_norm, *c_norm; /* or with these weights, by norm_eps; NULL = not */
    float norm_eps;
} qn_ssm1;

/* [x | z] = in_proj; x = silu(conv1d(x)); dt, B, C = x_proj(x); out_proj(scan * silu(z)). */
qn_val qn_ssm1_mixer(qn_build *b, const char *name, qn_val x, const qn_ssm1 *a);

/* Of the second kind: one decay a head, B and C of their own products, shared by groups of heads. */
typedef struct qn_ssm2 {
    int n_heads, head_dim, n_groups, d_state, kernel;
    bool proj_bias, conv_bias,
        out_bias;         /* of in_proj, conv1d, out_proj: as the file must have it */
    float dt_min, dt_max; /* dt after softplus is kept within; dt_max 0 = no bound */
    enum {
        QN_GATE_THEN_NORM,
        QN_NORM_THEN_GATE,
        QN_GATE_ONLY
    } out; /* what becomes of the scan: norm of y silu(z), norm of y times silu(z), y silu(z) */
    float norm_eps;
    float scale[5]; /* factors on z, x, B, C and dt as projected; all 0 = none */
} qn_ssm2;

/* [z | x B C | dt] = in_proj; x B C = silu(conv1d(x B C)); out_proj(norm(scan, z)), groups normed apart. */
qn_val qn_ssm2_mixer(qn_build *b, const char *name, qn_val x, const qn_ssm2 *a);

/* Between the two: one decay a head, but dt, B and C are products of the convolved x, normed each. z and x
 * alternate head by head in in_proj; B, C and dt come from bcdt_proj; every head shares B and C. */
typedef struct qn_ssm3 {
    int n_heads, head_dim, d_state, dt_rank, kernel;
    float norm_eps;
} qn_ssm3;
qn_val qn_ssm3_mixer(qn_build *b, const char *name, qn_val x, const qn_ssm3 *a);

/* The gated delta rule: q, k and v through short convolutions, q and k of length 1, a memory that fades and is
 * corrected, a norm of every head times an activated gate. The file tells how products are stored: in_proj_qkvz
 * and in_proj_ba, side by side head by head; in_proj_qkv, z, a and b; or q_proj, k_proj, v_proj, a_proj, b_proj
 * and g_proj, the thin ones perhaps as f_a_proj, f_b_proj and g_a_proj, g_b_proj. */
typedef struct qn_delta {
    int n_heads, n_key_heads, k_dim, v_dim, kernel;
    bool channel_decay; /* a decay for each key channel; else for each head */
    float beta_scale;   /* on beta; 0 = 1 */
    qn_act gate_act;
    float norm_eps;
    const char *norm, *out; /* NULL = norm, out_proj */
} qn_delta;

qn_val qn_gated_delta(qn_build *b, const char *name, qn_val x, const qn_delta *d);

/* Linear attention without softmax: each head forgets at a fixed rate, slower in deeper layers. Products
 * qkv_proj (head by head, activated), output_gate, out_proj; a norm over all heads. */
typedef struct qn_fading {
    int n_heads, head_dim;
    qn_act act;
    int depth; /* of this layer, from 0 */
} qn_fading;
qn_val qn_fading_attention(qn_build *b, const char *name, qn_val x, const qn_fading *a);

/* Gated linear recurrence (RG-LRU) of a convolved branch, times an activated one. */
typedef struct qn_lru {
    int width, n_heads, kernel; /* heads: blocks of the gates' matrices */
    qn_act act;
} qn_lru;
qn_val qn_lru_mixer(qn_build *b, const char *name, qn_val x, const qn_lru *a);

/* Mixing over time by a generalised delta rule. *first holds the first layer's values: {0} before it, which
 * sets it. */
typedef struct qn_time_mix {
    int head_dim;
    int decay_rank, value_rank, learn_rank, gate_rank; /* of the thin products w, v, a and g */
    float norm_eps;
} qn_time_mix;
qn_val qn_time_mixer(qn_build *b, const char *name, qn_val x, qn_val *first, const qn_time_mix *a);
/* The feed-forward beside it: a squared ReLU over a blend with the token before. */
qn_val qn_channel_mixer(qn_build *b, const char *name, qn_val x, int64_t d_ff);

/* ---- feed-forward ---- */

typedef struct qn_mlp {
    int d_ff;
    qn_act act;
    const char *gate, *up, *down; /* NULL = gate_proj, up_proj, down_proj */
    const char *gate_up;          /* gate above up in one matrix; then gate and up are not read */
    int adapter_rank;
    const char *adapter; /* "<adapter>.0" and ".1": thin matrices whose product adds to gate_up */
    float gate_scale;    /* on the gate before its activation; 0 = 1 */
    float limit;         /* gate at most, and up at most that far from 0; 0 = no limit */
    bool limit_after;    /* the activated gate is limited, not the gate */
    bool inputs_first;   /* of the plain MLP: matrices are stored [inputs, outputs] */
} qn_mlp;

qn_val qn_gated_mlp(qn_build *b, const char *name, qn_val x, const qn_mlp *m); /* act(gate) * up */
qn_val qn_plain_mlp(qn_build *b, const char *name, qn_val x,
                    const qn_mlp *m); /* act(up), no gate */

typedef struct qn_moe { /* qn_moe_of() fills what configs spell alike */
    int n_experts, top_k, d_ff;
    qn_act act;
    int score;    /* QN_ROUTE_* of the routing op */
    bool renorm;  /* the chosen experts' weights are divided by their sum */
    float factor; /* then multiplied by this; 0 = 1 */
    int n_groups,
        top_groups; /* experts stand in groups, of which the best are chosen from; 0 = one group */
    bool group_pairs;   /* a group is worth its two best, for softmax scores too */
    float jitter;       /* of QN_ROUTE_SPARSEMIX */
    float router_cap;   /* the router's result is soft-capped; 0 = not */
    const char *router; /* the matrix [n_experts, width]; NULL = gate */
    const char *bias; /* whole name of a vector [n_experts] added for choosing only; NULL = none */
    /* Names with "%d" for the expert; checkpoints that store stacks are found too. NULL = experts.%d.gate_proj,
     * up_proj, down_proj. */
    const char *gate, *up, *down;
    const char *gate_up;    /* gate and up as one stack, read where it is there; NULL = never */
    bool in_turns;          /* its rows are gate, up, gate, up ..; else gate above up */
    bool inputs_first;      /* stacks of plain numbers are [n_experts, inputs, outputs] */
    bool down_inputs_first; /* the same of `down` alone */
    float limit;            /* as in qn_mlp */
    bool limit_after;
    float slope;      /* the gate is x sigmoid(slope x), whatever act says; 0 = act */
    bool up_plus_one; /* act(gate) * (up + 1) */
    int n_identity;   /* choices beyond the experts that give their input itself */
    bool plain;       /* no gate: down(act(up)) */
    int d_latent; /* experts work in a space this wide, between two products; 0 = in the stream's */
    const char *latent_in, *latent_out; /* those products */
    bool scales_input; /* the weights multiply the experts' input, not their result */
} qn_moe;

/* n_experts, top_k and act; moe_intermediate_size, norm_topk_prob (`renorm` where the config is silent),
 * routed_scaling_factor, n_group and topk_group. */
qn_moe qn_moe_of(const qn_config *c, bool renorm);

/* Does layer `layer` have experts? By mlp_layer_types ("sparse"), else by first_k_dense_replace (`first` where
 * the config is silent) and moe_layer_freq, a period or a list with a number for each layer. */
bool qn_layer_is_sparse(qn_build *b, int layer, int first);

/* Every row goes through its top_k experts; their outputs are added by weight. */
qn_val qn_moe_mlp(qn_build *b, const char *name, qn_val x, const qn_moe *m);

/* ---- encoders (encoder.c) ---- */

/* "<prefix>." when the checkpoint holds "<prefix>.<tensor>", else "": the body of a model is saved by itself, or
 * within one that has a head. */
const char *qn_root(qn_build *b, const char *prefix, const char *tensor);

/* Rows of a learned table "<name>.weight" [n, d_model] by a number that each row of the step carries: "pos" its
 * place in the text, "segment" which text of a pair it is of. The first `skip` rows of the table are never used. */
qn_val qn_table(qn_build *b, const char *name, const char *input, int64_t n, int64_t skip);

/* Fails when the config's flag `key` and the presence of "<name>.bias" in the scope contradict each other. */
void qn_expect_bias(qn_build *b, const char *key, const char *name);

/* x is what the body computes for every row, as output "hidden": what embeddings are made of. */
void qn_hidden(qn_build *b, qn_val x);

/* The row of each sequence that a classifier reads (its first), or the mean of all its rows: [n_seq, width]. */
qn_val qn_first_rows(qn_build *b, qn_val x);
qn_val qn_mean_rows(qn_build *b, qn_val x);
/* A linear layer with an output for each label of the config, as output "score". */
void qn_labels(qn_build *b, const char *name, qn_val x);

/* ---- the end ---- */

/* Marks x as output "hidden", picks its wanted rows, and multiplies with the head "<name>.weight" [n_vocab, d_model]: [n_out, n_vocab].
 *
 * Which matrix that is: the embedding when the config ties it (a head in the file is then ignored, as the
 * reference does), the head when it does not. Where the config is silent the family's habit decides, and a
 * file without a head has a tied one. Embedding and head may be quantised either way. A checkpoint of a body
 * saved by itself, with no head and none tied, gives {0}: its rows are wanted, not logits. */
qn_val qn_head(qn_build *b, const char *name, qn_val x, const qn_config *c);
void qn_mark_output(qn_build *b, const char *name, qn_val v); /* nothing for {0} */
/* The head's result as output "logits". */
void qn_logits(qn_build *b, const char *name, qn_val x, const qn_config *c);

#endif
