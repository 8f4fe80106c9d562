/* gguf_value.c - typed access to metadata that gguf.c has checked: no bounds can fail here. */
#include <string.h>

#include "formats/gguf_internal.h"

static uint64_t load_le(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

/* Any whole-number type as int64_t. Writers differ in which width they choose for the same key, so readers must not
 * care. */
static bool read_int(uint32_t type, const uint8_t *p, int64_t *out)
{
    switch (type) {
    case QN_GGUF_U8:
    case QN_GGUF_U16:
    case QN_GGUF_U32:
        *out = (int64_t)load_le(p, qn_gguf_type_bytes(type));
        return true;
    case QN_GGUF_BOOL:
        *out = p[0] != 0;
        return true;
    case QN_GGUF_I8:
        *out = (int8_t)p[0];
        return true;
    case QN_GGUF_I16:
        *out = (int16_t)load_le(p, 2);
        return true;
    case QN_GGUF_I32:
        *out = (int32_t)load_le(p, 4);
        return true;
    case QN_GGUF_I64:
    case QN_GGUF_U64:
        *out = (int64_t)load_le(p, 8);
        return type == QN_GGUF_I64 || *out >= 0;
    default:
        return false;
    }
}

/* Any number at all as a double. */
static bool read_num(uint32_t type, const uint8_t *p, double *out)
{
    int64_t i;
    float f;
    if (type == QN_GGUF_F32) {
        memcpy(&f, p, sizeof f);
        *out = f;
    } else if (type == QN_GGUF_F64) {
        memcpy(out, p, sizeof *out);
    } else if (read_int(type, p, &i)) {
        *out = (double)i;
    } else if (type == QN_GGUF_U64) {
        *out = (double)load_le(p, 8);
    } else {
        return false;
    }
    return true;
}

bool qn_gguf_value_int(const qn_gguf_value *v, int64_t *out)
{
    return v && read_int(v->type, v->data, out);
}

bool qn_gguf_value_num(const qn_gguf_value *v, double *out)
{
    return v && read_num(v->type, v->data, out);
}

/* A string at its length prefix. */
static qn_gguf_str read_str(const uint8_t *p)
{
    return (qn_gguf_str){ (const char *)p + 8, (size_t)load_le(p, 8) };
}

bool qn_gguf_value_str(const qn_gguf_value *v, qn_gguf_str *out)
{
    if (!v || v->type != QN_GGUF_STR)
        return false;
    *out = read_str(v->data);
    return true;
}

size_t qn_gguf_array_len(const qn_gguf_value *v)
{
    return v && v->type == QN_GGUF_ARRAY ? (size_t)v->n : 0;
}

uint64_t qn_gguf_item_bytes(uint32_t type, const uint8_t *p)
{
    if (type == QN_GGUF_STR)
        return 8 + load_le(p, 8);
    if (type != QN_GGUF_ARRAY)
        return (uint64_t)qn_gguf_type_bytes(type);
    uint32_t elem = (uint32_t)load_le(p, 4);
    uint64_t n = load_le(p + 4, 8), bytes = 12;
    int fixed = qn_gguf_type_bytes(elem);
    if (fixed)
        return bytes + n * (uint64_t)fixed;
    for (uint64_t i = 0; i < n; i++)
        bytes += qn_gguf_item_bytes(elem, p + bytes);
    return bytes;
}

/* Where item i of an array begins; NULL when there is none. */
static const uint8_t *item(const qn_gguf_value *v, size_t i)
{
    if (i >= qn_gguf_array_len(v))
        return NULL;
    int fixed = qn_gguf_type_bytes(v->elem_type);
    if (fixed)
        return v->data + i * (size_t)fixed;
    if (v->offset)
        return v->data + v->offset[i];
    const uint8_t *p = v->data;
    while (i-- > 0)
        p += qn_gguf_item_bytes(v->elem_type, p);
    return p;
}

bool qn_gguf_array_int(const qn_gguf_value *v, size_t i, int64_t *out)
{
    const uint8_t *p = item(v, i);
    return p && read_int(v->elem_type, p, out);
}

bool qn_gguf_array_num(const qn_gguf_value *v, size_t i, double *out)
{
    const uint8_t *p = item(v, i);
    return p && read_num(v->elem_type, p, out);
}

bool qn_gguf_array_str(const qn_gguf_value *v, size_t i, qn_gguf_str *out)
{
    const uint8_t *p = item(v, i);
    if (!p || v->elem_type != QN_GGUF_STR)
        return false;
    *out = read_str(p);
    return true;
}

bool qn_gguf_array_array(const qn_gguf_value *v, size_t i, qn_gguf_value *out)
{
    const uint8_t *p = item(v, i);
    if (!p || v->elem_type != QN_GGUF_ARRAY)
        return false;
    *out = (qn_gguf_value){ .key = v->key,
                            .type = QN_GGUF_ARRAY,
                            .elem_type = (uint8_t)load_le(p, 4),
                            .n = load_le(p + 4, 8),
                            .data = p + 12 };
    return true;
}

const void *qn_gguf_array_raw(const qn_gguf_value *v, qn_gguf_type elem_type)
{
    bool same = v && v->type == QN_GGUF_ARRAY && v->elem_type == elem_type;
    return same && qn_gguf_type_bytes(elem_type) ? v->data : NULL;
}

int64_t qn_gguf_int(const qn_gguf *g, const char *key, int64_t fallback)
{
    int64_t i;
    return qn_gguf_value_int(qn_gguf_get(g, key), &i) ? i : fallback;
}

double qn_gguf_num(const qn_gguf *g, const char *key, double fallback)
{
    double d;
    return qn_gguf_value_num(qn_gguf_get(g, key), &d) ? d : fallback;
}

bool qn_gguf_bool(const qn_gguf *g, const char *key, bool fallback)
{
    return qn_gguf_int(g, key, fallback) != 0;
}

bool qn_gguf_string(const qn_gguf *g, const char *key, qn_gguf_str *out)
{
    return qn_gguf_value_str(qn_gguf_get(g, key), out);
}
