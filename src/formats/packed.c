/* packed.c - see packed.h. Rules: MLX's as its own loader has them (a module is packed when scales exist, an
 * entry of the config may override bits, group and mode, the shapes have the last word for affine codes). */
#include "formats/packed.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "tensor/grouped.h"

#define MAX_WIDTHS 512

struct qn_packing {
    qn_checkpoint *c;
    const qn_json *rules;      /* MLX's object, NULL when there is none */
    const char *method;        /* quant_method, NULL */
    int64_t block[2];          /* FP8: rows and columns of a block */
    qn_name_index exact, bare; /* overrides by their name and by the name without prefixes */
    bool *matched;             /* by rules' member */
    int64_t width[MAX_WIDTHS]; /* numbers of the config that may be a K */
    int n_widths;
};

/* What an entry asks for. */
typedef struct want {
    const char *mode;
    int64_t bits, group;
    bool plain; /* the entry is `false` */
} want;

/* An override may be written for the text model alone or for the whole file: both come to the same bare name. */
static const char *strip_prefixes(const char *name)
{
    for (;;) {
        if (qn_starts_with(name, "language_model."))
            name += strlen("language_model.");
        else if (qn_starts_with(name, "model."))
            name += strlen("model.");
        else
            return name;
    }
}

/* Small numbers are counts of layers or heads, and no row is shorter than a group. */
static void add_width(qn_packing *p, int64_t k)
{
    if (k >= 32 && p->n_widths < MAX_WIDTHS)
        p->width[p->n_widths++] = k;
}

/* Collects every whole number of the config, and heads times head size: one of them is any matrix's K. */
static void collect_widths(qn_packing *p, const qn_json *config, int depth)
{
    int64_t heads = qn_json_int(qn_json_get(config, "num_attention_heads"), 0);
    int64_t head_dim = qn_json_int(qn_json_get(config, "head_dim"), 0);
    if (heads > 0 && heads < 1 << 20 && head_dim > 0 && head_dim < 1 << 20)
        add_width(p, heads * head_dim);
    for (uint32_t i = 0; config && config->type == QN_JSON_OBJECT && i < config->n; i++) {
        const qn_json *v = &config->items[i];
        if (v->type == QN_JSON_INT)
            add_width(p, v->i);
        else if (v->type == QN_JSON_OBJECT && depth < 2 && !qn_starts_with(v->key, "quantization"))
            collect_widths(p, v, depth + 1);
    }
}

/* Whether K could be `k` by what the config says of the model. */
static bool is_width(const qn_packing *p, int64_t k)
{
    for (int i = 0; i < p->n_widths; i++)
        if (p->width[i] == k)
            return true;
    return false;
}

/* Indexes the members that are module entries: objects and booleans. Others get a name no module has. */
static void index_overrides(qn_packing *p)
{
    uint32_t n = p->rules->n;
    const char **exact = qn_alloc_n(n, sizeof *exact), **bare = qn_alloc_n(n, sizeof *bare);
    for (uint32_t i = 0; i < n; i++) {
        const qn_json *v = &p->rules->items[i];
        bool entry = v->type == QN_JSON_OBJECT || v->type == QN_JSON_BOOL;
        exact[i] = entry ? v->key : "";
        bare[i] = entry ? strip_prefixes(v->key) : "";
    }
    qn_name_index_build(&p->exact, exact, n);
    qn_name_index_build(&p->bare, bare, n);
    p->matched = qn_alloc_n(n, sizeof *p->matched);
    qn_free(exact);
    qn_free(bare);
}

/* FP8: block sizes, checked since scale counts are computed with them. */
static int read_block(qn_packing *p, const qn_json *q, qn_error *err)
{
    const qn_json *b = qn_json_get(q, "weight_block_size");
    for (int i = 0; i < 2; i++)
        p->block[i] = b && b->type != QN_JSON_NULL ? qn_json_int(qn_json_at(b, (size_t)i), 0) : 128;
    if (p->block[0] < 1 || p->block[1] < 1 || p->block[0] > 1 << 20 || p->block[1] > 1 << 20)
        return qn_fail(err, QN_ERR_FORMAT, "%s: config.json: weight_block_size is no pair of sizes",
                       p->c->path);
    return QN_OK;
}

