/* json.c - see json.h. A recursive reader over a byte range; children are gathered on one shared stack
 * and copied into the arena when their container closes, which makes them contiguous. */
#include "base/json.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are little-endian and are mapped as they are; so is scan_plain() here"
#endif

typedef struct reader {
    qn_arena *arena;
    const char *start, *p, *end; /* the byte that errors name counts from start */
    qn_json *stack;              /* children of the open containers, the innermost's last */
    size_t n_stack, cap_stack;
    int depth;
    qn_error *err;
} reader;

static bool fail_at(reader *r, const char *at, const char *what)
{
    qn_fail(r->err, QN_ERR_FORMAT, "JSON, byte %zu: %s", (size_t)(at - r->start), what);
    return false;
}

static void skip_space(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads the four digits after \u into *out; false when they are not there. */
static bool read_hex4(reader *r, uint32_t *out)
{
    uint32_t v = 0;
    if (r->end - r->p < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        int d = hex_digit(r->p[i]);
        if (d < 0)
            return false;
        v = v << 4 | (uint32_t)d;
    }
    r->p += 4;
    *out = v;
    return true;
}

/* The code point of the \u escape whose digits are next, two escapes for a surrogate pair. */
static bool read_unicode(reader *r, uint32_t *cp)
{
    if (!read_hex4(r, cp))
        return false;
    if (*cp < 0xd800 || *cp >= 0xdc00 || r->end - r->p < 6 || r->p[0] != '\\' || r->p[1] != 'u')
        return true;
    const char *after_high = r->p;
    uint32_t low;
    r->p += 2;
    if (!read_hex4(r, &low))
        return false;
    if (low >= 0xdc00 && low < 0xe000)
        *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
    else
        r->p = after_high; /* the high surrogate stands alone */
    return true;
}

/* The escape at r->p, a backslash; appends its UTF-8 to *out. */
static bool read_escape(reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = r->p++;
    if (r->p >= r->end)
        return fail_at(r, at, "cut escape");
    char c = *r->p++;
    if (c == 'u') {
        uint32_t cp;
        if (!read_unicode(r, &cp))
            return fail_at(r, at, "bad \\u escape");
        *out += qn_utf8_encode(cp, *out);
        return true;
    }
    const char *known = c ? strchr(from, c) : NULL;
    if (!known)
        return fail_at(r, at, "unknown escape");
    *(*out)++ = to[known - from];
    return true;
}

/* The first byte at or after p that is a quote, a backslash or a control character; `end` if none is.
 * *high gets bits of 0x80 where a byte before it is not ASCII. Eight bytes at a time, the first in the
 * low end: (x - 0x01..) & ~x & 0x80.. marks the first zero byte of x exactly, since a borrow starts at
 * a byte that is zero itself and only reaches those after it. */
static const char *scan_plain(const char *p, const char *end, uint64_t *high)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    for (; end - p >= 8; p += 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        uint64_t quote = x ^ ones * '"', slash = x ^ ones * '\\';
        uint64_t stop =
            ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((x - ones * 32) & ~x);
        if ((stop &= tops) != 0) {
            int at = __builtin_ctzll(stop) / 8;
            *high |= x & tops & ((UINT64_C(1) << 8 * at) - 1);
            return p + at;
        }
        *high |= x & tops;
    }
    for (; p < end; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\' || c < 0x20)
            break;
        *high |= c & 0x80;
    }
    return p;
}

/* Where the string begun at p ends: its closing quote, or NULL. */
static const char *find_quote(const char *p, const char *end)
{
    uint64_t high = 0;
    while ((p = scan_plain(p, end, &high)) < end && *p != '"')
        p += *p == '\\' && end - p > 1 ? 2 : 1;
    return p < end ? p : NULL;
}

/* The run of plain bytes at r->p, checked and copied to *out. */
static bool read_plain(reader *r, const char *run_end, uint64_t high, char **out)
{
    size_t n = (size_t)(run_end - r->p);
    if (high) {
        size_t valid = qn_utf8_valid(r->p, n);
        if (valid < n)
            return fail_at(r, r->p + valid, "malformed UTF-8");
    }
    memcpy(*out, r->p, n);
    *out += n;
    r->p = run_end;
    return true;
}

