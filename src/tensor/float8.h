/* float8.h - the one-byte floats and the 4-bit code table that microscaling layouts are made of. */
#ifndef QN_TENSOR_FLOAT8_H
#define QN_TENSOR_FLOAT8_H

#include <stdint.h>

float qn_f8_e4m3_to_f32(uint8_t b); /* the "fn" kind: largest value 448, 0x7f and 0xff NaN */
float qn_f8_e5m2_to_f32(uint8_t b);
float qn_f8_e8m0_to_f32(uint8_t b); /* 2^(b - 127); 255 is NaN */

extern const float qn_e2m1[16]; /* 0 .5 1 1.5 2 3 4 6 and their negatives */

#endif
