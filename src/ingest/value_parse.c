/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Values from text: integers, floating point, dates and times; and texts appended to a builder of any type.
 *
 * Parsers take the whole text or nothing and do not look at the locale. */
#include <math.h>
#include <stdlib.h>

#include "ingest/ingest.h"

/* Longest text of a number that is looked at by the C library. */
#define NUMBER_TEXT_MAX 1100u

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* The text is this word, whatever the case; `word` is in lower case. */
static bool is_word(struct bytes text, const char *word)
{
    size_t n = strlen(word);
    if (text.size != n) return false;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = text.data[i];
        if (c >= 'A' && c <= 'Z') c = (uint8_t)(c | 0x20);
        if (c != (uint8_t)word[i]) return false;
    }
    return true;
}

bool parse_uint64(struct bytes text, uint64_t *out)
{
    uint64_t v = 0;
    if (text.size == 0 || text.size > 20) return false;
    for (size_t i = 0; i < text.size; i++) {
        uint64_t digit = (uint64_t)(text.data[i] - '0');
        if (!is_digit(text.data[i]) || mul_overflows(v, 10, &v) || add_overflows(v, digit, &v)) return false;
    }
    *out = v;
    return true;
}

bool parse_int64(struct bytes text, int64_t *out)
{
    uint64_t v = 0;
    bool negative = text.size > 0 && text.data[0] == '-';
    if (negative) text = bytes_of(text.data + 1, text.size - 1);
    if (!parse_uint64(text, &v) || v > (uint64_t)INT64_MAX + negative) return false;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

bool parse_bool(struct bytes text, bool *out)
{
    *out = is_word(text, "true");
    return *out || is_word(text, "false");
}

/* ----------------------------------------------------------------------------------------------------- floating point */

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* A number taken apart. */
struct decimal_text {
    bool negative;
    uint64_t digits;  /* the first significant ones */
    int n_digits;     /* of them; over 19 = `digits` is not complete */
    int64_t exponent; /* digits * 10^exponent */
};

static bool scan_exponent(struct bytes text, size_t at, int64_t *out)
{
    bool negative = false;
    int64_t e = 0;
    *out = 0;
    if (at == text.size) return true;
    if ((text.data[at] | 0x20) != 'e') return false;
    at++;
    if (at < text.size && (text.data[at] == '-' || text.data[at] == '+')) negative = text.data[at++] == '-';
    if (at == text.size) return false;
    for (; at < text.size; at++) {
        if (!is_digit(text.data[at])) return false;
        if (e < 100000) e = e * 10 + (text.data[at] - '0');
    }
    *out = negative ? -e : e;
    return true;
}

static bool scan_decimal(struct bytes text, struct decimal_text *out)
{
    size_t at = 0;
    bool point = false;
    bool any = false;
    int64_t e = 0;
    memset(out, 0, sizeof *out);
    if (text.size > 0 && (text.data[0] == '-' || text.data[0] == '+')) out->negative = text.data[at++] == '-';
    for (; at < text.size; at++) {
        uint8_t c = text.data[at];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(c)) break;
        any = true;
        out->exponent -= point;
        if (out->n_digits < 19) out->digits = out->digits * 10 + (uint64_t)(c - '0');
        if (out->n_digits >= 19) out->exponent++;
        out->n_digits += out->digits != 0; /* zeros in front do not count */
    }
    if (!any || !scan_exponent(text, at, &e)) return false;
    out->exponent += e;
    return true;
}

bool parse_double(struct bytes text, double *out)
{
    struct decimal_text d;
    bool negative = text.size > 0 && text.data[0] == '-';
    struct bytes unsigned_text = negative || (text.size > 0 && text.data[0] == '+') ? bytes_of(text.data + 1, text.size - 1) : text;
    if (!scan_decimal(text, &d)) {
        if (is_word(unsigned_text, "nan")) {
            *out = (double)NAN;
            return true;
        }
        if (!is_word(unsigned_text, "inf") && !is_word(unsigned_text, "infinity")) return false;
        *out = negative ? -HUGE_VAL : HUGE_VAL;
        return true;
    }
    /* Both numbers are exact, so one rounding is made: the correct one. */
    if (d.n_digits <= 19 && d.digits <= (uint64_t)1 << 53 && d.exponent >= -22 && d.exponent <= 22) {
        double v = (double)d.digits;
        v = d.exponent < 0 ? v / POWERS[-d.exponent] : v * POWERS[d.exponent];
        *out = d.negative ? -v : v;
        return true;
    }
    return text.size <= NUMBER_TEXT_MAX && real_parse(text, out);
}

