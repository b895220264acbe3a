/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Values as texts, as CAST(x AS string) writes them.
 *
 *   float32, float64   shortest digits that read back, always with a point or an exponent: 1.0, 1e16, 0.00001, NaN, inf
 *   float16            plainly, without a point where there is no fraction
 *   decimals           all digits of the scale
 *   dates, times       2020-01-02, 2020-01-02T03:04:05.006, 03:04:05; 0, 3, 6 or 9 digits behind the second as needed;
 *                      years past 9999 and before 0 with a sign; timestamps with a zone have Z or +hh:mm behind
 *   durations          1 days 2 hours 3 mins 4.000005 secs
 *   binary             as it is (alone), in hexadecimal (in lists)
 *   lists              [1, 2, ], nulls are nothing; structs {a: 1, b: x}
 * Source: spec expressions 6. */
#include <math.h>
#include <stdio.h>

#include "expr/cast.h"

#define DAY INT64_C(86400)

/* --------------------------------------------------------------------------------------------------------------- floats */

/* Digits of a finite number that is not zero and the power of ten of the first: d.ddd * 10^exponent. Returns the number of digits. */
static size_t shortest_digits(double v, bool single, char digits[24], int32_t *exponent)
{
    char text[REAL_TEXT_MAX];
    int last = single ? 9 : 17;
    int first = single ? 6 : 15; /* so many digits always survive; trailing zeros are cut below */
    size_t n = 0;
    if (fabs(v) < (single ? 1.2e-38 : 2.3e-308)) first = 1;
    for (int precision = first; precision <= last; precision++) {
        double back = 0;
        size_t size = real_print(v, precision - 1, true, text);
        (void)real_parse(bytes_of(text, size), &back);
        if (single ? (float)back == (float)v : back == v) break;
    }
    const char *p = text;
    for (; *p != 'e' && *p != '\0'; p++) {
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    }
    *exponent = 0;
    bool negative = p[0] == 'e' && p[1] == '-';
    for (p += p[0] == 'e' ? 2 : 0; *p >= '0' && *p <= '9'; p++) *exponent = *exponent * 10 + (*p - '0');
    if (negative) *exponent = -*exponent;
    while (n > 1 && digits[n - 1] == '0') n--;
    return n;
}

/* Digits with a point, no exponent. `point`: digits in front of it, may be 0 or less. */
static size_t put_plain(const char *digits, size_t n, int32_t point, char *out)
{
    size_t at = 0;
    if (point <= 0) {
        out[at++] = '0';
        out[at++] = '.';
        for (int32_t i = point; i < 0; i++) out[at++] = '0';
        memcpy(out + at, digits, n);
        return at + n;
    }
    for (int32_t i = 0; i < point; i++) out[at++] = (size_t)i < n ? digits[i] : '0';
    if (n > (size_t)point) {
        out[at++] = '.';
        memcpy(out + at, digits + point, n - (size_t)point);
        at += n - (size_t)point;
    }
    return at;
}

size_t cast_float_text(double v, enum arrow_id id, char out[FLOAT_TEXT_MAX])
{
    char digits[24];
    int32_t exponent = 0;
    bool single = id != ARROW_FLOAT64;
    size_t at = 0;
    const char *word = isnan(v) ? "NaN" : v > 0 ? "inf" : "-inf";
    if (!isfinite(v)) {
        at = strlen(word);
        memcpy(out, word, at);
        return at;
    }
    if (signbit(v)) out[at++] = '-';
    if (v == 0) {
        memcpy(out + at, "0.0", 3);
        return at + (id == ARROW_FLOAT16 ? 1 : 3);
    }
    size_t n = shortest_digits(fabs(v), single, digits, &exponent);
    int32_t point = exponent + 1;
    if (id == ARROW_FLOAT16) return at + put_plain(digits, n, point, out + at);
    if (point > (single ? -6 : -5) && point <= (single ? 13 : 16)) {
        at += put_plain(digits, n, point, out + at);
        if (point > 0 && n <= (size_t)point) {
            out[at++] = '.';
            out[at++] = '0';
        }
        return at;
    }
    out[at++] = digits[0];
    if (n > 1) {
        out[at++] = '.';
        memcpy(out + at, digits + 1, n - 1);
        at += n - 1;
    }
    int written = snprintf(out + at, FLOAT_TEXT_MAX - at, "e%d", exponent);
    ASSERT(written > 0);
    return at + (size_t)written;
}

/* ---------------------------------------------------------------------------------------------------------------- times */

