/* config.h - the config of a checkpoint as families read it: common fields by the field's standard names,
 * everything else by key. Keys that were read are remembered, so that a field that changes the mathematics and
 * that no one read can be refused by name. */
#ifndef QN_BLOCKS_CONFIG_H
#define QN_BLOCKS_CONFIG_H

#include "base/error.h"
#include "base/json.h"

typedef struct qn_config {
    const qn_json *json; /* the text part: text_config where the file nests one */
    const char *model_type;
    int d_model, d_ff, n_layers, n_heads, n_kv_heads, head_dim, n_vocab;
    int max_pos; /* max_position_embeddings */
    int window;  /* sliding_window, 0 = none */
    int n_experts, top_k;
    float norm_eps, rope_theta;
    const qn_json *rope_scaling; /* rope_scaling or rope_parameters, NULL = none */
    bool rope_interleaved;       /* set by GGUF files whose rows were permuted */
    bool tied;                   /* the head is the embedding */
    const char *hidden_act;
    const bool *read; /* by index of json's members; see config.c */
} qn_config;

/* Reads the common fields; a missing needed one is an error that names it. */
int qn_config_init(qn_config *c, qn_arena *a, const qn_json *json, qn_error *err);

int64_t qn_config_int(const qn_config *c, const char *key, int64_t fallback);
double qn_config_num(const qn_config *c, const char *key, double fallback);
bool qn_config_bool(const qn_config *c, const char *key, bool fallback);
const char *qn_config_str(const qn_config *c, const char *key, const char *fallback);

#endif
