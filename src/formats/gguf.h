/* gguf.h - reads GGUF v2 and v3: metadata and where the tensors lie. Nothing is copied but names.
 *
 * The bytes stay mapped (or the caller's, for qn_gguf_parse) and everything handed out points into them, so
 * it lives as long as the qn_gguf. Strings are views with a length and no NUL, and may hold any bytes. Every
 * count and size is checked against the bytes that are there before it is used. */
#ifndef QN_FORMATS_GGUF_H
#define QN_FORMATS_GGUF_H

#include "base/error.h"
#include "tensor/layout.h"

typedef enum qn_gguf_type {
    QN_GGUF_U8,
    QN_GGUF_I8,
    QN_GGUF_U16,
    QN_GGUF_I16,
    QN_GGUF_U32,
    QN_GGUF_I32,
    QN_GGUF_F32,
    QN_GGUF_BOOL,
    QN_GGUF_STR,
    QN_GGUF_ARRAY,
    QN_GGUF_U64,
    QN_GGUF_I64,
    QN_GGUF_F64,
    QN_GGUF_N_TYPES
} qn_gguf_type;

typedef struct qn_gguf_str {
    const char *p;
    size_t n;
} qn_gguf_str;

/* One metadata value. An array has n items of elem_type; arrays of strings or of arrays also have a table of
 * where each item begins. */
typedef struct qn_gguf_value {
    const char *key; /* NUL-terminated */
    const uint8_t *data;
    const uint32_t *offset; /* [n], from data; NULL for other kinds */
    uint64_t n;
    uint8_t type, elem_type;
} qn_gguf_value;

typedef struct qn_gguf_tensor {
    const char *name;
    const void *data;
    size_t bytes;
    int64_t dim[4]; /* slowest first, as everywhere in the program: the file has the reverse */
    uint8_t n_dims;
    uint8_t layout; /* qn_layout */
} qn_gguf_tensor;

typedef struct qn_gguf qn_gguf;

/* Opens `path`; the first file of a split one ("...-00001-of-00003.gguf") opens all of them. */
int qn_gguf_open(qn_gguf **out, const char *path, qn_error *err);
/* The same from bytes that the caller keeps; `name` is for messages. A split file is refused. */
int qn_gguf_parse(qn_gguf **out, const void *data, size_t n, const char *name, qn_error *err);
void qn_gguf_close(qn_gguf *g); /* NULL is fine */

uint32_t qn_gguf_version(const qn_gguf *g);
size_t qn_gguf_n_files(const qn_gguf *g);
size_t qn_gguf_bytes(const qn_gguf *g); /* of all files */
size_t qn_gguf_n_tensors(const qn_gguf *g);
const qn_gguf_tensor *qn_gguf_tensor_at(const qn_gguf *g, size_t i);
const qn_gguf_tensor *qn_gguf_tensor_find(const qn_gguf *g, const char *name); /* NULL: none */

/* Metadata (of a split file: the first part's). */
size_t qn_gguf_n_values(const qn_gguf *g);
const qn_gguf_value *qn_gguf_value_at(const qn_gguf *g, size_t i);
const qn_gguf_value *qn_gguf_get(const qn_gguf *g, const char *key); /* NULL: no such key */

/* By key; the fallback when it is absent or of another kind. Integers and bools read as any number. */
int64_t qn_gguf_int(const qn_gguf *g, const char *key, int64_t fallback);
double qn_gguf_num(const qn_gguf *g, const char *key, double fallback);
bool qn_gguf_bool(const qn_gguf *g, const char *key, bool fallback);
bool qn_gguf_string(const qn_gguf *g, const char *key, qn_gguf_str *out); /* false: absent */

/* Of a value; all accept NULL. An array's item i; false when there is none of that kind. U64 values above
 * the range of int64_t are no integers here. */
bool qn_gguf_value_int(const qn_gguf_value *v, int64_t *out);
bool qn_gguf_value_num(const qn_gguf_value *v, double *out);
bool qn_gguf_value_str(const qn_gguf_value *v, qn_gguf_str *out);
size_t qn_gguf_array_len(const qn_gguf_value *v); /* 0 when it is no array */
bool qn_gguf_array_int(const qn_gguf_value *v, size_t i, int64_t *out);
bool qn_gguf_array_num(const qn_gguf_value *v, size_t i, double *out);
bool qn_gguf_array_str(const qn_gguf_value *v, size_t i, qn_gguf_str *out);
/* An array inside an array. Its own items are reached one after the other when they are strings. */
bool qn_gguf_array_array(const qn_gguf_value *v, size_t i, qn_gguf_value *out);
/* The n items of an array of exactly this type (u32, i32, f32 ...), unaligned; NULL when it is none. */
const void *qn_gguf_array_raw(const qn_gguf_value *v, qn_gguf_type elem_type);

/* The layout of a ggml tensor type id, and back (-1: the layout has none). An unknown or removed id is an
 * error that says so; `where` begins the message. */
int qn_gguf_layout(uint32_t id, qn_layout *out, const char *where, qn_error *err);
int qn_gguf_type_id(qn_layout l);

#endif
