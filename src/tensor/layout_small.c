/* layout_small.c - GGUF's codebook, microscaling, ternary and one-bit blocks.
 *
 * MXFP4 here is GGUF's: the low nibbles of a block are its first 16 elements. The MLX and GPT-OSS order
 * (neighbours share a byte) is a grouped layout, see grouped.c. */
#include <math.h>

#include "tensor/float8.h"
#include "tensor/layout_codecs.h"

/* The 16 non-uniform levels of IQ4_NL and IQ4_XS. */
static const int8_t iq4_level[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113 };

const float qn_e2m1[16] = { 0,     0.5f,  1,  1.5f,  2,  3,  4,  6, /* bit 3 is the sign */
                            -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6 };

void qn_decode_iq4_nl(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 32, out += 32, b += 18) {
        float d = load_f16(b);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)iq4_level[b[2 + j] & 15];
            out[j + 16] = d * (float)iq4_level[b[2 + j] >> 4];
        }
    }
}

void qn_decode_iq4_xs(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 136) {
        float d = load_f16(b);
        uint32_t high = load_u16(b + 2);
        for (int s = 0; s < 8; s++) {
            const uint8_t *qs = b + 8 + 16 * s;
            int low = b[4 + s / 2] >> (4 * (s % 2)) & 15;
            float ds = d * (float)((low | (int)(high >> (2 * s) & 3) << 4) - 32);
            for (int j = 0; j < 16; j++) {
                out[32 * s + j] = ds * (float)iq4_level[qs[j] & 15];
                out[32 * s + j + 16] = ds * (float)iq4_level[qs[j] >> 4];
            }
        }
    }
}

void qn_decode_mxfp4(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 32, out += 32, b += 17) {
        float d = qn_f8_e8m0_to_f32(b[0]);
        for (int j = 0; j < 16; j++) {
            out[j] = d * qn_e2m1[b[1 + j] & 15];
            out[j + 16] = d * qn_e2m1[b[1 + j] >> 4];
        }
    }
}

void qn_decode_nvfp4(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 64, out += 64, b += 36)
        for (int s = 0; s < 4; s++) {
            const uint8_t *qs = b + 4 + 8 * s;
            uint8_t e =
                b[s] & 0x7f; /* unsigned: the sign bit has no meaning; 0x7f stands for zero */
            float d = e == 0x7f ? 0 : qn_f8_e4m3_to_f32(e);
            for (int j = 0; j < 8; j++) {
                out[16 * s + j] = d * qn_e2m1[qs[j] & 15];
                out[16 * s + j + 8] = d * qn_e2m1[qs[j] >> 4];
            }
        }
}

/* Digit `k` of the byte read as a base-3 fraction: 0, 1 or 2. */
static int trit(uint8_t byte, int k)
{
    static const uint8_t pow3[5] = { 1, 3, 9, 27, 81 };
    return (uint8_t)(byte * pow3[k]) * 3 >> 8;
}

void qn_decode_tq1_0(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 54) {
        float d = load_f16(b + 52);
        for (int i = 0; i < 256; i++) {
            /* 160 elements in 32 bytes, 80 in 16, 16 in 4: a byte's digits are a run length apart. */
            int t = i < 160   ? trit(b[i % 32], i / 32)
                    : i < 240 ? trit(b[32 + (i - 160) % 16], (i - 160) / 16)
                              : trit(b[48 + (i - 240) % 4], (i - 240) / 4);
            out[i] = d * (float)(t - 1);
        }
    }
}

void qn_decode_tq2_0(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 66) {
        float d = load_f16(b + 64);
        for (int i = 0; i < 256; i++) {
            int q = b[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
            out[i] = d * (float)(q - 1);
        }
    }
}

void qn_decode_q1_0(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 128, out += 128, b += 18) {
        float d = load_f16(b);
        for (int i = 0; i < 128; i++)
            out[i] = b[2 + i / 8] >> (i % 8) & 1 ? d : -d;
    }
}
