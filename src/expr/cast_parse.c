/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Casts of texts: what official reads as a number, a boolean, a date or a time, and nothing else.
 *
 *   integer     sign, digits; no blanks, no exponent
 *   float       sign, digits with a point, exponent; inf, infinity, nan in any case
 *   boolean     beginnings of true, false, yes, no; on, off (of), 1, 0; any case, blanks around
 *   date        year-month-day with one or two digits each for the latter, yyyymmdd, ±year of 4 digits or more; or a timestamp
 *   timestamp   yyyy-mm-dd, then T or a blank, hh:mm:ss or hhmmss, digits of the second, and a zone
 *   time        hh:mm, hh:mm:ss and digits, AM or PM behind; or the number itself
 *   decimal     sign, digits with a point; the digit behind the last that fits rounds; blanks around
 * Digits of the second past the unit are cut off towards the past. Second 60 is the next minute but for units of seconds.
 * Source: spec expressions 6. */
#include "expr/cast.h"

#define DAY INT64_C(86400)

struct scan {
    const uint8_t *at, *end;
};

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static bool at_end(const struct scan *s) { return s->at == s->end; }

static bool take(struct scan *s, char a)
{
    if (at_end(s) || *s->at != (uint8_t)a) return false;
    s->at++;
    return true;
}

/* Exactly n digits. */
static bool take_fixed(struct scan *s, int n, int64_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++, s->at++) {
        if (at_end(s) || !is_digit(*s->at)) return false;
        *out = *out * 10 + (*s->at - '0');
    }
    return true;
}

/* At least `least` digits, at most `most`; saturates past 10^17. */
static bool take_some(struct scan *s, int least, int most, int64_t *out)
{
    int n = 0;
    *out = 0;
    for (; n < most && !at_end(s) && is_digit(*s->at); n++, s->at++) {
        if (*out < INT64_C(100000000000000000)) *out = *out * 10 + (*s->at - '0');
    }
    return n >= least;
}

static struct bytes trimmed(struct bytes t)
{
    while (t.size > 0 && (t.data[0] == ' ' || (t.data[0] >= 9 && t.data[0] <= 13))) t = bytes_of(t.data + 1, t.size - 1);
    while (t.size > 0 && (t.data[t.size - 1] == ' ' || (t.data[t.size - 1] >= 9 && t.data[t.size - 1] <= 13))) t.size--;
    return t;
}

