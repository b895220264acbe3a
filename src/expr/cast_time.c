/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Casts among dates, times, timestamps and durations, and between them and numbers.
 *
 *   units       finer ones by multiplication, which must fit; coarser ones by division that truncates
 *   timestamp   without a zone -> with one: the value is local time there; all else keeps the instant
 *   -> date32, time32, time64   by the local time of the timestamp's zone
 *   date -> timestamp           midnight, local in the target's zone
 *   numbers     the number behind; date32 and time32 from 32 bits, the others from 64
 * Source: spec expressions 6. */
#include "expr/cast.h"

#define DAY INT64_C(86400)
/* Years of -262143 to 262142 in days, as official's calendar has them. */
#define DAYS_MOST INT64_C(96000000)

static int64_t units_of(const struct arrow_type *t)
{
    switch (t->id) {
    case ARROW_DATE64: return 1000;
    case ARROW_TIME32:
    case ARROW_TIME64:
    case ARROW_TIMESTAMP:
    case ARROW_DURATION: return units_per_second(t->unit);
    default: return 1;
    }
}

pennon_status cast_time_prepare(struct cast *k, pennon_error *err)
{
    int64_t from = units_of(&k->from->type), to = units_of(&k->to);
    k->factor = to > from ? to / from : 1;
    k->divisor = from > to ? from / to : 1;
    if (k->from->type.id == ARROW_TIMESTAMP && k->from->type.timezone != NULL) {
        TRY_RETURN(zone_find(bytes_str(k->from->type.timezone), k->scratch, &k->from_zone, err));
    }
    if (k->to.id == ARROW_TIMESTAMP && k->to.timezone != NULL) {
        TRY_RETURN(zone_find(bytes_str(k->to.timezone), k->scratch, &k->to_zone, err));
    }
    return PENNON_OK;
}

static bool has_zone(const struct arrow_type *t) { return t->timezone != NULL && t->timezone[0] != '\0'; }

/* A count of seconds whose calendar is known. */
static bool in_calendar(int64_t seconds) { return seconds > -DAYS_MOST * DAY && seconds < DAYS_MOST * DAY; }

/* A local time in units as the instant, in place. False: there is none, or more than one. */
static bool from_local(const struct zone *z, int64_t units, int64_t *v)
{
    int64_t seconds = floor_div(*v, units), shift = 0;
    if (!z->named && z->east == 0) return true;
    if (!in_calendar(seconds) || !zone_local_unique(z, seconds)) return false;
    return !__builtin_mul_overflow(zone_offset_local(z, seconds), units, &shift) && !__builtin_sub_overflow(*v, shift, v);
}

/* The other way, in seconds: the sum of an instant and an offset of hours, which may not fit the unit. */
static bool local_seconds(const struct zone *z, int64_t units, int64_t v, int64_t *seconds)
{
    const int64_t instant = floor_div(v, units);
    if (!in_calendar(instant)) return false;
    *seconds = instant + zone_offset(z, instant);
    return true;
}

/* The same kind in another unit. */
static bool units(const struct cast *k, int64_t row, uint8_t *to)
{
    int64_t v = array_view_int(k->from, row) / k->divisor;
    if (__builtin_mul_overflow(v, k->factor, &v)) return false;
    if (k->to.id == ARROW_TIMESTAMP && has_zone(&k->to) && !has_zone(&k->from->type)) {
        if (!from_local(&k->to_zone, units_of(&k->to), &v)) return false;
    }
    return cast_store_integer(&k->to, v, to);
}

static bool date_to_units(const struct cast *k, int64_t row, uint8_t *to)
{
    int64_t v = array_view_int(k->from, row);
    if (k->from->type.id == ARROW_DATE32) {
        if (__builtin_mul_overflow(v, DAY * units_of(&k->to), &v)) return false;
    } else {
        v /= k->divisor;
        if (__builtin_mul_overflow(v, k->factor, &v)) return false;
    }
    if (k->to.id == ARROW_TIMESTAMP && has_zone(&k->to) && !from_local(&k->to_zone, units_of(&k->to), &v)) return false;
    return cast_store_integer(&k->to, v, to);
}

