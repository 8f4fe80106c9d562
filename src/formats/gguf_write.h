/* gguf_write.h - writes GGUF v3: metadata first, then tensors, in the order they were put.
 *
 * Keys, strings and arrays are copied; a tensor's name and data stay the caller's until the save. Putting a key
 * or a tensor twice is the caller's fault and gives a file that readers refuse. */
#ifndef QN_FORMATS_GGUF_WRITE_H
#define QN_FORMATS_GGUF_WRITE_H

#include "base/buf.h"
#include "formats/gguf.h"

typedef struct qn_gguf_writer {
    qn_buf values;
    uint64_t n_values;
    qn_gguf_tensor *tensor;
    size_t n_tensors, cap_tensors;
} qn_gguf_writer; /* {0} is an empty one */

void qn_gguf_put_u32(qn_gguf_writer *w, const char *key, uint32_t v);
void qn_gguf_put_i32(qn_gguf_writer *w, const char *key, int32_t v);
void qn_gguf_put_u64(qn_gguf_writer *w, const char *key, uint64_t v);
void qn_gguf_put_f32(qn_gguf_writer *w, const char *key, float v);
void qn_gguf_put_bool(qn_gguf_writer *w, const char *key, bool v);
void qn_gguf_put_str(qn_gguf_writer *w, const char *key, const char *s);
/* n items of a fixed-size type, little-endian as they lie. */
void qn_gguf_put_array(qn_gguf_writer *w, const char *key, qn_gguf_type elem_type,
                       const void *items, size_t n);
void qn_gguf_put_strs(qn_gguf_writer *w, const char *key, const qn_gguf_str *items, size_t n);
void qn_gguf_put_value(qn_gguf_writer *w, const qn_gguf_value *v); /* of another file, as it is */

/* `bytes` is ignored and computed. A layout that GGUF lacks fails at the save. */
void qn_gguf_put_tensor(qn_gguf_writer *w, const qn_gguf_tensor *t);

int qn_gguf_save(const qn_gguf_writer *w, const char *path, qn_error *err);
/* Everything before the data section, padded: what qn_gguf_save writes first. */
int qn_gguf_header(const qn_gguf_writer *w, qn_buf *out, qn_error *err);
void qn_gguf_writer_free(qn_gguf_writer *w); /* empty and usable again */

#endif
