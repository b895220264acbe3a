/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Two's complement integers of 256 bits: the values of decimals while they are converted, checked or written as text. */
#ifndef ARROW_WIDE_H
#define ARROW_WIDE_H

#include "base/base.h"

struct wide {
    uint64_t word[4]; /* least significant first */
};

/* Digits that a decimal may have at most. */
#define WIDE_MAX_DIGITS 76
/* Longest text of a decimal of any int32 scale that wide_to_text writes plainly: sign, digits, point, leading zero, NUL. Scales
 * outside of -WIDE_MAX_DIGITS..WIDE_MAX_DIGITS are written with an exponent. */
#define WIDE_TEXT_MAX 176

struct wide wide_from_i64(int64_t v);
/* From and to `width` bytes (4, 8, 16, 32) in the machine's byte order; a store keeps the low bytes. */
struct wide wide_load(const uint8_t *bytes, size_t width);
void wide_store(const struct wide *v, uint8_t *bytes, size_t width);
bool wide_negative(const struct wide *v);
/* |v| < 10^digits; digits <= WIDE_MAX_DIGITS. */
bool wide_fits_digits(const struct wide *v, int32_t digits);
/* v * 10^n; false when 256 bits do not suffice. */
bool wide_scale_up(struct wide *v, int32_t n);
/* v / 10^n when nothing is left over, else false and v is undefined. */
bool wide_scale_down(struct wide *v, int32_t n);
/* Text of v * 10^-scale with all digits of the scale ("-12.50"), NUL-terminated; returns its length. */
size_t wide_to_text(const struct wide *v, int32_t scale, char out[WIDE_TEXT_MAX]);
/* A number in decimal notation (sign, digits, one point, exponent) as v with the scale; false when it is no number, has more
 * digits behind the point than the scale, or does not fit `digits` digits. */
bool wide_from_text(struct bytes text, int32_t scale, int32_t digits, struct wide *out);

#endif