/* ---------------------------------------------------------------------------------------------------- dates and times */

/* `n` digits at `at`. */
static bool digits_at(struct bytes text, size_t at, size_t n, int64_t *out)
{
    int64_t v = 0;
    if (text.size < n || at > text.size - n) return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(text.data[at + i])) return false;
        v = v * 10 + (text.data[at + i] - '0');
    }
    *out = v;
    return true;
}

/* Days since 1970 of a date of the proleptic Gregorian calendar, counted in eras of 400 years from March. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = year - (month <= 2);
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static int64_t days_in_month(int64_t year, int64_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

bool parse_date(struct bytes text, int64_t *days)
{
    int64_t year = 0;
    int64_t month = 0;
    int64_t day = 0;
    bool negative = text.size > 0 && text.data[0] == '-';
    size_t at = negative || (text.size > 0 && text.data[0] == '+');
    size_t n = 4;
    /* Years of more than four digits have a sign in front. */
    if (at > 0) {
        for (n = 0; at + n < text.size && is_digit(text.data[at + n]); n++) continue;
        if (n < 4 || n > 9) return false;
    }
    if (!digits_at(text, at, n, &year) || text.size != at + n + 6 || text.data[at + n] != '-' || text.data[at + n + 3] != '-')
        return false;
    if (!digits_at(text, at + n + 1, 2, &month) || !digits_at(text, at + n + 4, 2, &day)) return false;
    if (negative) year = -year;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month)) return false;
    *days = days_of(year, month, day);
    return true;
}

static int64_t unit_per_second(enum arrow_unit unit)
{
    static const int64_t per[] = {1, 1000, 1000000, 1000000000};
    return per[unit];
}

/* HH:MM[:SS[.fraction]] at *at, which moves behind it. */
static bool scan_time(struct bytes text, size_t *at, enum arrow_unit unit, int64_t *out)
{
    int64_t h = 0;
    int64_t m = 0;
    int64_t s = 0;
    int64_t fraction = 0;
    int64_t scale = unit_per_second(unit);
    size_t p = *at;
    if (!digits_at(text, p, 2, &h) || p + 2 >= text.size || text.data[p + 2] != ':' || !digits_at(text, p + 3, 2, &m)) return false;
    p += 5;
    if (p < text.size && text.data[p] == ':') {
        if (!digits_at(text, p + 1, 2, &s)) return false;
        p += 3;
        if (p < text.size && text.data[p] == '.') {
            size_t start = ++p;
            for (; p < text.size && is_digit(text.data[p]); p++) {
                scale /= 10;
                if (scale == 0 && text.data[p] != '0') return false; /* finer than the unit */
                fraction += (text.data[p] - '0') * scale;
            }
            if (p == start) return false;
        }
    }
    if (h > 23 || m > 59 || s > 59) return false;
    *out = ((h * 60 + m) * 60 + s) * unit_per_second(unit) + fraction;
    *at = p;
    return true;
}

bool parse_time(struct bytes text, enum arrow_unit unit, int64_t *out)
{
    size_t at = 0;
    return scan_time(text, &at, unit, out) && at == text.size;
}

/* Z, +HH, +HHMM, +HH:MM at the end; seconds east. */
static bool scan_zone(struct bytes text, size_t at, int64_t *seconds, bool *zoned)
{
    int64_t h = 0;
    int64_t m = 0;
    size_t left = text.size - at;
    *seconds = 0;
    *zoned = left > 0;
    if (left == 0) return true;
    uint8_t c = text.data[at];
    if (left == 1) return c == 'Z' || c == 'z';
    if ((c != '+' && c != '-') || !digits_at(text, at + 1, 2, &h)) return false;
    if (left == 5 && !digits_at(text, at + 3, 2, &m)) return false;
    if (left == 6 && (text.data[at + 3] != ':' || !digits_at(text, at + 4, 2, &m))) return false;
    if ((left != 3 && left != 5 && left != 6) || h > 23 || m > 59) return false;
    *seconds = (c == '-' ? -1 : 1) * (h * 3600 + m * 60);
    return true;
}

bool parse_timestamp(struct bytes text, enum arrow_unit unit, int64_t *out, bool *zoned)
{
    int64_t days = 0;
    int64_t time = 0;
    int64_t zone = 0;
    size_t date = 0;
    int64_t scale = unit_per_second(unit);
    while (date < text.size && text.data[date] != 'T' && text.data[date] != ' ' && text.data[date] != 't') date++;
    *zoned = false;
    if (!parse_date(bytes_of(text.data, date), &days)) return false;
    if (date < text.size) {
        size_t at = date + 1;
        if (!scan_time(text, &at, unit, &time)) return false;
        if (at < text.size && text.data[at] == ' ') at++;
        if (!scan_zone(text, at, &zone, zoned)) return false;
    }
    int64_t seconds = days * 86400 - zone;
    return !__builtin_mul_overflow(seconds, scale, &seconds) && !__builtin_add_overflow(seconds, time, out);
}

