/* checkpoint.c - the list of a checkpoint's weights: opening, looking up, stacking, accounting. */
#include <string.h>

#include "base/file.h"
#include "formats/checkpoint_internal.h"

typedef struct stack {
    struct stack *next;
    const char *pattern;
    qn_weight weight;
} stack;

void qn_checkpoint_add(qn_checkpoint *c, const qn_weight *w)
{
    QN_GROW(c->weight, c->n_weights, c->cap_weights);
    c->weight[c->n_weights++] = *w;
}

/* Sizes come from files: no memory is an answer here, not an abort. */
void *qn_checkpoint_memory(qn_checkpoint *c, size_t bytes)
{
    void *p = qn_try_alloc(bytes);
    if (p) {
        QN_GROW(c->copy, c->n_copies, c->cap_copies);
        c->copy[c->n_copies++] = p;
    }
    return p;
}

/* Readers of f32 or u16 arrays need aligned ones, and the formats promise nothing. Copies are rare: writers align. */
const void *qn_checkpoint_aligned(qn_checkpoint *c, const void *data, size_t bytes, size_t align)
{
    if ((uintptr_t)data % align == 0)
        return data;
    void *p = qn_checkpoint_memory(c, bytes);
    return p ? memcpy(p, data, bytes) : NULL;
}

static int index_weights(qn_checkpoint *c, qn_error *err)
{
    const char **names = qn_alloc_n(c->n_weights, sizeof *names);
    for (size_t i = 0; i < c->n_weights; i++)
        names[i] = c->weight[i].name;
    const char *twice = qn_name_index_build(&c->names, names, c->n_weights);
    qn_free(names);
    c->used = qn_alloc_n(c->n_weights, sizeof *c->used);
    /* Two spellings of one name (a text model and the same inside a larger one) came together. */
    return twice ? qn_fail(err, QN_ERR_FORMAT, "%s: two tensors are both '%.100s'", c->path, twice)
                 : QN_OK;
}

int qn_checkpoint_open(qn_checkpoint **out, const char *path, qn_error *err)
{
    *out = NULL;
    qn_checkpoint *c = qn_alloc(sizeof *c);
    c->path = qn_arena_strdup(&c->arena, path);
    int rc;
    if (qn_is_dir(path))
        rc = qn_checkpoint_fill_folder(c, err);
    else if (qn_ends_with(path, ".safetensors")) /* the weights alone, without their config */
        rc = qn_fail(err, QN_ERR_ARGUMENT, "%s: give the folder that holds it and config.json",
                     path);
    else
        rc = qn_checkpoint_fill_gguf(c, err);
    if (rc == QN_OK)
        rc = index_weights(c, err);
    if (rc != QN_OK) {
        qn_checkpoint_close(c);
        return rc;
    }
    *out = c;
    return QN_OK;
}

void qn_checkpoint_close(qn_checkpoint *c)
{
    if (!c)
        return;
    qn_st_close(c->st);
    qn_gguf_close(c->gguf);
    for (size_t i = 0; i < c->n_copies; i++)
        qn_free(c->copy[i]);
    qn_free(c->copy);
    qn_free(c->weight);
    qn_free(c->used);
    qn_name_index_free(&c->names);
    qn_arena_free(&c->arena);
    qn_free(c);
}

const qn_json *qn_checkpoint_config(const qn_checkpoint *c)
{
    return c->config;
}

const qn_json *qn_checkpoint_generation(const qn_checkpoint *c)
{
    return c->generation;
}

const qn_gguf *qn_checkpoint_gguf(const qn_checkpoint *c)
{
    return c->gguf;
}

const char *qn_checkpoint_path(const qn_checkpoint *c)
{
    return c->path;
}

bool qn_checkpoint_is_bare(const qn_checkpoint *c)
{
    return c->bare;
}

const char *qn_checkpoint_format(const qn_checkpoint *c)
{
    return c->format;
}

