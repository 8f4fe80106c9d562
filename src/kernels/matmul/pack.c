/* pack.c - from a weight as its file stores it to panels of interleaved rows. Codes and scales are moved,
 * never changed, except that the packed 6-bit scales of the K layouts get a byte each. */
#include <assert.h>
#include <string.h>

#include "kernels/matmul/matmul.h"

/* The rows of one panel: where block 0 of each lies, and how far apart the blocks of a row are. Rows past
 * the end of the matrix read zeros, block after block. */
typedef struct lanes {
    const uint8_t *row[QN_MAX_ROWS];
    int rows;
    size_t step;
} lanes;

static const uint8_t zeros[256];

/* One block of all lanes, and what to write it to. */
typedef struct block {
    const uint8_t *lane[QN_MAX_ROWS];
    int rows;
} block;

static block block_at(const lanes *l, int64_t b)
{
    block k = { .rows = l->rows };
    for (int r = 0; r < l->rows; r++)
        k.lane[r] = l->row[r] ? l->row[r] + (size_t)b * l->step : zeros;
    return k;
}

/* Copies bytes [at, at + bytes) of every lane's block, lane after lane. */
static uint8_t *put_bytes(uint8_t *dst, const block *b, size_t at, size_t bytes)
{
    for (int r = 0; r < b->rows; r++, dst += bytes)
        memcpy(dst, b->lane[r] + at, bytes);
    return dst;
}

/* Copies n dwords of every lane's block: dword j of all lanes, then dword j + 1. */
static uint8_t *put_dwords(uint8_t *dst, const block *b, size_t at, int n)
{
    for (int j = 0; j < n; j++)
        dst = put_bytes(dst, b, at + 4 * (size_t)j, 4);
    return dst;
}

/* Writes 32 codes of each lane: low 4 bits as nibble dwords, then the high bits (0, 1 or 2 of them) so that
 * byte i of a high dword has the bits of the columns 4g + i, groups g ascending from bit 0. */
static uint8_t *put_codes(uint8_t *dst, uint8_t code[QN_MAX_ROWS][32], int rows, int high_bits)
{
    for (int j = 0; j < 4; j++)
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < 4; i++)
                *dst++ = (uint8_t)((code[r][4 * j + i] & 15) | code[r][16 + 4 * j + i] << 4);
    int groups = high_bits ? 8 / high_bits : 0; /* groups of 4 columns that fit in one dword */
    for (int d = 0; d < high_bits; d++)
        for (int r = 0; r < rows; r++)
            for (int i = 0; i < 4; i++) {
                unsigned bits = 0;
                for (int g = 0; g < groups; g++)
                    bits |= (unsigned)(code[r][4 * (d * groups + g) + i] >> 4) << (g * high_bits);
                *dst++ = (uint8_t)bits;
            }
    return dst;
}

/* Blocks of 32 whose scales are `head` bytes of 16-bit numbers, followed by codes that are dwords already. */
static void pack_plain(const lanes *l, int64_t n_blocks, int head, int dwords, uint8_t *dst)
{
    for (int64_t i = 0; i < n_blocks; i++) {
        block b = block_at(l, i);
        for (int h = 0; h < head; h += 2)
            dst = put_bytes(dst, &b, (size_t)h, 2);
        dst = put_dwords(dst, &b, (size_t)head, dwords);
    }
}

static void pack_mxfp4(const lanes *l, int64_t n_blocks, uint8_t *dst)
{
    for (int64_t i = 0; i < n_blocks; i++) {
        block b = block_at(l, i);
        dst = put_bytes(dst, &b, 0, 1);
        dst = put_dwords(dst, &b, 1, 4);
    }
}

/* Q5_0 and Q5_1: `head` bytes of scales, the fifth bits of columns 0..31, nibbles. */
static void pack_q5(const lanes *l, int64_t n_blocks, int head, uint8_t *dst)
{
    uint8_t code[QN_MAX_ROWS][32];
    for (int64_t i = 0; i < n_blocks; i++) {
        block b = block_at(l, i);
        for (int h = 0; h < head; h += 2)
            dst = put_bytes(dst, &b, (size_t)h, 2);
        for (int r = 0; r < b.rows; r++) {
            const uint8_t *high = b.lane[r] + head, *low = high + 4;
            for (int c = 0; c < 32; c++) {
                unsigned bit = high[c / 8] >> (c % 8) & 1;
                unsigned nibble = c < 16 ? low[c] & 15 : low[c - 16] >> 4;
                code[r][c] = (uint8_t)(nibble | bit << 4);
            }
        }
        dst = put_codes(dst, code, b.rows, 1);
    }
}

