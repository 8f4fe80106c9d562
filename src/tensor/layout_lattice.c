/* layout_lattice.c - GGUF's IQ1, IQ2 and IQ3 blocks: groups of 4 or 8 elements are points of a fixed lattice,
 * given by index, with signs and small scales beside them.
 *
 * All are superblocks of 256. Signs of 8 elements are either a byte or 7 bits whose missing eighth makes the
 * number of minus signs even. Scales are made in the order that defines the layout: see each decoder. */
#include "tensor/lattice_grids.h"
#include "tensor/layout_codecs.h"

/* Values of the packed coordinates. */
static const int8_t iq2_level[4] = { 8, 25, 43, 0 };
static const int8_t iq3_xxs_level[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
static const int8_t iq3_s_level[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };

/* Seven sign bits completed by their parity. */
static uint32_t even_signs(uint32_t seven)
{
    return seven | (uint32_t)__builtin_parity(seven) << 7;
}

/* Eight elements of an IQ2 point. */
static void put_iq2(float *out, float scale, uint16_t point, uint32_t signs)
{
    for (int j = 0; j < 8; j++) {
        float v = scale * (float)iq2_level[point >> (2 * j) & 3];
        out[j] = signs >> j & 1 ? -v : v;
    }
}

/* Four elements of an IQ3 point. */
static void put_iq3(float *out, float scale, const int8_t *level, uint16_t point, uint32_t signs)
{
    for (int j = 0; j < 4; j++) {
        float v = scale * (float)level[point >> (3 * j) & 7];
        out[j] = signs >> j & 1 ? -v : v;
    }
}

/* Eight elements of an IQ1 point, whose coordinates -1, 0 and 1 are moved by an eighth. */
static void put_iq1(float *out, float scale, uint16_t point, float delta)
{
    for (int j = 0; j < 8; j++)
        out[j] = scale * ((float)((point >> (2 * j) & 3) - 1) + delta);
}

/* Four indices, then four times seven sign bits and a scale of four bits in one word. */
void qn_decode_iq2_xxs(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 66) {
        float d = load_f16(b);
        for (int s = 0; s < 8; s++) {
            const uint8_t *index = b + 2 + 8 * s;
            uint32_t rest = load_u32(index + 4);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
            for (int g = 0; g < 4; g++)
                put_iq2(out + 32 * s + 8 * g, scale, iq2_xxs_grid[index[g]],
                        even_signs(rest >> (7 * g) & 127));
        }
    }
}

/* Scale of 16 elements from the nibbles of IQ2_XS and IQ2_S. */
static float iq2_scale(const uint8_t *sc, float d, int group)
{
    int nibble = sc[group / 4] >> (4 * (group / 2 % 2)) & 15;
    return d * (0.5f + (float)nibble) * 0.25f;
}

/* Nine bits of index and seven of signs in each half-word, scales apart. */
void qn_decode_iq2_xs(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 74) {
        float d = load_f16(b);
        for (int g = 0; g < 32; g++) {
            uint32_t q = load_u16(b + 2 + 2 * g);
            put_iq2(out + 8 * g, iq2_scale(b + 66, d, g), iq2_xs_grid[q & 511], even_signs(q >> 9));
        }
    }
}

/* Ten bits of index, two of them apart, and whole sign bytes. */
void qn_decode_iq2_s(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 82) {
        const uint8_t *qs = b + 2, *signs = b + 34, *qh = b + 66;
        float d = load_f16(b);
        for (int g = 0; g < 32; g++) {
            int high = qh[g / 4] >> (2 * (g % 4)) & 3;
            put_iq2(out + 8 * g, iq2_scale(b + 74, d, g), iq2_s_grid[qs[g] | high << 8], signs[g]);
        }
    }
}

/* As IQ2_XXS, with points of four elements: two indices share seven sign bits. */
void qn_decode_iq3_xxs(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 98) {
        float d = load_f16(b);
        for (int s = 0; s < 8; s++) {
            const uint8_t *qs = b + 2 + 8 * s;
            uint32_t rest = load_u32(b + 66 + 4 * s);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
            for (int g = 0; g < 8; g++) {
                uint32_t signs = even_signs(rest >> (7 * (g / 2)) & 127) >> (4 * (g % 2));
                put_iq3(out + 32 * s + 4 * g, scale, iq3_xxs_level, iq3_xxs_grid[qs[g]], signs);
            }
        }
    }
}

/* Nine bits of index, whole sign bytes, odd scales. */
void qn_decode_iq3_s(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 110) {
        const uint8_t *qs = b + 2, *qh = b + 66, *signs = b + 74, *sc = b + 106;
        float d = load_f16(b);
        for (int g = 0; g < 64; g++) {
            int nibble = sc[g / 16] >> (4 * (g / 8 % 2)) & 15, high = qh[g / 8] >> (g % 8) & 1;
            float scale = d * (float)(1 + 2 * nibble);
            put_iq3(out + 4 * g, scale, iq3_s_level, iq3_s_grid[qs[g] | high << 8],
                    (uint32_t)signs[g / 2] >> (4 * (g % 2)));
        }
    }
}

/* Eleven bits of index; a half-word for 32 elements holds the high ones, the scale and the way of the shift. */
void qn_decode_iq1_s(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 50) {
        float d = load_f16(b);
        for (int g = 0; g < 32; g++) {
            int high = load_u16(b + 34 + 2 * (g / 4));
            float scale = d * (float)(2 * (high >> 12 & 7) + 1);
            int index = b[2 + g] | (high >> (3 * (g % 4)) & 7) << 8;
            put_iq1(out + 8 * g, scale, iq1_s_grid[index], high & 0x8000 ? -0.125f : 0.125f);
        }
    }
}

/* As IQ1_S, with the shift's way for each 8 elements and a scale for each 16. */
void qn_decode_iq1_m(const void *in, float *out, int64_t n)
{
    const uint8_t *b = in;
    for (; n > 0; n -= 256, out += 256, b += 56) {
        const uint8_t *qs = b, *qh = b + 32;
        uint16_t sc[4], d_bits = 0;
        for (int i = 0; i < 4; i++) {
            sc[i] = load_u16(b + 48 + 2 * i);
            d_bits |=
                (uint16_t)(sc[i] >> 12 << (4 * i)); /* the f16 is spread over the top nibbles */
        }
        float d = qn_f16_to_f32(d_bits);
        for (int g = 0; g < 32; g++) {
            int scale = sc[g / 8] >> (3 * (g / 2 % 4)) & 7, high = qh[g / 2] >> (4 * (g % 2)) & 15;
            put_iq1(out + 8 * g, d * (float)(2 * scale + 1), iq1_s_grid[qs[g] | (high & 7) << 8],
                    high & 8 ? -0.125f : 0.125f);
        }
    }
}
