/* file_writer.c - see file_writer.h. */
#include "formats/file_writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

int qn_file_writer_open(qn_file_writer *w, const char *path, qn_error *err)
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, ".tmp-%ld", (long)getpid());
    size_t n = strlen(path), k = strlen(suffix);
    *w = (qn_file_writer){ .path = qn_strdup(path), .tmp = qn_alloc(n + k + 1) };
    memcpy(w->tmp, path, n);
    memcpy(w->tmp + n, suffix, k);
    w->file = fopen(w->tmp, "wbe");
    if (w->file)
        return QN_OK;
    int rc = qn_fail(err, QN_ERR_IO, "%s: %s", path, strerror(errno));
    qn_file_writer_abort(w);
    return rc;
}

void qn_file_writer_put(qn_file_writer *w, const void *p, size_t n)
{
    if (n && !w->failed && fwrite(p, 1, n, w->file) != n)
        w->failed = true;
    w->at += n;
}

void qn_file_writer_pad(qn_file_writer *w, uint64_t align)
{
    static const char zeros[64];
    while (w->at % align != 0) {
        uint64_t n = align - w->at % align;
        qn_file_writer_put(w, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros);
    }
}

int qn_file_writer_commit(qn_file_writer *w, qn_error *err)
{
    errno = 0;
    bool ok = !w->failed && fflush(w->file) == 0 && fsync(fileno(w->file)) == 0;
    ok = fclose(w->file) == 0 && ok;
    w->file = NULL;
    ok = ok && rename(w->tmp, w->path) == 0;
    int rc = QN_OK;
    if (!ok)
        rc = qn_fail(err, QN_ERR_IO, "%s: %s", w->path,
                     errno ? strerror(errno) : "it could not be written whole");
    else
        w->tmp[0] = '\0'; /* nothing to remove */
    qn_file_writer_abort(w);
    return rc;
}

void qn_file_writer_abort(qn_file_writer *w)
{
    if (w->file)
        fclose(w->file);
    if (w->tmp && w->tmp[0])
        unlink(w->tmp);
    qn_free(w->path);
    qn_free(w->tmp);
    *w = (qn_file_writer){ 0 };
}
