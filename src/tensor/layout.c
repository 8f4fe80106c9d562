/* layout.c - the table of layouts: sizes, names, and who decodes what. */
#include "tensor/layout.h"

#include <assert.h>

#include "base/mem.h"
#include "tensor/layout_codecs.h"

/* The list in layout.h as constants that an initialiser may use. */
#define X(name, text, elems, bytes)                                                                \
    static const char text_##name[] = text;                                                        \
    enum { ELEMS_##name = elems, BYTES_##name = bytes };
QN_LAYOUTS(X)
#undef X

#define ROW(name, decode, encode)                                                                  \
    [QN_##name] = { text_##name, ELEMS_##name, BYTES_##name, decode, encode }

/* Without a decoder: integers, the activation formats Q8_1 and Q8_K, and the grouped layouts, whose bytes are
 * no single run of blocks (weight.c decodes those). */
static const qn_layout_info table[QN_N_LAYOUTS] = {
    /* clang-format off */
    ROW(F32, qn_decode_f32, qn_encode_f32),
    ROW(F16, qn_decode_f16, qn_encode_f16),
    ROW(BF16, qn_decode_bf16, qn_encode_bf16),
    ROW(F64, qn_decode_f64, NULL),
    ROW(I8, NULL, NULL),
    ROW(I16, NULL, NULL),
    ROW(I32, NULL, NULL),
    ROW(I64, NULL, NULL),
    ROW(U8, NULL, NULL),
    ROW(U16, NULL, NULL),
    ROW(U32, NULL, NULL),
    ROW(U64, NULL, NULL),
    ROW(BOOL, NULL, NULL),
    ROW(F8_E4M3, qn_decode_f8_e4m3, NULL),
    ROW(F8_E5M2, qn_decode_f8_e5m2, NULL),
    ROW(F8_E8M0, qn_decode_f8_e8m0, NULL),
    ROW(Q4_0, qn_decode_q4_0, qn_encode_q4_0),
    ROW(Q4_1, qn_decode_q4_1, qn_encode_q4_1),
    ROW(Q5_0, qn_decode_q5_0, qn_encode_q5_0),
    ROW(Q5_1, qn_decode_q5_1, qn_encode_q5_1),
    ROW(Q8_0, qn_decode_q8_0, qn_encode_q8_0),
    ROW(Q8_1, NULL, NULL),
    ROW(Q2_K, qn_decode_q2_k, NULL),
    ROW(Q3_K, qn_decode_q3_k, NULL),
    ROW(Q4_K, qn_decode_q4_k, NULL),
    ROW(Q5_K, qn_decode_q5_k, NULL),
    ROW(Q6_K, qn_decode_q6_k, NULL),
    ROW(Q8_K, NULL, NULL),
    ROW(IQ1_S, qn_decode_iq1_s, NULL),
    ROW(IQ1_M, qn_decode_iq1_m, NULL),
    ROW(IQ2_XXS, qn_decode_iq2_xxs, NULL),
    ROW(IQ2_XS, qn_decode_iq2_xs, NULL),
    ROW(IQ2_S, qn_decode_iq2_s, NULL),
    ROW(IQ3_XXS, qn_decode_iq3_xxs, NULL),
    ROW(IQ3_S, qn_decode_iq3_s, NULL),
    ROW(IQ4_NL, qn_decode_iq4_nl, NULL),
    ROW(IQ4_XS, qn_decode_iq4_xs, NULL),
    ROW(TQ1_0, qn_decode_tq1_0, NULL),
    ROW(TQ2_0, qn_decode_tq2_0, NULL),
    ROW(MXFP4, qn_decode_mxfp4, NULL),
    ROW(NVFP4, qn_decode_nvfp4, NULL),
    ROW(Q1_0, qn_decode_q1_0, NULL),
    ROW(AFFINE, NULL, NULL),
    ROW(GROUP_MXFP4, NULL, NULL),
    ROW(GROUP_MXFP8, NULL, NULL),
    ROW(GROUP_NVFP4, NULL, NULL),
    ROW(FP8_BLOCK, NULL, NULL),
    /* clang-format on */
};

const qn_layout_info *qn_layout_get(qn_layout l)
{
    assert((unsigned)l < QN_N_LAYOUTS);
    return &table[l];
}

bool qn_layout_find(const char *name, qn_layout *out)
{
    for (int l = 0; l < QN_N_LAYOUTS; l++)
        if (strcmp(table[l].name, name) == 0) {
            *out = (qn_layout)l;
            return true;
        }
    return false;
}

bool qn_layout_bytes(qn_layout l, int64_t n, size_t *out)
{
    const qn_layout_info *info = qn_layout_get(l);
    if (info->block_elems == 0 || n < 0 || n % info->block_elems != 0)
        return false;
    return qn_mul_size((size_t)(n / info->block_elems), info->block_bytes, out);
}
