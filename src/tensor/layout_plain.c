/* layout_plain.c - float formats of one element each: conversions and the decoders made of them.
 *
 * Written on the bits, so that every compiler and machine gives the same result; subnormals, infinities and
 * NaN are kept. Fast conversions of whole rows are the kernels' business. */
#include <math.h>

#include "tensor/float8.h"
#include "tensor/layout_codecs.h"

float qn_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exp = h >> 10 & 31, man = h & 1023;
    if (exp == 31)
        return bits_to_f32(sign | 0x7f800000 | man << 13);
    if (exp == 0) /* subnormal: man * 2^-24, exact in f32 */
        return bits_to_f32(sign | f32_to_bits((float)man * 0x1p-24f));
    return bits_to_f32(sign | (exp + 112) << 23 | man << 13);
}

uint16_t qn_f32_to_f16(float f)
{
    uint32_t bits = f32_to_bits(f), sign = bits >> 16 & 0x8000, mag = bits & 0x7fffffff;
    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    if (mag >= 0x477ff000) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (mag < 0x38800000) {
        /* Below 2^-14: the unit in the last place of 0.5 is 2^-24, so the addition rounds for us. */
        float shifted = bits_to_f32(mag) + 0.5f;
        return (uint16_t)(sign | (f32_to_bits(shifted) - 0x3f000000));
    }
    mag += 0xfff + (mag >> 13 & 1); /* a carry moves into the exponent, as it must */
    return (uint16_t)(sign | (mag - 0x38000000) >> 13);
}

float qn_bf16_to_f32(uint16_t h)
{
    return bits_to_f32((uint32_t)h << 16);
}

uint16_t qn_f32_to_bf16(float f)
{
    uint32_t bits = f32_to_bits(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 |
                          0x40); /* a quiet NaN: its payload may lie in the lost half */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float qn_f8_e4m3_to_f32(uint8_t b)
{
    /* The "fn" kind: bias 7, no infinity, all ones is NaN. */
    uint32_t sign = (uint32_t)(b & 0x80) << 24, exp = b >> 3 & 15, man = b & 7;
    if (exp == 15 && man == 7)
        return bits_to_f32(sign | 0x7fc00000);
    if (exp == 0)
        return bits_to_f32(sign | f32_to_bits((float)man * 0x1p-9f));
    return bits_to_f32(sign | (exp + 120) << 23 | man << 20);
}

float qn_f8_e5m2_to_f32(uint8_t b)
{
    return qn_f16_to_f32((uint16_t)(b << 8)); /* the upper half of an f16 */
}

float qn_f8_e8m0_to_f32(uint8_t b)
{
    if (b == 255)
        return NAN;
    return bits_to_f32(b == 0 ? 0x00400000
                              : (uint32_t)b << 23); /* 2^(b - 127); 2^-127 is subnormal */
}

void qn_decode_f32(const void *in, float *out, int64_t n)
{
    memcpy(out, in, (size_t)n * sizeof *out);
}

void qn_decode_f16(const void *in, float *out, int64_t n)
{
    const uint8_t *p = in;
    for (int64_t i = 0; i < n; i++)
        out[i] = load_f16(p + 2 * i);
}

void qn_decode_bf16(const void *in, float *out, int64_t n)
{
    const uint8_t *p = in;
    for (int64_t i = 0; i < n; i++)
        out[i] = qn_bf16_to_f32(load_u16(p + 2 * i));
}

void qn_decode_f64(const void *in, float *out, int64_t n)
{
    const uint8_t *p = in;
    for (int64_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, p + 8 * i, sizeof d);
        out[i] = (float)d;
    }
}

void qn_decode_f8_e4m3(const void *in, float *out, int64_t n)
{
    const uint8_t *p = in;
    for (int64_t i = 0; i < n; i++)
        out[i] = qn_f8_e4m3_to_f32(p[i]);
}

void qn_decode_f8_e5m2(const void *in, float *out, int64_t n)
{
    const uint8_t *p = in;
    for (int64_t i = 0; i < n; i++)
        out[i] = qn_f8_e5m2_to_f32(p[i]);
}

void qn_decode_f8_e8m0(const void *in, float *out, int64_t n)
{
    const uint8_t *p = in;
    for (int64_t i = 0; i < n; i++)
        out[i] = qn_f8_e8m0_to_f32(p[i]);
}

void qn_encode_f32(const float *x, void *out, int64_t n)
{
    memcpy(out, x, (size_t)n * sizeof *x);
}

void qn_encode_f16(const float *x, void *out, int64_t n)
{
    uint8_t *p = out;
    for (int64_t i = 0; i < n; i++)
        store_u16(p + 2 * i, qn_f32_to_f16(x[i]));
}

void qn_encode_bf16(const float *x, void *out, int64_t n)
{
    uint8_t *p = out;
    for (int64_t i = 0; i < n; i++)
        store_u16(p + 2 * i, qn_f32_to_bf16(x[i]));
}
