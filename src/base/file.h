/* file.h - whole files: mapped, read, written safely, and paths. */
#ifndef QN_BASE_FILE_H
#define QN_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/mem.h"

/* A file mapped read-only. data is "" for an empty file, never NULL after success. */
typedef struct qn_map {
    const char *data;
    size_t size;
} qn_map;

int qn_map_open(qn_map *m, const char *path, qn_error *err); /* err names the path */
void qn_map_close(qn_map *m);                                /* {0} is fine */

bool qn_is_dir(const char *path);
bool qn_is_file(const char *path);
char *qn_path_join(qn_arena *a, const char *dir, const char *name);
const char *qn_path_base(const char *path); /* after the last '/' */
bool qn_ends_with(const char *s, const char *suffix);
bool qn_starts_with(const char *s, const char *prefix);
int qn_make_dirs(const char *path, qn_error *err); /* like mkdir -p */

/* A name from a manifest or a request that must stay inside its folder: relative, no "..", no NUL. */
bool qn_is_safe_name(const char *name, size_t n);

/* Writes a temporary file beside `path`, syncs and renames it, so a reader never sees half of it. */
int qn_write_file(const char *path, const void *data, size_t n, qn_error *err);

#endif
