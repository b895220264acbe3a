/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Points in time in parts, written and read by formats with % (those of strftime, with the additions of official). */
#ifndef EXPR_TIME_FORMAT_H
#define EXPR_TIME_FORMAT_H

#include "expr/functions.h"
#include "expr/zone.h"

#define DAY_SECONDS INT64_C(86400)
#define NANOS INT64_C(1000000000)

struct moment {
    int64_t days; /* local date since 1970 */
    struct civil date;
    int32_t second; /* of the day */
    int32_t nano;   /* of the second */
    int64_t east;   /* seconds east of UTC */
    bool has_date, has_time, has_zone;
};

/* From local seconds since 1970. */
struct moment moment_of(int64_t local_seconds, int32_t nano);
int32_t moment_year_day(const struct moment *m); /* from 1 */
int32_t moment_weekday(const struct moment *m);  /* Sunday is 0 */
/* ISO 8601: week from 1, and the year it belongs to. */
int32_t moment_iso_week(const struct moment *m, int64_t *year);

/* Append the text; *ok false: the format is wrong, or asks for what the moment does not have. */
pennon_status moment_put(const struct moment *m, struct bytes format, struct text_out *out, bool *ok, pennon_error *err) CHECKED;
/* Read all of `text`; what the format does not say is not set (has_date, has_time, has_zone). False: it does not fit. */
bool moment_parse(struct bytes text, struct bytes format, struct moment *out);

#endif
