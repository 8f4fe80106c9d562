/* file.c - see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int qn_map_open(qn_map *m, const char *path, qn_error *err)
{
    *m = (qn_map){ "", 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not stop us here */
    if (fd < 0)
        return qn_fail(err, errno == ENOENT ? QN_ERR_NOT_FOUND : QN_ERR_IO, "%s: %s", path,
                       strerror(errno));
    struct stat st;
    int rc = QN_OK;
    if (fstat(fd, &st) != 0)
        rc = qn_fail(err, QN_ERR_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        rc = qn_fail(err, QN_ERR_IO, "%s: not a regular file", path);
    else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            rc = qn_fail(err, QN_ERR_IO, "%s: cannot map: %s", path, strerror(errno));
        else
            *m = (qn_map){ p, (size_t)st.st_size };
    }
    close(fd);
    return rc;
}

void qn_map_close(qn_map *m)
{
    if (m->size)
        munmap((void *)m->data, m->size);
    *m = (qn_map){ "", 0 };
}

bool qn_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool qn_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

char *qn_path_join(qn_arena *a, const char *dir, const char *name)
{
    return qn_arena_printf(a, "%s%s%s", dir, qn_ends_with(dir, "/") ? "" : "/", name);
}

const char *qn_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool qn_ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && memcmp(s + n - k, suffix, k) == 0;
}

bool qn_starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

int qn_make_dirs(const char *path, qn_error *err)
{
    char *p = qn_strdup(path);
    int rc = QN_OK;
    /* Each prefix that ends before a slash or at the end, but for the root's empty one. */
    for (size_t i = *p == '/'; *p && rc == QN_OK; i++) {
        char c = p[i];
        if (c != '/' && c != '\0')
            continue;
        p[i] = '\0';
        if (mkdir(p, 0777) != 0 && errno != EEXIST)
            rc = qn_fail(err, QN_ERR_IO, "%s: %s", p, strerror(errno));
        p[i] = c;
        if (c == '\0')
            break;
    }
    if (rc == QN_OK && !qn_is_dir(p))
        rc = qn_fail(err, QN_ERR_IO, "%s: not a folder", path);
    qn_free(p);
    return rc;
}

bool qn_is_safe_name(const char *name, size_t n)
{
    if (n == 0 || name[0] == '/' || memchr(name, '\0', n) || memchr(name, '\\', n))
        return false;
    for (size_t i = 0; i <= n;) {
        size_t j = i;
        while (j < n && name[j] != '/')
            j++;
        if (j - i == 2 && name[i] == '.' && name[i + 1] == '.')
            return false;
        i = j + 1;
    }
    return true;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k == 0)
            errno = EIO; /* a device that takes nothing and says nothing */
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return fsync(fd) == 0;
}

int qn_write_file(const char *path, const void *data, size_t n, qn_error *err)
{
    qn_arena a = { 0 };
    /* One name per thread; what a crashed process left under it, or a link laid there, goes first. */
    char *tmp = qn_arena_printf(&a, "%s.tmp-%ld", path, (long)gettid());
    unlink(tmp);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && write_all(fd, data, n);
    int cause = errno;
    if (fd >= 0)
        close(fd);
    if (ok && rename(tmp, path) != 0) {
        cause = errno;
        ok = false;
    }
    if (!ok && fd >= 0)
        unlink(tmp);
    qn_arena_free(&a);
    return ok ? QN_OK : qn_fail(err, QN_ERR_IO, "%s: %s", path, strerror(cause));
}
