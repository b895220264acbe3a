/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Values to text: numbers in their shortest exact form, dates and times as ISO 8601, binary as base64 or hex.
 *
 * A double is tried as digits * 10^-k for small k first: when the digits are below 2^53 and dividing them by the power gives the
 * number back, that text reads back exactly and no shorter one with fewer places does. Other numbers go through the C
 * library with 15 to 17 digits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ingest/ingest.h"

size_t format_uint64(uint64_t v, char *out)
{
    char reversed[20];
    size_t n = 0;
    do reversed[n++] = (char)('0' + v % 10);
    while ((v /= 10) != 0);
    for (size_t i = 0; i < n; i++) out[i] = reversed[n - 1 - i];
    out[n] = '\0';
    return n;
}

size_t format_int64(int64_t v, char *out)
{
    if (v >= 0) return format_uint64((uint64_t)v, out);
    out[0] = '-';
    return 1 + format_uint64(0 - (uint64_t)v, out + 1);
}

/* `n` digits with zeros in front. */
static size_t put_digits(uint64_t v, size_t n, char *out)
{
    for (size_t i = n; i-- > 0; v /= 10) out[i] = (char)('0' + v % 10);
    out[n] = '\0';
    return n;
}

/* ----------------------------------------------------------------------------------------------------- floating point */

/* Does the text read back as the number? As a float: after rounding to one. */
static bool reads_back(struct bytes text, double v, int bits)
{
    double back;
    if (!real_parse(text, &back)) return false;
    if (bits == 32) return (float)back == (float)v;
    return back == v;
}

/* Not finite numbers; 0 = it is one. */
static size_t format_special(double v, char *out)
{
    const char *text = v != v ? "nan" : v > 0 ? "inf" : "-inf";
    if (v - v == 0) return 0;
    memcpy(out, text, strlen(text) + 1);
    return strlen(text);
}

/* digits * 10^-places with a point: at least one place is written. */
static size_t format_places(bool negative, uint64_t digits, unsigned places, char *out)
{
    uint64_t power = 1;
    size_t n = 0;
    for (unsigned i = 0; i < places; i++) power *= 10;
    if (negative) out[n++] = '-';
    n += format_uint64(digits / power, out + n);
    out[n++] = '.';
    if (places == 0) return n + put_digits(0, 1, out + n);
    return n + put_digits(digits % power, places, out + n);
}

/* The shortest of `from`..`to` significant digits that reads back, by the C library. */
static size_t format_by_library(double v, int from, int to, int bits, char *out)
{
    size_t at = 0;
    for (int digits = from; digits <= to; digits++) {
        at = real_print(v, digits, false, out);
        if (digits == to || reads_back(bytes_of(out, at), v, bits)) break;
    }
    /* A whole number keeps the look of a floating point one. */
    if (strpbrk(out, ".e") == NULL) {
        memcpy(out + at, ".0", 3);
        at += 2;
    }
    return at;
}

/* Places behind the point that are tried: the digits have to stay below 2^53. */
#define PLACES_MAX 12

static size_t format_real(double v, int bits, char *out)
{
    static const double powers[PLACES_MAX + 1] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
    size_t special = format_special(v, out);
    double magnitude = v < 0 ? -v : v;
    double limit = bits == 32 ? 1e7 : 1e15;
    if (special > 0) return special;
    bool negative = signbit(v) != 0;
    for (unsigned k = 0; k <= PLACES_MAX && magnitude < 1e15; k++) {
        double scaled = magnitude * powers[k];
        if (scaled >= limit) break;
        uint64_t digits = (uint64_t)(scaled + 0.5);
        double back = (double)digits / powers[k];
        /* Very small numbers are shorter with an exponent. */
        if (digits == 0 && magnitude != 0) continue;
        if (bits == 32 ? (float)back == (float)magnitude : back == magnitude) return format_places(negative, digits, k, out);
    }
    /* Subnormal numbers have fewer digits that count. */
    if (bits == 32) return format_by_library(v, magnitude < 1.2e-38 ? 1 : 6, 9, 32, out);
    return format_by_library(v, magnitude < 2.3e-308 ? 1 : 15, 17, 64, out);
}

