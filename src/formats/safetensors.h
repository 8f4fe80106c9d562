/* safetensors.h - reads and writes safetensors: one file, or a folder of shards.
 *
 * Files stay mapped; tensors are views. A tensor's bytes may lie at any alignment (the format promises none).
 * Everything is checked at opening: header size, JSON, dtype, shape x dtype = bytes, ranges inside the file
 * and free of overlap, names unique over all shards, every tensor of an index present. */
#ifndef QN_FORMATS_SAFETENSORS_H
#define QN_FORMATS_SAFETENSORS_H

#include "base/error.h"
#include "tensor/layout.h"

#define QN_ST_MAX_DIMS 8

typedef struct qn_st_tensor {
    const char *name;
    const void *data;
    size_t bytes;
    int64_t dim[QN_ST_MAX_DIMS]; /* slowest first */
    uint8_t n_dims;              /* 0 for a scalar */
    uint8_t layout;              /* qn_layout, one of the plain ones */
    uint32_t file;               /* which shard */
} qn_st_tensor;

typedef struct qn_st qn_st;

/* `path`: one .safetensors file, or a folder. In a folder: the shards of model.safetensors.index.json, else
 * model.safetensors, else all model*.safetensors, else the only *.safetensors there is. */
int qn_st_open(qn_st **out, const char *path, qn_error *err);
/* One file's bytes, kept by the caller; `name` is for messages. */
int qn_st_parse(qn_st **out, const void *data, size_t n, const char *name, qn_error *err);
void qn_st_close(qn_st *s); /* NULL is fine */

size_t qn_st_count(const qn_st *s);
const qn_st_tensor *qn_st_at(const qn_st *s, size_t i);
const qn_st_tensor *qn_st_find(const qn_st *s, const char *name); /* NULL: none */
size_t qn_st_n_files(const qn_st *s);
const char *qn_st_file(const qn_st *s, size_t i); /* path of shard i */
size_t qn_st_bytes(const qn_st *s);               /* of all files */
/* The string `key` of the first file's __metadata__, NULL when it is absent. */
const char *qn_st_metadata(const qn_st *s, const char *key);

/* The format's name of a plain layout ("BF16"), NULL when it has none. */
const char *qn_st_dtype(qn_layout l);

/* Writing one file. Tensors are laid out largest element first, so all are aligned to their elements; `bytes` and
 * `file` are ignored. The file is complete or absent. Data may be NULL only for tensors without elements. */
int qn_st_write(const char *path, const qn_st_tensor *t, size_t n, qn_error *err);

#endif
