/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Integers of 256 bits in four words, for decimals.
 *
 * Magnitudes are multiplied and divided by words; signs are taken off before and put back after. Nothing here is on a hot path
 * of the file format: decimals are stored as they are. */
#include "arrow/arrow.h"

#include <stdio.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define WIDE_BIG_ENDIAN 1
#else
#define WIDE_BIG_ENDIAN 0
#endif

struct wide wide_from_i64(int64_t v)
{
    uint64_t fill = v < 0 ? UINT64_MAX : 0;
    return (struct wide){{(uint64_t)v, fill, fill, fill}};
}

bool wide_negative(const struct wide *v) { return (v->word[3] >> 63) != 0; }

struct wide wide_load(const uint8_t *bytes, size_t width)
{
    struct wide v;
    int32_t narrow = 0;
    int64_t word = 0;
    size_t words = width / 8;
    if (width == 4) {
        memcpy(&narrow, bytes, 4);
        return wide_from_i64(narrow);
    }
    for (size_t i = 0; i < words; i++) {
        memcpy(&word, bytes + 8 * (WIDE_BIG_ENDIAN ? words - 1 - i : i), 8);
        v.word[i] = (uint64_t)word;
    }
    for (size_t i = words; i < 4; i++) v.word[i] = word < 0 ? UINT64_MAX : 0;
    return v;
}

void wide_store(const struct wide *v, uint8_t *bytes, size_t width)
{
    size_t words = width / 8;
    if (width == 4) {
        uint32_t narrow = (uint32_t)v->word[0];
        memcpy(bytes, &narrow, 4);
        return;
    }
    for (size_t i = 0; i < words; i++) memcpy(bytes + 8 * (WIDE_BIG_ENDIAN ? words - 1 - i : i), &v->word[i], 8);
}

static struct wide negate(const struct wide *v)
{
    struct wide r;
    uint64_t carry = 1;
    for (size_t i = 0; i < 4; i++) {
        r.word[i] = ~v->word[i] + carry;
        carry = carry != 0 && r.word[i] == 0;
    }
    return r;
}

/* The magnitude as an unsigned number; -2^255 gives 2^255. */
static struct wide magnitude(const struct wide *v) { return wide_negative(v) ? negate(v) : *v; }

/* a * factor + add; false when it does not fit 256 bits. */
static bool multiply_add(struct wide *a, uint32_t factor, uint32_t add)
{
    uint64_t carry = add;
    for (size_t i = 0; i < 4; i++) {
        uint64_t low = (a->word[i] & UINT32_MAX) * factor + carry;
        uint64_t high = (a->word[i] >> 32) * factor + (low >> 32);
        a->word[i] = high << 32 | (low & UINT32_MAX);
        carry = high >> 32;
    }
    return carry == 0;
}

/* a / divisor; the remainder. */
static uint32_t divide(struct wide *a, uint32_t divisor)
{
    uint64_t rest = 0;
    for (size_t i = 4; i-- > 0;) {
        uint64_t high = rest << 32 | a->word[i] >> 32;
        uint64_t low = (high % divisor) << 32 | (a->word[i] & UINT32_MAX);
        a->word[i] = high / divisor << 32 | low / divisor;
        rest = low % divisor;
    }
    return (uint32_t)rest;
}

static bool is_zero(const struct wide *v) { return (v->word[0] | v->word[1] | v->word[2] | v->word[3]) == 0; }

/* Decimal digits of a magnitude, most significant first; returns their number (1 for zero), at most 78. */
static size_t digits_of(struct wide m, char out[80])
{
    char reversed[80];
    size_t n = 0;
    do {
        uint32_t chunk = divide(&m, 1000000000u);
        for (int i = 0; i < 9 && (i == 0 || chunk != 0 || !is_zero(&m)) && n < sizeof reversed; i++, chunk /= 10) {
            reversed[n++] = (char)('0' + chunk % 10);
        }
    } while (!is_zero(&m));
    while (n > 1 && reversed[n - 1] == '0') n--;
    for (size_t i = 0; i < n; i++) out[i] = reversed[n - 1 - i];
    return n;
}

int wide_compare(const struct wide *a, const struct wide *b)
{
    if (wide_negative(a) != wide_negative(b)) return wide_negative(a) ? -1 : 1;
    for (size_t i = 4; i-- > 0;) {
        if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
    }
    return 0;
}

struct wide wide_add(const struct wide *a, const struct wide *b)
{
    struct wide r;
    uint64_t carry = 0;
    for (size_t i = 0; i < 4; i++) {
        const uint64_t sum = a->word[i] + b->word[i];
        r.word[i] = sum + carry;
        carry = (sum < a->word[i]) | (r.word[i] < sum);
    }
    return r;
}