/* The string whose opening quote was just passed. Most have no escape: those are scanned once and
 * copied. For the others an escape is never shorter than its UTF-8, so the raw length is enough room. */
static bool read_string(reader *r, const char **s, uint32_t *n)
{
    uint64_t high = 0;
    const char *run_end = scan_plain(r->p, r->end, &high);
    const char *close = run_end < r->end && *run_end == '"' ? run_end : find_quote(run_end, r->end);
    if (!close)
        return fail_at(r, r->p - 1, "unterminated string");
    if (close - r->p > INT32_MAX)
        return fail_at(r, r->p - 1, "string too long");
    char *buf = qn_arena_alloc(r->arena, (size_t)(close - r->p) + 1), *out = buf;
    for (;;) {
        if (!read_plain(r, run_end, high, &out))
            return false;
        if (r->p == close)
            break;
        if (*r->p != '\\')
            return fail_at(r, r->p, "control character in a string");
        do {
            if (!read_escape(r, &out))
                return false;
        } while (*r->p == '\\'); /* many come in rows; the closing quote ends one at the latest */
        high = 0;
        run_end = scan_plain(r->p, close, &high);
    }
    r->p = close + 1;
    *s = buf;
    *n = (uint32_t)(out - buf);
    return true;
}

static const char *skip_digits(const reader *r, const char *p)
{
    while (p < r->end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* The integer text[0..n), which is all digits but for a sign; false when it needs more than 64 bits. */
static bool whole_number(const char *text, size_t n, int64_t *out)
{
    bool negative = *text == '-';
    int64_t v = 0; /* built below zero, where there is room for one more */
    for (size_t i = negative; i < n; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, text[i] - '0', &v))
            return false;
    *out = v;
    return negative || !__builtin_sub_overflow((int64_t)0, v, out);
}

/* strtod reads the decimal point of the process's locale, which an embedding program may have set. */
static double real_number(reader *r, const char *s, size_t n)
{
    const char *point = localeconv()->decimal_point, *dot = memchr(s, '.', n);
    char small[64], *text = small;
    size_t n_point = strlen(point), n_head = dot ? (size_t)(dot - s) : n;
    if (n + n_point >= sizeof small)
        text = qn_arena_alloc(r->arena, n + n_point + 1);
    char *out = mempcpy(text, s, n_head);
    if (dot) {
        out = mempcpy(out, point, n_point);
        out = mempcpy(out, dot + 1, n - n_head - 1);
    }
    *out = '\0';
    return strtod(text, NULL);
}

static bool read_number(reader *r, qn_json *v)
{
    const char *s = r->p, *p = s + (*s == '-'), *from = p;
    bool whole = true;
    p = skip_digits(r, p);
    if (p == from)
        return fail_at(r, s, "unexpected character");
    if (*from == '0' && p - from > 1)
        return fail_at(r, s, "number with a leading zero");
    if (p < r->end && *p == '.') {
        whole = false;
        from = ++p;
        p = skip_digits(r, p);
        if (p == from)
            return fail_at(r, s, "number without digits after the point");
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        whole = false;
        p++;
        p += p < r->end && (*p == '+' || *p == '-');
        from = p;
        p = skip_digits(r, p);
        if (p == from)
            return fail_at(r, s, "number without digits in the exponent");
    }
    r->p = p;
    v->type = QN_JSON_INT;
    if (!whole || !whole_number(s, (size_t)(p - s), &v->i)) {
        v->type = QN_JSON_REAL;
        v->d = real_number(r, s, (size_t)(p - s));
    }
    return true;
}

static bool read_word(reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0)
        return false;
    r->p += n;
    return true;
}

static bool read_literal(reader *r, qn_json *v)
{
    v->type = QN_JSON_REAL;
    if (read_word(r, "true") || read_word(r, "false")) {
        v->type = QN_JSON_BOOL;
        v->b = r->p[-2] == 'u';
    } else if (read_word(r, "null")) {
        v->type = QN_JSON_NULL;
    } else if (read_word(r, "NaN")) {
        v->d = NAN;
    } else if (read_word(r, "Infinity")) {
        v->d = INFINITY;
    } else if (read_word(r, "-Infinity")) {
        v->d = -INFINITY;
    } else {
        return read_number(r, v);
    }
    return true;
}

