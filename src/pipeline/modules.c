/* modules.c - reads what modules.json and the folders it names describe; see modules.h. The arithmetic is in
 * pooling.c. */
#include "pipeline/modules.h"

#include <string.h>

#include "base/file.h"
#include "blocks/config.h"
#include "formats/safetensors.h"

enum { MAX_MODULES = 32, MAX_FEATURES = 1 << 20 };

/* What reading passes along. */
typedef struct reader {
    qn_modules *m;
    const char *path; /* of the model */
    const char *dir;  /* of the module being read */
    int32_t width;    /* of the vector so far */
    bool pooled;
    qn_error *err;
} reader;

/* A file of the module's folder as JSON; NULL with err filled when it is there and broken, or needed. */
static const qn_json *read_json(reader *r, const char *dir, const char *name, bool *failed)
{
    const char *file = qn_path_join(&r->m->arena, dir, name);
    if (!qn_is_file(file))
        return NULL;
    const qn_json *j = qn_json_parse_file(&r->m->arena, file, r->err);
    *failed = *failed || !j;
    return j;
}

static int refuse(const reader *r, const char *field, const char *what)
{
    return qn_fail(r->err, QN_ERR_UNSUPPORTED, "%s/config.json: %s: %.100s", r->dir, field, what);
}

/* ---- pooling ---- */

static const struct {
    const char *flag, *name;
    unsigned bit;
} poolings[] = {
    { "pooling_mode_cls_token", "cls", QN_POOL_CLS },
    { "pooling_mode_max_tokens", "max", QN_POOL_MAX },
    { "pooling_mode_mean_tokens", "mean", QN_POOL_MEAN },
    { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", QN_POOL_MEAN_SQRT },
    { "pooling_mode_weightedmean_tokens", "weightedmean", QN_POOL_WEIGHTED },
    { "pooling_mode_lasttoken", "lasttoken", QN_POOL_LAST },
};
enum { N_POOLINGS = sizeof poolings / sizeof *poolings };

/* The newer spelling: one name. */
static bool add_by_name(const qn_json *name, unsigned *bits)
{
    for (int i = 0; i < N_POOLINGS; i++)
        if (qn_json_eq(name, poolings[i].name)) {
            *bits |= poolings[i].bit;
            return true;
        }
    return false;
}

static int read_pooling(reader *r, const qn_json *j)
{
    const qn_json *mode = qn_json_get(j, "pooling_mode");
    unsigned bits = 0;
    if (qn_json_is(mode, QN_JSON_STR) && !add_by_name(mode, &bits))
        return refuse(r, "pooling_mode", mode->s);
    for (uint32_t i = 0; qn_json_is(mode, QN_JSON_ARRAY) && i < mode->n; i++)
        if (!add_by_name(&mode->items[i], &bits))
            return refuse(r, "pooling_mode", qn_json_str(&mode->items[i], "no name"));
    for (int i = 0; i < N_POOLINGS; i++)
        if (qn_json_bool(qn_json_get(j, poolings[i].flag), false))
            bits |= poolings[i].bit;
    int64_t width = qn_json_int(qn_json_get(j, "word_embedding_dimension"), r->width);
    if (bits == 0)
        return refuse(r, "pooling_mode", "no way of pooling is on");
    if (width != r->width)
        return qn_fail(r->err, QN_ERR_FORMAT,
                       "%s/config.json: word_embedding_dimension is %lld, the model's width %d",
                       r->dir, (long long)width, r->width);
    r->m->pooling = bits;
    r->m->include_prompt = qn_json_bool(qn_json_get(j, "include_prompt"), true);
    r->width = qn_modules_pooled_width(r->m, r->width);
    r->pooled = true;
    return QN_OK;
}

/* ---- dense layers and norms ---- */

/* A tensor of the module's file as floats; its shape is [rows, cols], or [rows] where cols is 0. */
static int read_floats(reader *r, const qn_st *st, const char *name, int64_t rows, int64_t cols,
                       float **out)
{
    const qn_st_tensor *t = qn_st_find(st, name);
    int64_t n = cols ? rows * cols : rows;
    bool fits =
        t && t->n_dims == (cols ? 2 : 1) && t->dim[0] == rows && (!cols || t->dim[1] == cols);
    const qn_layout_info *info = t ? qn_layout_get((qn_layout)t->layout) : NULL;
    if (!fits || !info->decode)
        return qn_fail(r->err, QN_ERR_FORMAT,
                       "%s: tensor %s is missing, or not what config.json says", r->dir, name);
    *out = qn_arena_alloc_n(&r->m->arena, (size_t)n, sizeof **out);
    void *copy = qn_arena_copy(&r->m->arena, t->data, t->bytes); /* files align nothing */
    info->decode(copy, *out, n);
    return QN_OK;
}

/* "torch.nn.modules.activation.Tanh" by its last word. */
static bool find_act(const char *name, qn_act *out)
{
    static const struct {
        const char *name;
        qn_act act;
    } known[] = { { "Identity", QN_ACT_NONE },   { "Tanh", QN_ACT_TANH },
                  { "ReLU", QN_ACT_RELU },       { "GELU", QN_ACT_GELU },
                  { "Sigmoid", QN_ACT_SIGMOID }, { "SiLU", QN_ACT_SILU } };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(dot ? dot + 1 : name, known[i].name) == 0) {
            *out = known[i].act;
            return true;
        }
    return false;
}

