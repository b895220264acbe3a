/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Texts of floating point numbers that do not depend on the locale of the program.
 *
 * The C library converts both ways with correct rounding, but reads and writes the decimal point of the locale. So nothing with a point is
 * given to it: "-12.50e3" is read as the whole number 1250 with the exponent 1. In what it writes, whatever is no digit, no sign and no
 * exponent is the point, however many bytes it takes. No look at the locale itself, which another thread may change.
 *
 * No double needs more than 767 digits to be told from its neighbours; of what follows only counts whether it is zero. */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

#define DIGITS_MAX 800u
#define EXPONENT_MOST 100000 /* past it every number is zero or infinite */

static bool is_number_byte(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e'; }

size_t real_print(double v, int digits, bool scientific, char *out)
{
    char text[REAL_TEXT_MAX];
    size_t at = 0;
    ASSERT(v - v == 0);
    ASSERT(digits >= 0 && digits <= 17);
    int n = scientific ? snprintf(text, sizeof text, "%.*e", digits, v) : snprintf(text, sizeof text, "%.*g", digits, v);
    ASSERT(n > 0 && (size_t)n < sizeof text);
    for (size_t i = 0; i < (size_t)n; i++) {
        if (is_number_byte(text[i])) {
            out[at++] = text[i];
        } else if (out[at - 1] != '.') {
            out[at++] = '.'; /* a digit stands before every point: at > 0 */
        }
    }
    out[at] = '\0';
    return at;
}

/* Digits without a point, and the power of ten that they are to be multiplied by. */
struct digits {
    char text[DIGITS_MAX + 32];
    size_t n;
    int64_t exponent;
    bool rest; /* a digit that is not zero was left out */
};

static void add_digit(struct digits *d, uint8_t c, bool behind_point)
{
    if (d->n == 0 && c == '0') {
        d->exponent -= behind_point;
    } else if (d->n < DIGITS_MAX) {
        d->text[d->n++] = (char)c;
        d->exponent -= behind_point;
    } else {
        d->rest = d->rest || c != '0';
        d->exponent += !behind_point;
    }
}

/* Digits from `at` with at most one point; the place behind them. 0 = there are none. */
static size_t scan_digits(struct bytes text, size_t at, struct digits *d)
{
    bool any = false, point = false;
    for (; at < text.size; at++) {
        uint8_t c = text.data[at];
        if (c == '.' && !point) {
            point = true;
        } else if (c >= '0' && c <= '9') {
            add_digit(d, c, point);
            any = true;
        } else {
            break;
        }
    }
    return any ? at : 0;
}

/* Nothing, or e with a sign and digits, to the end of the text. */
static bool scan_power(struct bytes text, size_t at, int64_t *out)
{
    bool negative = false;
    *out = 0;
    if (at == text.size) return true;
    if (text.data[at] != 'e' && text.data[at] != 'E') return false;
    at++;
    if (at < text.size && (text.data[at] == '-' || text.data[at] == '+')) negative = text.data[at++] == '-';
    if (at == text.size) return false;
    for (; at < text.size; at++) {
        if (text.data[at] < '0' || text.data[at] > '9') return false;
        /* What is this large may be balanced by as many digits, but not more of them than memory holds. */
        if (*out < INT64_MAX / 20) *out = *out * 10 + (text.data[at] - '0');
    }
    if (negative) *out = -*out;
    return true;
}

bool real_parse(struct bytes text, double *out)
{
    struct digits d;
    int64_t power;
    d.n = 0;
    d.exponent = 0;
    d.rest = false;
    size_t at = text.size > 0 && (text.data[0] == '-' || text.data[0] == '+');
    const bool negative = at == 1 && text.data[0] == '-';
    at = scan_digits(text, at, &d);
    if (at == 0 || !scan_power(text, at, &power)) return false;
    if (d.n == 0) d.text[d.n++] = '0';
    if (d.rest) {
        d.text[d.n++] = '1';
        d.exponent--;
    }
    power += d.exponent;
    if (power > EXPONENT_MOST) power = EXPONENT_MOST;
    if (power < -EXPONENT_MOST) power = -EXPONENT_MOST;
    (void)snprintf(d.text + d.n, sizeof d.text - d.n, "e%" PRId64, power);
    double v = strtod(d.text, NULL);
    *out = negative ? -v : v;
    return true;
}
