/* utf8.h - UTF-8, strictly as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef QN_BASE_UTF8_H
#define QN_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the character at p (n bytes left, n > 0). Returns its length 1..4 and the code point in *cp;
 * malformed input gives length 1 and *cp = UINT32_MAX. */
int qn_utf8_decode(const char *p, size_t n, uint32_t *cp);

/* Writes cp to out[4] and returns its length; a surrogate or too large cp is written as U+FFFD. */
int qn_utf8_encode(uint32_t cp, char *out);

/* How many bytes at the end of s are a character begun but not finished (0..3), given valid text before. */
size_t qn_utf8_partial(const char *s, size_t n);

/* Length of the longest prefix of s that is valid UTF-8. */
size_t qn_utf8_valid(const char *s, size_t n);

/* Length 1..3 of the maximal ill-formed run at p that a lossy decoder turns into one U+FFFD
 * (Unicode 3.9, "substitution of maximal subparts"; what Rust and Python do). p must be malformed. */
int qn_utf8_bad_run(const char *p, size_t n);

#endif
