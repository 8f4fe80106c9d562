/* layout_block32.c - GGUF's blocks of 32: a scale, perhaps a minimum, and codes of 4, 5 or 8 bits.
 *
 * In the 4- and 5-bit ones byte j of qs holds element j (low nibble) and element j + 16 (high nibble); bit i
 * of the word qh is the fifth bit of element i. The encoders round exactly as the reference quantiser does,
 * so that files made here equal files made elsewhere. */
#include <math.h>

#include "tensor/layout_codecs.h"

/* Byte offsets inside a block: the f16 scale is at 0 in all of them. */
enum { Q4_0_QS = 2, Q4_1_QS = 4, Q5_0_QS = 6, Q5_1_QS = 8, Q8_0_QS = 2 };

void qn_decode_q4_0(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (int64_t i = 0; i < n; i += 32, b += 18) {
        float d = load_f16(b);
        for (int j = 0; j < 16; j++) {
            uint8_t q = b[Q4_0_QS + j];
            out[i + j] = d * (float)((q & 15) - 8);
            out[i + j + 16] = d * (float)((q >> 4) - 8);
        }
    }
}

void qn_decode_q4_1(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (int64_t i = 0; i < n; i += 32, b += 20) {
        float d = load_f16(b), m = load_f16(b + 2);
        for (int j = 0; j < 16; j++) {
            uint8_t q = b[Q4_1_QS + j];
            out[i + j] = d * (float)(q & 15) + m;
            out[i + j + 16] = d * (float)(q >> 4) + m;
        }
    }
}

/* The 32 codes of 5 bits: nibbles at qs, fifth bits in qh. */
static void unpack5(const uint8_t *qs, uint32_t qh, int *q)
{
    for (int j = 0; j < 16; j++) {
        q[j] = (qs[j] & 15) | (int)(qh >> j & 1) << 4;
        q[j + 16] = qs[j] >> 4 | (int)(qh >> (j + 16) & 1) << 4;
    }
}

void qn_decode_q5_0(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    int q[32];
    for (int64_t i = 0; i < n; i += 32, b += 22) {
        float d = load_f16(b);
        unpack5(b + Q5_0_QS, load_u32(b + 2), q);
        for (int j = 0; j < 32; j++)
            out[i + j] = d * (float)(q[j] - 16);
    }
}

void qn_decode_q5_1(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    int q[32];
    for (int64_t i = 0; i < n; i += 32, b += 24) {
        float d = load_f16(b), m = load_f16(b + 2);
        unpack5(b + Q5_1_QS, load_u32(b + 4), q);
        for (int j = 0; j < 32; j++)
            out[i + j] = d * (float)q[j] + m;
    }
}

void qn_decode_q8_0(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (int64_t i = 0; i < n; i += 32, b += 34) {
        float d = load_f16(b);
        for (int j = 0; j < 32; j++)
            out[i + j] = d * (float)(int8_t)b[Q8_0_QS + j];
    }
}

/* The whole part of v, between 0 and max. */
static int clip(float v, int max)
{
    return v > 0 ? v < (float)max ? (int)v : max : 0; /* NaN gives 0 */
}

/* The first element of largest magnitude, sign kept: it is the one that gets the extreme code exactly. */
static float signed_max(const float *x)
{
    float best = x[0];
    for (int j = 1; j < 32; j++)
        if (fabsf(x[j]) > fabsf(best))
            best = x[j];
    return best;
}

/* Symmetric codes 0 .. 2 * half - 1 with `half` as zero. The reference adds half + 0.5 to the product without
 * an intermediate rounding and then truncates; doubles hold that sum. */
static float encode_symmetric(const float *x, int half, int *q)
{
    float d = signed_max(x) / (float)-half;
    float inv = d != 0 ? 1.0f / d : 0.0f;
    for (int j = 0; j < 32; j++)
        q[j] = clip((float)((double)x[j] * (double)inv + (half + 0.5)), 2 * half - 1);
    return d;
}

/* Codes 0 .. max between the block's extremes. Returns the scale, *min is the offset. */
static float encode_range(const float *x, int max, float *min, int *q)
{
    float lo = x[0], hi = x[0];
    for (int j = 1; j < 32; j++) {
        lo = x[j] < lo ? x[j] : lo;
        hi = x[j] > hi ? x[j] : hi;
    }
    float d = (hi - lo) / (float)max;
    float inv = d != 0 ? 1.0f / d : 0.0f;
    for (int j = 0; j < 32; j++)
        q[j] = clip((x[j] - lo) * inv + 0.5f, max);
    *min = lo;
    return d;
}

/* Low nibbles are the first half. */
static void pack_nibbles(uint8_t *qs, const int *q)
{
    for (int j = 0; j < 16; j++)
        qs[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

/* The bits above the nibbles, little-endian. */
static void pack_fifth_bits(uint8_t *qh, const int *q)
{
    uint32_t bits = 0;
    for (int j = 0; j < 32; j++)
        bits |= (uint32_t)(q[j] >> 4) << j;
    store_u16(qh, (uint16_t)bits);
    store_u16(qh + 2, (uint16_t)(bits >> 16));
}

void qn_encode_q4_0(const float *x, void *out, int64_t n)
{
    uint8_t *b = out;
    int q[32];
    for (int64_t i = 0; i < n; i += 32, b += 18) {
        store_u16(b, qn_f32_to_f16(encode_symmetric(x + i, 8, q)));
        pack_nibbles(b + Q4_0_QS, q);
    }
}

void qn_encode_q4_1(const float *x, void *out, int64_t n)
{
    uint8_t *b = out;
    int q[32];
    for (int64_t i = 0; i < n; i += 32, b += 20) {
        float min;
        store_u16(b, qn_f32_to_f16(encode_range(x + i, 15, &min, q)));
        store_u16(b + 2, qn_f32_to_f16(min));
        pack_nibbles(b + Q4_1_QS, q);
    }
}

void qn_encode_q5_0(const float *x, void *out, int64_t n)
{
    uint8_t *b = out;
    int q[32];
    for (int64_t i = 0; i < n; i += 32, b += 22) {
        store_u16(b, qn_f32_to_f16(encode_symmetric(x + i, 16, q)));
        pack_fifth_bits(b + 2, q);
        pack_nibbles(b + Q5_0_QS, q);
    }
}

void qn_encode_q5_1(const float *x, void *out, int64_t n)
{
    uint8_t *b = out;
    int q[32];
    for (int64_t i = 0; i < n; i += 32, b += 24) {
        float min;
        store_u16(b, qn_f32_to_f16(encode_range(x + i, 31, &min, q)));
        store_u16(b + 2, qn_f32_to_f16(min));
        pack_fifth_bits(b + 4, q);
        pack_nibbles(b + Q5_1_QS, q);
    }
}

void qn_encode_q8_0(const float *x, void *out, int64_t n)
{
    uint8_t *b = out;
    for (int64_t i = 0; i < n; i += 32, b += 34) {
        float d = fabsf(signed_max(x + i)) / 127.0f;
        float inv = d != 0 ? 1.0f / d : 0.0f;
        store_u16(b, qn_f32_to_f16(d));
        for (int j = 0; j < 32; j++) {
            float r = roundf(x[i + j] * inv); /* halves away from zero, as the reference */
            b[Q8_0_QS + j] = (uint8_t)(int8_t)(r >= -127 && r <= 127 ? r : r > 0 ? 127 : 0);
        }
    }
}
