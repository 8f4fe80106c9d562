/* file_writer.h - writes a file of any size piece by piece; it appears under its name only when complete. */
#ifndef QN_FORMATS_FILE_WRITER_H
#define QN_FORMATS_FILE_WRITER_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

typedef struct qn_file_writer {
    FILE *file;
    char *path, *tmp;
    uint64_t at; /* bytes written so far */
    bool failed;
} qn_file_writer;

int qn_file_writer_open(qn_file_writer *w, const char *path, qn_error *err);
/* A failure is remembered and told by the end. */
void qn_file_writer_put(qn_file_writer *w, const void *p, size_t n);
void qn_file_writer_pad(qn_file_writer *w, uint64_t align); /* zeros up to a multiple */
/* Flushes and renames; on failure nothing is left behind. Ends the writer either way. */
int qn_file_writer_commit(qn_file_writer *w, qn_error *err);
void qn_file_writer_abort(qn_file_writer *w);

#endif
