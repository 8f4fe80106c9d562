/* layout_kquant.c - GGUF's K quants: superblocks of 256 elements whose sub-blocks have small integer scales,
 * themselves scaled by an f16.
 *
 * The order of multiplications is part of the definition: the superblock's scale times the sub-block's first,
 * rounded to f32, then times the code. */
#include "tensor/layout_codecs.h"

/* Field sub-block s of the 12 packed bytes of Q4_K and Q5_K: 6-bit scale and 6-bit minimum of 8 sub-blocks. */
static void scale_min(const uint8_t *sc, int s, int *scale, int *min)
{
    if (s < 4) {
        *scale = sc[s] & 63;
        *min = sc[s + 4] & 63;
    } else {
        *scale = (sc[s + 4] & 15) | (sc[s - 4] >> 6) << 4;
        *min = sc[s + 4] >> 4 | (sc[s] >> 6) << 4;
    }
}

/* Sub-blocks of 16: scale and minimum are the nibbles of one byte. */
void qn_decode_q2_k(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 84) {
        const uint8_t *qs = b + 16;
        float d = load_f16(b + 80), dmin = load_f16(b + 82);
        for (int i = 0; i < 256; i++) {
            /* 32 bytes for each half of 128; the four quarters of a half are the four 2-bit fields. */
            int q = qs[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
            int sc = b[i / 16];
            float scale = d * (float)(sc & 15), min = dmin * (float)(sc >> 4);
            out[i] = scale * (float)q - min;
        }
    }
}

/* The 16 signed scales of Q3_K: low nibbles in bytes 0..7, two high bits each in bytes 8..11. */
static void q3_scales(const uint8_t *sc, int *scale)
{
    for (int s = 0; s < 16; s++) {
        int low = s < 8 ? sc[s] & 15 : sc[s - 8] >> 4;
        int high = sc[8 + s % 4] >> (2 * (s / 4)) & 3;
        scale[s] = (low | high << 4) - 32;
    }
}

/* Two low bits in qs, the third in a mask that all sub-blocks share. */
void qn_decode_q3_k(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    int scale[16];
    for (; n > 0; n -= 256, out += 256, b += 110) {
        const uint8_t *hmask = b, *qs = b + 32;
        float d = load_f16(b + 108);
        q3_scales(b + 96, scale);
        for (int i = 0; i < 256; i++) {
            int q = qs[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
            int high = hmask[i % 32] >> (i / 32) & 1; /* clear means minus four */
            out[i] = d * (float)scale[i / 16] * (float)(q - (high ? 0 : 4));
        }
    }
}

/* Sub-blocks of 32; scales and minima of six bits. */
void qn_decode_q4_k(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 144) {
        float d = load_f16(b), dmin = load_f16(b + 2);
        for (int s = 0; s < 8; s++) {
            const uint8_t *qs = b + 16 + 32 * (s / 2); /* two sub-blocks share 32 bytes */
            int scale, min, shift = 4 * (s % 2);
            scale_min(b + 4, s, &scale, &min);
            float ds = d * (float)scale, dm = dmin * (float)min;
            for (int j = 0; j < 32; j++)
                out[32 * s + j] = ds * (float)(qs[j] >> shift & 15) - dm;
        }
    }
}

/* As Q4_K, the fifth bits of all eight sub-blocks in 32 bytes. */
void qn_decode_q5_k(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 176) {
        const uint8_t *qh = b + 16;
        float d = load_f16(b), dmin = load_f16(b + 2);
        for (int s = 0; s < 8; s++) {
            const uint8_t *qs = b + 48 + 32 * (s / 2);
            int scale, min, shift = 4 * (s % 2);
            scale_min(b + 4, s, &scale, &min);
            float ds = d * (float)scale, dm = dmin * (float)min;
            for (int j = 0; j < 32; j++) {
                int q = (qs[j] >> shift & 15) | (qh[j] >> s & 1) << 4;
                out[32 * s + j] = ds * (float)q - dm;
            }
        }
    }
}

/* Sub-blocks of 16 with signed scales of a whole byte and no minimum. */
void qn_decode_q6_k(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 210) {
        const int8_t *sc = (const int8_t *)b + 192;
        float d = load_f16(b + 208);
        for (int i = 0; i < 256; i++) {
            /* Quarter r of a half: low nibbles for r 0 and 1, high ones for 2 and 3, from two runs of 32
             * bytes; the top two bits are field r of the half's 32 bytes of qh. */
            int half = i / 128, r = i % 128 / 32, j = i % 32;
            int low = b[64 * half + 32 * (r % 2) + j] >> (4 * (r / 2)) & 15;
            int high = b[128 + 32 * half + j] >> (2 * r) & 3;
            out[i] = d * (float)sc[i / 16] * (float)((low | high << 4) - 32);
        }
    }
}