static bool date64_to_date32(const struct cast *k, int64_t row, uint8_t *to)
{
    return cast_store_integer(&k->to, array_view_int(k->from, row) / (DAY * 1000), to);
}

static bool timestamp_to_date32(const struct cast *k, int64_t row, uint8_t *to)
{
    int64_t seconds;
    if (!local_seconds(&k->from_zone, units_of(&k->from->type), array_view_int(k->from, row), &seconds)) return false;
    return cast_store_integer(&k->to, floor_div(seconds, DAY), to);
}

static bool timestamp_to_time(const struct cast *k, int64_t row, uint8_t *to)
{
    const int64_t per_second = units_of(&k->from->type), value = array_view_int(k->from, row);
    int64_t seconds;
    if (!local_seconds(&k->from_zone, per_second, value, &seconds)) return false;
    const int64_t v = floor_mod(seconds, DAY) * per_second + floor_mod(value, per_second);
    return cast_store_integer(&k->to, v / k->divisor * k->factor, to);
}

static bool number_to_number(const struct cast *k, int64_t row, uint8_t *to)
{
    int64_t v = array_view_int(k->from, row);
    if (k->from->type.id == ARROW_UINT64 && v < 0) return false; /* 2^63 and above */
    return cast_store_integer(&k->to, v, to);
}

/* An int32 is days, whatever the unit of the date. */
static bool days_to_date64(const struct cast *k, int64_t row, uint8_t *to)
{
    return cast_store_integer(&k->to, array_view_int(k->from, row) * (DAY * 1000), to);
}

static bool is_time_of_day(enum arrow_id id) { return id == ARROW_TIME32 || id == ARROW_TIME64; }

/* Between two of dates, times, timestamps, durations. */
static cast_row_fn find_times(enum arrow_id from, enum arrow_id to)
{
    if (from == to) return units;
    if (from == ARROW_DATE64 && to == ARROW_DATE32) return date64_to_date32;
    if (from == ARROW_DATE32 && to == ARROW_DATE64) return date_to_units;
    if ((from == ARROW_DATE32 || from == ARROW_DATE64) && to == ARROW_TIMESTAMP) return date_to_units;
    if (from == ARROW_TIMESTAMP && to == ARROW_DATE32) return timestamp_to_date32;
    if (from == ARROW_TIMESTAMP && to == ARROW_DATE64) return units;
    if (from == ARROW_TIMESTAMP && is_time_of_day(to)) return timestamp_to_time;
    return is_time_of_day(from) && is_time_of_day(to) ? units : NULL;
}

static bool is_temporal(enum arrow_id id) { return id >= ARROW_DATE32 && id <= ARROW_DURATION; }

/* The integers that become each kind, and that each becomes; the others are refused, as official does. */
static cast_row_fn find_from_number(enum arrow_id number, enum arrow_id time)
{
    bool small = number == ARROW_INT32, large = number == ARROW_INT64;
    switch (time) {
    case ARROW_DATE32: return small || large ? number_to_number : NULL;
    case ARROW_DATE64: return small ? days_to_date64 : large ? number_to_number : NULL;
    case ARROW_TIME32: return small ? number_to_number : NULL;
    case ARROW_TIME64: return large ? number_to_number : NULL;
    default: return number_to_number;
    }
}

static cast_row_fn find_to_number(enum arrow_id time, enum arrow_id number)
{
    bool any = time == ARROW_TIMESTAMP || time == ARROW_DURATION;
    bool small = number == ARROW_INT32 && time != ARROW_TIME64;
    return any || small || number == ARROW_INT64 ? number_to_number : NULL;
}

cast_row_fn cast_time_find(const struct arrow_type *from, const struct arrow_type *to)
{
    bool a = is_temporal(from->id), b = is_temporal(to->id);
    if (a && b) return find_times(from->id, to->id);
    if (a && arrow_id_is_integer(to->id)) return find_to_number(from->id, to->id);
    return b && arrow_id_is_integer(from->id) ? find_from_number(from->id, to->id) : NULL;
}