const qn_weight *qn_checkpoint_weight(qn_checkpoint *c, const char *name)
{
    int64_t i = qn_name_index_find(&c->names, name);
    if (i < 0)
        return NULL;
    c->used[i] = true;
    return &c->weight[i];
}

void qn_checkpoint_ignore(qn_checkpoint *c, const char *name)
{
    int64_t i = qn_name_index_find(&c->names, name);
    if (i >= 0)
        c->used[i] = true;
}

size_t qn_checkpoint_count(const qn_checkpoint *c)
{
    return c->n_weights;
}

const qn_weight *qn_checkpoint_at(const qn_checkpoint *c, size_t i)
{
    return i < c->n_weights ? &c->weight[i] : NULL;
}

/* Buffers that some savers wrote along with the weights and that are computed or unused at run time. */
static bool never_needed(const char *name)
{
    static const char *const suffixes[] = {
        "rotary_emb.inv_freq", ".position_ids", ".num_batches_tracked", ".input_max", ".input_min",
        ".output_max",         ".output_min",   ".input_scale",         ".k_scale",   ".v_scale"
    };
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (qn_ends_with(name, suffixes[i]))
            return true;
    return false;
}

const char *qn_checkpoint_unused(const qn_checkpoint *c)
{
    for (size_t i = 0; i < c->n_weights; i++)
        if (!c->used[i] && !never_needed(c->weight[i].name))
            return c->weight[i].name;
    return NULL;
}

/* `pattern` with its "%d" replaced. Done by hand: it is data, not a format string. */
static char *expert_name(qn_arena *a, const char *pattern, int e)
{
    const char *at = strstr(pattern, "%d");
    if (!at)
        return qn_arena_strdup(a, pattern);
    return qn_arena_printf(a, "%.*s%d%s", (int)(at - pattern), pattern, e, at + 2);
}

/* Whether two matrices can be halves of one stack. */
static bool same_kind(const qn_weight *a, const qn_weight *b)
{
    return a->layout == b->layout && a->n_dims == 2 && b->n_dims == 2 && a->dim[0] == b->dim[0] &&
           a->dim[1] == b->dim[1] && a->scale_layout == b->scale_layout && a->bits == b->bits &&
           a->group == b->group && a->block_rows == b->block_rows &&
           a->global_scale == b->global_scale && !a->scales == !b->scales &&
           !a->biases == !b->biases;
}

/* Bytes of the codes or blocks alone. */
static size_t data_bytes(const qn_weight *w)
{
    return (size_t)qn_weight_rows(w) * qn_weight_row_bytes(w);
}

/* Bytes of the scales (and as many of the biases). */
static size_t scale_bytes(const qn_weight *w)
{
    size_t rest = qn_weight_bytes(w) - data_bytes(w);
    return w->biases ? rest / 2 : rest;
}

/* Whether expert e of a stack that began with `first` already lies where a stack would have it. */
static bool in_place(const qn_weight *first, const qn_weight *w, size_t e)
{
    size_t data = data_bytes(first), scales = scale_bytes(first);
    return (const char *)w->data == (const char *)first->data + e * data &&
           (!w->scales || (const char *)w->scales == (const char *)first->scales + e * scales) &&
           (!w->biases || (const char *)w->biases == (const char *)first->biases + e * scales);
}

/* Copies one part of all experts into memory of one piece; NULL when there is none. */
static const void *gather(qn_checkpoint *c, const qn_weight *const *w, int n, size_t bytes,
                          size_t part)
{
    char *p = qn_checkpoint_memory(c, bytes * (size_t)n);
    for (int e = 0; p && e < n; e++)
        memcpy(p + (size_t)e * bytes, *(const void *const *)((const char *)w[e] + part), bytes);
    return p;
}

