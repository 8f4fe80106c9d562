/* json.h - JSON read into an arena, and written into a qn_buf.
 *
 * Reading accepts RFC 8259 and, because published configs have them, bare NaN, Infinity and -Infinity.
 * Integers that fit 64 bits stay exact. Nesting is limited to QN_JSON_MAX_DEPTH. Strings are UTF-8, may
 * hold NUL, and have a NUL after them; a lone surrogate escape reads as U+FFFD, malformed UTF-8 is
 * an error. Members keep their order; of equal keys the last one counts. Children are a plain array, so
 * walking a large vocabulary costs nothing; never look its keys up one by one. */
#ifndef QN_BASE_JSON_H
#define QN_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"

#define QN_JSON_MAX_DEPTH 256

typedef enum qn_json_type {
    QN_JSON_NULL,
    QN_JSON_BOOL,
    QN_JSON_INT,
    QN_JSON_REAL,
    QN_JSON_STR,
    QN_JSON_ARRAY,
    QN_JSON_OBJECT
} qn_json_type;

typedef struct qn_json {
    const char *key; /* of an object's member, else NULL */
    uint32_t key_len;
    uint8_t type;
    uint32_t n; /* children, or bytes of a string */
    union {
        bool b;
        int64_t i;
        double d;
        const char *s;
        struct qn_json *items;
    };
} qn_json;

/* Parses all of text[0..n). NULL with err filled ("byte N: why") on failure. Nodes live in `a`. */
qn_json *qn_json_parse(qn_arena *a, const char *text, size_t n, qn_error *err);
qn_json *qn_json_parse_file(qn_arena *a, const char *path, qn_error *err); /* err names the path */

/* All accept NULL and other types: they give NULL or the fallback. */
const qn_json *qn_json_get(const qn_json *obj, const char *key);
const qn_json *qn_json_path(const qn_json *obj, const char *dotted); /* "model.vocab" */
const qn_json *qn_json_at(const qn_json *array, size_t i);
bool qn_json_is(const qn_json *v, qn_json_type type);
bool qn_json_is_number(const qn_json *v);
const char *qn_json_str(const qn_json *v, const char *fallback);
int64_t qn_json_int(const qn_json *v, int64_t fallback); /* a REAL that is whole counts */
double qn_json_num(const qn_json *v, double fallback);
bool qn_json_bool(const qn_json *v, bool fallback);
bool qn_json_eq(const qn_json *v, const char *s); /* is the string s */

/* Writing. Strings are escaped minimally (non-ASCII stays); malformed UTF-8 becomes U+FFFD. */
void qn_json_put_str(qn_buf *b, const char *s, size_t n);
void qn_json_put_num(qn_buf *b,
                     double d); /* shortest text that reads back; NaN and Infinity as null */
void qn_json_put(qn_buf *b, const qn_json *v);

#endif