/* Other tools name their method; guessing from tensors what an unknown one means would give silent garbage. */
static int read_method(qn_packing *p, const qn_json *q, qn_error *err)
{
    static const char *const supported[] = { "fp8", "mxfp4", "mlx" };
    p->method = qn_json_str(qn_json_get(q, "quant_method"), NULL);
    if (!p->method) /* MLX repeats its own object under this name */
        return QN_OK;
    for (size_t i = 0; i < sizeof supported / sizeof *supported; i++)
        if (strcmp(p->method, supported[i]) == 0)
            return read_block(p, q, err);
    return qn_fail(err, QN_ERR_UNSUPPORTED,
                   "%s: config.json: quant_method '%.40s' is not supported", p->c->path, p->method);
}

int qn_packing_open(qn_packing **out, qn_checkpoint *c, qn_error *err)
{
    qn_packing *p = qn_alloc(sizeof *p);
    *out = p;
    *p = (qn_packing){ .c = c, .block = { 128, 128 } };
    const qn_json *q = qn_json_get(c->config, "quantization");
    const qn_json *hf = qn_json_get(c->config, "quantization_config");
    if (!hf)
        hf = qn_json_path(c->config, "text_config.quantization_config");
    int rc = qn_json_is(hf, QN_JSON_OBJECT) ? read_method(p, hf, err) : QN_OK;
    if (rc != QN_OK)
        return rc;
    p->rules = q ? q : p->method ? NULL : hf;
    if (!qn_json_is(p->rules, QN_JSON_OBJECT))
        p->rules = NULL;
    if (p->rules)
        index_overrides(p);
    collect_widths(p, c->config, 0);
    return QN_OK;
}

void qn_packing_close(qn_packing *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->matched && i < p->rules->n; i++)
        if (p->rules->items[i].type == QN_JSON_OBJECT && !p->matched[i])
            qn_log(QN_LOG_WARN,
                   "%s: config.json: quantization names a module that is not there: '%.100s'",
                   p->c->path, p->rules->items[i].key);
    qn_name_index_free(&p->exact);
    qn_name_index_free(&p->bare);
    qn_free(p->matched);
    qn_free(p);
}

/* The tensor "<base><suffix>". */
static const qn_st_tensor *find(const qn_packing *p, const char *base, int base_len,
                                const char *suffix)
{
    qn_arena a = { 0 };
    const qn_st_tensor *t =
        qn_st_find(p->c->st, qn_arena_printf(&a, "%.*s%s", base_len, base, suffix));
    qn_arena_free(&a);
    return t;
}

/* Length of the module's part of a name: without ".weight" where it ends so. */
static int module_len(const char *name)
{
    return (int)(strlen(name) - (qn_ends_with(name, ".weight") ? strlen(".weight") : 0));
}

/* What scales and biases may be, and what a plain weight usually is. */
static bool is_float(const qn_st_tensor *t)
{
    return t->layout == QN_F32 || t->layout == QN_F16 || t->layout == QN_BF16;
}

/* The scales beside codes `t`, and which kind they are. */
typedef enum kind { PLAIN, MLX, FP8, MXFP4_BLOCKS } kind;

static kind kind_of(const qn_packing *p, const qn_st_tensor *t, const qn_st_tensor **scales)
{
    const char *name = t->name;
    int n = module_len(name);
    *scales = NULL;
    if (t->layout == QN_F8_E4M3 && qn_ends_with(name, ".weight")) {
        *scales = find(p, name, n, ".weight_scale_inv");
        if (!*scales)
            *scales = find(p, name, n, ".weight_scale");
        return *scales ? FP8 : PLAIN;
    }
    if (t->layout == QN_U8 && qn_ends_with(name, "_blocks")) {
        *scales = find(p, name, (int)(strlen(name) - strlen("_blocks")), "_scales");
        return *scales ? MXFP4_BLOCKS : PLAIN;
    }
    if (is_float(t))
        return PLAIN;
    *scales = find(p, name, n, ".scales");
    return *scales ? MLX : PLAIN;
}

