/* json.c - see json.h. A recursive reader over a byte range; children are gathered on one shared stack
 * and copied into the arena when their container closes, which makes them contiguous. */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/utf8.h"

typedef struct reader {
    qn_arena *arena;
    const char *start, *p, *end;
    qn_json *stack;
    size_t n_stack, cap_stack;
    int depth;
    qn_error *err;
} reader;

static bool fail_at(reader *r, const char *what)
{
    qn_fail(r->err, QN_ERR_FORMAT, "JSON, byte %zu: %s", (size_t)(r->p - r->start), what);
    return false;
}

static void skip_space(reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

static bool read_hex4(reader *r, uint32_t *out)
{
    if (r->end - r->p < 4)
        return fail_at(r, "cut \\u escape");
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int c = *r->p++;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return fail_at(r, "bad \\u escape");
        v = v << 4 | (uint32_t)d;
    }
    *out = v;
    return true;
}

/* The escape after a backslash; appends its UTF-8 to *out. */
static bool read_escape(reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (r->p >= r->end)
        return fail_at(r, "cut escape");
    char c = *r->p++;
    if (c != 'u') {
        const char *at = c ? strchr(from, c) : NULL;
        if (!at)
            return fail_at(r, "unknown escape");
        *(*out)++ = to[at - from];
        return true;
    }
    uint32_t cp, low;
    if (!read_hex4(r, &cp))
        return false;
    if (cp >= 0xd800 && cp < 0xdc00 && r->end - r->p >= 6 && r->p[0] == '\\' && r->p[1] == 'u') {
        const char *back = r->p;
        r->p += 2;
        if (!read_hex4(r, &low))
            return false;
        if (low >= 0xdc00 && low < 0xe000)
            cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        else
            r->p = back; /* the high surrogate stands alone */
    }
    *out += qn_utf8_encode(cp, *out);
    return true;
}

/* The string whose opening quote was just passed. An escape is never shorter than its UTF-8. */
static bool read_string(reader *r, const char **s, uint32_t *n)
{
    const char *q = r->p;
    while (q < r->end && *q != '"')
        q += *q == '\\' && r->end - q > 1 ? 2 : 1;
    if (q >= r->end)
        return fail_at(r, "unterminated string");
    if (q - r->p > INT32_MAX)
        return fail_at(r, "string too long");
    char *buf = qn_arena_alloc(r->arena, (size_t)(q - r->p) + 1), *out = buf;
    while (r->p < q) {
        unsigned char c = (unsigned char)*r->p;
        if (c == '\\') {
            r->p++;
            if (!read_escape(r, &out))
                return false;
        } else if (c < 0x20) {
            return fail_at(r, "control character in a string");
        } else if (c < 0x80) {
            *out++ = *r->p++;
        } else {
            uint32_t cp;
            int len = qn_utf8_decode(r->p, (size_t)(q - r->p), &cp);
            if (cp == UINT32_MAX)
                return fail_at(r, "malformed UTF-8");
            memcpy(out, r->p, (size_t)len);
            out += len;
            r->p += len;
        }
    }
    r->p = q + 1;
    *s = buf;
    *n = (uint32_t)(out - buf);
    return true;
}

static bool is_digit(const reader *r, const char *p)
{
    return p < r->end && *p >= '0' && *p <= '9';
}

static bool read_number(reader *r, qn_json *v)
{
    const char *s = r->p, *p = s;
    bool whole = true;
    if (*p == '-')
        p++;
    if (!is_digit(r, p))
        return fail_at(r, "unexpected character");
    if (*p == '0' && is_digit(r, p + 1))
        return fail_at(r, "number with a leading zero");
    while (is_digit(r, p))
        p++;
    if (p < r->end && *p == '.') {
        whole = false;
        if (!is_digit(r, ++p))
            return fail_at(r, "bad number");
        while (is_digit(r, p))
            p++;
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        whole = false;
        p++;
        if (p < r->end && (*p == '+' || *p == '-'))
            p++;
        if (!is_digit(r, p))
            return fail_at(r, "bad exponent");
        while (is_digit(r, p))
            p++;
    }
    char small[64], *text = small;
    size_t n = (size_t)(p - s);
    if (n >= sizeof small)
        text = qn_arena_alloc(r->arena, n + 1);
    memcpy(text, s, n);
    text[n] = '\0';
    r->p = p;
    if (whole) {
        int64_t i = 0;
        bool fits = true;
        for (const char *d = text + (*text == '-'); *d && fits; d++)
            fits = !__builtin_mul_overflow(i, 10, &i) && !__builtin_sub_overflow(i, *d - '0', &i);
        if (fits && *text != '-')
            fits = !__builtin_sub_overflow((int64_t)0, i, &i);
        if (fits) {
            v->type = QN_JSON_INT;
            v->i = i;
            return true;
        }
    }
    v->type = QN_JSON_REAL;
    v->d = strtod(text, NULL);
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
    if (read_word(r, "true") || read_word(r, "false")) {
        v->type = QN_JSON_BOOL;
        v->b = r->p[-2] == 'u';
    } else if (read_word(r, "null")) {
        v->type = QN_JSON_NULL;
    } else if (read_word(r, "NaN") || read_word(r, "Infinity") || read_word(r, "-Infinity")) {
        v->type = QN_JSON_REAL;
        v->d = r->p[-1] == 'N'                           ? NAN
               : r->p - r->start >= 9 && r->p[-9] == '-' ? -INFINITY
                                                         : INFINITY;
    } else {
        return read_number(r, v);
    }
    return true;
}

static bool read_value(reader *r, qn_json *v);

/* The members or items after an opening bracket, up to and with the closing one. */
static bool read_children(reader *r, qn_json *v, bool object)
{
    size_t base = r->n_stack;
    char close = object ? '}' : ']';
    if (++r->depth > QN_JSON_MAX_DEPTH)
        return fail_at(r, "nested too deeply");
    skip_space(r);
    bool empty = r->p < r->end && *r->p == close;
    for (bool more = !empty; more;) {
        qn_json child = { 0 };
        skip_space(r);
        if (object) {
            if (r->p >= r->end || *r->p != '"')
                return fail_at(r, "a key was expected");
            r->p++;
            if (!read_string(r, &child.key, &child.key_len))
                return false;
            skip_space(r);
            if (r->p >= r->end || *r->p++ != ':')
                return fail_at(r, "':' was expected");
        }
        if (!read_value(r, &child))
            return false;
        QN_GROW(r->stack, r->n_stack, r->cap_stack);
        r->stack[r->n_stack++] = child;
        skip_space(r);
        more = r->p < r->end && *r->p == ',';
        if (more)
            r->p++;
    }
    if (r->p >= r->end || *r->p != close)
        return fail_at(r, object ? "',' or '}' was expected" : "',' or ']' was expected");
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
        return fail_at(r, "unexpected end");
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
    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3, n -= 3;
    reader r = { .arena = a, .start = text, .p = text, .end = text + n, .err = err };
    qn_json *root = qn_arena_alloc(a, sizeof *root);
    bool ok = n <= UINT32_MAX || fail_at(&r, "larger than 4 GiB");
    ok = ok && read_value(&r, root);
    skip_space(&r);
    if (ok && r.p != r.end)
        ok = fail_at(&r, "text after the end");
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
        } else if (c < 0x20 || c == 0x7f) {
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
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d)
            break;
    }
    qn_buf_str(b, text);
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