size_t format_double(double v, char *out) { return format_real(v, 64, out); }
size_t format_float(float v, char *out) { return format_real((double)v, 32, out); }

/* A half is exact as a float; five digits tell all of them apart. */
size_t format_half(double v, char *out)
{
    size_t special = format_special(v, out);
    return special > 0 ? special : format_by_library(v, 5, 5, 64, out);
}

/* ---------------------------------------------------------------------------------------------------- dates and times */

/* The inverse of the count of days: eras of 400 years from March. */
static void date_of(int64_t days, int64_t *year, unsigned *month, unsigned *day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    *day = (unsigned)(day_of_year - (153 * shifted + 2) / 5 + 1);
    *month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

size_t format_date(int64_t days, char *out)
{
    int64_t year = 0;
    unsigned month = 0;
    unsigned day = 0;
    size_t n = 0;
    date_of(days, &year, &month, &day);
    if (year >= 0 && year <= 9999) {
        n = put_digits((uint64_t)year, 4, out);
    } else { /* the extended form: a sign, and as many digits as it takes */
        uint64_t magnitude = year < 0 ? (uint64_t)-year : (uint64_t)year;
        out[n++] = year < 0 ? '-' : '+';
        n += magnitude <= 9999 ? put_digits(magnitude, 4, out + n) : format_uint64(magnitude, out + n);
    }
    out[n++] = '-';
    n += put_digits(month, 2, out + n);
    out[n++] = '-';
    return n + put_digits(day, 2, out + n);
}

static uint64_t per_second(enum arrow_unit unit)
{
    static const uint64_t per[] = {1, 1000, 1000000, 1000000000};
    return per[unit];
}

/* Units since midnight, less than a day. */
static size_t put_time(uint64_t v, enum arrow_unit unit, char *out)
{
    uint64_t scale = per_second(unit);
    uint64_t seconds = v / scale;
    uint64_t fraction = v % scale;
    size_t n = put_digits(seconds / 3600, 2, out);
    out[n++] = ':';
    n += put_digits(seconds / 60 % 60, 2, out + n);
    out[n++] = ':';
    n += put_digits(seconds % 60, 2, out + n);
    if (fraction == 0) return n;
    out[n++] = '.';
    return n + put_digits(fraction, 3 * (size_t)unit, out + n);
}

size_t format_time(int64_t v, enum arrow_unit unit, char *out)
{
    /* What is no time of a day (nothing checks it) is shown as the number that it is. */
    if (v < 0 || (uint64_t)v >= 86400 * per_second(unit)) return format_int64(v, out);
    return put_time((uint64_t)v, unit, out);
}

size_t format_timestamp(int64_t v, enum arrow_unit unit, bool zoned, char *out)
{
    int64_t day = (int64_t)(86400 * per_second(unit));
    int64_t days = v / day - (v % day < 0);
    size_t n = format_date(days, out);
    out[n++] = 'T';
    n += put_time((uint64_t)(v - days * day), unit, out + n);
    if (zoned) out[n++] = 'Z';
    out[n] = '\0';
    return n;
}

/* Months, days and nanoseconds as an ISO 8601 duration, each part with its own sign. */
static size_t format_interval(int32_t months, int32_t days, int64_t nanos, char *out)
{
    size_t n = 0;
    out[n++] = 'P';
    if (months != 0) {
        n += format_int64(months, out + n);
        out[n++] = 'M';
    }
    if (days != 0) {
        n += format_int64(days, out + n);
        out[n++] = 'D';
    }
    if (nanos != 0 || n == 1) {
        uint64_t magnitude = nanos < 0 ? 0 - (uint64_t)nanos : (uint64_t)nanos;
        out[n++] = 'T';
        if (nanos < 0) out[n++] = '-';
        n += format_uint64(magnitude / 1000000000, out + n);
        if (magnitude % 1000000000 != 0) {
            out[n++] = '.';
            n += put_digits(magnitude % 1000000000, 9, out + n);
        }
        out[n++] = 'S';
    }
    out[n] = '\0';
    return n;
}

/* ------------------------------------------------------------------------------------------------------------- binary */

pennon_status put_hex(struct bytes in, struct buf *out, pennon_error *err)
{
    static const char digits[] = "0123456789abcdef";
    if (in.size == 0) return PENNON_OK;
    if (in.size > SIZE_MAX / 2) return error_set(err, PENNON_OVER_BUDGET, "%zu bytes of binary", in.size);
    TRY_RETURN(buf_grow(out, in.size * 2, err));
    for (size_t i = 0; i < in.size; i++) {
        out->data[out->size++] = (uint8_t)digits[in.data[i] >> 4];
        out->data[out->size++] = (uint8_t)digits[in.data[i] & 15];
    }
    return PENNON_OK;
}

/* ---------------------------------------------------------------------------------------------------------- any value */

enum text_kind text_kind_of(const struct arrow_type *type)
{
    if (arrow_id_is_text(type->id)) return TEXT_STRING;
    if (arrow_id_is_variable(type->id) || type->id == ARROW_FIXED_SIZE_BINARY) return TEXT_BINARY;
    return type->layout == LAYOUT_BITS || (type->layout == LAYOUT_FIXED && type->id != ARROW_DICTIONARY) ? TEXT_PLAIN : TEXT_NESTED;
}

static int32_t word_at(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static size_t format_intervals(const struct array_view *v, int64_t i, char *out)
{
    const uint8_t *p = array_view_fixed(v, i);
    int64_t nanos = 0;
    if (v->type.id == ARROW_INTERVAL_MONTHS) return format_interval(word_at(p), 0, 0, out);
    if (v->type.id == ARROW_INTERVAL_DAY_TIME) return format_interval(0, word_at(p), (int64_t)word_at(p + 4) * 1000000, out);
    memcpy(&nanos, p + 8, sizeof nanos);
    return format_interval(word_at(p), word_at(p + 4), nanos, out);
}

size_t format_value(const struct array_view *v, int64_t i, char *out)
{
    const struct arrow_type *t = &v->type;
    struct wide w;
    switch (t->id) {
    case ARROW_BOOL: {
        bool truth = array_view_bool(v, i);
        memcpy(out, truth ? "true" : "false", truth ? 5 : 6);
        return truth ? 4 : 5;
    }
    case ARROW_UINT64: return format_uint64((uint64_t)array_view_int(v, i), out);
    case ARROW_FLOAT16: return format_half(array_view_double(v, i), out);
    case ARROW_FLOAT32: return format_float((float)array_view_double(v, i), out);
    case ARROW_FLOAT64: return format_double(array_view_double(v, i), out);
    case ARROW_DECIMAL32:
    case ARROW_DECIMAL64:
    case ARROW_DECIMAL128:
    case ARROW_DECIMAL256: w = wide_load(array_view_fixed(v, i), arrow_type_width(t)); return wide_to_text(&w, t->scale, out);
    case ARROW_DATE32: return format_date(array_view_int(v, i), out);
    case ARROW_DATE64: {
        int64_t ms = array_view_int(v, i);
        return ms % 86400000 == 0 ? format_date(ms / 86400000, out) : format_timestamp(ms, ARROW_MILLI, false, out);
    }
    case ARROW_TIME32:
    case ARROW_TIME64: return format_time(array_view_int(v, i), t->unit, out);
    case ARROW_TIMESTAMP: return format_timestamp(array_view_int(v, i), t->unit, t->timezone[0] != '\0', out);
    case ARROW_INTERVAL_MONTHS:
    case ARROW_INTERVAL_DAY_TIME:
    case ARROW_INTERVAL_MONTH_DAY_NANO: return format_intervals(v, i, out);
    default: return format_int64(array_view_int(v, i), out);
    }
}