/* The tensor whose part `t` would be by its name: NULL when there is none. */
static const qn_st_tensor *owner(const qn_packing *p, const qn_st_tensor *t)
{
    static const char *const parts[] = { ".scales", ".biases", ".global_scale", ".weight_scale_inv",
                                         ".weight_scale" };
    const char *name = t->name;
    if (qn_ends_with(name, "_scales"))
        return find(p, name, (int)(strlen(name) - strlen("_scales")), "_blocks");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (qn_ends_with(name, parts[i])) {
            int n = (int)(strlen(name) - strlen(parts[i]));
            const qn_st_tensor *w = find(p, name, n, ".weight");
            return w ? w : find(p, name, n, "");
        }
    return NULL;
}

qn_packed_role qn_packed_role_of(const qn_packing *p, const qn_st_tensor *t)
{
    const qn_st_tensor *scales, *codes = owner(p, t);
    if (codes && codes != t && kind_of(p, codes, &scales) != PLAIN)
        return QN_PACKED_PART;
    return kind_of(p, t, &scales) != PLAIN ? QN_PACKED_CODES : QN_PACKED_NONE;
}

bool qn_packed_lacks_scales(const qn_packing *p, const qn_st_tensor *t)
{
    bool weight = qn_ends_with(t->name, ".weight");
    bool fp8 = p->method && strcmp(p->method, "fp8") == 0 && t->layout == QN_F8_E4M3;
    return weight && (t->layout == QN_U32 || fp8);
}

/* The common form of a refusal. */
static int refuse(const qn_packing *p, const qn_st_tensor *t, const char *why, qn_error *err)
{
    return qn_fail(err, QN_ERR_FORMAT, "%s: tensor '%.100s': %s", p->c->path, t->name, why);
}

/* Entry of module `name` (of length n): over the top level, over the mode's defaults. */
static want wanted(qn_packing *p, const char *name, int n)
{
    want w = { .mode = "affine" };
    const qn_json *entry = NULL;
    if (p->rules) {
        qn_arena a = { 0 };
        const char *module = qn_arena_strndup(&a, name, (size_t)n);
        int64_t i = qn_name_index_find(&p->exact, module);
        if (i < 0)
            i = qn_name_index_find(&p->bare, strip_prefixes(module));
        if (i >= 0 && n > 0) {
            entry = &p->rules->items[i];
            p->matched[i] = true;
        }
        qn_arena_free(&a);
    }
    w.plain = qn_json_is(entry, QN_JSON_BOOL) && !entry->b;
    w.mode = qn_json_str(qn_json_get(entry, "mode"),
                         qn_json_str(qn_json_get(p->rules, "mode"), "affine"));
    bool small = strcmp(w.mode, "nvfp4") == 0, mx = strncmp(w.mode, "mxfp", 4) == 0;
    w.bits = qn_json_int(qn_json_get(p->rules, "bits"), strcmp(w.mode, "mxfp8") == 0 ? 8 : 4);
    w.group = qn_json_int(qn_json_get(p->rules, "group_size"), small ? 16 : mx ? 32 : 64);
    w.bits = qn_json_int(qn_json_get(entry, "bits"), w.bits);
    w.group = qn_json_int(qn_json_get(entry, "group_size"), w.group);
    return w;
}

/* Bits and group of affine codes from the shapes: words of K and groups of K give their product; the entry
 * tells the pair. Where it contradicts, or its K is none of the config's numbers while another pair's is, the
 * shapes win. false: nothing fits. */
static bool affine_pair(const qn_packing *p, int64_t words, int64_t groups, want *w)
{
    static const int8_t bits[] = { 4, 8, 2, 3, 6, 5, 1 };
    int64_t product = 32 * words / groups, found_bits = 0, n_found = 0;
    bool exact = qn_affine_valid(w->bits, w->group) && w->bits * w->group == product;
    if (exact && is_width(p, 32 * words / w->bits))
        return true;
    for (size_t i = 0; i < sizeof bits; i++) {
        if (product % bits[i] != 0 || !qn_affine_valid(bits[i], product / bits[i]))
            continue;
        if (!is_width(p, 32 * words / bits[i]))
            continue;
        found_bits = bits[i];
        n_found++;
    }
    if (n_found == 1) {
        w->bits = found_bits;
        w->group = product / found_bits;
        return true;
    }
    if (exact)
        return true;
    /* No K to tell: keep what one of the entry's two numbers says. */
    if (w->group > 0 && product % w->group == 0 && qn_affine_valid(product / w->group, w->group))
        w->bits = product / w->group;
    else if (w->bits > 0 && product % w->bits == 0 && qn_affine_valid(w->bits, product / w->bits))
        w->group = product / w->bits;
    else
        return false;
    return true;
}