static pennon_status put_date(int64_t days, struct buf *out, pennon_error *err)
{
    struct civil c = civil_of_days(days);
    if (c.year >= 0 && c.year <= 9999) return buf_printf(out, err, "%04d-%02d-%02d", (int)c.year, c.month, c.day);
    return buf_printf(out, err, "%c%04" PRId64 "-%02d-%02d", c.year < 0 ? '-' : '+', c.year < 0 ? -c.year : c.year, c.month, c.day);
}

static pennon_status put_fraction(int64_t nanos, struct buf *out, pennon_error *err)
{
    if (nanos == 0) return PENNON_OK;
    if (nanos % 1000000 == 0) return buf_printf(out, err, ".%03d", (int)(nanos / 1000000));
    if (nanos % 1000 == 0) return buf_printf(out, err, ".%06d", (int)(nanos / 1000));
    return buf_printf(out, err, ".%09d", (int)nanos);
}

static pennon_status put_clock(int64_t seconds, int64_t nanos, struct buf *out, pennon_error *err)
{
    int s = (int)seconds;
    TRY_RETURN(buf_printf(out, err, "%02d:%02d:%02d", s / 3600, s / 60 % 60, s % 60));
    return put_fraction(nanos, out, err);
}

pennon_status cast_timestamp_text(const struct array_view *v, int64_t row, const struct zone *z, struct buf *out, pennon_error *err)
{
    int64_t value = array_view_int(v, row), units = units_per_second(v->type.unit), instant = floor_div(value, units), east = 0;
    int64_t nanos = floor_mod(value, units) * (1000000000 / units);
    bool zoned = v->type.timezone != NULL && v->type.timezone[0] != '\0';
    if (instant / DAY < INT64_C(-96000000) || instant / DAY > INT64_C(96000000)) {
        (void)error_set(err, PENNON_INVALID_ARGUMENT, "Cannot cast timestamp %" PRId64 " to string: outside of the calendar",
                        value);
        return error_kind(err, "CastFailed");
    }
    if (zoned) east = zone_offset(z, instant);
    TRY_RETURN(put_date(floor_div(instant + east, DAY), out, err));
    TRY_RETURN(buf_append_byte(out, 'T', err));
    TRY_RETURN(put_clock(floor_mod(instant + east, DAY), nanos, out, err));
    if (!zoned) return PENNON_OK;
    if (east == 0) return buf_append_byte(out, 'Z', err);
    int minutes = (int)((east < 0 ? -east : east) / 60);
    return buf_printf(out, err, "%c%02d:%02d", east < 0 ? '-' : '+', minutes / 60, minutes % 60);
}

/* With the zone looked up for this one value. */
static pennon_status put_timestamp(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct zone z = {.named = false};
    struct arena arena;
    arena_init(&arena, out->mem);
    if (v->type.timezone != NULL) TRY(zone_find(bytes_str(v->type.timezone), &arena, &z, err));
    TRY(cast_timestamp_text(v, row, &z, out, err));
done:
    arena_reset(&arena);
    return st;
}

static pennon_status put_duration(enum arrow_unit unit, int64_t value, struct buf *out, pennon_error *err)
{
    static const int digits[] = {0, 3, 6, 9};
    int64_t units = units_per_second(unit), seconds = value / units, rest = value % units;
    TRY_RETURN(buf_printf(out, err, "%" PRId64 " days %" PRId64 " hours %" PRId64 " mins ", seconds / DAY, seconds % DAY / 3600,
                          seconds % 3600 / 60));
    if (value < 0 && (seconds % 60 != 0 || rest != 0)) TRY_RETURN(buf_append_byte(out, '-', err));
    int64_t second = seconds % 60;
    TRY_RETURN(buf_printf(out, err, "%" PRId64, second < 0 ? -second : second));
    if (units > 1) TRY_RETURN(buf_printf(out, err, ".%0*" PRId64, digits[unit], rest < 0 ? -rest : rest));
    return buf_append(out, " secs", 5, err);
}

static pennon_status put_time(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    int64_t value = array_view_int(v, row), units = units_per_second(v->type.unit);
    switch (v->type.id) {
    case ARROW_DATE32: return put_date(value, out, err);
    case ARROW_DATE64:
        TRY_RETURN(put_date(floor_div(value, DAY * 1000), out, err));
        TRY_RETURN(buf_append_byte(out, 'T', err));
        return put_clock(floor_mod(value, DAY * 1000) / 1000, floor_mod(value, 1000) * 1000000, out, err);
    case ARROW_TIME32:
    case ARROW_TIME64:
        return put_clock(floor_mod(floor_div(value, units), DAY), floor_mod(value, units) * (1000000000 / units), out, err);
    case ARROW_TIMESTAMP: return put_timestamp(v, row, out, err);
    default: return put_duration(v->type.unit, value, out, err);
    }
}