static bool read_value(reader *r, qn_json *v);

static bool read_key(reader *r, qn_json *child)
{
    if (r->p >= r->end || *r->p != '"')
        return fail_at(r, r->p, "a key was expected");
    r->p++;
    if (!read_string(r, &child->key, &child->key_len))
        return false;
    skip_space(r);
    if (r->p >= r->end || *r->p != ':')
        return fail_at(r, r->p, "':' was expected");
    r->p++;
    return true;
}

/* The members or items after an opening bracket, up to and with the closing one. */
static bool read_children(reader *r, qn_json *v, bool object)
{
    size_t base = r->n_stack;
    char close = object ? '}' : ']';
    if (++r->depth > QN_JSON_MAX_DEPTH)
        return fail_at(r, r->p - 1, "nested too deeply");
    skip_space(r);
    bool more = r->p >= r->end || *r->p != close;
    while (more) {
        qn_json child = { 0 };
        skip_space(r);
        if (object && !read_key(r, &child))
            return false;
        if (!read_value(r, &child))
            return false;
        QN_GROW(r->stack, r->n_stack, r->cap_stack);
        r->stack[r->n_stack++] = child;
        skip_space(r);
        more = r->p < r->end && *r->p == ',';
        r->p += more;
    }
    if (r->p >= r->end || *r->p != close)
        return fail_at(r, r->p, object ? "',' or '}' was expected" : "',' or ']' was expected");
    r->p++;
    r->depth--;
    v->type = object ? QN_JSON_OBJECT : QN_JSON_ARRAY;
    v->n = (uint32_t)(r->n_stack - base);
    if (v->n)
        v->items = qn_arena_copy(r->arena, r->stack + base, v->n * sizeof *v);
    r->n_stack = base;
    return true;
}

static bool read_value(reader *r, qn_json *v)
{
    skip_space(r);
    if (r->p >= r->end)
        return fail_at(r, r->p, "unexpected end");
    switch (*r->p) {
    case '{':
    case '[':
        return read_children(r, v, *r->p++ == '{');
    case '"':
        r->p++;
        v->type = QN_JSON_STR;
        return read_string(r, &v->s, &v->n);
    default:
        return read_literal(r, v);
    }
}

qn_json *qn_json_parse(qn_arena *a, const char *text, size_t n, qn_error *err)
{
    if (n == 0)
        text = "";
    reader r = { .arena = a, .start = text, .p = text, .end = text + n, .err = err };
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        r.p += 3;
    qn_json *root = qn_arena_alloc(a, sizeof *root);
    bool ok = n <= UINT32_MAX || fail_at(&r, r.p, "larger than 4 GiB");
    ok = ok && read_value(&r, root);
    skip_space(&r);
    if (ok && r.p != r.end)
        ok = fail_at(&r, r.p, "text after the end");
    qn_free(r.stack);
    return ok ? root : NULL;
}

qn_json *qn_json_parse_file(qn_arena *a, const char *path, qn_error *err)
{
    qn_map map;
    if (qn_map_open(&map, path, err) != QN_OK)
        return NULL;
    qn_json *v = qn_json_parse(a, map.data, map.size, err);
    if (!v)
        qn_fail_in(err, QN_ERR_FORMAT, "%s", path);
    qn_map_close(&map);
    return v;
}

static const qn_json *member(const qn_json *obj, const char *key, size_t len)
{
    if (!qn_json_is(obj, QN_JSON_OBJECT))
        return NULL;
    for (uint32_t i = obj->n; i-- > 0;)
        if (obj->items[i].key_len == len && memcmp(obj->items[i].key, key, len) == 0)
            return &obj->items[i];
    return NULL;
}

const qn_json *qn_json_get(const qn_json *obj, const char *key)
{
    return member(obj, key, strlen(key));
}

const qn_json *qn_json_path(const qn_json *obj, const char *dotted)
{
    while (obj && *dotted) {
        size_t n = strcspn(dotted, ".");
        obj = member(obj, dotted, n);
        dotted += n + (dotted[n] == '.');
    }
    return obj;
}

