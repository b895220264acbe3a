/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside the casts: one cast from a type to another, and the functions that convert a row. */
#ifndef EXPR_CAST_H
#define EXPR_CAST_H

#include "expr/evaluate.h"
#include "expr/zone.h"

struct cast;
/* Convert row `row`, which is not null, to `to` (a value of the target's width; for booleans a byte). False: the value does not fit. */
typedef bool (*cast_row_fn)(const struct cast *k, int64_t row, uint8_t *to);
/* All rows at once, for casts that cannot fail; garbage under nulls gives garbage. */
typedef void (*cast_all_fn)(const uint8_t *from, uint8_t *to, int64_t rows);

struct cast {
    const struct call *c;
    const struct array_view *from;
    const struct ArrowSchema *to_schema;
    struct arrow_type to;
    bool try_cast;
    struct arena *scratch;
    int64_t rows;
    int64_t factor, divisor; /* of time units */
    struct zone from_zone, to_zone;
    struct zone_cache *zones; /* names in texts */
};

/* The function for two types of plain values; NULL: there is no such cast. */
cast_row_fn cast_number_find(const struct arrow_type *from, const struct arrow_type *to);
cast_all_fn cast_number_all(const struct arrow_type *from, const struct arrow_type *to);
/* The same where values may not fit: false when one does not, then what was written means nothing. Nulls are looked at like others. */
typedef bool (*cast_fit_fn)(const uint8_t *from, uint8_t *to, int64_t rows);
cast_fit_fn cast_number_fit(const struct arrow_type *from, const struct arrow_type *to);
cast_row_fn cast_time_find(const struct arrow_type *from, const struct arrow_type *to);
/* From text to the type; NULL: none. */
cast_row_fn cast_parse_find(const struct arrow_type *to);
pennon_status cast_time_prepare(struct cast *k, pennon_error *err) CHECKED;

/* Store an integer of an integer or time type; false where it does not fit. */
bool cast_store_integer(const struct arrow_type *t, int64_t v, uint8_t *to);
/* A double rounded to the float type. */
void cast_store_float(const struct arrow_type *t, double v, uint8_t *to);
/* An integer with a scale as a decimal, rounded half away from zero; false past the precision. */
bool cast_store_decimal(const struct arrow_type *t, struct wide v, int32_t scale, uint8_t *to);
static inline int64_t units_per_second(enum arrow_unit u)
{
    return u == ARROW_SECOND ? 1 : u == ARROW_MILLI ? 1000 : u == ARROW_MICRO ? 1000000 : 1000000000;
}

/* A date and time in parts; offset: seconds east that were written, where has_offset. */
struct moment {
    int64_t days;    /* since 1970 */
    int64_t seconds; /* of the day, up to 86400 with a leap second */
    int64_t nanos;
    bool has_offset;
    struct bytes zone; /* its name where it is no plain offset */
    int64_t offset;
};
bool cast_read_date(struct bytes text, struct zone_cache *zones, int64_t *days);
bool cast_read_moment(struct bytes text, struct moment *out);
/* Seconds since 1970, UTC; a local time is one of `local`. False: the named zone is unknown, or out of range. */
bool cast_moment_instant(const struct moment *m, const struct zone *local, struct zone_cache *zones, int64_t *seconds);

/* A timestamp as text, in its zone. */
pennon_status cast_timestamp_text(const struct array_view *v, int64_t row, const struct zone *z, struct buf *out,
                                  pennon_error *err) CHECKED;
/* Text of a float as official writes it: shortest digits that read back. */
#define FLOAT_TEXT_MAX 64u
size_t cast_float_text(double v, enum arrow_id id, char out[FLOAT_TEXT_MAX]);

#endif