static int read_dense(reader *r, const qn_json *j, const qn_st *st, qn_stage *s)
{
    int64_t n_in = qn_json_int(qn_json_get(j, "in_features"), 0);
    int64_t n_out = qn_json_int(qn_json_get(j, "out_features"), 0);
    const char *act =
        qn_json_str(qn_json_get(j, "activation_function"), "torch.nn.modules.activation.Tanh");
    if (n_in != r->width || n_out < 1 || n_out > MAX_FEATURES)
        return qn_fail(r->err, QN_ERR_FORMAT,
                       "%s/config.json: %lld features in and %lld out, where %d come", r->dir,
                       (long long)n_in, (long long)n_out, r->width);
    if (!find_act(act, &s->act))
        return refuse(r, "activation_function", act);
    s->kind = QN_STAGE_DENSE;
    s->n_in = r->width;
    s->n_out = (int32_t)n_out;
    r->width = s->n_out;
    int rc = read_floats(r, st, "linear.weight", n_out, n_in, &s->w);
    if (rc == QN_OK && qn_json_bool(qn_json_get(j, "bias"), true))
        rc = read_floats(r, st, "linear.bias", n_out, 0, &s->bias);
    return rc;
}

static int read_norm(reader *r, const qn_st *st, qn_stage *s)
{
    s->kind = QN_STAGE_LAYER_NORM;
    s->n_in = s->n_out = r->width;
    int rc = read_floats(r, st, "norm.weight", r->width, 0, &s->w);
    return rc == QN_OK ? read_floats(r, st, "norm.bias", r->width, 0, &s->bias) : rc;
}

static qn_stage *new_stage(reader *r)
{
    return &r->m->stage[r->m->n_stages++];
}

/* A stage with weights of its own. */
static int read_weighted(reader *r, const qn_json *j, bool is_dense)
{
    qn_st *st;
    int rc = qn_st_open(&st, r->dir, r->err);
    if (rc != QN_OK)
        return rc;
    qn_stage *s = new_stage(r);
    rc = is_dense ? read_dense(r, j, st, s) : read_norm(r, st, s);
    qn_st_close(st);
    return rc;
}

/* ---- modules.json ---- */

