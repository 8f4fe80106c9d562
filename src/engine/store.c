/* store.c - the model store: a folder whose entries are models, "NAME" (a folder) or "NAME.gguf".
 *
 * The file system is the index, so people may put and remove models with cp and rm. Nothing is fetched
 * here; `quern pull` does that and hands the result to qn_store_add. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "quern.h"

char *qn_store_dir_dup(void)
{
    static const struct {
        const char *var, *below;
    } places[] = { { "QUERN_HOME", "" },
                   { "XDG_DATA_HOME", "/quern" },
                   { "HOME", "/.local/share/quern" } };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *dir = getenv(places[i].var);
        if (!dir || !*dir)
            continue;
        qn_buf b = { 0 };
        qn_buf_printf(&b, "%s%s", dir, places[i].below);
        return b.data;
    }
    return NULL;
}

/* A name is one path component that is not hidden; "org/name" has one slash. */
static bool good_name(const char *name)
{
    const char *slash = strchr(name, '/');
    return *name && *name != '.' && *name != '-' && qn_is_safe_name(name, strlen(name)) &&
           (!slash || (slash[1] && slash[1] != '.' && !strchr(slash + 1, '/')));
}

static char *model_path(const char *name, const char *suffix)
{
    char *dir = qn_store_dir_dup();
    if (!dir)
        return NULL;
    qn_buf b = { 0 };
    qn_buf_printf(&b, "%s/models/%s%s", dir, name, suffix);
    qn_free(dir);
    return b.data;
}

/* The path of what the store has under `name`, or NULL. */
static char *stored(const char *name)
{
    static const char *const suffixes[] = { "", ".gguf" };
    for (int i = 0; i < 2; i++) {
        char *path = model_path(name, suffixes[i]);
        if (path && (qn_is_dir(path) || (i == 1 && qn_is_file(path))))
            return path;
        qn_free(path);
    }
    return NULL;
}

char *qn_store_find_dup(const char *model, qn_error *err)
{
    if (qn_is_dir(model) || qn_is_file(model))
        return qn_strdup(model);
    char *path = good_name(model) ? stored(model) : NULL;
    if (path)
        return path;
    char *dir = qn_store_dir_dup();
    qn_fail(err, QN_ERR_NOT_FOUND,
            "%s: no such folder or file, and no model of that name in %s/models", model,
            dir ? dir : "$HOME/.local/share/quern");
    qn_free(dir);
    return NULL;
}

typedef struct entry {
    char *name;
    int64_t bytes;
} entry;

typedef struct listing {
    entry *v;
    size_t n, cap;
} listing;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

/* Bytes of the files right inside a folder, or of one file. */
static int64_t size_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return st.st_size;
    DIR *d = opendir(path);
    int64_t sum = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
            sum += st.st_size;
    if (d)
        closedir(d);
    return sum;
}

static bool holds_model(const char *dir)
{
    qn_buf b = { 0 };
    qn_buf_printf(&b, "%s/config.json", dir);
    bool yes = qn_is_file(b.data);
    qn_buf_free(&b);
    return yes;
}

/* Adds the models of `dir`; folders without a config.json are organisations ("org/name"). */
static void list_dir(listing *l, const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        qn_buf path = { 0 }, name = { 0 };
        qn_buf_printf(&path, "%s/%s", dir, e->d_name);
        qn_buf_printf(&name, "%s%s", prefix, e->d_name);
        bool is_dir = qn_is_dir(path.data), gguf = qn_ends_with(e->d_name, ".gguf");
        if (is_dir && !*prefix && !holds_model(path.data)) {
            qn_buf_char(&name, '/');
            list_dir(l, path.data, name.data);
        } else if (is_dir ? holds_model(path.data) : gguf) {
            QN_GROW(l->v, l->n, l->cap);
            size_t len = name.len - (is_dir ? 0 : strlen(".gguf"));
            l->v[l->n++] = (entry){ qn_strndup(name.data, len), size_of(path.data) };
        }
        qn_buf_free(&path);
        qn_buf_free(&name);
    }
    if (d)
        closedir(d);
}

