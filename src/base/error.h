/* error.h - filling a qn_error. The type and the codes are public (quern.h). */
#ifndef QN_BASE_ERROR_H
#define QN_BASE_ERROR_H

#include "quern.h"

/* Writes the message into `err` (NULL is fine) and returns `code`, so that a check reads
 * `return qn_fail(err, QN_ERR_FORMAT, "%s: ...", path)`. Control characters become spaces. */
int qn_fail(qn_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "context: " in front of the message already in `err`; returns err->code (or `code` for NULL). */
int qn_fail_in(qn_error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