/* One weight of n equal ones. Experts that lie in a row are only described anew; scattered ones are copied once. */
static int join(qn_checkpoint *c, const qn_weight *const *w, int n, qn_weight *out, qn_error *err)
{
    bool view = true;
    for (int e = 1; e < n; e++) {
        if (!same_kind(w[0], w[e]))
            return qn_fail(err, QN_ERR_FORMAT,
                           "%s: tensors '%.100s' and '%.100s' differ in shape or layout", c->path,
                           w[0]->name, w[e]->name);
        view = view && in_place(w[0], w[e], (size_t)e);
    }
    *out = *w[0];
    out->n_dims = 3;
    out->dim[2] = w[0]->dim[1];
    out->dim[1] = w[0]->dim[0];
    out->dim[0] = n;
    if (view)
        return QN_OK;
    size_t scales = scale_bytes(w[0]), total;
    if (!qn_mul_size(data_bytes(w[0]) + 2 * scales, (size_t)n, &total))
        return qn_fail(err, QN_ERR_FORMAT, "%s: tensor '%.100s': the stack's size overflows",
                       c->path, w[0]->name);
    out->data = gather(c, w, n, data_bytes(w[0]), offsetof(qn_weight, data));
    if (w[0]->scales)
        out->scales = gather(c, w, n, scales, offsetof(qn_weight, scales));
    if (w[0]->biases)
        out->biases = gather(c, w, n, scales, offsetof(qn_weight, biases));
    if (!out->data || (w[0]->scales && !out->scales) || (w[0]->biases && !out->biases))
        return qn_fail(err, QN_ERR_MEMORY, "%s: no memory to stack '%.100s': %zu bytes", c->path,
                       w[0]->name, total);
    return QN_OK;
}

/* A weight that was made for this name before. */
static const qn_weight *find_made(const qn_checkpoint *c, const char *name)
{
    for (const stack *s = c->stacks; s; s = s->next)
        if (strcmp(s->pattern, name) == 0)
            return &s->weight;
    return NULL;
}

static const qn_weight *keep_made(qn_checkpoint *c, stack *s, const char *name)
{
    s->pattern = qn_arena_strdup(&c->arena, name);
    s->weight.name = s->pattern;
    s->next = c->stacks;
    c->stacks = s;
    return &s->weight;
}

const qn_weight *qn_checkpoint_stack(qn_checkpoint *c, const char *pattern, int n, qn_error *err)
{
    const qn_weight *made = find_made(c, pattern);
    if (made)
        return made;
    if (n <= 0 || qn_name_index_find(&c->names, expert_name(&c->arena, pattern, 0)) < 0)
        return NULL;
    const qn_weight **w = qn_alloc_n((size_t)n, sizeof *w);
    int rc = QN_OK;
    for (int e = 0; e < n && rc == QN_OK; e++) {
        const char *name = expert_name(&c->arena, pattern, e);
        w[e] = qn_checkpoint_weight(c, name);
        if (!w[e])
            rc = qn_fail(err, QN_ERR_FORMAT, "%s: tensor '%.100s' is missing", c->path, name);
    }
    stack *s = qn_arena_alloc(&c->arena, sizeof *s);
    if (rc == QN_OK)
        rc = join(c, w, n, &s->weight, err);
    qn_free(w);
    if (rc != QN_OK)
        return NULL;
    return keep_made(c, s, pattern);
}

/* Elements change places as whole bytes of their size. */
static void transpose(const char *from, char *to, const int64_t dim[3], size_t size)
{
    int64_t k = dim[1], n = dim[2];
    for (int64_t e = 0; e < dim[0];
         e++, from += (size_t)(k * n) * size, to += (size_t)(k * n) * size)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < n; j++)
                memcpy(to + (size_t)(j * k + i) * size, from + (size_t)(i * n + j) * size, size);
}