struct wide wide_divide(const struct wide *a, const struct wide *b, struct wide *rest)
{
    const struct wide from = magnitude(a), by = magnitude(b), minus = negate(&by);
    struct wide quotient = {0}, left = {0};
    ASSERT(!is_zero(b));
    /* A bit at a time: `left` stays below 2 * by, which 256 bits hold. */
    for (size_t bit = 256; bit-- > 0;) {
        for (size_t i = 4; i-- > 1;) left.word[i] = left.word[i] << 1 | left.word[i - 1] >> 63;
        left.word[0] = left.word[0] << 1 | (from.word[bit / 64] >> bit % 64 & 1);
        bool fits = false;
        for (size_t i = 4; i-- > 0;) {
            fits = left.word[i] >= by.word[i];
            if (left.word[i] != by.word[i]) break;
        }
        if (!fits) continue;
        left = wide_add(&left, &minus);
        quotient.word[bit / 64] |= (uint64_t)1 << bit % 64;
    }
    if (rest) *rest = wide_negative(a) ? negate(&left) : left;
    return wide_negative(a) != wide_negative(b) ? negate(&quotient) : quotient;
}

bool wide_fits_digits(const struct wide *v, int32_t digits)
{
    char text[80];
    struct wide m = magnitude(v);
    return (int32_t)digits_of(m, text) <= digits;
}

bool wide_scale_up(struct wide *v, int32_t n)
{
    bool negative = wide_negative(v);
    struct wide m = magnitude(v);
    if (n > WIDE_MAX_DIGITS + 2) return is_zero(&m);
    for (int32_t i = 0; i < n; i++) {
        if (!multiply_add(&m, 10, 0)) return false;
    }
    if (m.word[3] >> 63) return false;
    *v = negative ? negate(&m) : m;
    return true;
}

bool wide_scale_down(struct wide *v, int32_t n)
{
    bool negative = wide_negative(v);
    struct wide m = magnitude(v);
    for (int32_t i = 0; i < n && !is_zero(&m); i++) {
        if (divide(&m, 10) != 0) return false;
    }
    *v = negative ? negate(&m) : m;
    return true;
}

size_t wide_to_text(const struct wide *v, int32_t scale, char out[WIDE_TEXT_MAX])
{
    char digits[80];
    size_t n = digits_of(magnitude(v), digits);
    size_t at = 0;
    if (wide_negative(v)) out[at++] = '-';
    if (scale > WIDE_MAX_DIGITS || scale < 0) {
        /* Far away from the point (or in front of it): digits and an exponent. */
        memcpy(out + at, digits, n);
        int written = snprintf(out + at + n, WIDE_TEXT_MAX - at - n, "e%" PRId64, -(int64_t)scale);
        return at + n + (size_t)written;
    }
    size_t fraction = (size_t)scale;
    size_t whole = n > fraction ? n - fraction : 0;
    if (whole == 0) out[at++] = '0';
    memcpy(out + at, digits, whole);
    at += whole;
    if (fraction > 0) {
        out[at++] = '.';
        for (size_t i = n - whole; i < fraction; i++) out[at++] = '0';
        memcpy(out + at, digits + whole, n - whole);
        at += n - whole;
    }
    out[at] = '\0';
    return at;
}

/* The exponent behind 'e', or 0 when the text ends; false when it is none. */
static bool parse_exponent(struct bytes text, size_t at, int32_t *out)
{
    bool negative = false;
    int32_t e = 0;
    *out = 0;
    if (at == text.size) return true;
    if ((text.data[at] | 0x20) != 'e') return false;
    at++;
    if (at < text.size && (text.data[at] == '-' || text.data[at] == '+')) negative = text.data[at++] == '-';
    if (at == text.size) return false;
    for (; at < text.size; at++) {
        if (text.data[at] < '0' || text.data[at] > '9' || e > 100000) return false;
        e = e * 10 + (text.data[at] - '0');
    }
    *out = negative ? -e : e;
    return true;
}

bool wide_from_text(struct bytes text, int32_t scale, int32_t digits, struct wide *out)
{
    struct wide m = wide_from_i64(0);
    size_t at = 0;
    bool negative = false;
    bool point = false;
    bool any = false;
    int64_t behind = 0; /* digits behind the point */
    int32_t exponent = 0;

    if (text.size > 0 && (text.data[0] == '-' || text.data[0] == '+')) negative = text.data[at++] == '-';
    for (; at < text.size; at++) {
        uint8_t c = text.data[at];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9') break;
        if (!multiply_add(&m, 10, (uint32_t)(c - '0'))) return false;
        any = true;
        behind += point;
    }
    if (!any || m.word[3] >> 63 || !parse_exponent(text, at, &exponent)) return false;
    /* m * 10^(exponent - behind) = v * 10^-scale */
    int64_t shift = (int64_t)scale + exponent - behind;
    if (is_zero(&m)) shift = 0;
    if (shift > WIDE_MAX_DIGITS || shift < -1000000) return false;
    if (shift >= 0 ? !wide_scale_up(&m, (int32_t)shift) : !wide_scale_down(&m, (int32_t)-shift)) return false;
    *out = negative ? negate(&m) : m;
    return wide_fits_digits(out, digits);
}
