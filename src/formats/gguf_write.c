/* gguf_write.c - see gguf_write.h. */
#include "formats/gguf_write.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "formats/file_writer.h"
#include "formats/gguf_internal.h"

static void add_le(qn_buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        qn_buf_char(b, (char)(v >> (8 * i)));
}

/* The format's string: a length and bytes. */
static void add_text(qn_buf *b, const char *s, size_t n)
{
    add_le(b, n, 8);
    qn_buf_add(b, s, n);
}

/* Key and type; the caller appends the value. */
static void begin(qn_gguf_writer *w, const char *key, qn_gguf_type type)
{
    add_text(&w->values, key, strlen(key));
    add_le(&w->values, (uint64_t)type, 4);
    w->n_values++;
}

void qn_gguf_put_u32(qn_gguf_writer *w, const char *key, uint32_t v)
{
    begin(w, key, QN_GGUF_U32);
    add_le(&w->values, v, 4);
}

void qn_gguf_put_i32(qn_gguf_writer *w, const char *key, int32_t v)
{
    begin(w, key, QN_GGUF_I32);
    add_le(&w->values, (uint32_t)v, 4);
}

void qn_gguf_put_u64(qn_gguf_writer *w, const char *key, uint64_t v)
{
    begin(w, key, QN_GGUF_U64);
    add_le(&w->values, v, 8);
}

void qn_gguf_put_f32(qn_gguf_writer *w, const char *key, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    begin(w, key, QN_GGUF_F32);
    add_le(&w->values, bits, 4);
}

void qn_gguf_put_bool(qn_gguf_writer *w, const char *key, bool v)
{
    begin(w, key, QN_GGUF_BOOL);
    add_le(&w->values, v, 1);
}

void qn_gguf_put_str(qn_gguf_writer *w, const char *key, const char *s)
{
    begin(w, key, QN_GGUF_STR);
    add_text(&w->values, s, strlen(s));
}

void qn_gguf_put_array(qn_gguf_writer *w, const char *key, qn_gguf_type elem_type,
                       const void *items, size_t n)
{
    int bytes = qn_gguf_type_bytes(elem_type);
    assert(bytes > 0);
    begin(w, key, QN_GGUF_ARRAY);
    add_le(&w->values, (uint64_t)elem_type, 4);
    add_le(&w->values, n, 8);
    qn_buf_add(&w->values, items, n * (size_t)bytes);
}

void qn_gguf_put_strs(qn_gguf_writer *w, const char *key, const qn_gguf_str *items, size_t n)
{
    begin(w, key, QN_GGUF_ARRAY);
    add_le(&w->values, QN_GGUF_STR, 4);
    add_le(&w->values, n, 8);
    for (size_t i = 0; i < n; i++)
        add_text(&w->values, items[i].p, items[i].n);
}

void qn_gguf_put_value(qn_gguf_writer *w, const qn_gguf_value *v)
{
    begin(w, v->key, (qn_gguf_type)v->type);
    /* An array's data begin after its header of 12 bytes, which is part of the item. */
    const uint8_t *p = v->type == QN_GGUF_ARRAY ? v->data - 12 : v->data;
    qn_buf_add(&w->values, p, (size_t)qn_gguf_item_bytes(v->type, p));
}

void qn_gguf_put_tensor(qn_gguf_writer *w, const qn_gguf_tensor *t)
{
    QN_GROW(w->tensor, w->n_tensors, w->cap_tensors);
    w->tensor[w->n_tensors++] = *t;
}

/* The data section begins at a multiple of the alignment. */
static void pad(qn_buf *b)
{
    while (b->len % QN_GGUF_ALIGN != 0)
        qn_buf_char(b, '\0');
}

/* Bytes of a tensor; false when its rows are no whole blocks or the size overflows. */
static bool size_of(const qn_gguf_tensor *t, size_t *bytes)
{
    int64_t elems = 1;
    for (int i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(elems, t->dim[i], &elems))
            return false;
    bool whole = t->n_dims > 0 &&
                 t->dim[t->n_dims - 1] % qn_layout_get((qn_layout)t->layout)->block_elems == 0;
    return whole && qn_layout_bytes((qn_layout)t->layout, elems, bytes);
}

/* One entry of the table; *at is where its data will lie and moves to where the next ones do. */
static int add_tensor(qn_buf *b, const qn_gguf_tensor *t, uint64_t *at, qn_error *err)
{
    int id = qn_gguf_type_id((qn_layout)t->layout);
    size_t bytes;
    if (id < 0)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "tensor '%s': GGUF has no type for %s", t->name,
                       qn_layout_get((qn_layout)t->layout)->name);
    if (!size_of(t, &bytes))
        return qn_fail(err, QN_ERR_ARGUMENT, "tensor '%s': its rows are no whole blocks", t->name);
    add_text(b, t->name, strlen(t->name));
    add_le(b, t->n_dims, 4);
    for (int i = t->n_dims - 1; i >= 0; i--)
        add_le(b, (uint64_t)t->dim[i], 8);
    add_le(b, (uint64_t)id, 4);
    add_le(b, *at, 8);
    *at += (bytes + QN_GGUF_ALIGN - 1) / QN_GGUF_ALIGN * QN_GGUF_ALIGN;
    return QN_OK;
}

int qn_gguf_header(const qn_gguf_writer *w, qn_buf *out, qn_error *err)
{
    uint64_t at = 0;
    int rc = QN_OK;
    qn_buf_str(out, "GGUF");
    add_le(out, 3, 4);
    add_le(out, w->n_tensors, 8);
    add_le(out, w->n_values, 8);
    qn_buf_add(out, w->values.data, w->values.len);
    for (size_t i = 0; i < w->n_tensors && rc == QN_OK; i++)
        rc = add_tensor(out, &w->tensor[i], &at, err);
    pad(out);
    return rc;
}

int qn_gguf_save(const qn_gguf_writer *w, const char *path, qn_error *err)
{
    qn_buf head = { 0 };
    qn_file_writer f;
    int rc = qn_gguf_header(w, &head, err);
    if (rc != QN_OK)
        qn_fail_in(err, rc, "%s", path);
    else
        rc = qn_file_writer_open(&f, path, err);
    if (rc == QN_OK) {
        qn_file_writer_put(&f, head.data, head.len);
        for (size_t i = 0; i < w->n_tensors; i++) {
            size_t bytes = 0;
            size_of(&w->tensor[i], &bytes);
            qn_file_writer_put(&f, w->tensor[i].data, bytes);
            qn_file_writer_pad(&f, QN_GGUF_ALIGN);
        }
        rc = qn_file_writer_commit(&f, err);
    }
    qn_buf_free(&head);
    return rc;
}

void qn_gguf_writer_free(qn_gguf_writer *w)
{
    qn_buf_free(&w->values);
    qn_free(w->tensor);
    *w = (qn_gguf_writer){ 0 };
}