/* The text is a beginning of the word, of at least `least` letters, in any case. */
static bool begins(struct bytes t, const char *word, size_t least)
{
    if (t.size < least || t.size > strlen(word)) return false;
    for (size_t i = 0; i < t.size; i++) {
        if ((t.data[i] | 0x20) != (uint8_t)word[i]) return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- numbers */

static bool parse_integer(const struct cast *k, int64_t row, uint8_t *to)
{
    struct bytes t = array_view_bytes(k->from, row);
    size_t at = t.size > 0 && (t.data[0] == '-' || t.data[0] == '+');
    bool negative = at == 1 && t.data[0] == '-';
    uint64_t v = 0;
    if (at == t.size) return false;
    for (; at < t.size; at++) {
        if (!is_digit(t.data[at])) return false;
        if (mul_overflows(v, 10, &v) || add_overflows(v, (uint64_t)(t.data[at] - '0'), &v)) return false;
    }
    if (k->to.id == ARROW_UINT64) {
        if (negative && v != 0) return false;
        memcpy(to, &v, sizeof v);
        return true;
    }
    if (v > (uint64_t)INT64_MAX + negative) return false;
    return cast_store_integer(&k->to, negative ? (int64_t)(0 - v) : (int64_t)v, to);
}

static bool parse_float(const struct cast *k, int64_t row, uint8_t *to)
{
    struct bytes t = array_view_bytes(k->from, row), word = t;
    double v = 0;
    bool sign = t.size > 0 && (t.data[0] == '-' || t.data[0] == '+');
    if (sign) word = bytes_of(t.data + 1, t.size - 1);
    if (word.size == 0 || word.data[0] == '-' || word.data[0] == '+') return false;
    if (begins(word, "infinity", 8) || begins(word, "inf", 3)) {
        v = __builtin_inf();
    } else if (begins(word, "nan", 3)) {
        v = __builtin_nan("");
    } else if (!real_parse(word, &v)) {
        return false;
    }
    cast_store_float(&k->to, sign && t.data[0] == '-' ? -v : v, to);
    return true;
}

static bool parse_bool(const struct cast *k, int64_t row, uint8_t *to)
{
    struct bytes t = trimmed(array_view_bytes(k->from, row));
    bool one = t.size == 1 && t.data[0] == '1', zero = t.size == 1 && t.data[0] == '0';
    bool yes = one || begins(t, "true", 1) || begins(t, "yes", 1) || begins(t, "on", 2);
    bool no = zero || begins(t, "false", 1) || begins(t, "no", 1) || begins(t, "off", 2);
    *to = yes;
    return yes || no;
}

/* The digits up to the scale as one text for wide_from_text; what is left decides the rounding. */
static bool parse_decimal(const struct cast *k, int64_t row, uint8_t *to)
{
    struct bytes t = trimmed(array_view_bytes(k->from, row));
    struct wide w;
    size_t at = t.size > 0 && (t.data[0] == '-' || t.data[0] == '+');
    size_t point = t.size, digits = 0;
    int32_t scale = k->to.scale > 0 ? k->to.scale : 0;
    for (size_t i = at; i < t.size; i++) {
        if (t.data[i] == '.' && point == t.size) {
            point = i;
        } else if (!is_digit(t.data[i])) {
            return false;
        } else {
            digits++;
        }
    }
    /* Official takes what has no digits as zero, unless the type has no digits behind the point. */
    if (digits == 0) {
        if (scale == 0) return false;
        return cast_store_decimal(&k->to, wide_from_i64(0), 0, to);
    }
    size_t behind = t.size - point - (point < t.size);
    bool cut = behind > (size_t)scale;
    bool half = cut && t.data[point + 1 + (size_t)scale] >= '5';
    size_t kept = cut ? point + 1 + (size_t)scale : t.size;
    bool any = kept > at + (point < kept); /* a digit is left */
    w = wide_from_i64(0);
    if (any && !wide_from_text(bytes_of(t.data, kept), scale, WIDE_MAX_DIGITS, &w)) return false;
    if (half) {
        bool negative = t.data[0] == '-';
        uint64_t carry = 1;
        for (int i = 0; i < 4 && carry != 0; i++) {
            carry = negative ? w.word[i] == 0 : w.word[i] == UINT64_MAX;
            w.word[i] += negative ? UINT64_MAX : 1;
        }
    }
    return cast_store_decimal(&k->to, w, scale, to);
}

/* --------------------------------------------------------------------------------------------------------------- dates */

static bool day_of(int64_t year, int64_t month, int64_t day, int64_t *days)
{
    if (year < -262143 || year > 262142 || month < 1 || month > 12 || day < 1) return false;
    if (day > civil_month_days(year, (int32_t)month)) return false;
    *days = civil_days(year, (int32_t)month, (int32_t)day);
    return true;
}

/* ±yyyy-m-d with any number of digits. */
static bool parse_signed_date(struct bytes text, int64_t *days)
{
    struct scan s = {text.data + 1, text.data + text.size};
    int64_t year = 0, month = 0, day = 0;
    if (!take_some(&s, 4, 9, &year) || !take(&s, '-') || !take_some(&s, 1, 9, &month) || !take(&s, '-')) return false;
    if (!take_some(&s, 1, 9, &day) || !at_end(&s)) return false;
    return day_of(text.data[0] == '-' ? -year : year, month, day, days);
}

bool cast_read_date(struct bytes text, struct zone_cache *zones, int64_t *days)
{
    struct scan s = {text.data, text.data + text.size};
    struct moment m;
    int64_t year = 0, month = 0, day = 0;
    if (text.size == 0) return false;
    if (text.data[0] == '+' || text.data[0] == '-') return parse_signed_date(text, days);
    if (text.size > 10) {
        int64_t seconds = 0;
        struct zone utc = {.named = false};
        if (!cast_read_moment(text, &m) || !cast_moment_instant(&m, &utc, zones, &seconds)) return false;
        *days = floor_div(seconds, DAY);
        return true;
    }
    if (!take_fixed(&s, 4, &year)) return false;
    if (take(&s, '-')) {
        if (!take_some(&s, 1, 2, &month) || !take(&s, '-') || !take_some(&s, 1, 2, &day)) return false;
    } else if (text.size != 8 || !take_fixed(&s, 2, &month) || !take_fixed(&s, 2, &day)) {
        return false;
    }
    return at_end(&s) && day_of(year, month, day, days);
}

/* ".digits": billionths; digits past the ninth are dropped. */
static bool take_fraction(struct scan *s, int64_t *nanos)
{
    int64_t unit = 100000000;
    *nanos = 0;
    if (!take(s, '.')) return true;
    if (at_end(s) || !is_digit(*s->at)) return false;
    for (; !at_end(s) && is_digit(*s->at); s->at++, unit /= 10) *nanos += (*s->at - '0') * unit;
    return true;
}

static bool take_clock(struct scan *s, struct moment *m)
{
    int64_t hour = 0, minute = 0, second = 0;
    if (!take_fixed(s, 2, &hour)) return false;
    if (take(s, ':')) {
        if (!take_fixed(s, 2, &minute) || !take(s, ':') || !take_fixed(s, 2, &second)) return false;
    } else if (!take_fixed(s, 2, &minute) || !take_fixed(s, 2, &second)) {
        return false;
    }
    m->seconds = hour * 3600 + minute * 60 + second;
    return hour < 24 && minute < 60 && second <= 60 && take_fraction(s, &m->nanos);
}

bool cast_read_moment(struct bytes text, struct moment *out)
{
    struct scan s = {text.data, text.data + text.size};
    int64_t year = 0, month = 0, day = 0;
    *out = (struct moment){.days = 0};
    if (!take_fixed(&s, 4, &year) || !take(&s, '-') || !take_fixed(&s, 2, &month) || !take(&s, '-')) return false;
    if (!take_fixed(&s, 2, &day) || !day_of(year, month, day, &out->days)) return false;
    if (at_end(&s)) return true;
    if (!take(&s, 'T') && !take(&s, 't') && !take(&s, ' ')) return false;
    if (!take_clock(&s, out)) return false;
    if (at_end(&s)) return true;
    if (s.end - s.at == 1 && (*s.at == 'Z' || *s.at == 'z')) {
        out->has_offset = true;
        return true;
    }
    while (take(&s, ' ')) continue;
    out->zone = bytes_of(s.at, (size_t)(s.end - s.at));
    return out->zone.size > 0;
}

bool cast_moment_instant(const struct moment *m, const struct zone *local, struct zone_cache *zones, int64_t *seconds)
{
    const struct zone *z = local;
    *seconds = m->days * DAY + m->seconds;
    if (m->has_offset) return true;
    if (m->zone.size > 0) z = zone_cached(zones, m->zone);
    if (z == NULL || !zone_local_unique(z, *seconds)) return false;
    *seconds -= zone_offset_local(z, *seconds);
    return true;
}

static bool parse_date32(const struct cast *k, int64_t row, uint8_t *to)
{
    int64_t days = 0;
    return cast_read_date(array_view_bytes(k->from, row), k->zones, &days) && cast_store_integer(&k->to, days, to);
}

/* Seconds and billionths as units; the leap second counts where the unit is finer than it. */
static bool to_units(int64_t seconds, int64_t nanos, int64_t units, int64_t *out)
{
    int64_t rest = nanos / (1000000000 / units);
    return !__builtin_mul_overflow(seconds, units, out) && !__builtin_add_overflow(*out, rest, out);
}

static bool parse_timestamp(const struct cast *k, int64_t row, uint8_t *to)
{
    struct moment m;
    int64_t seconds = 0, v = 0;
    int64_t units = units_per_second(k->to.unit);
    if (!cast_read_moment(array_view_bytes(k->from, row), &m)) return false;
    if (!cast_moment_instant(&m, &k->to_zone, k->zones, &seconds)) return false;
    if (units == 1 && m.seconds % 60 == 0 && m.seconds > 0 && m.nanos >= 0) {
        /* A second of 60 cannot be told from the next minute here but by the text: official keeps the second before it. */
        struct bytes text = array_view_bytes(k->from, row);
        size_t at = text.size > 18 && text.data[13] == ':' ? 17 : 15;
        if (text.size >= at + 2 && text.data[at] == '6' && text.data[at + 1] == '0') seconds--;
    }
    return to_units(seconds, m.nanos, units, &v) && cast_store_integer(&k->to, v, to);
}

static bool parse_date64(const struct cast *k, int64_t row, uint8_t *to)
{
    struct bytes text = array_view_bytes(k->from, row);
    struct zone utc = {.named = false};
    struct moment m;
    int64_t days = 0, seconds = 0, v = 0;
    if (text.size > 10) {
        if (!cast_read_moment(text, &m) || !cast_moment_instant(&m, &utc, k->zones, &seconds)) return false;
        return to_units(seconds, m.nanos, 1000, &v) && cast_store_integer(&k->to, v, to);
    }
    return cast_read_date(text, k->zones, &days) && cast_store_integer(&k->to, days * DAY * 1000, to);
}

/* Behind a time: a blank and AM or PM. */
static bool take_half(struct scan *s, int64_t *hour)
{
    if (at_end(s)) return *hour < 24;
    (void)take(s, ' ');
    if (s->end - s->at != 2 || (s->at[1] | 0x20) != 'm' || *hour < 1 || *hour > 12) return false;
    uint8_t c = *s->at | 0x20;
    s->at += 2;
    *hour = *hour % 12 + (c == 'p' ? 12 : 0);
    return c == 'a' || c == 'p';
}

static bool parse_time(const struct cast *k, int64_t row, uint8_t *to)
{
    struct bytes text = array_view_bytes(k->from, row);
    struct scan s = {text.data, text.data + text.size};
    int64_t hour = 0, minute = 0, second = 0, nanos = 0, v = 0;
    int64_t units = units_per_second(k->to.unit);
    if (!take_fixed(&s, 2, &hour) || !take(&s, ':')) return parse_integer(k, row, to);
    if (!take_fixed(&s, 2, &minute) || minute > 59) return false;
    if (take(&s, ':') && (!take_fixed(&s, 2, &second) || second > 60 || !take_fraction(&s, &nanos))) return false;
    if (!take_half(&s, &hour)) return false;
    if (!to_units(hour * 3600 + minute * 60 + second, nanos, units, &v)) return false;
    return cast_store_integer(&k->to, v % (DAY * units), to);
}

cast_row_fn cast_parse_find(const struct arrow_type *to)
{
    if (arrow_id_is_integer(to->id)) return parse_integer;
    if (arrow_id_is_float(to->id)) return parse_float;
    if (arrow_id_is_decimal(to->id)) return parse_decimal;
    switch (to->id) {
    case ARROW_BOOL: return parse_bool;
    case ARROW_DATE32: return parse_date32;
    case ARROW_DATE64: return parse_date64;
    case ARROW_TIMESTAMP: return parse_timestamp;
    case ARROW_TIME32:
    case ARROW_TIME64: return parse_time;
    default: return NULL;
    }
}
