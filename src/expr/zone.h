/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Time zones of timestamps, and the calendar. */
#ifndef EXPR_ZONE_H
#define EXPR_ZONE_H

#include "base/base.h"

struct zone {
    bool named;
    int64_t east; /* seconds east of UTC, where not named */
    struct zone_file *file;
};

/* "+02:00", "-0230", "+02", "UTC", or a name of the system's time zone database ("Europe/Berlin"); "" and NULL are UTC. Lives in the arena.
 * INVALID_ARGUMENT: there is no such zone. */
pennon_status zone_find(struct bytes name, struct arena *arena, struct zone *out, pennon_error *err) CHECKED;
/* Zones that were found, by name: for names that stand in rows. Lives in its arena. */
struct zone_cache {
    struct arena *arena;
    struct zone_known *first;
};
/* NULL: there is no such zone, or no memory for it. */
const struct zone *zone_cached(struct zone_cache *cache, struct bytes name);
/* Seconds east of UTC at an instant (seconds since 1970, UTC). */
int64_t zone_offset(const struct zone *z, int64_t instant);
/* The same at a local time; where a clock was set back the earlier instant, where it was set forward the time that would have been. */
int64_t zone_offset_local(const struct zone *z, int64_t local);
/* There is exactly one instant with this local time. */
bool zone_local_unique(const struct zone *z, int64_t local);

/* Days since 1970 of a date of the proleptic Gregorian calendar, and back. */
struct civil {
    int64_t year;
    int32_t month, day; /* from 1 */
};
int64_t civil_days(int64_t year, int32_t month, int32_t day);
struct civil civil_of_days(int64_t days);
int32_t civil_month_days(int64_t year, int32_t month);

static inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
/* Defined for every a: the product of the quotient may not fit where the rest does. */
static inline int64_t floor_mod(int64_t a, int64_t b) { return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0); }

#endif
