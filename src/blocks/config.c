/* config.c - reads the common fields of a config and remembers which keys were acted on.
 *
 * Makers spell the same field in several ways; the table of names below is the only place that knows them.
 * It does not know families: what a field means to one of them is said in its file. */
#include "blocks/config.h"

#include <limits.h>
#include <math.h>
#include <string.h>

enum { UNREAD, HONOURED, WRONG_TYPE }; /* of qn_config.state */

/* A field of qn_config under each name that configs give it, the usual one first. */
typedef struct field {
    const char *names[7];
    size_t offset;
    int min, max;
    bool needed;
} field;

#define FIELD(member, lo, hi, need, ...)                                                           \
    {                                                                                              \
        .names = { __VA_ARGS__ }, .offset = offsetof(qn_config, member), .min = (lo), .max = (hi), \
        .needed = (need)                                                                           \
    }

/* The upper bounds are far above any published model; they keep products of two fields inside 64 bits and
 * loops over a hostile file's counts short. */
static const field fields[] = {
    FIELD(d_model, 1, 1 << 24, true, "hidden_size", "n_embd", "d_model"),
    FIELD(n_layers, 1, QN_MAX_LAYERS, true, "num_hidden_layers", "n_layer", "num_layers",
          "n_layers"),
    FIELD(n_heads, 1, 1 << 16, false, "num_attention_heads", "n_head", "num_heads", "n_heads"),
    FIELD(n_vocab, 1, 1 << 28, true, "vocab_size"),
    FIELD(n_kv_heads, 1, 1 << 16, false, "num_key_value_heads", "num_kv_heads", "n_kv_heads"),
    FIELD(head_dim, 1, 1 << 16, false, "head_dim"),
    FIELD(d_ff, 0, 1 << 24, false, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    FIELD(max_pos, 1, INT_MAX, false, "max_position_embeddings", "n_positions", "max_seq_len",
          "max_sequence_length"),
    FIELD(window, 0, INT_MAX, false, "sliding_window", "sliding_window_size"),
    FIELD(n_experts, 0, 1 << 16, false, "num_local_experts", "num_experts", "n_routed_experts"),
    FIELD(top_k, 0, 1 << 16, false, "num_experts_per_tok", "experts_per_token", "top_k_experts"),
};

static const char *const eps_names[] = {
    "rms_norm_eps",       "layer_norm_eps", "norm_eps",
    "layer_norm_epsilon", "norm_epsilon",   "layernorm_epsilon"
};
static const char *const act_names[] = { "hidden_act", "hidden_activation", "activation_function" };

/* The last of equal keys counts, as in the JSON reader. -1 when there is none. */
static int64_t find(const qn_config *c, const char *key)
{
    size_t len = strlen(key);
    for (uint32_t i = c->json->n; i-- > 0;) {
        const qn_json *m = &c->json->items[i];
        if (m->key_len == len && memcmp(m->key, key, len) == 0)
            return i;
    }
    return -1;
}

/* The member `key`, NULL for absence and null, noted as honoured when its type is as it should be. */
static const qn_json *take(const qn_config *c, const char *key, bool (*fits)(const qn_json *))
{
    int64_t i = find(c, key);
    if (i < 0)
        return NULL;
    const qn_json *v = &c->json->items[i];
    bool is_null = v->type == QN_JSON_NULL;
    c->state[i] = is_null || !fits || fits(v) ? HONOURED : WRONG_TYPE;
    return is_null || c->state[i] == WRONG_TYPE ? NULL : v;
}

static bool is_whole(const qn_json *v)
{
    return v->type == QN_JSON_INT ||
           (v->type == QN_JSON_REAL && fabs(v->d) < 9e15 && v->d == floor(v->d));
}

static bool is_number(const qn_json *v)
{
    return qn_json_is_number(v);
}

static bool is_bool(const qn_json *v)
{
    return v->type == QN_JSON_BOOL;
}

static bool is_str(const qn_json *v)
{
    return v->type == QN_JSON_STR;
}

int64_t qn_config_int(const qn_config *c, const char *key, int64_t fallback)
{
    return qn_json_int(take(c, key, is_whole), fallback);
}

double qn_config_num(const qn_config *c, const char *key, double fallback)
{
    return qn_json_num(take(c, key, is_number), fallback);
}

bool qn_config_bool(const qn_config *c, const char *key, bool fallback)
{
    return qn_json_bool(take(c, key, is_bool), fallback);
}

const char *qn_config_str(const qn_config *c, const char *key, const char *fallback)
{
    return qn_json_str(take(c, key, is_str), fallback);
}

const qn_json *qn_config_get(const qn_config *c, const char *key)
{
    return take(c, key, NULL);
}

int64_t qn_config_layer_int(const qn_config *c, const char *key, int layer, int64_t fallback)
{
    const qn_json *v = take(c, key, NULL);
    if (qn_json_is(v, QN_JSON_ARRAY))
        v = qn_json_at(v, (size_t)layer);
    return qn_json_int(v, fallback);
}

bool qn_config_has(const qn_config *c, const char *key)
{
    int64_t i = find(c, key);
    return i >= 0 && c->json->items[i].type != QN_JSON_NULL;
}

void qn_config_used(const qn_config *c, const char *key)
{
    int64_t i = find(c, key);
    if (i >= 0 && c->state[i] == UNREAD)
        c->state[i] = HONOURED;
}

qn_act qn_act_find(const char *name)
{
    static const struct {
        const char *name;
        qn_act act;
    } known[] = {
        { "silu", QN_ACT_SILU },
        { "swish", QN_ACT_SILU },
        { "gelu", QN_ACT_GELU },
        { "gelu_python", QN_ACT_GELU },
        { "gelu_new", QN_ACT_GELU_TANH },
        { "gelu_fast", QN_ACT_GELU_TANH },
        { "gelu_pytorch_tanh", QN_ACT_GELU_TANH },
        { "gelu_accurate", QN_ACT_GELU_TANH },
        { "quick_gelu", QN_ACT_GELU_QUICK },
        { "swiglu", QN_ACT_SILU }, /* of a gate, named with it */
        { "geglu", QN_ACT_GELU },
        { "relu", QN_ACT_RELU },
        { "relu2", QN_ACT_RELU2 },
        { "relu_squared", QN_ACT_RELU2 },
        { "sigmoid", QN_ACT_SIGMOID },
        { "tanh", QN_ACT_TANH },
    };
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].act;
    return QN_ACT_UNKNOWN;
}