/* Scale and minimum of sub-block j from the 12 bytes where Q4_K and Q5_K keep eight 6-bit pairs. */
static void k_scale(const uint8_t *s, int j, uint8_t *scale, uint8_t *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (uint8_t)((s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
        *min = (uint8_t)(s[j + 4] >> 4 | (s[j] >> 6) << 4);
    }
}

/* Q4_K and Q5_K: d, dmin, 12 bytes of scales, (32 bytes of fifth bits,) 128 bytes of nibbles: byte l of chunk c
 * has column l of sub-block 2c below and of 2c + 1 above. */
static void pack_q45_k(const lanes *l, int64_t n_super, bool five, uint8_t *dst)
{
    uint8_t code[QN_MAX_ROWS][32];
    for (int64_t i = 0; i < n_super; i++) {
        block b = block_at(l, i);
        dst = put_bytes(dst, &b, 0, 2);
        dst = put_bytes(dst, &b, 2, 2);
        for (int j = 0; j < 8; j++) {
            for (int r = 0; r < b.rows; r++) {
                const uint8_t *high = b.lane[r] + 16;
                const uint8_t *low = high + (five ? 32 : 0) + j / 2 * 32;
                k_scale(b.lane[r] + 4, j, &dst[r], &dst[b.rows + r]);
                for (int c = 0; c < 32; c++) {
                    unsigned bit = five ? high[c] >> j & 1 : 0;
                    code[r][c] = (uint8_t)((low[c] >> (j % 2 * 4) & 15) | bit << 4);
                }
            }
            dst = put_codes(dst + 2 * b.rows, code, b.rows, five ? 1 : 0);
        }
    }
}

/* Q6_K: 128 bytes of nibbles, 64 of high bits, 16 scales, d. Each half of 128 columns has four sub-blocks m:
 * nibble m / 2 of bytes 32 (m % 2) .., bits 2m of the high bytes. */
static void pack_q6_k(const lanes *l, int64_t n_super, uint8_t *dst)
{
    uint8_t code[QN_MAX_ROWS][32];
    for (int64_t i = 0; i < n_super; i++) {
        block b = block_at(l, i);
        dst = put_bytes(dst, &b, 208, 2);
        for (int j = 0; j < 8; j++) {
            int half = j / 4, m = j % 4;
            for (int r = 0; r < b.rows; r++) {
                const uint8_t *low = b.lane[r] + 64 * half + 32 * (m & 1);
                const uint8_t *high = b.lane[r] + 128 + 32 * half;
                for (int c = 0; c < 32; c++)
                    code[r][c] =
                        (uint8_t)((low[c] >> (m / 2 * 4) & 15) | (high[c] >> (2 * m) & 3) << 4);
            }
            dst = put_bytes(dst, &b, 192 + 2 * (size_t)j, 1);
            dst = put_bytes(dst, &b, 193 + 2 * (size_t)j, 1);
            dst = put_codes(dst, code, b.rows, 2);
        }
    }
}

static size_t scale_bytes(const qn_weight *w)
{
    return w->scale_layout == QN_F32 ? 4 : w->scale_layout == QN_U8 ? 1 : 2;
}

/* MLX's layouts: codes in one tensor (4-bit ones low nibble first), scales and biases in others. */
static void pack_grouped(const qn_weight *w, int64_t row, const lanes *l, uint8_t *dst)
{
    uint8_t code[QN_MAX_ROWS][32];
    size_t bytes = scale_bytes(w);
    int64_t k = qn_weight_cols(w), groups = k / w->group;
    lanes scale = { .rows = l->rows, .step = bytes }, bias = scale;
    for (int r = 0; r < l->rows; r++) {
        size_t at = (size_t)((row + r) * groups) * bytes;
        scale.row[r] = l->row[r] ? (const uint8_t *)w->scales + at : NULL;
        bias.row[r] = l->row[r] && w->biases ? (const uint8_t *)w->biases + at : NULL;
    }
    for (int64_t i = 0; i < k / 32; i++) {
        block b = block_at(l, i);
        if (i * 32 % w->group == 0) {
            block s = block_at(&scale, i * 32 / w->group), m = block_at(&bias, i * 32 / w->group);
            dst = put_bytes(dst, &s, 0, bytes);
            if (w->biases)
                dst = put_bytes(dst, &m, 0, bytes);
        }
        if (w->layout == QN_AFFINE && w->bits == 8) {
            dst = put_dwords(dst, &b, 0, 8);
            continue;
        }
        for (int r = 0; r < b.rows; r++)
            for (int c = 0; c < 32; c++)
                code[r][c] = b.lane[r][c / 2] >> (c % 2 * 4) & 15;
        dst = put_codes(dst, code, b.rows, 0);
    }
}

/* Plain numbers of `bytes` bytes: column after column. */
static void pack_columns(const lanes *l, int64_t k, size_t bytes, uint8_t *dst)
{
    for (int64_t i = 0; i < k; i++) {
        block b = block_at(l, i);
        dst = put_bytes(dst, &b, 0, bytes);
    }
}

static void pack_decoded(const qn_weight *w, int64_t row, const lanes *l, uint8_t *dst, float *buf)
{
    float *out = (float *)(void *)dst;
    int64_t k = qn_weight_cols(w);
    for (int r = 0; r < l->rows; r++) {
        if (l->row[r])
            qn_weight_decode_row(w, row + r, buf);
        for (int64_t i = 0; i < k; i++)
            out[i * l->rows + r] = l->row[r] ? buf[i] : 0.0F;
    }
}

/* Bytes a row takes in a panel: per block of 32, and per group of columns before its first block. */
static const struct form {
    uint16_t block_bytes, super_bytes, super_cols;
} forms[QN_N_PANELS] = {
    [QN_PANEL_F32] = { 128, 0, 0 },    [QN_PANEL_F16] = { 64, 0, 0 },
    [QN_PANEL_BF16] = { 64, 0, 0 },    [QN_PANEL_Q4_0] = { 18, 0, 0 },
    [QN_PANEL_Q4_1] = { 20, 0, 0 },    [QN_PANEL_Q5_0] = { 22, 0, 0 },
    [QN_PANEL_Q5_1] = { 24, 0, 0 },    [QN_PANEL_Q8_0] = { 34, 0, 0 },
    [QN_PANEL_Q4_K] = { 18, 4, 256 },  [QN_PANEL_Q5_K] = { 22, 4, 256 },
    [QN_PANEL_Q6_K] = { 26, 2, 256 },  [QN_PANEL_IQ4_NL] = { 18, 0, 0 },
    [QN_PANEL_MXFP4] = { 17, 0, 0 },   [QN_PANEL_AFFINE4] = { 16, 0, 0 },
    [QN_PANEL_AFFINE8] = { 32, 0, 0 },
};

/* The form of a layout's own; F32 (decoded) for those without one. */
static qn_panel form_of(const qn_weight *w)
{
    static const uint8_t of[QN_N_LAYOUTS] = {
        [QN_F16] = QN_PANEL_F16,   [QN_BF16] = QN_PANEL_BF16,     [QN_Q4_0] = QN_PANEL_Q4_0,
        [QN_Q4_1] = QN_PANEL_Q4_1, [QN_Q5_0] = QN_PANEL_Q5_0,     [QN_Q5_1] = QN_PANEL_Q5_1,
        [QN_Q8_0] = QN_PANEL_Q8_0, [QN_Q4_K] = QN_PANEL_Q4_K,     [QN_Q5_K] = QN_PANEL_Q5_K,
        [QN_Q6_K] = QN_PANEL_Q6_K, [QN_IQ4_NL] = QN_PANEL_IQ4_NL, [QN_MXFP4] = QN_PANEL_MXFP4,
    };
    if (w->layout == QN_AFFINE && w->biases && w->group % 32 == 0 && w->scale_layout != QN_U8) {
        if (w->bits == 4)
            return QN_PANEL_AFFINE4;
        if (w->bits == 8)
            return QN_PANEL_AFFINE8;
    }
    if (w->layout == QN_GROUP_MXFP4 && w->group == 32)
        return QN_PANEL_MXFP4;
    return (qn_panel)of[w->layout];
}

qn_panel_plan qn_panel_plan_of(const qn_matmul_kernels *t, const qn_weight *w, bool exact)
{
    qn_panel_plan p = { .form = form_of(w), .k = qn_weight_cols(w) };
    bool plain = p.form <= QN_PANEL_BF16;
    if ((exact && !plain) || (!plain && p.k % 32 != 0) || !t->tile[p.form])
        p.form = QN_PANEL_F32;
    p.integer = p.form > QN_PANEL_BF16;
    p.decoded = p.form == QN_PANEL_F32 && w->layout != QN_F32;
    p.n_matrices = w->n_dims == 3 ? w->dim[0] : 1;
    p.n = p.n_matrices > 0 ? qn_weight_rows(w) / p.n_matrices : 0;
    p.n_panels = (p.n + t->rows - 1) / t->rows;
    const struct form *f = &forms[p.form];
    size_t row_bytes = (size_t)p.k * f->block_bytes / 32;
    if (f->super_cols)
        row_bytes += (size_t)(p.k / f->super_cols) * f->super_bytes;
    if (p.form == QN_PANEL_AFFINE4 || p.form == QN_PANEL_AFFINE8)
        row_bytes += (size_t)(p.k / w->group) * 2 * scale_bytes(w);
    p.panel_bytes = row_bytes * (size_t)t->rows;
    return p;
}

/* Bytes between the blocks of a row in the weight's own storage. */
static size_t source_step(const qn_weight *w)
{
    switch (w->layout) {
    case QN_AFFINE:
        return (size_t)w->bits * 4;
    case QN_GROUP_MXFP4:
        return 16;
    default:
        return qn_layout_get((qn_layout)w->layout)->block_bytes;
    }
}

void qn_panel_pack(const qn_matmul_kernels *t, const qn_panel_plan *p, const qn_weight *w,
                   int64_t index, uint8_t *dst, float *row_buf)
{
    int64_t matrix = index / p->n_panels, first = index % p->n_panels * t->rows;
    int64_t row = matrix * p->n + first;
    lanes l = { .rows = t->rows, .step = source_step(w) };
    for (int r = 0; r < t->rows && first + r < p->n; r++)
        l.row[r] = (const uint8_t *)w->data + (size_t)(row + r) * qn_weight_row_bytes(w);
    if (p->decoded) {
        pack_decoded(w, row, &l, dst, row_buf);
        return;
    }
    switch (p->form) {
    case QN_PANEL_F32:
        pack_columns(&l, p->k, 4, dst);
        break;
    case QN_PANEL_F16:
    case QN_PANEL_BF16:
        pack_columns(&l, p->k, 2, dst);
        break;
    case QN_PANEL_Q4_0:
    case QN_PANEL_IQ4_NL:
        pack_plain(&l, p->k / 32, 2, 4, dst);
        break;
    case QN_PANEL_Q4_1:
        pack_plain(&l, p->k / 32, 4, 4, dst);
        break;
    case QN_PANEL_Q8_0:
        pack_plain(&l, p->k / 32, 2, 8, dst);
        break;
    case QN_PANEL_Q5_0:
        pack_q5(&l, p->k / 32, 2, dst);
        break;
    case QN_PANEL_Q5_1:
        pack_q5(&l, p->k / 32, 4, dst);
        break;
    case QN_PANEL_Q4_K:
    case QN_PANEL_Q5_K:
        pack_q45_k(&l, p->k / 256, p->form == QN_PANEL_Q5_K, dst);
        break;
    case QN_PANEL_Q6_K:
        pack_q6_k(&l, p->k / 256, dst);
        break;
    case QN_PANEL_MXFP4:
        if (w->layout == QN_MXFP4)
            pack_mxfp4(&l, p->k / 32, dst);
        else
            pack_grouped(w, row, &l, dst);
        break;
    case QN_PANEL_AFFINE4:
    case QN_PANEL_AFFINE8:
        pack_grouped(w, row, &l, dst);
        break;
    case QN_N_PANELS:
        assert(!"a form that is none");
    }
}