const qn_weight *qn_checkpoint_transposed(qn_checkpoint *c, const qn_weight *w, qn_error *err)
{
    const char *name = qn_arena_printf(&c->arena, "%s^T", w->name);
    const qn_weight *made = find_made(c, name);
    if (made)
        return made;
    const qn_layout_info *info = qn_layout_get((qn_layout)w->layout);
    if (w->n_dims < 2 || w->n_dims > 3 || info->block_elems != 1) {
        qn_fail(err, QN_ERR_UNSUPPORTED, "%s: tensor '%.100s' is packed and cannot be transposed",
                c->path, w->name);
        return NULL;
    }
    char *data = qn_checkpoint_memory(c, qn_weight_bytes(w));
    if (!data) {
        qn_fail(err, QN_ERR_MEMORY, "%s: no memory to transpose '%.100s': %zu bytes", c->path,
                w->name, qn_weight_bytes(w));
        return NULL;
    }
    int last = w->n_dims - 1; /* a matrix is a stack of one */
    int64_t k = w->dim[last - 1], n = w->dim[last];
    transpose(w->data, data, (const int64_t[]){ last == 2 ? w->dim[0] : 1, k, n },
              info->block_bytes);
    stack *s = qn_arena_alloc(&c->arena, sizeof *s);
    s->weight = *w;
    s->weight.dim[last - 1] = n;
    s->weight.dim[last] = k;
    s->weight.data = data;
    return keep_made(c, s, name);
}

/* One of the three arrays of a matrix, run by run; NULL stays NULL. */
static const void *pick(qn_checkpoint *c, const void *from, size_t row_bytes, const qn_row_runs *r,
                        int64_t run)
{
    if (!from)
        return NULL;
    size_t bytes = (size_t)r->n * row_bytes;
    char *to = qn_checkpoint_memory(c, bytes * (size_t)r->runs);
    for (int64_t i = 0; to && i < r->runs; i++)
        memcpy(to + (size_t)i * bytes,
               (const char *)from + (size_t)(i * run + r->start) * row_bytes, bytes);
    return to;
}

/* What picking cannot do: rows that share a scale with others, elements inside of blocks. */
static bool can_pick(const qn_weight *w)
{
    if (w->n_dims == 1)
        return !w->scales && qn_layout_get((qn_layout)w->layout)->block_elems == 1;
    return w->n_dims == 2 && w->layout != QN_FP8_BLOCK;
}

const qn_weight *qn_checkpoint_picked(qn_checkpoint *c, const qn_weight *w, qn_row_runs r,
                                      qn_error *err)
{
    const char *name = qn_arena_printf(&c->arena, "%s[%lld of %lld runs from %lld]", w->name,
                                       (long long)r.n, (long long)r.runs, (long long)r.start);
    const qn_weight *made = find_made(c, name);
    if (made)
        return made;
    if (!can_pick(w) || r.runs <= 0 || w->dim[0] % r.runs != 0) {
        qn_fail(err, QN_ERR_UNSUPPORTED, "%s: tensor '%.100s' is packed and cannot be divided",
                c->path, w->name);
        return NULL;
    }
    int64_t rows = w->dim[0], run = rows / r.runs;
    size_t row_bytes =
        w->n_dims == 1 ? qn_layout_get((qn_layout)w->layout)->block_bytes : qn_weight_row_bytes(w);
    size_t scales = scale_bytes(w) / (size_t)rows;
    stack *s = qn_arena_alloc(&c->arena, sizeof *s);
    s->weight = *w;
    s->weight.dim[0] = r.runs * r.n;
    s->weight.data = pick(c, w->data, row_bytes, &r, run);
    s->weight.scales = pick(c, w->scales, scales, &r, run);
    s->weight.biases = pick(c, w->biases, scales, &r, run);
    if (!s->weight.data || !s->weight.scales != !w->scales || !s->weight.biases != !w->biases) {
        qn_fail(err, QN_ERR_MEMORY, "%s: no memory to divide '%.100s'", c->path, w->name);
        return NULL;
    }
    return keep_made(c, s, name);
}
