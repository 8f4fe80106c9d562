/* layout.h - how numbers are stored: plain types, GGUF blocks, MLX and other packed weight layouts.
 *
 * A layout is defined by its plain C decoder (layout_*.c): everything else, the fast kernels too, must agree
 * with it. Blocks of a row lie one after the other; a row never shares a block with the next one. */
#ifndef QN_TENSOR_LAYOUT_H
#define QN_TENSOR_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name in code, name for people, elements a block, bytes a block. The GROUPED ones (codes, scales and biases
 * in tensors of their own) have their sizes in the qn_weight: 0 here. */
#define QN_LAYOUTS(X)                                                                              \
    X(F32, "f32", 1, 4)                                                                            \
    X(F16, "f16", 1, 2)                                                                            \
    X(BF16, "bf16", 1, 2)                                                                          \
    X(F64, "f64", 1, 8)                                                                            \
    X(I8, "i8", 1, 1)                                                                              \
    X(I16, "i16", 1, 2)                                                                            \
    X(I32, "i32", 1, 4)                                                                            \
    X(I64, "i64", 1, 8)                                                                            \
    X(U8, "u8", 1, 1)                                                                              \
    X(U16, "u16", 1, 2)                                                                            \
    X(U32, "u32", 1, 4)                                                                            \
    X(U64, "u64", 1, 8)                                                                            \
    X(BOOL, "bool", 1, 1)                                                                          \
    X(F8_E4M3, "f8_e4m3", 1, 1)                                                                    \
    X(F8_E5M2, "f8_e5m2", 1, 1)                                                                    \
    X(F8_E8M0, "f8_e8m0", 1, 1)                                                                    \
    X(Q4_0, "q4_0", 32, 18)                                                                        \
    X(Q4_1, "q4_1", 32, 20)                                                                        \
    X(Q5_0, "q5_0", 32, 22)                                                                        \
    X(Q5_1, "q5_1", 32, 24)                                                                        \
    X(Q8_0, "q8_0", 32, 34)                                                                        \
    X(Q8_1, "q8_1", 32, 36)                                                                        \
    X(Q2_K, "q2_k", 256, 84)                                                                       \
    X(Q3_K, "q3_k", 256, 110)                                                                      \
    X(Q4_K, "q4_k", 256, 144)                                                                      \
    X(Q5_K, "q5_k", 256, 176)                                                                      \
    X(Q6_K, "q6_k", 256, 210)                                                                      \
    X(Q8_K, "q8_k", 256, 292)                                                                      \
    X(IQ1_S, "iq1_s", 256, 50)                                                                     \
    X(IQ1_M, "iq1_m", 256, 56)                                                                     \
    X(IQ2_XXS, "iq2_xxs", 256, 66)                                                                 \
    X(IQ2_XS, "iq2_xs", 256, 74)                                                                   \
    X(IQ2_S, "iq2_s", 256, 82)                                                                     \
    X(IQ3_XXS, "iq3_xxs", 256, 98)                                                                 \
    X(IQ3_S, "iq3_s", 256, 110)                                                                    \
    X(IQ4_NL, "iq4_nl", 32, 18)                                                                    \
    X(IQ4_XS, "iq4_xs", 256, 136)                                                                  \
    X(TQ1_0, "tq1_0", 256, 54)                                                                     \
    X(TQ2_0, "tq2_0", 256, 66)                                                                     \
    X(MXFP4, "mxfp4", 32, 17)                                                                      \
    X(NVFP4, "nvfp4", 64, 36)                                                                      \
    X(Q1_0, "q1_0", 128, 18)                                                                       \
    X(AFFINE, "affine", 0, 0)      /* MLX: codes u32, scales and biases a group */                 \
    X(GROUP_MXFP4, "mxfp4g", 0, 0) /* MLX and GPT-OSS: codes, E8M0 scales */                       \
    X(GROUP_MXFP8, "mxfp8g", 0, 0)                                                                 \
    X(GROUP_NVFP4, "nvfp4g", 0, 0)                                                                 \
    X(FP8_BLOCK, "fp8_block", 0, 0) /* E4M3 with one scale a 2D block */

typedef enum qn_layout {
#define X(name, text, elems, bytes) QN_##name,
    QN_LAYOUTS(X)
#undef X
        QN_N_LAYOUTS
} qn_layout;

typedef struct qn_layout_info {
    const char *name;
    uint16_t block_elems, block_bytes;
    /* Decodes n elements (whole blocks) to f32. NULL: no decoder (integers, grouped layouts). */
    void (*decode)(const void *blocks, float *out, int64_t n);
    /* The reference quantiser, where the layout has one: n elements (whole blocks). */
    void (*encode)(const float *x, void *blocks, int64_t n);
} qn_layout_info;

const qn_layout_info *qn_layout_get(qn_layout l);
bool qn_layout_find(const char *name, qn_layout *out);

/* Bytes of n elements (a whole number of blocks); false on overflow or when n is no whole number of blocks. */
bool qn_layout_bytes(qn_layout l, int64_t n, size_t *out);

float qn_f16_to_f32(uint16_t h);
uint16_t qn_f32_to_f16(float f); /* nearest even */
float qn_bf16_to_f32(uint16_t h);
uint16_t qn_f32_to_bf16(float f); /* nearest even, NaN stays NaN */

#endif
