/* safetensors_write.c - writes one safetensors file.
 *
 * The format allows no gaps, so tensors are ordered by element size, largest first: then each begins at a
 * multiple of its element and readers may use it where it lies. The header is padded with spaces so that the
 * data begin at a multiple of 64. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "formats/file_writer.h"
#include "formats/safetensors.h"

static int by_element(const void *a, const void *b)
{
    const qn_st_tensor *x = *(const qn_st_tensor *const *)a, *y = *(const qn_st_tensor *const *)b;
    int ex = qn_layout_get((qn_layout)x->layout)->block_bytes,
        ey = qn_layout_get((qn_layout)y->layout)->block_bytes;
    return ex != ey ? ey - ex : strcmp(x->name, y->name);
}

static bool size_of(const qn_st_tensor *t, size_t *bytes)
{
    int64_t elems = 1;
    for (int i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(elems, t->dim[i], &elems))
            return false;
    return qn_layout_bytes((qn_layout)t->layout, elems, bytes);
}

/* Appends one tensor's entry and moves *at past its data. */
static int put_entry(qn_buf *b, const qn_st_tensor *t, size_t *at, qn_error *err)
{
    size_t bytes;
    const char *dtype = qn_st_dtype((qn_layout)t->layout);
    if (!dtype)
        return qn_fail(err, QN_ERR_UNSUPPORTED, "tensor '%s': safetensors has no dtype for %s",
                       t->name, qn_layout_get((qn_layout)t->layout)->name);
    if (t->n_dims > QN_ST_MAX_DIMS || !size_of(t, &bytes))
        return qn_fail(err, QN_ERR_ARGUMENT, "tensor '%s': bad shape", t->name);
    qn_buf_char(b, ',');
    qn_json_put_str(b, t->name, strlen(t->name));
    qn_buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
    for (int i = 0; i < t->n_dims; i++)
        qn_buf_printf(b, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    qn_buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", *at, *at + bytes);
    *at += bytes;
    return QN_OK;
}

static int write_all(const char *path, const qn_buf *head, const qn_st_tensor **t, size_t n,
                     qn_error *err)
{
    qn_file_writer w;
    int rc = qn_file_writer_open(&w, path, err);
    if (rc != QN_OK)
        return rc;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)((uint64_t)head->len >> (8 * i));
    qn_file_writer_put(&w, length, sizeof length);
    qn_file_writer_put(&w, head->data, head->len);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = 0;
        size_of(t[i], &bytes);
        qn_file_writer_put(&w, t[i]->data, bytes);
    }
    return qn_file_writer_commit(&w, err);
}

int qn_st_write(const char *path, const qn_st_tensor *t, size_t n, qn_error *err)
{
    const qn_st_tensor **sorted = qn_alloc_n(n, sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &t[i];
    qsort(sorted, n, sizeof *sorted, by_element);
    qn_buf head = { 0 };
    qn_buf_str(&head, "{\"__metadata__\":{\"format\":\"pt\"}"); /* transformers wants the key */
    size_t at = 0;
    int rc = QN_OK;
    for (size_t i = 0; i < n && rc == QN_OK; i++)
        rc = put_entry(&head, sorted[i], &at, err);
    qn_buf_char(&head, '}');
    while ((head.len + 8) % 64 != 0)
        qn_buf_char(&head, ' ');
    if (rc == QN_OK)
        rc = write_all(path, &head, sorted, n, err);
    else
        qn_fail_in(err, rc, "%s", path);
    qn_buf_free(&head);
    qn_free(sorted);
    return rc;
}