const qn_json *qn_json_at(const qn_json *array, size_t i)
{
    bool many = qn_json_is(array, QN_JSON_ARRAY) || qn_json_is(array, QN_JSON_OBJECT);
    return many && i < array->n ? &array->items[i] : NULL;
}

bool qn_json_is(const qn_json *v, qn_json_type type)
{
    return v && v->type == type;
}

bool qn_json_is_number(const qn_json *v)
{
    return v && (v->type == QN_JSON_INT || v->type == QN_JSON_REAL);
}

const char *qn_json_str(const qn_json *v, const char *fallback)
{
    return qn_json_is(v, QN_JSON_STR) ? v->s : fallback;
}

int64_t qn_json_int(const qn_json *v, int64_t fallback)
{
    if (qn_json_is(v, QN_JSON_INT))
        return v->i;
    if (qn_json_is(v, QN_JSON_REAL) && fabs(v->d) < 9e15 && v->d == floor(v->d))
        return (int64_t)v->d;
    return fallback;
}

double qn_json_num(const qn_json *v, double fallback)
{
    return !qn_json_is_number(v) ? fallback : v->type == QN_JSON_INT ? (double)v->i : v->d;
}

bool qn_json_bool(const qn_json *v, bool fallback)
{
    return qn_json_is(v, QN_JSON_BOOL) ? v->b : fallback;
}

bool qn_json_eq(const qn_json *v, const char *s)
{
    return qn_json_is(v, QN_JSON_STR) && strlen(s) == v->n && memcmp(v->s, s, v->n) == 0;
}

void qn_json_put_str(qn_buf *b, const char *s, size_t n)
{
    static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    qn_buf_char(b, '"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)s[i];
        uint32_t cp;
        int len = qn_utf8_decode(s + i, n - i, &cp);
        const char *at = c ? strchr(special, c) : NULL;
        if (cp == UINT32_MAX) {
            len = qn_utf8_bad_run(s + i, n - i);
            qn_buf_str(b, "\xef\xbf\xbd");
        } else if (at) {
            qn_buf_char(b, '\\');
            qn_buf_char(b, letter[at - special]);
        } else if (c < 0x20) {
            qn_buf_printf(b, "\\u%04x", c);
        } else {
            qn_buf_add(b, s + i, (size_t)len);
        }
        i += (size_t)len;
    }
    qn_buf_char(b, '"');
}

void qn_json_put_num(qn_buf *b, double d)
{
    char text[40];
    if (!isfinite(d)) {
        qn_buf_str(b, "null");
        return;
    }
    /* Up to 15 digits always come back, but a subnormal number may need fewer than that. */
    for (int digits = fabs(d) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    /* The locale's decimal point is whatever is no part of a number otherwise. */
    size_t n_head = strspn(text, "-0123456789"), n_point = strcspn(text + n_head, "0123456789e");
    qn_buf_add(b, text, n_head);
    if (n_point > 0)
        qn_buf_char(b, '.');
    qn_buf_str(b, text + n_head + n_point);
    if (d == 0 && signbit(d))
        qn_buf_str(b, ".0"); /* "-0" would be read as the integer, which has no sign */
}

void qn_json_put(qn_buf *b, const qn_json *v)
{
    switch (v->type) {
    case QN_JSON_NULL:
        qn_buf_str(b, "null");
        return;
    case QN_JSON_BOOL:
        qn_buf_str(b, v->b ? "true" : "false");
        return;
    case QN_JSON_INT:
        qn_buf_printf(b, "%lld", (long long)v->i);
        return;
    case QN_JSON_REAL:
        qn_json_put_num(b, v->d);
        return;
    case QN_JSON_STR:
        qn_json_put_str(b, v->s, v->n);
        return;
    default:
        break;
    }
    bool object = v->type == QN_JSON_OBJECT;
    qn_buf_char(b, object ? '{' : '[');
    for (uint32_t i = 0; i < v->n; i++) {
        if (i)
            qn_buf_char(b, ',');
        if (object) {
            qn_json_put_str(b, v->items[i].key, v->items[i].key_len);
            qn_buf_char(b, ':');
        }
        qn_json_put(b, &v->items[i]);
    }
    qn_buf_char(b, object ? '}' : ']');
}
