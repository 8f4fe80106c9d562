/* formats_scratch.h - a folder for one test program, removed with all that is in it; whole files written there. */
#ifndef QN_TESTS_FORMATS_SCRATCH_H
#define QN_TESTS_FORMATS_SCRATCH_H

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* Group fixtures: *state is the folder's path. */
static inline int scratch_open(void **state)
{
    const char *tmp = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/quern-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(path))
        return -1;
    *state = qn_strdup(path);
    return 0;
}

static inline int scratch_remove(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline int scratch_close(void **state)
{
    nftw(*state, scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
    qn_free(*state);
    return 0;
}

/* Writes `name` under `dir`, making the folders on the way. Aborts when it cannot. */
static inline void scratch_write(const char *dir, const char *name, const void *data, size_t n)
{
    qn_arena a = { 0 };
    char *path = qn_path_join(&a, dir, name), *slash = strrchr(path, '/');
    *slash = '\0';
    if (qn_make_dirs(path, NULL) != QN_OK)
        abort();
    *slash = '/';
    if (qn_write_file(path, data, n, NULL) != QN_OK)
        abort();
    qn_arena_free(&a);
}

#endif