char *qn_store_list_dup(void)
{
    listing l = { 0 };
    char *dir = model_path("", "");
    if (dir)
        list_dir(&l, dir, "");
    qn_free(dir);
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, by_name);
    qn_buf b = { 0 };
    qn_buf_char(&b, '[');
    for (size_t i = 0; i < l.n; i++) {
        char *path = stored(l.v[i].name);
        qn_buf_str(&b, i ? ",{\"name\":" : "{\"name\":");
        qn_json_put_str(&b, l.v[i].name, strlen(l.v[i].name));
        qn_buf_str(&b, ",\"path\":");
        qn_json_put_str(&b, path ? path : "", path ? strlen(path) : 0);
        qn_buf_printf(&b, ",\"bytes\":%lld}", (long long)l.v[i].bytes);
        qn_free(path);
        qn_free(l.v[i].name);
    }
    qn_buf_char(&b, ']');
    qn_free(l.v);
    return b.data;
}

/* Removes a file, or a folder with the plain files in it (a model has no deeper folders that we made;
 * what is left makes rmdir fail, which is reported). Links are removed, not followed. */
static int remove_path(const char *path, int depth, qn_error *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return qn_fail(err, QN_ERR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        if (unlink(path) != 0)
            return qn_fail(err, QN_ERR_IO, "%s: %s", path, strerror(errno));
        return QN_OK;
    }
    if (depth > 8)
        return qn_fail(err, QN_ERR_IO, "%s: folders nested too deeply to remove", path);
    DIR *d = opendir(path);
    if (!d)
        return qn_fail(err, QN_ERR_IO, "%s: %s", path, strerror(errno));
    int rc = QN_OK;
    for (struct dirent *e; rc == QN_OK && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        qn_buf b = { 0 };
        qn_buf_printf(&b, "%s/%s", path, e->d_name);
        rc = remove_path(b.data, depth + 1, err);
        qn_buf_free(&b);
    }
    closedir(d);
    if (rc == QN_OK && rmdir(path) != 0)
        rc = qn_fail(err, QN_ERR_IO, "%s: %s", path, strerror(errno));
    return rc;
}

int qn_store_remove(const char *name, qn_error *err)
{
    char *path = good_name(name) ? stored(name) : NULL;
    if (!path)
        return qn_fail(err, QN_ERR_NOT_FOUND, "%s: no model of that name in the store", name);
    int rc = remove_path(path, 0, err);
    qn_free(path);
    return rc;
}

/* Copies a file; for moves over a border of file systems. Syncs, and renames last. */
static int copy_file(const char *from, const char *to, qn_error *err)
{
    qn_map m;
    int rc = qn_map_open(&m, from, err);
    if (rc != QN_OK)
        return rc;
    rc = qn_write_file(to, m.data, m.size, err);
    qn_map_close(&m);
    return rc;
}

static int move(const char *from, const char *to, qn_error *err)
{
    if (rename(from, to) == 0)
        return QN_OK;
    if (errno == EXDEV && qn_is_file(from)) {
        int rc = copy_file(from, to, err);
        if (rc == QN_OK && unlink(from) != 0)
            rc = qn_fail(err, QN_ERR_IO, "%s: %s", from, strerror(errno));
        return rc;
    }
    return qn_fail(err, QN_ERR_IO, "%s: cannot be moved to %s: %s", from, to, strerror(errno));
}

int qn_store_add(const char *name, const char *path, qn_error *err)
{
    if (!good_name(name))
        return qn_fail(err, QN_ERR_ARGUMENT, "%s: not a name for a model", name);
    bool is_dir = qn_is_dir(path);
    if (!is_dir && !(qn_is_file(path) && qn_ends_with(path, ".gguf")))
        return qn_fail(err, QN_ERR_ARGUMENT, "%s: neither a folder nor a .gguf file", path);
    char *to = model_path(name, is_dir ? "" : ".gguf");
    if (!to)
        return qn_fail(err, QN_ERR_NOT_FOUND, "no place for the store: set QUERN_HOME");
    char *parent = qn_strndup(to, (size_t)(strrchr(to, '/') - to));
    int rc = qn_make_dirs(parent, err);
    char *old = stored(name);
    /* A file is replaced by the rename itself; only a folder, or one kind by the other, goes first. */
    if (rc == QN_OK && old && (is_dir || strcmp(old, to) != 0))
        rc = remove_path(old, 0, err);
    if (rc == QN_OK)
        rc = move(path, to, err);
    qn_free(old);
    qn_free(parent);
    qn_free(to);
    return rc;
}