/* Copies the leading axes of `t` and sets the last one. */
static int set_dims(const qn_packing *p, const qn_st_tensor *t, int64_t k, qn_weight *w,
                    qn_error *err)
{
    if (t->n_dims < 1 || t->n_dims > 4)
        return refuse(p, t, "packed codes of more than 4 or of no dimensions", err);
    for (int i = 0; i < t->n_dims; i++)
        w->dim[i] = t->dim[i];
    w->n_dims = t->n_dims;
    w->dim[w->n_dims - 1] = k;
    return QN_OK;
}

/* Scales must have the leading axes of the codes. */
/* Scales that belong to other rows than the codes must never be paired with them. */
static bool same_leading(const qn_st_tensor *a, const qn_st_tensor *b)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i + 1 < a->n_dims; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

/* Borrows codes and scales, moved only where the file has them at an address that their type cannot have. */
static int set_data(const qn_packing *p, const qn_st_tensor *t, const qn_st_tensor *scales,
                    qn_weight *w, qn_error *err)
{
    size_t align = (size_t)qn_scale_bytes((qn_layout)scales->layout);
    w->data = qn_checkpoint_aligned(p->c, t->data, t->bytes, t->layout == QN_U32 ? 4 : 1);
    w->scales = qn_checkpoint_aligned(p->c, scales->data, scales->bytes, align);
    w->scale_layout = scales->layout;
    w->global_scale = 1;
    if (!w->data || !w->scales)
        return qn_fail(err, QN_ERR_MEMORY, "%s: tensor '%.100s': no memory to align %zu bytes",
                       p->c->path, t->name, t->bytes);
    return QN_OK;
}

/* Codes with a scale and a bias a group. Biases are not optional: without them the zero point is unknown. */
static int affine(qn_packing *p, const qn_st_tensor *t, const qn_st_tensor *scales, want *e,
                  qn_weight *w, qn_error *err)
{
    const qn_st_tensor *biases = find(p, t->name, module_len(t->name), ".biases");
    int64_t words = t->dim[t->n_dims - 1], groups = scales->dim[scales->n_dims - 1];
    if (!biases || biases->layout != scales->layout || biases->bytes != scales->bytes ||
        !same_leading(biases, scales))
        return refuse(p, t, "affine codes need biases of the scales' shape and dtype", err);
    want asked = *e;
    bool fits = groups > 0 && words > 0 && words < INT64_MAX / 32 && 32 * words % groups == 0;
    if (!fits || !affine_pair(p, words, groups, e))
        return qn_fail(err, QN_ERR_FORMAT,
                       "%s: tensor '%.100s': %lld words and %lld groups a row do not agree with "
                       "bits %lld, group_size %lld",
                       p->c->path, t->name, (long long)words, (long long)groups,
                       (long long)asked.bits, (long long)asked.group);
    if (asked.bits != e->bits || asked.group != e->group)
        qn_log(QN_LOG_INFO,
               "%s: tensor '%.100s': bits %lld, group_size %lld by its shapes, not %lld, %lld",
               p->c->path, t->name, (long long)e->bits, (long long)e->group, (long long)asked.bits,
               (long long)asked.group);
    w->layout = QN_AFFINE;
    w->bits = (uint8_t)e->bits;
    w->group = (int32_t)e->group;
    int rc = set_dims(p, t, 32 * words / e->bits, w, err);
    if (rc == QN_OK)
        rc = set_data(p, t, scales, w, err);
    if (rc == QN_OK)
        w->biases = qn_checkpoint_aligned(p->c, biases->data, biases->bytes,
                                          (size_t)qn_scale_bytes((qn_layout)biases->layout));
    return rc == QN_OK && !w->biases ? qn_fail(err, QN_ERR_MEMORY, "%s: no memory", p->c->path)
                                     : rc;
}

