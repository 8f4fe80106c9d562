/* gguf_internal.h - shared by the files that make up the GGUF reader. */
#ifndef QN_FORMATS_GGUF_INTERNAL_H
#define QN_FORMATS_GGUF_INTERNAL_H

#include "formats/gguf.h"

#define QN_GGUF_MAX_KEYS    65536
#define QN_GGUF_MAX_TENSORS 1048576
#define QN_GGUF_MAX_NAME    4096 /* of keys and tensors; writers keep to 64 */
#define QN_GGUF_MAX_DEPTH   4    /* arrays inside arrays */
#define QN_GGUF_ALIGN       32   /* unless general.alignment says otherwise */

/* Bytes of a metadata type of fixed size; 0 for strings, arrays and unknown ones. */
int qn_gguf_type_bytes(uint32_t type);

/* Bytes of one item at p (a string or an array with its header); trusts that it was checked before. */
uint64_t qn_gguf_item_bytes(uint32_t type, const uint8_t *p);

#endif
