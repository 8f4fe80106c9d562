/* checkpoint_gguf.c - fills a checkpoint from a GGUF file: names and config are translated, blocks stay. */
#include "base/file.h"
#include "formats/checkpoint_internal.h"
#include "formats/gguf_names.h"

/* What kernels may assume of a weight's first byte. GGUF aligns to 32 unless the file says otherwise. */
#define BLOCK_ALIGN 8

static int add_tensor(qn_checkpoint *c, const qn_gguf_arch *arch, const qn_gguf_tensor *t,
                      qn_error *err)
{
    if (t->layout == QN_Q8_1 || t->layout == QN_Q8_K)
        return qn_fail(err, QN_ERR_UNSUPPORTED,
                       "%s: tensor '%.100s': %s is a format of activations, not of weights",
                       c->path, t->name, qn_layout_get((qn_layout)t->layout)->name);
    qn_weight w = { .name = qn_gguf_hf_name(arch, &c->arena, t->name),
                    .layout = t->layout,
                    .n_dims = t->n_dims,
                    .global_scale = 1,
                    .data = qn_checkpoint_aligned(c, t->data, t->bytes, BLOCK_ALIGN) };
    for (int i = 0; i < t->n_dims; i++)
        w.dim[i] = t->dim[i];
    if (!w.data)
        return qn_fail(err, QN_ERR_MEMORY, "%s: tensor '%.100s': no memory to align %zu bytes",
                       c->path, t->name, t->bytes);
    qn_checkpoint_add(c, &w);
    return QN_OK;
}

int qn_checkpoint_fill_gguf(qn_checkpoint *c, qn_error *err)
{
    c->format = "gguf";
    int rc = qn_gguf_open(&c->gguf, c->path, err);
    if (rc != QN_OK)
        return rc;
    const qn_gguf_arch *arch = qn_gguf_arch_of(c->gguf, c->path, err);
    if (!arch)
        return QN_ERR_UNSUPPORTED;
    c->config = qn_gguf_hf_config(arch, c->gguf, &c->arena, err);
    if (!c->config)
        return qn_fail_in(err, QN_ERR_FORMAT, "%s: metadata", c->path);
    for (size_t i = 0; i < qn_gguf_n_tensors(c->gguf) && rc == QN_OK; i++)
        rc = add_tensor(c, arch, qn_gguf_tensor_at(c->gguf, i), err);
    return rc;
}