static int read_module(reader *r, const qn_json *entry, uint32_t i)
{
    const char *type = qn_json_str(qn_json_get(entry, "type"), "");
    const char *path = qn_json_str(qn_json_get(entry, "path"), "");
    const char *dot = strrchr(type, '.');
    const char *kind = dot ? dot + 1 : type;
    if (i == 0 && strcmp(kind, "Transformer") == 0 && path[0] == '\0')
        return QN_OK;
    if (path[0] && !qn_is_safe_name(path, strlen(path)))
        return qn_fail(r->err, QN_ERR_FORMAT, "%s/modules.json: path \"%.100s\" leaves the folder",
                       r->path, path);
    r->dir = qn_path_join(&r->m->arena, r->path, path);
    bool failed = false;
    const qn_json *config = read_json(r, r->dir, "config.json", &failed);
    if (failed)
        return QN_ERR_FORMAT;
    if (strcmp(kind, "Pooling") == 0 && !r->pooled)
        return read_pooling(r, config);
    if (r->pooled && strcmp(kind, "Normalize") == 0) {
        *new_stage(r) =
            (qn_stage){ .kind = QN_STAGE_NORMALIZE, .n_in = r->width, .n_out = r->width };
        return QN_OK;
    }
    if (r->pooled && strcmp(kind, "Dense") == 0)
        return read_weighted(r, config, true);
    if (r->pooled && strcmp(kind, "LayerNorm") == 0)
        return read_weighted(r, config, false);
    return qn_fail(r->err, QN_ERR_UNSUPPORTED,
                   "%s/modules.json: module %u of type \"%.100s\" is not supported here", r->path,
                   i, type);
}

static int read_modules(reader *r, const qn_json *list)
{
    if (!qn_json_is(list, QN_JSON_ARRAY) || list->n > MAX_MODULES)
        return qn_fail(r->err, QN_ERR_FORMAT, "%s/modules.json: no list of modules", r->path);
    r->m->stage = qn_arena_alloc_n(&r->m->arena, list->n + 1, sizeof *r->m->stage);
    int rc = QN_OK;
    for (uint32_t i = 0; i < list->n && rc == QN_OK; i++)
        rc = read_module(r, &list->items[i], i);
    if (rc == QN_OK && !r->pooled)
        rc = qn_fail(r->err, QN_ERR_UNSUPPORTED, "%s/modules.json: nothing is pooled", r->path);
    return rc;
}

/* What is said of texts, prompts and lengths. */
static void read_texts(qn_modules *m, const qn_json *bert, const qn_json *st)
{
    int64_t most = qn_json_int(qn_json_get(bert, "max_seq_length"), 0);
    int64_t dims = qn_json_int(qn_json_get(st, "truncate_dim"), 0);
    const qn_json *prompts = qn_json_get(st, "prompts");
    m->lowercase = qn_json_bool(qn_json_get(bert, "do_lower_case"), false);
    m->max_tokens = most > 0 && most < INT32_MAX ? (int32_t)most : 0;
    m->dims = dims > 0 && dims < MAX_FEATURES ? (int32_t)dims : 0;
    m->prompts = qn_json_is(prompts, QN_JSON_OBJECT) ? prompts : NULL;
    m->default_prompt = qn_json_str(qn_json_get(st, "default_prompt_name"), NULL);
}

int qn_modules_read(qn_modules *m, const char *path, int32_t width, qn_error *err)
{
    *m = (qn_modules){ .pooling = QN_POOL_MEAN, .include_prompt = true };
    reader r = { .m = m, .path = path, .width = width, .err = err };
    if (!qn_is_dir(path))
        return QN_OK;
    bool failed = false;
    const qn_json *list = read_json(&r, path, "modules.json", &failed);
    const qn_json *bert = read_json(&r, path, "sentence_bert_config.json", &failed);
    const qn_json *st = read_json(&r, path, "config_sentence_transformers.json", &failed);
    int rc = failed ? QN_ERR_FORMAT : QN_OK;
    if (rc == QN_OK)
        read_texts(m, bert, st);
    if (rc == QN_OK && list)
        rc = read_modules(&r, list);
    if (rc != QN_OK)
        qn_modules_free(m);
    return rc;
}

void qn_modules_free(qn_modules *m)
{
    qn_arena_free(&m->arena);
    *m = (qn_modules){ 0 };
}