/* ---------------------------------------------------------------------------------------------------------------- values */

static pennon_status put_decimal(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    char text[WIDE_TEXT_MAX];
    struct wide w = wide_load(array_view_fixed(v, row), arrow_type_width(&v->type));
    size_t n = wide_to_text(&w, v->type.scale > 0 ? v->type.scale : 0, text);
    TRY_RETURN(buf_append(out, text, n, err));
    for (int32_t i = v->type.scale; i < 0; i++) TRY_RETURN(buf_append_byte(out, '0', err));
    return PENNON_OK;
}

static pennon_status put_hex(struct bytes b, struct buf *out, pennon_error *err)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < b.size; i++) {
        TRY_RETURN(buf_append_byte(out, (uint8_t)digits[b.data[i] >> 4], err));
        TRY_RETURN(buf_append_byte(out, (uint8_t)digits[b.data[i] & 15], err));
    }
    return PENNON_OK;
}

/* Inside of a list or struct: nulls are nothing, bytes hexadecimal. */
static pennon_status put_item(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    bool bytes = v->type.id == ARROW_BINARY || v->type.id == ARROW_LARGE_BINARY || v->type.id == ARROW_BINARY_VIEW ||
                 v->type.id == ARROW_FIXED_SIZE_BINARY;
    if (array_view_is_null(v, row)) return PENNON_OK;
    return bytes ? put_hex(array_view_bytes(v, row), out, err) : value_text(v, row, out, err);
}

static pennon_status put_list(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    int64_t start = 0, n = 0;
    array_view_list(v, row, &start, &n);
    TRY_RETURN(buf_append_byte(out, '[', err));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) TRY_RETURN(buf_append(out, ", ", 2, err));
        TRY_RETURN(put_item(&v->children[0], start + i, out, err));
    }
    return buf_append_byte(out, ']', err);
}

static pennon_status put_struct(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    TRY_RETURN(buf_append_byte(out, '{', err));
    for (int64_t i = 0; i < v->array->n_children; i++) {
        const char *name = v->children[i].schema->name;
        TRY_RETURN(buf_printf(out, err, "%s%s: ", i > 0 ? ", " : "", name != NULL ? name : ""));
        TRY_RETURN(put_item(&v->children[i], row, out, err));
    }
    return buf_append_byte(out, '}', err);
}

static pennon_status put_fixed(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    char text[FLOAT_TEXT_MAX];
    enum arrow_id id = v->type.id;
    if (id == ARROW_UINT64) return buf_printf(out, err, "%" PRIu64, (uint64_t)array_view_int(v, row));
    if (arrow_id_is_integer(id)) return buf_printf(out, err, "%" PRId64, array_view_int(v, row));
    if (arrow_id_is_float(id)) return buf_append(out, text, cast_float_text(array_view_double(v, row), id, text), err);
    if (arrow_id_is_decimal(id)) return put_decimal(v, row, out, err);
    if (id >= ARROW_DATE32 && id <= ARROW_DURATION) return put_time(v, row, out, err);
    if (id == ARROW_DICTIONARY) return value_text(&v->children[0], array_view_int(v, row), out, err);
    if (id == ARROW_FIXED_SIZE_BINARY) return put_hex(array_view_bytes(v, row), out, err);
    return error_set(err, PENNON_NOT_SUPPORTED, "a value of type %s as text", arrow_id_name(id));
}

pennon_status value_text(const struct array_view *v, int64_t row, struct buf *out, pennon_error *err)
{
    struct bytes text;
    if (array_view_is_null(v, row)) return PENNON_OK;
    switch (v->type.layout) {
    case LAYOUT_BITS: return buf_append(out, array_view_bool(v, row) ? "true" : "false", array_view_bool(v, row) ? 4 : 5, err);
    case LAYOUT_FIXED: return put_fixed(v, row, out, err);
    case LAYOUT_VAR32:
    case LAYOUT_VAR64:
    case LAYOUT_VIEW: text = array_view_bytes(v, row); return buf_append(out, text.data, text.size, err);
    case LAYOUT_LIST32:
    case LAYOUT_LIST64:
    case LAYOUT_LIST_VIEW32:
    case LAYOUT_LIST_VIEW64:
    case LAYOUT_FIXED_LIST: return put_list(v, row, out, err);
    case LAYOUT_STRUCT: return put_struct(v, row, out, err);
    default: return error_set(err, PENNON_NOT_SUPPORTED, "a value of type %s as text", arrow_id_name(v->type.id));
    }
}