/* The microscaling modes, told apart by words a group: 2, 4 and 8. */
static const struct mode {
    const char *name;
    qn_layout layout;
    int words, group, bits;
} modes[] = {
    { "nvfp4", QN_GROUP_NVFP4, 2, 16, 4 },
    { "mxfp4", QN_GROUP_MXFP4, 4, 32, 4 },
    { "mxfp8", QN_GROUP_MXFP8, 8, 32, 8 },
};

/* nvfp4 may carry one factor for the whole tensor, the largest magnitude; stored scales are relative to it. */
static int global_scale(qn_packing *p, const qn_st_tensor *t, qn_weight *w, qn_error *err)
{
    const qn_st_tensor *g = find(p, t->name, module_len(t->name), ".global_scale");
    if (!g)
        return QN_OK;
    if (w->layout != QN_GROUP_NVFP4 || g->layout != QN_F32 || g->bytes != sizeof(float))
        return refuse(
            p, t, "a global_scale that is no single F32 of an nvfp4 tensor is not supported", err);
    float v = qn_scale_at(QN_F32, g->data, 0);
    if (!isfinite(v))
        return refuse(p, t, "its global_scale is no finite number", err);
    w->global_scale = v / (448.0f * 6.0f);
    return QN_OK;
}

/* Codes with one-byte scales. The shapes alone tell the mode, so an entry that disagrees is an error in one of the
 * two and is not decided here. */
static int microscale(qn_packing *p, const qn_st_tensor *t, const qn_st_tensor *scales,
                      const want *e, qn_weight *w, qn_error *err)
{
    int64_t words = t->dim[t->n_dims - 1], groups = scales->dim[scales->n_dims - 1];
    const struct mode *m = NULL;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (groups > 0 && words / groups == modes[i].words && words % groups == 0)
            m = &modes[i];
    if (words > INT64_MAX / 32)
        return refuse(p, t, "too many words a row", err);
    bool asked = p->rules && strcmp(e->mode, "affine") != 0;
    if (!m ||
        (asked && (strcmp(e->mode, m->name) != 0 || e->bits != m->bits || e->group != m->group)))
        return qn_fail(err, QN_ERR_FORMAT,
                       "%s: tensor '%.100s': %lld words and %lld one-byte scales a row%s%s do not "
                       "agree with mode %.20s, bits %lld, group_size %lld",
                       p->c->path, t->name, (long long)words, (long long)groups,
                       m ? ", which are " : "", m ? m->name : "", e->mode, (long long)e->bits,
                       (long long)e->group);
    w->layout = (uint8_t)m->layout;
    w->bits = (uint8_t)m->bits;
    w->group = m->group;
    int rc = set_dims(p, t, words * 32 / m->bits, w, err);
    if (rc == QN_OK)
        rc = set_data(p, t, scales, w, err);
    return rc == QN_OK ? global_scale(p, t, w, err) : rc;
}

/* All kinds of MLX module: which one is a matter of the scales' dtype. */
static int mlx(qn_packing *p, const qn_st_tensor *t, const qn_st_tensor *scales, qn_weight *w,
               qn_error *err)
{
    want e = wanted(p, t->name, module_len(t->name));
    bool known = strcmp(e.mode, "affine") == 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        known = known || strcmp(e.mode, modes[i].name) == 0;
    if (!known)
        return qn_fail(err, QN_ERR_UNSUPPORTED,
                       "%s: tensor '%.100s': quantization mode '%.40s' is not supported",
                       p->c->path, t->name, e.mode);
    if (e.plain)
        return refuse(p, t, "the config says it is plain, but it has scales", err);
    if (t->layout != QN_U32)
        return qn_fail(err, QN_ERR_UNSUPPORTED,
                       "%s: tensor '%.100s': packed codes of dtype %s are not supported",
                       p->c->path, t->name, qn_layout_get((qn_layout)t->layout)->name);
    if (t->n_dims < 1 || !same_leading(t, scales))
        return refuse(p, t, "its scales have other leading dimensions", err);
    if (scales->layout == QN_U8)
        return microscale(p, t, scales, &e, w, err);
    if (!is_float(scales))
        return refuse(p, t, "its scales have no float dtype", err);
    if (strcmp(e.mode, "affine") != 0)
        return qn_fail(err, QN_ERR_FORMAT,
                       "%s: tensor '%.100s': mode %s needs scales of dtype U8, they are %s",
                       p->c->path, t->name, e.mode, qn_layout_get((qn_layout)scales->layout)->name);
    return affine(p, t, scales, &e, w, err);
}

