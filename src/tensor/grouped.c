/* grouped.c - see grouped.h. */
#include "tensor/grouped.h"

#include <assert.h>
#include <math.h>

#include "tensor/float8.h"
#include "tensor/layout_codecs.h"

int qn_scale_bytes(qn_layout l)
{
    return l == QN_F32 ? 4 : l == QN_F16 || l == QN_BF16 ? 2 : 1;
}

/* Scales are read byte by byte: they may lie anywhere in a file. */
float qn_scale_at(qn_layout l, const void *scales, int64_t i)
{
    const uint8_t *p = scales;
    switch (l) {
    case QN_F32:
        return bits_to_f32(load_u32(p + 4 * i));
    case QN_F16:
        return load_f16(p + 2 * i);
    case QN_BF16:
        return qn_bf16_to_f32(load_u16(p + 2 * i));
    case QN_F8_E8M0:
        return qn_f8_e8m0_to_f32(p[i]);
    default:
        assert(!"no scale layout");
        return 0;
    }
}

bool qn_affine_valid(int64_t bits, int64_t group)
{
    bool bits_ok = bits >= 1 && bits <= 8 && bits != 7;
    return bits_ok && (group == 32 || group == 64 || group == 128);
}

/* Code i of the stream. A code of at most 8 bits spans at most two bytes; the second is read only when it
 * holds some of it, so that the last code does not read past the row. */
static uint32_t code_at(const uint8_t *codes, int bits, int64_t i)
{
    int64_t bit = i * bits;
    const uint8_t *p = codes + bit / 8;
    int shift = (int)(bit % 8);
    uint32_t v = p[0];
    if (shift + bits > 8)
        v |= (uint32_t)p[1] << 8;
    return v >> shift & ((1u << bits) - 1);
}

/* Scale and bias are widened to f32, then one multiplication and one addition: the definition. */
void qn_grouped_decode_affine(const qn_grouped_row *r, float *out)
{
    for (int64_t g = 0; g < r->k / r->group; g++) {
        float s = qn_scale_at(r->scale_layout, r->scales, g);
        float b = qn_scale_at(r->scale_layout, r->biases, g);
        for (int64_t i = g * r->group; i < (g + 1) * r->group; i++)
            out[i] = s * (float)code_at(r->codes, r->bits, i) + b;
    }
}

/* Nibble i of a row, low half first: the MLX and GPT-OSS order. */
static float e2m1_at(const uint8_t *codes, int64_t i)
{
    return qn_e2m1[codes[i / 2] >> (4 * (i % 2)) & 15];
}

void qn_grouped_decode_mxfp4(const qn_grouped_row *r, float *out)
{
    for (int64_t i = 0; i < r->k; i++)
        out[i] = qn_f8_e8m0_to_f32(r->scales[i / r->group]) * e2m1_at(r->codes, i);
}

void qn_grouped_decode_mxfp8(const qn_grouped_row *r, float *out)
{
    for (int64_t i = 0; i < r->k; i++)
        out[i] = qn_f8_e8m0_to_f32(r->scales[i / r->group]) * qn_f8_e4m3_to_f32(r->codes[i]);
}

/* The scale of the whole tensor joins the group's before it meets the code. */
void qn_grouped_decode_nvfp4(const qn_grouped_row *r, float *out)
{
    for (int64_t i = 0; i < r->k; i++) {
        float s = qn_f8_e4m3_to_f32(r->scales[i / r->group]) * r->global_scale;
        out[i] = s * e2m1_at(r->codes, i);
    }
}

static void store_scale(qn_layout l, void *scales, int64_t i, float v)
{
    uint8_t *p = scales;
    if (l == QN_F32)
        memcpy(p + 4 * i, &v, sizeof v);
    else
        store_u16(p + 2 * i, l == QN_F16 ? qn_f32_to_f16(v) : qn_f32_to_bf16(v));
}

/* Scale and bias of a group before they are rounded to their dtype. The edge of larger magnitude is hit
 * exactly: its code is whole, and the scale is made to fit. */
static void affine_fit(const float *x, int group, float max_code, float *scale, float *bias)
{
    float lo = x[0], hi = x[0];
    for (int j = 1; j < group; j++) {
        lo = fminf(lo, x[j]);
        hi = fmaxf(hi, x[j]);
    }
    float s = fmaxf((hi - lo) / max_code, 1e-7f);
    bool low_edge = fabsf(lo) > fabsf(hi);
    float edge = low_edge ? lo : hi;
    if (!low_edge)
        s = -s;
    float q0 = rintf(edge / s);
    *bias = q0 != 0 ? edge : 0;
    *scale = q0 != 0 ? edge / q0 : s;
}

/* Codes are found with the unrounded scale and bias, and those are rounded to their dtype after: MLX's order. */
void qn_affine_encode(const float *x, const qn_grouped_row *shape, void *codes, void *scales,
                      void *biases)
{
    int bits = shape->bits, group = shape->group;
    float max_code = (float)((1 << bits) - 1);
    uint8_t *p = codes;
    assert(qn_affine_valid(bits, group) && bits > 1 && shape->k % group == 0);
    memset(p, 0, (size_t)(shape->k * bits / 8));
    for (int64_t g = 0; g < shape->k / group; g++) {
        float s, b;
        affine_fit(x + g * group, group, max_code, &s, &b);
        store_scale(shape->scale_layout, scales, g, s);
        store_scale(shape->scale_layout, biases, g, b);
        for (int64_t i = g * group; i < (g + 1) * group; i++) {
            float q = fminf(fmaxf(rintf((x[i] - b) / s), 0), max_code);
            uint32_t v = (uint32_t)q << (i * bits % 8);
            p[i * bits / 8] |= (uint8_t)v;
            if (v > 0xff)
                p[i * bits / 8 + 1] |= (uint8_t)(v >> 8);
        }
    }
}
