/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Points in time as RFC 3339 texts, in UTC.
 *
 * Written as official writes them: with no, three, six or nine digits behind the second, the fewest that lose nothing, and "Z". Read with any
 * number of digits (those past the ninth say nothing) and with any offset.
 * Dates are counted by eras of 400 years in the proleptic Gregorian calendar; years 0000 to 9999. */
#include <stdio.h>

#include "base/call.h"

#define SECOND_NS INT64_C(1000000000)

/* Days since 1970-01-01 of a date. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400, yoe = y - era * 400;
    int64_t doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1, doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

void time_text(int64_t ns, char out[TIME_TEXT_BYTES])
{
    int64_t seconds = ns / SECOND_NS, rest = ns % SECOND_NS;
    if (rest < 0) {
        rest += SECOND_NS;
        seconds--;
    }
    int64_t days = seconds / 86400, second = seconds % 86400;
    if (second < 0) {
        second += 86400;
        days--;
    }
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153, day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
    int digits = rest == 0 ? 0 : rest % 1000000 == 0 ? 3 : rest % 1000 == 0 ? 6 : 9;
    int n = snprintf(out, TIME_TEXT_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d", (int)(yoe + era * 400 + (month <= 2)), (int)month,
                     (int)day, (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60));
    ASSERT(n > 0 && n < TIME_TEXT_BYTES);
    for (int k = digits; k < 9; k++) rest /= 10;
    if (digits > 0) n += snprintf(out + n, (size_t)(TIME_TEXT_BYTES - n), ".%0*d", digits, (int)rest);
    ASSERT(n + 1 < TIME_TEXT_BYTES);
    out[n] = 'Z';
    out[n + 1] = '\0';
}

/* `n` digits at *p, which moves on. */
static bool take_number(const char **p, unsigned n, int64_t least, int64_t most, int64_t *out)
{
    int64_t v = 0;
    for (unsigned i = 0; i < n; i++, (*p)++) {
        if (**p < '0' || **p > '9') return false;
        v = v * 10 + (**p - '0');
    }
    *out = v;
    return v >= least && v <= most;
}

static bool take_char(const char **p, char a, char b)
{
    if (**p != a && **p != b) return false;
    (*p)++;
    return true;
}

/* "Z", "+hh:mm" or "-hh:mm" to the end of the text; seconds east of UTC. */
static bool take_offset(const char *p, int64_t *out)
{
    int64_t hours, minutes, sign = *p == '-' ? -1 : 1;
    *out = 0;
    if (take_char(&p, 'Z', 'z')) return *p == '\0';
    if (!take_char(&p, '+', '-') || !take_number(&p, 2, 0, 23, &hours) || !take_char(&p, ':', ':')) return false;
    if (!take_number(&p, 2, 0, 59, &minutes)) return false;
    *out = sign * (hours * 3600 + minutes * 60);
    return *p == '\0';
}

bool time_parse(const char *text, int64_t *ns)
{
    const char *p = text;
    int64_t year, month, day, hour, minute, second, east, fraction = 0, unit = SECOND_NS;
    if (!take_number(&p, 4, 0, 9999, &year) || !take_char(&p, '-', '-') || !take_number(&p, 2, 1, 12, &month)) return false;
    if (!take_char(&p, '-', '-') || !take_number(&p, 2, 1, 31, &day)) return false;
    if (!take_char(&p, 'T', 't') && !take_char(&p, ' ', ' ')) return false;
    if (!take_number(&p, 2, 0, 23, &hour) || !take_char(&p, ':', ':') || !take_number(&p, 2, 0, 59, &minute)) return false;
    if (!take_char(&p, ':', ':') || !take_number(&p, 2, 0, 60, &second)) return false;
    if (take_char(&p, '.', '.')) {
        if (*p < '0' || *p > '9') return false;
        for (; *p >= '0' && *p <= '9'; p++) {
            unit /= 10;
            fraction += (*p - '0') * unit;
        }
    }
    if (!take_offset(p, &east)) return false;
    int64_t seconds = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - east;
    return !__builtin_mul_overflow(seconds, SECOND_NS, ns) && !__builtin_add_overflow(*ns, fraction, ns);
}
