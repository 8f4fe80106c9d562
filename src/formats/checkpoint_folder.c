/* checkpoint_folder.c - fills a checkpoint from a folder of config.json and safetensors.
 *
 * Names are brought to one name space: text models inside larger ones lose the outer prefix, towers have one
 * name each. Nothing else is changed here: what a maker's converter did to values or shapes is the family's
 * business. */
#include <string.h>

#include "base/file.h"
#include "formats/packed.h"

/* First match counts. */
static const struct {
    const char *from, *to;
} prefixes[] = {
    { "model.language_model.", "model." },
    { "language_model.model.", "model." },
    { "language_model.lm_head.", "lm_head." },
    { "model.visual.", "vision_tower." },
    { "visual.", "vision_tower." },
    { "model.vision_tower.", "vision_tower." },
    { "model.multi_modal_projector.", "multi_modal_projector." },
    { "model.audio_tower.", "audio_tower." },
};

/* A decoder's body saved by itself has these at the top. */
static bool is_bare_part(const char *name)
{
    return qn_starts_with(name, "embed_tokens.") || qn_starts_with(name, "layers.") ||
           qn_starts_with(name, "norm.");
}

/* Norms of the first encoders kept their TensorFlow names, which the reference renames too. */
static const char *norm_name(qn_arena *a, const char *name)
{
    static const char gamma[] = ".LayerNorm.gamma", beta[] = ".LayerNorm.beta";
    if (qn_ends_with(name, gamma))
        return qn_arena_printf(a, "%.*sweight", (int)(strlen(name) - strlen("gamma")), name);
    if (qn_ends_with(name, beta))
        return qn_arena_printf(a, "%.*sbias", (int)(strlen(name) - strlen("beta")), name);
    return name;
}

/* A name in the common name space; the name itself where it is in it already. */
static const char *common_name(const qn_checkpoint *c, qn_arena *a, const char *name)
{
    if (c->bare && is_bare_part(name))
        return qn_arena_printf(a, "model.%s", name);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (qn_starts_with(name, prefixes[i].from))
            return qn_arena_printf(a, "%s%s", prefixes[i].to, name + strlen(prefixes[i].from));
    return norm_name(a, name);
}

/* A tensor that is its own weight. */
static int plain_weight(qn_checkpoint *c, const qn_st_tensor *t, qn_weight *w, qn_error *err)
{
    *w = (qn_weight){
        .name = t->name, .layout = t->layout, .global_scale = 1, .n_dims = 1, .dim = { 1 }
    };
    /* A scalar is a vector of one; of more than four axes (video patches) the last ones are taken together. */
    for (int i = 0; i < t->n_dims; i++) {
        if (i < 4)
            w->dim[i] = t->dim[i];
        else
            w->dim[3] *= t->dim[i];
        w->n_dims = (uint8_t)(i < 4 ? i + 1 : 4);
    }
    size_t align = qn_layout_get((qn_layout)t->layout)->block_bytes;
    w->data = qn_checkpoint_aligned(c, t->data, t->bytes, align);
    if (!w->data)
        return qn_fail(err, QN_ERR_MEMORY, "%s: tensor '%.100s': no memory to align %zu bytes",
                       c->path, t->name, t->bytes);
    return QN_OK;
}

/* One pass in the file's order, so that weights are listed as they lie. */
int qn_checkpoint_add_tensors(qn_checkpoint *c, qn_error *err)
{
    qn_packing *p;
    c->bare = qn_st_find(c->st, "embed_tokens.weight") != NULL;
    int rc = qn_packing_open(&p, c, err);
    for (size_t i = 0; i < qn_st_count(c->st) && rc == QN_OK; i++) {
        const qn_st_tensor *t = qn_st_at(c->st, i);
        qn_packed_role role = qn_packed_role_of(p, t);
        qn_weight w;
        if (role == QN_PACKED_PART)
            continue;
        if (role == QN_PACKED_CODES) {
            rc = qn_packed_weight(p, t, &w, err);
            c->format = w.layout == QN_FP8_BLOCK ? c->format : "mlx";
        } else if (qn_packed_lacks_scales(p, t)) {
            rc = qn_fail(err, QN_ERR_FORMAT, "%s: tensor '%.100s': %s codes without scales",
                         c->path, t->name, qn_layout_get((qn_layout)t->layout)->name);
        } else {
            rc = plain_weight(c, t, &w, err);
        }
        if (rc == QN_OK) {
            w.name = common_name(c, &c->arena, w.name);
            qn_checkpoint_add(c, &w);
        }
    }
    qn_packing_close(p);
    return rc;
}

int qn_checkpoint_fill_folder(qn_checkpoint *c, qn_error *err)
{
    const char *config = qn_path_join(&c->arena, c->path, "config.json");
    const char *generation = qn_path_join(&c->arena, c->path, "generation_config.json");
    const char *modelopt = qn_path_join(&c->arena, c->path, "hf_quant_config.json");
    c->format = "safetensors";
    c->config = qn_json_parse_file(&c->arena, config, err);
    if (!c->config)
        return err && err->code ? err->code : QN_ERR_FORMAT;
    if (!qn_json_is(c->config, QN_JSON_OBJECT))
        return qn_fail(err, QN_ERR_FORMAT, "%s: no JSON object", config);
    if (qn_is_file(modelopt) && !qn_json_get(c->config, "quantization_config"))
        return qn_fail(err, QN_ERR_UNSUPPORTED, "%s: quantisation by ModelOpt is not supported",
                       modelopt);
    if (qn_is_file(generation)) {
        c->generation = qn_json_parse_file(&c->arena, generation, err);
        if (!c->generation)
            return err && err->code ? err->code : QN_ERR_FORMAT;
    }
    int rc = qn_st_open(&c->st, c->path, err);
    return rc == QN_OK ? qn_checkpoint_add_tensors(c, err) : rc;
}
