/* gguf_types.c - ggml's numbers for tensor types, and the sizes of metadata types. */
#include "formats/gguf_internal.h"

typedef struct type_row {
    uint16_t id;
    qn_layout layout;
} type_row;

static const type_row types[] = {
    { 0, QN_F32 },     { 1, QN_F16 },      { 2, QN_Q4_0 },   { 3, QN_Q4_1 },    { 6, QN_Q5_0 },
    { 7, QN_Q5_1 },    { 8, QN_Q8_0 },     { 9, QN_Q8_1 },   { 10, QN_Q2_K },   { 11, QN_Q3_K },
    { 12, QN_Q4_K },   { 13, QN_Q5_K },    { 14, QN_Q6_K },  { 15, QN_Q8_K },   { 16, QN_IQ2_XXS },
    { 17, QN_IQ2_XS }, { 18, QN_IQ3_XXS }, { 19, QN_IQ1_S }, { 20, QN_IQ4_NL }, { 21, QN_IQ3_S },
    { 22, QN_IQ2_S },  { 23, QN_IQ4_XS },  { 24, QN_I8 },    { 25, QN_I16 },    { 26, QN_I32 },
    { 27, QN_I64 },    { 28, QN_F64 },     { 29, QN_IQ1_M }, { 30, QN_BF16 },   { 34, QN_TQ1_0 },
    { 35, QN_TQ2_0 },  { 39, QN_MXFP4 },   { 40, QN_NVFP4 }, { 41, QN_Q1_0 },
};

int qn_gguf_layout(uint32_t id, qn_layout *out, const char *where, qn_error *err)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].id == id) {
            *out = types[i].layout;
            return QN_OK;
        }
    if (id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38))
        return qn_fail(err, QN_ERR_UNSUPPORTED,
                       "%s: tensor type %u was removed from GGUF; convert the model again", where,
                       id);
    return qn_fail(err, QN_ERR_UNSUPPORTED, "%s: unknown tensor type %u%s", where, id,
                   id >= 97 ? " (not a standard GGUF type)" : "");
}

int qn_gguf_type_id(qn_layout l)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].layout == l)
            return types[i].id;
    return -1;
}

int qn_gguf_type_bytes(uint32_t type)
{
    static const uint8_t bytes[QN_GGUF_N_TYPES] = {
        [QN_GGUF_U8] = 1,  [QN_GGUF_I8] = 1,  [QN_GGUF_U16] = 2, [QN_GGUF_I16] = 2,
        [QN_GGUF_U32] = 4, [QN_GGUF_I32] = 4, [QN_GGUF_F32] = 4, [QN_GGUF_BOOL] = 1,
        [QN_GGUF_U64] = 8, [QN_GGUF_I64] = 8, [QN_GGUF_F64] = 8,
    };
    return type < QN_GGUF_N_TYPES ? bytes[type] : 0;
}
