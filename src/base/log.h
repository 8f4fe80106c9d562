/* log.h - one line a message on standard error, "quern: ..." Levels: 0 errors, 1 warnings, 2 info, 3 debug. */
#ifndef QN_BASE_LOG_H
#define QN_BASE_LOG_H

enum { QN_LOG_ERROR, QN_LOG_WARN, QN_LOG_INFO, QN_LOG_DEBUG };

void qn_log_level(int level); /* set once before threads start; default QN_LOG_WARN */
void qn_log(int level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
