/* layout_codecs.h - the decoders and encoders behind the layout table, and the scalar steps they share.
 * Private to src/tensor. Each decoder is the definition of its layout; its file cites the byte order. */
#ifndef QN_TENSOR_LAYOUT_CODECS_H
#define QN_TENSOR_LAYOUT_CODECS_H

#include <string.h>

#include "tensor/layout.h"

/* Plain element types: layout_plain.c. */
void qn_decode_f32(const void *in, float *out, int64_t n);
void qn_decode_f16(const void *in, float *out, int64_t n);
void qn_decode_bf16(const void *in, float *out, int64_t n);
void qn_decode_f64(const void *in, float *out, int64_t n);
void qn_decode_f8_e4m3(const void *in, float *out, int64_t n);
void qn_decode_f8_e5m2(const void *in, float *out, int64_t n);
void qn_decode_f8_e8m0(const void *in, float *out, int64_t n);
void qn_encode_f32(const float *x, void *out, int64_t n);
void qn_encode_f16(const float *x, void *out, int64_t n);
void qn_encode_bf16(const float *x, void *out, int64_t n);

/* Blocks of 32 with one scale: layout_block32.c. */
void qn_decode_q4_0(const void *in, float *out, int64_t n);
void qn_decode_q4_1(const void *in, float *out, int64_t n);
void qn_decode_q5_0(const void *in, float *out, int64_t n);
void qn_decode_q5_1(const void *in, float *out, int64_t n);
void qn_decode_q8_0(const void *in, float *out, int64_t n);
void qn_encode_q4_0(const float *x, void *out, int64_t n);
void qn_encode_q4_1(const float *x, void *out, int64_t n);
void qn_encode_q5_0(const float *x, void *out, int64_t n);
void qn_encode_q5_1(const float *x, void *out, int64_t n);
void qn_encode_q8_0(const float *x, void *out, int64_t n);

/* Superblocks of 256 with scales of scales: layout_kquant.c. */
void qn_decode_q2_k(const void *in, float *out, int64_t n);
void qn_decode_q3_k(const void *in, float *out, int64_t n);
void qn_decode_q4_k(const void *in, float *out, int64_t n);
void qn_decode_q5_k(const void *in, float *out, int64_t n);
void qn_decode_q6_k(const void *in, float *out, int64_t n);

/* Codebooks, microscaling, ternary and one bit: layout_small.c. */
void qn_decode_iq4_nl(const void *in, float *out, int64_t n);
void qn_decode_iq4_xs(const void *in, float *out, int64_t n);
void qn_decode_mxfp4(const void *in, float *out, int64_t n);
void qn_decode_nvfp4(const void *in, float *out, int64_t n);
void qn_decode_tq1_0(const void *in, float *out, int64_t n);
void qn_decode_tq2_0(const void *in, float *out, int64_t n);
void qn_decode_q1_0(const void *in, float *out, int64_t n);

/* Lattices: layout_lattice.c. */
void qn_decode_iq1_s(const void *in, float *out, int64_t n);
void qn_decode_iq1_m(const void *in, float *out, int64_t n);
void qn_decode_iq2_xxs(const void *in, float *out, int64_t n);
void qn_decode_iq2_xs(const void *in, float *out, int64_t n);
void qn_decode_iq2_s(const void *in, float *out, int64_t n);
void qn_decode_iq3_xxs(const void *in, float *out, int64_t n);
void qn_decode_iq3_s(const void *in, float *out, int64_t n);

static inline uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline float load_f16(const uint8_t *p)
{
    return qn_f16_to_f32(load_u16(p));
}

static inline void store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline float bits_to_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t f32_to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

#endif