/* Without the usual sum, which could overflow for a dimension from a file. */
static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* One scale for the tensor, one a row, or one a block. */
static int scaled_fp8(qn_packing *p, const qn_st_tensor *t, const qn_st_tensor *s, qn_weight *w,
                      qn_error *err)
{
    if (t->n_dims < 2 || t->n_dims > 3)
        return refuse(p, t, "scaled FP8 codes must be a matrix or a stack of them", err);
    int64_t n = t->dim[t->n_dims - 2], k = t->dim[t->n_dims - 1];
    int64_t stack = t->n_dims == 3 ? t->dim[0] : 1, have = 1;
    int64_t rows = n, cols = k;
    for (int i = 0; i < s->n_dims; i++)
        have *= s->dim[i];
    if (n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX)
        return refuse(p, t, "FP8 codes of no rows, no columns or too many", err);
    bool one = have == 1 && stack == 1,
         per_row = have == n && stack == 1 && s->n_dims >= 1 && s->dim[0] == n;
    if (qn_ends_with(s->name, "_inv") || !(one || per_row)) {
        rows = p->block[0];
        cols = p->block[1];
    } else if (!one) {
        rows = 1;
    }
    if (!is_float(s) && s->layout != QN_F8_E8M0)
        return qn_fail(err, QN_ERR_UNSUPPORTED,
                       "%s: tensor '%.100s': scales of dtype %s are not supported", p->c->path,
                       s->name, qn_layout_get((qn_layout)s->layout)->name);
    int64_t need = stack * ceil_div(n, rows) * ceil_div(k, cols);
    if (have != need)
        return qn_fail(
            err, QN_ERR_FORMAT,
            "%s: tensor '%.100s': blocks of %lld x %lld need %lld scales, there are %lld",
            p->c->path, t->name, (long long)rows, (long long)cols, (long long)need,
            (long long)have);
    w->layout = QN_FP8_BLOCK;
    w->block_rows = (int32_t)rows;
    w->group = (int32_t)cols;
    int rc = set_dims(p, t, k, w, err);
    return rc == QN_OK ? set_data(p, t, s, w, err) : rc;
}

/* Blocks [E, N, K / 32, 16] of bytes, two codes each: the same bits as MLX's words [E, N, K / 8]. */
static int mxfp4_blocks(qn_packing *p, const qn_st_tensor *t, const qn_st_tensor *s, qn_weight *w,
                        qn_error *err)
{
    bool fits = t->n_dims == 4 && s->n_dims == 3 && s->layout == QN_U8 && t->dim[3] == 16;
    for (int i = 0; i < 3; i++)
        fits = fits && t->dim[i] == s->dim[i];
    if (!fits)
        return refuse(p, t, "MXFP4 blocks must be [E, N, K / 32, 16] with scales [E, N, K / 32]",
                      err);
    w->layout = QN_GROUP_MXFP4;
    w->bits = 4;
    w->group = 32;
    w->n_dims = 3;
    w->dim[0] = t->dim[0];
    w->dim[1] = t->dim[1];
    w->dim[2] = t->dim[2] * 32;
    return set_data(p, t, s, w, err);
}

int qn_packed_weight(qn_packing *p, const qn_st_tensor *t, qn_weight *w, qn_error *err)
{
    const qn_st_tensor *scales;
    kind k = kind_of(p, t, &scales);
    *w = (qn_weight){ .name = t->name, .global_scale = 1 };
    switch (k) {
    case MLX:
        return mlx(p, t, scales, w, err);
    case FP8:
        return scaled_fp8(p, t, scales, w, err);
    case MXFP4_BLOCKS:
        w->name = qn_arena_strndup(&p->c->arena, t->name, strlen(t->name) - strlen("_blocks"));
        return mxfp4_blocks(p, t, scales, w, err);
    default:
        return refuse(p, t, "no packed tensor", err);
    }
}