/* Reads one field of the table; the first of its names that is there counts. */
static int read_field(qn_config *c, const field *f, qn_error *err)
{
    int *out = (int *)(void *)((char *)c + f->offset);
    for (size_t i = 0; i < sizeof f->names / sizeof *f->names && f->names[i]; i++) {
        const qn_json *v = qn_json_get(c->json, f->names[i]);
        if (!v || v->type == QN_JSON_NULL)
            continue;
        /* Some families list a number a layer here; those read it themselves. */
        if (v->type == QN_JSON_ARRAY && !f->needed)
            return QN_OK;
        int64_t n = is_whole(v) ? qn_json_int(v, -1) : -1;
        if (n < f->min || n > f->max)
            return qn_fail(err, QN_ERR_FORMAT, "config: %s must be a whole number from %d to %d",
                           f->names[i], f->min, f->max);
        *out = (int)n;
        return QN_OK;
    }
    if (f->needed)
        return qn_fail(err, QN_ERR_FORMAT, "config: %s is missing", f->names[0]);
    return QN_OK;
}

static int read_sizes(qn_config *c, qn_error *err)
{
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        int rc = read_field(c, &fields[i], err);
        if (rc != QN_OK)
            return rc;
    }
    if (c->n_kv_heads == 0)
        c->n_kv_heads = c->n_heads;
    if (c->n_heads == 0) /* no attention; blocks that need heads say so */
        return QN_OK;
    if (c->n_heads % c->n_kv_heads != 0)
        return qn_fail(err, QN_ERR_FORMAT,
                       "config: num_attention_heads %d is no multiple of num_key_value_heads %d",
                       c->n_heads, c->n_kv_heads);
    if (c->head_dim == 0) {
        if (c->d_model < c->n_heads)
            return qn_fail(err, QN_ERR_FORMAT, "config: hidden_size %d is too small for %d heads",
                           c->d_model, c->n_heads);
        c->head_dim = c->d_model / c->n_heads;
    }
    if (c->top_k > c->n_experts && c->n_experts > 0)
        return qn_fail(err, QN_ERR_FORMAT, "config: %d of %d experts are chosen", c->top_k,
                       c->n_experts);
    return QN_OK;
}

static int read_eps(qn_config *c, qn_error *err)
{
    c->norm_eps = 1e-6f;
    for (size_t i = 0; i < sizeof eps_names / sizeof *eps_names; i++) {
        const qn_json *v = qn_json_get(c->json, eps_names[i]);
        if (!v || v->type == QN_JSON_NULL)
            continue;
        double eps = qn_json_num(v, -1);
        if (!(eps >= 0 && eps < 1))
            return qn_fail(err, QN_ERR_FORMAT, "config: %s is no small number", eps_names[i]);
        c->norm_eps = (float)eps;
        return QN_OK;
    }
    return QN_OK;
}

int qn_config_init(qn_config *c, qn_arena *a, const qn_json *json, qn_error *err)
{
    *c = (qn_config){ 0 };
    if (!qn_json_is(json, QN_JSON_OBJECT))
        return qn_fail(err, QN_ERR_FORMAT, "config: not a JSON object");
    const qn_json *text = qn_json_get(json, "text_config");
    c->outer = json;
    c->json = qn_json_is(text, QN_JSON_OBJECT) ? text : json;
    c->state = qn_arena_alloc_n(a, (size_t)c->json->n + 1, 1);
    c->model_type = qn_json_str(qn_json_get(c->json, "model_type"),
                                qn_json_str(qn_json_get(json, "model_type"), NULL));
    if (!c->model_type)
        return qn_fail(err, QN_ERR_FORMAT, "config: model_type is missing");

    int rc = read_sizes(c, err);
    if (rc == QN_OK)
        rc = read_eps(c, err);
    if (rc != QN_OK)
        return rc;
    for (size_t i = 0; i < sizeof act_names / sizeof *act_names && !c->hidden_act; i++)
        c->hidden_act = qn_json_str(qn_json_get(c->json, act_names[i]), NULL);
    /* Families whose configs never name it are all of the SiLU kind. */
    c->act = c->hidden_act ? qn_act_find(c->hidden_act) : QN_ACT_SILU;
    c->rope = qn_rope_of(c, NULL);
    return QN_OK;
}
