/* model.c - loading: from files on disk to a graph a backend can run.
 *
 * The order is that of blame: first what the files say, then whether a family knows it, then whether every
 * weight is there and every weight is needed. Nothing of a model changes afterwards. */
#include "engine/model.h"

#include <string.h>

/* A tied flag beside a nested text part counts too. */
static bool is_tied(const qn_config *c, bool fallback)
{
    bool old = qn_config_bool(c, "tie_embedding", fallback); /* an earlier spelling */
    bool outer = qn_json_bool(qn_json_get(c->outer, "tie_word_embeddings"), old);
    return qn_config_bool(c, "tie_word_embeddings", outer);
}

static int read_config(qn_model *m, qn_error *err)
{
    int rc = qn_config_init(&m->config, &m->arena, qn_checkpoint_config(m->ck), err);
    if (rc == QN_OK)
        rc = qn_family_require(&m->family, m->config.model_type, err);
    if (rc == QN_OK)
        m->config.tied = is_tied(&m->config, m->family->tied);
    return rc;
}

static int build(qn_model *m, qn_error *err)
{
    qn_graph_init(&m->plain);
    qn_build b = { .g = &m->plain, .ck = m->ck, .c = &m->config, .layer = -1 };
    m->family->build(&b, &m->config);
    if (m->plain.err.code != QN_OK)
        return qn_fail(err, m->plain.err.code, "%s", m->plain.err.msg);
    int rc = qn_config_check(&m->config, err);
    if (rc != QN_OK)
        return rc;
    const char *unused = qn_checkpoint_unused(m->ck);
    if (unused)
        return qn_fail(err, QN_ERR_FORMAT, "tensor %s has no place in a model of type %s", unused,
                       m->config.model_type);
    return QN_OK;
}

static int prepare(qn_model *m, const qn_backend_options *opt, qn_error *err)
{
    int rc = qn_backend_cpu_open(&m->backend, opt, err);
    if (rc == QN_OK)
        rc = qn_graph_fuse(&m->plain, &m->graph, m->backend->rules, err);
    if (rc == QN_OK)
        rc = m->backend->prepare(m->backend, &m->graph, err);
    return rc;
}

int qn_model_load(qn_model **out, const char *path, const qn_load_options *opt, qn_error *err)
{
    static const qn_load_options defaults;
    qn_error local;
    *out = NULL;
    opt = opt ? opt : &defaults;
    err = err ? err : &local;
    qn_model *m = qn_alloc(sizeof *m);
    m->path = qn_strdup(path);
    m->exact = opt->backend.exact;
    int rc = qn_checkpoint_open(&m->ck, path, err);
    if (rc == QN_OK) {
        rc = read_config(m, err);
        if (rc == QN_OK)
            rc = build(m, err);
        if (rc == QN_OK)
            rc = prepare(m, &opt->backend, err);
        /* What comes from the checkpoint's own files names them already. */
        if (rc != QN_OK && strncmp(err->msg, path, strlen(path)) != 0)
            qn_fail_in(err, rc, "%s", path);
    }
    if (rc == QN_OK)
        rc = qn_model_load_text(m, opt->no_tokenizer, err);
    if (rc != QN_OK) {
        qn_model_unload(m);
        return rc;
    }
    *out = m;
    return QN_OK;
}

void qn_model_unload(qn_model *m)
{
    if (!m)
        return;
    qn_model_unload_text(m);
    qn_graph_free(&m->graph);
    if (m->backend)
        m->backend->close(m->backend);
    qn_graph_free(&m->plain);
    qn_checkpoint_close(m->ck);
    qn_arena_free(&m->arena);
    qn_free(m->path);
    qn_free(m);
}
