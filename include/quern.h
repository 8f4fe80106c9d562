/* quern.h - the public interface of libquern: models, sessions, requests and events.
 *
 * Ownership is in the names: _open/_close make and end handles, `const T *` is borrowed until its owner
 * changes or ends, and a returned `char *` is the caller's only when the name ends in _dup. Every call
 * that can fail returns a qn_code and fills the qn_error given last (which may be NULL). */
#ifndef QUERN_H
#define QUERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QN_API __attribute__((visibility("default")))

/* The kinds of failure: name, value, words for people. */
#define QN_CODES(X)                                                                                \
    X(QN_OK, 0, "ok")                                                                              \
    X(QN_ERR_IO, -1, "a file could not be read or written")                                        \
    X(QN_ERR_FORMAT, -2, "malformed data")                                                         \
    X(QN_ERR_UNSUPPORTED, -3, "not supported")                                                     \
    X(QN_ERR_MEMORY, -4, "not enough memory")                                                      \
    X(QN_ERR_ARGUMENT, -5, "bad argument")                                                         \
    X(QN_ERR_LIMIT, -6, "a limit was reached")                                                     \
    X(QN_ERR_NOT_FOUND, -7, "not found")                                                           \
    X(QN_ERR_CANCELLED, -8, "cancelled")                                                           \
    X(QN_ERR_RAISED, -9, "the chat template refused the conversation")

typedef enum qn_code {
#define X(name, value, words) name = value,
    QN_CODES(X)
#undef X
} qn_code;

/* What went wrong, where and why, in one line without a newline. */
typedef struct qn_error {
    int code;
    char msg[508];
} qn_error;

#ifdef __cplusplus
}
#endif
#endif
