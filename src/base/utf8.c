/* utf8.c - see utf8.h. */
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

/* Number of bytes a lead byte announces and the bounds of the byte after it; 0 for no lead byte. */
static int lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef) {
        if (c == 0xe0)
            *lo = 0xa0;
        if (c == 0xed)
            *hi = 0x9f;
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        if (c == 0xf0)
            *lo = 0x90;
        if (c == 0xf4)
            *hi = 0x8f;
        return 4;
    }
    return 0;
}

/* Bytes of the character at p that are there and well-formed; *want is its full length (0: no lead). */
static int present(const char *p, size_t n, int *want)
{
    unsigned char lo, hi;
    *want = lead((unsigned char)p[0], &lo, &hi);
    int have = 1;
    while (have < *want && (size_t)have < n) {
        unsigned char c = (unsigned char)p[have];
        if (c < lo || c > hi)
            break;
        lo = 0x80;
        hi = 0xbf;
        have++;
    }
    return have;
}

int qn_utf8_decode(const char *p, size_t n, uint32_t *cp)
{
    unsigned char c = (unsigned char)p[0];
    if (c < 0x80) {
        *cp = c;
        return 1;
    }
    int want, have = present(p, n, &want);
    if (want == 0 || have < want) {
        *cp = UINT32_MAX;
        return 1;
    }
    static const unsigned char mask[5] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    uint32_t v = c & mask[want];
    for (int i = 1; i < want; i++)
        v = v << 6 | ((unsigned char)p[i] & 0x3f);
    *cp = v;
    return want;
}

int qn_utf8_encode(uint32_t cp, char *out)
{
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
        cp = 0xfffd;
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    int n = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (cp & 0x3f));
        cp >>= 6;
    }
    out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | cp);
    return n;
}

size_t qn_utf8_partial(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)s[n - back];
        if ((c & 0xc0) == 0x80)
            continue;
        int want, have = present(s + n - back, back, &want);
        return (size_t)have == back && want > have ? back : 0;
    }
    return 0;
}

/* Text is mostly ASCII, so eight bytes are worth a look at once. */
static bool is_ascii8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return (word & 0x8080808080808080u) == 0;
}

size_t qn_utf8_valid(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        while (n - i >= 8 && is_ascii8(s + i))
            i += 8;
        if (i == n)
            break;
        uint32_t cp;
        int len = qn_utf8_decode(s + i, n - i, &cp);
        if (cp == UINT32_MAX)
            break;
        i += (size_t)len;
    }
    return i;
}

int qn_utf8_bad_run(const char *p, size_t n)
{
    int want;
    return present(p, n, &want);
}
