/* sha256.h - the checksum of a fetched file (FIPS 180-4). */
#ifndef QN_CLI_SHA256_H
#define QN_CLI_SHA256_H

#include <stddef.h>

/* The digest of data[0..n) as 64 lower-case hexadecimal digits and a NUL. */
void qn_sha256_hex(const void *data, size_t n, char hex[65]);

#endif