/* ----------------------------------------------------------------------------------------------------------- builders */

bool type_has_text(const struct arrow_type *type)
{
    switch (type->id) {
    case ARROW_INTERVAL_MONTHS:
    case ARROW_INTERVAL_DAY_TIME:
    case ARROW_INTERVAL_MONTH_DAY_NANO: return false;
    default: return type->layout <= LAYOUT_VIEW && type->id != ARROW_DICTIONARY && type->id != ARROW_NULL;
    }
}

static pennon_status unreadable(const struct arrow_type *type, struct bytes text, pennon_error *err)
{
    return error_set(err, PENNON_INVALID_ARGUMENT, "'%.*s' is no value of type %s", (int)min_u64(text.size, 80),
                     (const char *)text.data, arrow_id_name(type->id));
}

static pennon_status append_number_text(struct builder *b, const struct arrow_type *type, struct bytes text, pennon_error *err)
{
    int64_t i = 0;
    uint64_t u = 0;
    double d = 0;
    if (text.size > 1 && text.data[0] == '+') text = bytes_of(text.data + 1, text.size - 1);
    if (arrow_id_is_float(type->id)) return parse_double(text, &d) ? builder_append_double(b, d, err) : unreadable(type, text, err);
    if (arrow_id_is_decimal(type->id)) {
        struct wide w;
        uint8_t bytes[32];
        if (!wide_from_text(text, type->scale, type->precision, &w)) return unreadable(type, text, err);
        wide_store(&w, bytes, arrow_type_width(type));
        return builder_append_bytes(b, bytes_of(bytes, arrow_type_width(type)), err);
    }
    if (parse_int64(text, &i)) return builder_append_int(b, i, err);
    return parse_uint64(text, &u) ? builder_append_uint(b, u, err) : unreadable(type, text, err);
}

static pennon_status append_time_text(struct builder *b, const struct arrow_type *type, struct bytes text, pennon_error *err)
{
    int64_t v = 0;
    bool zoned = false;
    bool ok = false;
    switch (type->id) {
    case ARROW_DATE32: ok = parse_date(text, &v); break;
    case ARROW_DATE64:
        ok = parse_date(text, &v);
        v *= 86400000;
        break;
    case ARROW_TIME32:
    case ARROW_TIME64: ok = parse_time(text, type->unit, &v); break;
    case ARROW_TIMESTAMP:
        /* A text without an offset is taken as UTC in a column with a zone; an offset in a column without one is refused. */
        ok = parse_timestamp(text, type->unit, &v, &zoned) && (!zoned || type->timezone[0] != '\0');
        break;
    default: ok = parse_int64(text, &v); break; /* durations */
    }
    return ok ? builder_append_int(b, v, err) : unreadable(type, text, err);
}

pennon_status append_text_value(struct builder *b, const struct arrow_type *type, struct bytes text, struct buf *scratch,
                                pennon_error *err)
{
    bool truth = false;
    pennon_status st = PENNON_OK;
    ASSERT(type_has_text(type));
    if (arrow_id_is_text(type->id)) {
        return utf8_valid(text.data, text.size) ? builder_append_bytes(b, text, err)
                                                : error_set(err, PENNON_INVALID_ARGUMENT, "the text is not UTF-8");
    }
    if (arrow_id_is_integer(type->id) || arrow_id_is_float(type->id) || arrow_id_is_decimal(type->id)) {
        return append_number_text(b, type, text, err);
    }
    if (type->id == ARROW_BOOL) {
        if (!parse_bool(text, &truth)) {
            truth = bytes_equal(text, bytes_str("1"));
            if (!truth && !bytes_equal(text, bytes_str("0"))) return unreadable(type, text, err);
        }
        return builder_append_bool(b, truth, err);
    }
    if (type->id >= ARROW_DATE32 && type->id <= ARROW_DURATION) return append_time_text(b, type, text, err);
    /* Binary, of any layout. */
    scratch->size = 0;
    if (!base64_parse(text, scratch, &st, err)) {
        return st != PENNON_OK
                   ? st
                   : error_set(err, PENNON_INVALID_ARGUMENT, "'%.*s' is not base64", (int)min_u64(text.size, 80), text.data);
    }
    return builder_append_bytes(b, bytes_of(scratch->data, scratch->size), err);
}
