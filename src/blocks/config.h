/* config.h - the config of a checkpoint as families read it: common fields by the field's standard names,
 * everything else by key.
 *
 * Keys are remembered once something has acted on them. The common fields below count as acted on only when
 * a block uses them (the attention block notes "sliding_window", the expert block "num_experts"), so that
 * qn_config_check can refuse, by name, whatever changes the mathematics and that nobody honoured. */
#ifndef QN_BLOCKS_CONFIG_H
#define QN_BLOCKS_CONFIG_H

#include "blocks/rope.h"
#include "ops/ops.h"

#define QN_MAX_LAYERS 4096

typedef struct qn_config {
    const qn_json *json;    /* the text part: text_config where the file nests one */
    const qn_json *outer;   /* the whole file; the same as json when nothing is nested */
    const char *model_type; /* of the text part where it has one */
    int d_model, d_ff, n_layers, n_heads, n_kv_heads, head_dim, n_vocab;
    int max_pos; /* max_position_embeddings; 0 = not said */
    int window;  /* sliding_window, 0 = none */
    int n_experts, top_k;
    float norm_eps;
    qn_rope rope;           /* the rotary positions of every layer, unless kinds of layers differ */
    bool tied;              /* the head is the embedding; see qn_logits */
    qn_act act;             /* hidden_act; QN_ACT_UNKNOWN for a name that is not known */
    const char *hidden_act; /* as it is written */
    uint8_t *state;         /* by index of json's members; see config.c */
} qn_config;

/* An activation whose name no op answers to: blocks that use it fail and name it. */
#define QN_ACT_UNKNOWN ((qn_act)255)

/* Reads the common fields of `json`, which must outlive `c`; a needed one that is missing or absurd is an
 * error that names it. Fields a file does not have get the meaning Hugging Face gives to their absence. */
int qn_config_init(qn_config *c, qn_arena *a, const qn_json *json, qn_error *err);

/* The value of `key`, which counts as honoured from now on. null and absence give the fallback; a value of
 * another type gives it too, and qn_config_check will refuse the key. */
int64_t qn_config_int(const qn_config *c, const char *key, int64_t fallback);
double qn_config_num(const qn_config *c, const char *key, double fallback);
bool qn_config_bool(const qn_config *c, const char *key, bool fallback);
const char *qn_config_str(const qn_config *c, const char *key, const char *fallback);
/* Number `layer` of a list, or the one number there is for all layers. */
int64_t qn_config_layer_int(const qn_config *c, const char *key, int layer, int64_t fallback);
const qn_json *qn_config_get(const qn_config *c, const char *key); /* any type; NULL when absent */

/* Is the key there and not null? Does not count as honouring it. */
bool qn_config_has(const qn_config *c, const char *key);
/* The key counts as honoured: for blocks that act on one of the common fields. */
void qn_config_used(const qn_config *c, const char *key);

/* An activation by its name in configs ("silu", "gelu_pytorch_tanh"), or QN_ACT_UNKNOWN. */
qn_act qn_act_find(const char *name);

/* After the build: refuses the first key that changes the mathematics, has a value other than the neutral
 * one, and was honoured by no one; and keys of a wrong type. */
int qn_config_check(const qn_config *c, qn_error *err);

#endif
