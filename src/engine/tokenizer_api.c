/* tokenizer_api.c - the public calls on a tokenizer that stands alone. */
#include <dirent.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/gguf_tokenizer.h"

static int load_gguf(qn_tokenizer **out, const char *path, qn_error *err)
{
    qn_gguf *g;
    int rc = qn_gguf_open(&g, path, err);
    if (rc != QN_OK)
        return rc;
    rc = qn_gguf_tokenizer_open(out, g, err);
    qn_gguf_close(g);
    return rc == QN_OK ? rc : qn_fail_in(err, rc, "%s", path);
}

/* The first .gguf file of a folder by name, or NULL. */
static const char *gguf_in(qn_arena *a, const char *dir)
{
    DIR *d = opendir(dir);
    const char *best = NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (qn_ends_with(e->d_name, ".gguf") && (!best || strcmp(e->d_name, best) < 0))
            best = qn_arena_strdup(a, e->d_name);
    if (d)
        closedir(d);
    return best ? qn_path_join(a, dir, best) : NULL;
}

int qn_tokenizer_load(qn_tokenizer **out, const char *path, qn_error *err)
{
    qn_arena a = { 0 };
    int rc;
    *out = NULL;
    if (qn_ends_with(path, ".gguf")) {
        rc = load_gguf(out, path, err);
    } else {
        rc = qn_tokenizer_open(out, path, err);
        const char *inside = rc == QN_ERR_NOT_FOUND && qn_is_dir(path) ? gguf_in(&a, path) : NULL;
        if (inside)
            rc = load_gguf(out, inside, err);
    }
    qn_arena_free(&a);
    return rc;
}

int32_t *qn_tokenizer_ids_dup(const qn_tokenizer *t, const char *text, size_t n, int flags,
                              size_t *n_ids, qn_error *err)
{
    qn_ids list = { 0 };
    unsigned how = (flags & QN_TOKENIZE_SPECIAL ? QN_ENCODE_SPECIAL : 0) |
                   (flags & QN_TOKENIZE_MARKUP ? QN_ENCODE_PARSE : 0);
    int rc = qn_tokenizer_encode(t, text, n, how, &list, err);
    *n_ids = list.n;
    if (rc == QN_OK)
        return list.v ? list.v : qn_alloc(sizeof *list.v);
    qn_ids_free(&list);
    return NULL;
}

char *qn_tokenizer_text_dup(const qn_tokenizer *t, const int32_t *ids, size_t n, bool with_special,
                            size_t *len)
{
    qn_buf text = { 0 };
    qn_buf_reserve(&text, 0);
    text.data[0] = '\0';
    qn_tokenizer_decode(t, ids, n, !with_special, &text);
    if (len)
        *len = text.len;
    return text.data;
}
