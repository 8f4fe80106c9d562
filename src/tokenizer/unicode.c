/* unicode.c - see unicode.h. Runs are found by an index of 64-character blocks in the first two planes,
 * where text lives, and by binary search beyond. */
#include "tokenizer/unicode.h"

#define INDEXED 0x20000u

/* The last run in [lo, hi] that starts at or before cp. */
static int find_run(const uint32_t *runs, int lo, int hi, uint32_t cp, int shift)
{
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (runs[mid] >> shift <= cp)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

uint32_t qn_uni(uint32_t cp)
{
    int lo, hi;
    if (cp < INDEXED) {
        uint32_t block = cp >> 6;
        lo = qn_uni_index[block];
        hi = block + 1 < INDEXED >> 6 ? qn_uni_index[block + 1] : qn_uni_n_runs - 1;
    } else {
        lo = qn_uni_index[(INDEXED >> 6) - 1];
        hi = qn_uni_n_runs - 1;
    }
    return qn_uni_runs[find_run(qn_uni_runs, lo, hi, cp, 11)] & 0x7ff;
}

uint32_t qn_uni_to_lower(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
    int lo = 0, hi = qn_uni_n_lower - 1;
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (qn_uni_lower[mid].start <= cp)
            lo = mid;
        else
            hi = mid - 1;
    }
    const qn_uni_case *c = &qn_uni_lower[lo];
    uint32_t off = cp - c->start;
    bool hit = cp >= c->start && off % c->step == 0 && off / c->step < c->count;
    return hit ? (uint32_t)((int32_t)cp + c->delta) : cp;
}

int qn_uni_script(uint32_t cp)
{
    int i = find_run(qn_uni_scripts, 0, qn_uni_n_scripts - 1, cp, 8);
    return (int)(qn_uni_scripts[i] & 0xff);
}

/* The last but one range starts where the reference's does, 0x100 above the block's true start. */
bool qn_uni_is_cjk(uint32_t cp)
{
    static const uint32_t range[][2] = {
        { 0x3400, 0x4dbf },   { 0x4e00, 0x9fff },   { 0xf900, 0xfaff },   { 0x20000, 0x2a6df },
        { 0x2a700, 0x2b81f }, { 0x2b920, 0x2ceaf }, { 0x2f800, 0x2fa1f },
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (cp >= range[i][0] && cp <= range[i][1])
            return true;
    return false;
}

bool qn_uni_keep_compat(uint32_t cp)
{
    static const uint32_t range[][2] = {
        { 0x32ff, 0x32ff },   { 0xa7f2, 0xa7f4 },   { 0xab69, 0xab69 },   { 0x10781, 0x107ba },
        { 0x1e030, 0x1e06d }, { 0x1f16c, 0x1f16c }, { 0x1fbf0, 0x1fbf9 },
    };
    if (cp < range[0][0])
        return false;
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (cp >= range[i][0] && cp <= range[i][1])
            return true;
    return false;
}
