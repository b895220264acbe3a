/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Functions of dates, times and timestamps.
 *
 * Instants are taken apart in the zone of their type. now and its relatives are one value for the whole expression, taken when it is bound.
 * Conversions leave parsing and units to casts, which the binder writes where a function asks for them; texts with formats are read here.
 * Weeks begin on Monday; date_part's isodow counts Monday as 0, as official does. date_bin counts in nanoseconds, as official does.
 * Source: spec expressions 7; edges asked of official. */
#include <stdio.h>

#include "expr/time_format.h"

/* ---- reading points in time ---- */

struct source {
    const struct datum *d;
    int64_t per_second; /* 0: days */
    struct zone zone;
    bool is_time, has_zone;
};

static int64_t units_per_second(enum arrow_unit unit)
{
    static const int64_t units[] = {1, 1000, 1000000, NANOS};
    return units[unit];
}

static pennon_status source_open(struct run_call *r, size_t arg, struct source *out, pennon_error *err)
{
    const struct arrow_type *t = &r->args[arg].view.type;
    memset(out, 0, sizeof *out);
    out->d = &r->args[arg];
    out->is_time = t->id == ARROW_TIME32 || t->id == ARROW_TIME64;
    out->per_second = t->id == ARROW_DATE32 ? 0 : t->id == ARROW_DATE64 ? 1000 : units_per_second(t->unit);
    out->has_zone = t->id == ARROW_TIMESTAMP && t->timezone[0] != '\0';
    return out->has_zone ? zone_find(bytes_str(t->timezone), r->scratch, &out->zone, err) : PENNON_OK;
}

/* UTC seconds and nanoseconds of a row. */
static void source_instant(const struct source *s, int64_t row, int64_t *seconds, int32_t *nano)
{
    const int64_t v = array_view_int(&s->d->view, datum_row(s->d, row));
    *nano = 0;
    if (s->per_second == 0) {
        *seconds = v * DAY_SECONDS;
        return;
    }
    *seconds = floor_div(v, s->per_second);
    *nano = (int32_t)(floor_mod(v, s->per_second) * (NANOS / s->per_second));
}

/* Official's calendar, -262143-01-01 to 262142-12-31: what fits seconds of int64 may be further away, and has no date. */
#define SECONDS_LEAST (-INT64_C(8334601228800))
#define SECONDS_MOST INT64_C(8210266876799)

static bool source_moment(const struct source *s, int64_t row, struct moment *out)
{
    int64_t seconds, east = 0;
    int32_t nano;
    source_instant(s, row, &seconds, &nano);
    if (seconds > SECONDS_MOST || seconds < SECONDS_LEAST) return false;
    if (s->has_zone) east = zone_offset(&s->zone, seconds);
    *out = moment_of(seconds + east, nano);
    out->east = east;
    out->has_zone = s->has_zone;
    out->has_date = !s->is_time;
    return true;
}

static pennon_status out_of_range(const struct run_call *r, pennon_error *err)
{
    return run_fault(r, err, "a date is out of the range of the calendar");
}

static bool is_instant(enum arrow_id id) { return id == ARROW_TIMESTAMP || id == ARROW_DATE32 || id == ARROW_DATE64; }
static bool is_time_of_day(enum arrow_id id) { return id == ARROW_TIME32 || id == ARROW_TIME64; }

/* Argument i as a point in time: texts become timestamps in nanoseconds. */
static pennon_status bind_instant(struct bind_call *b, size_t i, bool times, struct arrow_type *t, pennon_error *err)
{
    TRY_RETURN(bind_type(b, i, t, err));
    if (arrow_id_is_text(t->id) || t->id == ARROW_NULL) {
        TRY_RETURN(bind_as(b, i, "tsn:", err));
        return bind_type(b, i, t, err);
    }
    if (is_instant(t->id) || (times && is_time_of_day(t->id))) return PENNON_OK;
    return bind_refuse(b, i, times ? "a date, time or timestamp" : "a date or timestamp", err);
}

static void free_state(void *state, struct mem *m) { mem_free(m, state); }

/* A constant word without regard to case; refuses with the name of the argument. */
static pennon_status constant_word(struct bind_call *b, size_t i, char *out, size_t size, pennon_error *err)
{
    struct bytes text;
    if (!bind_constant_text(b, i, &text) || text.size == 0) return bind_refuse(b, i, "a constant text that is not empty", err);
    const size_t n = (size_t)min_u64(text.size, size - 1);
    for (size_t k = 0; k < n; k++) out[k] = (char)(text.data[k] >= 'A' && text.data[k] <= 'Z' ? text.data[k] + 32 : text.data[k]);
    out[n] = '\0';
    return bind_as(b, i, "u", err);
}

/* ---- date_part ---- */

enum part {
    PART_YEAR,
    PART_QUARTER,
    PART_MONTH,
    PART_WEEK,
    PART_DAY,
    PART_DOW,
    PART_DOY,
    PART_ISODOW,
    PART_ISOYEAR,
    PART_HOUR, /* times have this and what follows */
    PART_MINUTE,
    PART_SECOND,
    PART_MILLISECOND,
    PART_MICROSECOND,
    PART_EPOCH
};

static const struct {
    enum part part;
    const char *names; /* blanks around each */
} part_names[] = {
    {PART_YEAR, " year years y yr yrs "},
    {PART_QUARTER, " quarter qtr "},
    {PART_MONTH, " month months mon mons "},
    {PART_WEEK, " week weeks w "},
    {PART_DAY, " day days d "},
    {PART_DOW, " dow "},
    {PART_DOY, " doy "},
    {PART_ISODOW, " isodow "},
    {PART_ISOYEAR, " isoyear "},
    {PART_HOUR, " hour hours h hr hrs "},
    {PART_MINUTE, " minute minutes m min mins "},
    {PART_SECOND, " second seconds s sec secs "},
    {PART_MILLISECOND, " millisecond milliseconds ms msec msecs "},
    {PART_MICROSECOND, " microsecond microseconds us usec usecs "},
    {PART_EPOCH, " epoch "},
};

#define WORD_MAX 24u

static bool find_part(const char *word, enum part *out)
{
    char padded[WORD_MAX + 2];
    (void)snprintf(padded, sizeof padded, " %s ", word);
    if (strchr(word, ' ') != NULL) return false;
    for (size_t i = 0; i < ARRAY_LEN(part_names); i++) {
        if (strstr(part_names[i].names, padded) != NULL) {
            *out = part_names[i].part;
            return true;
        }
    }
    return false;
}

static pennon_status bind_date_part(struct bind_call *b, pennon_error *err)
{
    char word[WORD_MAX];
    struct arrow_type t;
    enum part part;
    TRY_RETURN(constant_word(b, 0, word, sizeof word, err));
    if (!find_part(word, &part)) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "%s: there is no part '%s'", b->fn->name, word);
        return error_kind(err, "TypeMismatch");
    }
    TRY_RETURN(bind_instant(b, 1, true, &t, err));
    if (is_time_of_day(t.id) && part < PART_HOUR) return bind_refuse(b, 1, "a type that has this part", err);
    TRY_RETURN(bind_result(b, part == PART_EPOCH ? "g" : "i", err));
    enum part *state = mem_alloc(b->e->mem, sizeof *state, err);
    if (state == NULL) return err->code;
    *state = part;
    b->state = state;
    return PENNON_OK;
}

static int32_t part_of(const struct moment *m, enum part part)
{
    int64_t year;
    switch (part) {
    case PART_YEAR: return (int32_t)m->date.year;
    case PART_QUARTER: return (m->date.month + 2) / 3;
    case PART_MONTH: return m->date.month;
    case PART_WEEK: return moment_iso_week(m, &year);
    case PART_DAY: return m->date.day;
    case PART_DOW: return moment_weekday(m);
    case PART_DOY: return moment_year_day(m);
    case PART_ISODOW: return (moment_weekday(m) + 6) % 7;
    case PART_ISOYEAR: (void)moment_iso_week(m, &year); return (int32_t)year;
    case PART_HOUR: return m->second / 3600;
    case PART_MINUTE: return m->second / 60 % 60;
    case PART_SECOND: return m->second % 60;
    case PART_MILLISECOND: return m->second % 60 * 1000 + m->nano / 1000000;
    default: return m->second % 60 * 1000000 + m->nano / 1000;
    }
}

static pennon_status run_date_part(struct run_call *r, pennon_error *err)
{
    const enum part part = *(const enum part *)r->node->state;
    struct source s;
    void *to = NULL;
    TRY_RETURN(source_open(r, 1, &s, err));
    TRY_RETURN(run_values(r, part == PART_EPOCH ? 8 : 4, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        struct moment m;
        if (!run_valid(r, i)) continue;
        if (part == PART_EPOCH) {
            const int64_t v = array_view_int(&s.d->view, datum_row(s.d, i));
            ((double *)to)[i] = s.per_second == 0 ? (double)v * DAY_SECONDS : (double)v / (double)s.per_second;
            continue;
        }
        if (source_moment(&s, i, &m)) {
            ((int32_t *)to)[i] = part_of(&m, part);
        } else if (s.per_second == 0 && part >= PART_HOUR) {
            ((int32_t *)to)[i] = 0; /* of any number of days */
        } else {
            TRY_RETURN(run_set_null(r, i, err)); /* no date, no part of it: as official */
        }
    }
    return PENNON_OK;
}

/* ---- date_trunc ---- */

static pennon_status bind_date_trunc(struct bind_call *b, pennon_error *err)
{
    static const struct {
        const char *name;
        enum part part;
    } names[] = {{"microsecond", PART_MICROSECOND},
                 {"millisecond", PART_MILLISECOND},
                 {"second", PART_SECOND},
                 {"minute", PART_MINUTE},
                 {"hour", PART_HOUR},
                 {"day", PART_DAY},
                 {"week", PART_WEEK},
                 {"month", PART_MONTH},
                 {"quarter", PART_QUARTER},
                 {"year", PART_YEAR}};
    char word[WORD_MAX];
    struct arrow_type t;
    size_t k = 0;
    TRY_RETURN(constant_word(b, 0, word, sizeof word, err));
    while (k < ARRAY_LEN(names) && strcmp(word, names[k].name) != 0) k++;
    TRY_RETURN(bind_instant(b, 1, true, &t, err));
    if (k == ARRAY_LEN(names) || (is_time_of_day(t.id) && names[k].part < PART_HOUR)) {
        error_fill(err, PENNON_INVALID_ARGUMENT,
                   "%s: '%s' is no unit for this type; units are microsecond, millisecond, second, minute, hour%s", b->fn->name,
                   word, is_time_of_day(t.id) ? "" : ", day, week, month, quarter, year");
        return error_kind(err, "TypeMismatch");
    }
    if (t.id == ARROW_DATE32 || t.id == ARROW_DATE64) TRY_RETURN(bind_as(b, 1, "tsn:", err));
    if (b->types[1]->dictionary != NULL) TRY_RETURN(expr_add_type(b->e, b->types[1]->dictionary, &b->types[1], err));
    b->result = b->types[1];
    enum part *state = mem_alloc(b->e->mem, sizeof *state, err);
    if (state == NULL) return err->code;
    *state = names[k].part;
    b->state = state;
    return PENNON_OK;
}

/* The local day that a unit of days or more begins with. */
static int64_t first_day(const struct moment *m, enum part part)
{
    switch (part) {
    case PART_WEEK: return m->days - (moment_weekday(m) + 6) % 7;
    case PART_MONTH: return civil_days(m->date.year, m->date.month, 1);
    case PART_QUARTER: return civil_days(m->date.year, (m->date.month - 1) / 3 * 3 + 1, 1);
    case PART_YEAR: return civil_days(m->date.year, 1, 1);
    default: return m->days;
    }
}

/* Units of the value within one of the parts below a day; 1 where the type is coarser. */
static int64_t units_in(enum part part, int64_t per_second)
{
    switch (part) {
    case PART_HOUR: return 3600 * per_second;
    case PART_MINUTE: return 60 * per_second;
    case PART_SECOND: return per_second;
    case PART_MILLISECOND: return per_second >= 1000 ? per_second / 1000 : 1;
    default: return per_second >= 1000000 ? per_second / 1000000 : 1;
    }
}

static void store_integer(const struct run_call *r, void *to, int64_t row, int64_t v)
{
    if (arrow_type_width(&r->node->type) == 4) {
        ((int32_t *)to)[row] = (int32_t)v;
    } else {
        ((int64_t *)to)[row] = v;
    }
}

static pennon_status run_date_trunc(struct run_call *r, pennon_error *err)
{
    const enum part part = *(const enum part *)r->node->state;
    struct source s;
    void *to = NULL;
    TRY_RETURN(source_open(r, 1, &s, err));
    TRY_RETURN(run_values(r, arrow_type_width(&r->node->type), &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        struct moment m;
        if (!run_valid(r, i)) continue;
        const int64_t v = array_view_int(&s.d->view, datum_row(s.d, i));
        if (part >= PART_HOUR) {
            /* Offsets of zones are not whole hours everywhere: cut the local value. */
            const int64_t unit = units_in(part, s.per_second);
            int64_t east = 0;
            if (s.has_zone) east = zone_offset(&s.zone, floor_div(v, s.per_second)) * s.per_second;
            int64_t cut;
            if (__builtin_sub_overflow(v, floor_mod(floor_mod(v, unit) + floor_mod(east, unit), unit), &cut))
                return out_of_range(r, err);
            store_integer(r, to, i, cut);
            continue;
        }
        if (!source_moment(&s, i, &m)) return out_of_range(r, err);
        int64_t seconds = first_day(&m, part) * DAY_SECONDS, cut;
        if (s.has_zone) seconds -= zone_offset_local(&s.zone, seconds);
        if (__builtin_mul_overflow(seconds, s.per_second, &cut)) return out_of_range(r, err);
        store_integer(r, to, i, cut);
    }
    return PENNON_OK;
}

/* ---- date_bin ---- */

struct stride {
    int64_t months, nanos;
};

static const struct {
    const char *names;
    int64_t months, nanos;
} interval_units[] = {
    {" year years y yr yrs ", 12, 0},
    {" month months mon mons ", 1, 0},
    {" week weeks w ", 0, 7 * DAY_SECONDS *NANOS},
    {" day days d ", 0, DAY_SECONDS *NANOS},
    {" hour hours h hr hrs ", 0, 3600 * NANOS},
    {" minute minutes m min mins ", 0, 60 * NANOS},
    {" second seconds s sec secs ", 0, NANOS},
    {" millisecond milliseconds ms msec msecs ", 0, 1000000},
    {" microsecond microseconds us usec usecs ", 0, 1000},
    {" nanosecond nanoseconds ns ", 0, 1},
};

static bool add_unit(struct stride *s, double amount, const char *padded)
{
    for (size_t i = 0; i < ARRAY_LEN(interval_units); i++) {
        if (strstr(interval_units[i].names, padded) == NULL) continue;
        const double months = amount * (double)interval_units[i].months, nanos = amount * (double)interval_units[i].nanos;
        if (months > 1e6 || months < -1e6 || nanos > 9e18 || nanos < -9e18) return false;
        s->months += (int64_t)months;
        return !__builtin_add_overflow(s->nanos, (int64_t)nanos, &s->nanos);
    }
    return false;
}

static size_t skip_blanks(struct bytes text, size_t at)
{
    while (at < text.size && text.data[at] == ' ') at++;
    return at;
}

/* "1 day 2 hours", "15 minutes". */
static bool parse_interval(struct bytes text, struct stride *out)
{
    size_t at = skip_blanks(text, 0);
    memset(out, 0, sizeof *out);
    if (at == text.size) return false;
    while (at < text.size) {
        char word[WORD_MAX + 2] = " ";
        double amount;
        size_t start = at, n = 1;
        while (at < text.size && (text.data[at] == '-' || text.data[at] == '.' || (text.data[at] >= '0' && text.data[at] <= '9')))
            at++;
        if (!real_parse(bytes_of(text.data + start, at - start), &amount)) return false;
        at = skip_blanks(text, at);
        while (at < text.size && text.data[at] != ' ' && n < WORD_MAX) {
            word[n++] = (char)(text.data[at] >= 'A' && text.data[at] <= 'Z' ? text.data[at] + 32 : text.data[at]);
            at++;
        }
        word[n] = ' ';
        word[n + 1] = '\0';
        if (n == 1 || !add_unit(out, amount, word)) return false;
        at = skip_blanks(text, at);
    }
    return true;
}

/* Timestamps in nanoseconds, with the zone of the argument. */
static pennon_status bind_nanos(struct bind_call *b, size_t i, pennon_error *err)
{
    char format[128];
    struct arrow_type t;
    TRY_RETURN(bind_instant(b, i, i == 1, &t, err));
    if (is_time_of_day(t.id)) return bind_as(b, i, t.id == ARROW_TIME64 ? b->types[i]->format : "ttn", err);
    const int n = snprintf(format, sizeof format, "tsn:%s", t.id == ARROW_TIMESTAMP ? t.timezone : "");
    if (n < 0 || (size_t)n >= sizeof format) return bind_refuse(b, i, "of a zone with a short name", err);
    return bind_as(b, i, format, err);
}

static pennon_status bind_date_bin(struct bind_call *b, pennon_error *err)
{
    struct bytes text;
    struct stride stride;
    if (!bind_constant_text(b, 0, &text)) return bind_refuse(b, 0, "a constant text such as '15 minutes'", err);
    if (!parse_interval(text, &stride) || (stride.months != 0 && stride.nanos != 0) || stride.months < 0 || stride.nanos < 0 ||
        (stride.months == 0 && stride.nanos == 0)) {
        error_fill(err, PENNON_INVALID_ARGUMENT, "%s: '%.*s' is no positive interval of months, or of days and smaller units",
                   b->fn->name, (int)min_u64(text.size, 100), (const char *)text.data);
        return error_kind(err, "TypeMismatch");
    }
    TRY_RETURN(bind_as(b, 0, "u", err));
    TRY_RETURN(bind_nanos(b, 1, err));
    if (b->n > 2) TRY_RETURN(bind_nanos(b, 2, err));
    b->result = b->types[1];
    struct stride *state = mem_alloc(b->e->mem, sizeof *state, err);
    if (state == NULL) return err->code;
    *state = stride;
    b->state = state;
    return PENNON_OK;
}

/* Nanoseconds of `base` moved by months, its day cut to the month's length. */
static int64_t add_months(int64_t base, int64_t months)
{
    const int64_t day_nanos = DAY_SECONDS * NANOS;
    const struct civil c = civil_of_days(floor_div(base, day_nanos));
    const int64_t total = c.year * 12 + c.month - 1 + months, year = floor_div(total, 12);
    const int32_t month = (int32_t)floor_mod(total, 12) + 1, most = civil_month_days(year, month);
    return civil_days(year, month, c.day < most ? c.day : most) * day_nanos + floor_mod(base, day_nanos);
}

static int64_t bin_months(int64_t v, int64_t origin, int64_t months)
{
    const int64_t day_nanos = DAY_SECONDS * NANOS;
    const struct civil a = civil_of_days(floor_div(origin, day_nanos)), c = civil_of_days(floor_div(v, day_nanos));
    const int64_t between = (c.year - a.year) * 12 + c.month - a.month;
    int64_t bin = floor_div(between, months) * months;
    if (add_months(origin, bin) > v) bin -= months;
    return add_months(origin, bin);
}

/* Years near the ends of int64 nanoseconds: bins may begin before them. */
static bool bin_of(const struct stride *s, int64_t v, int64_t origin, int64_t *out)
{
    int64_t since;
    if (s->months > 0) {
        const int64_t edge = INT64_C(366) * DAY_SECONDS * NANOS;
        if (s->months > 1200 || v < INT64_MIN + edge + s->months * 31 * DAY_SECONDS * NANOS) return false;
        *out = bin_months(v, origin, s->months);
        return true;
    }
    if (__builtin_sub_overflow(v, origin, &since)) return false;
    return !__builtin_sub_overflow(v, floor_mod(since, s->nanos), out);
}

static pennon_status run_date_bin(struct run_call *r, pennon_error *err)
{
    const struct arrow_type *t = &r->args[1].view.type;
    const int64_t scale = t->id == ARROW_TIME64 ? NANOS / units_per_second(t->unit) : 1;
    const struct stride *s = r->node->state;
    int64_t *to = NULL;
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) continue;
        const int64_t v = array_view_int(&r->args[1].view, datum_row(&r->args[1], i)) * scale;
        const int64_t origin = r->n > 2 ? array_view_int(&r->args[2].view, datum_row(&r->args[2], i)) : 0;
        int64_t bin;
        if (!bin_of(s, v, origin, &bin)) return out_of_range(r, err);
        to[i] = bin / scale;
    }
    return PENNON_OK;
}

/* ---- conversions ---- */

enum target { TO_SECONDS, TO_MILLIS, TO_MICROS, TO_NANOS, TO_TIMESTAMP, TO_DATE, TO_UNIXTIME, TO_TIME };

static const char *const target_formats[] = {"tss:", "tsm:", "tsu:", "tsn:", "tsn:", "tdD", "l", "ttn"};
/* What dates and timestamps are cast to. */
static const char *const cast_formats[] = {"tss:", "tsm:", "tsu:", "tsn:", "tsn:", "tdD", "tss:", "tsn:"};

static pennon_status bind_convert(struct bind_call *b, pennon_error *err)
{
    const enum target to = (enum target)b->fn->option;
    struct arrow_type t;
    TRY_RETURN(bind_type(b, 0, &t, err));
    TRY_RETURN(bind_result(b, target_formats[to], err));
    const bool text = arrow_id_is_text(t.id);
    if (b->n > 1) {
        for (size_t i = 0; i < b->n; i++) TRY_RETURN(bind_text(b, i, false, err));
        return PENNON_OK;
    }
    if (to == TO_TIME && text) return bind_text(b, 0, false, err);
    if (to == TO_TIME && is_time_of_day(t.id)) return bind_as(b, 0, "ttn", err);
    if (text || is_instant(t.id) || t.id == ARROW_NULL) return bind_as(b, 0, cast_formats[to], err);
    if (to == TO_TIME) return bind_refuse(b, 0, "a text, time or timestamp", err);
    if (arrow_id_is_integer(t.id)) return bind_as(b, 0, "l", err);
    if (arrow_id_is_float(t.id)) return bind_as(b, 0, to == TO_TIMESTAMP ? "g" : "l", err);
    if (arrow_id_is_decimal(t.id)) return bind_as(b, 0, to == TO_TIMESTAMP ? "d:38,9" : "l", err);
    return bind_refuse(b, 0, "a text, number, date or timestamp", err);
}

/* The value that the target has for a moment; false: it is out of range, or a part is missing. */
static bool target_value(const struct moment *m, enum target to, int64_t *out)
{
    const int64_t seconds = m->days * DAY_SECONDS + m->second - m->east;
    if (to == TO_TIME) {
        *out = m->second * NANOS + m->nano;
        return m->has_time;
    }
    if (!m->has_date) return false;
    if (to == TO_DATE) {
        *out = m->days;
        return true;
    }
    if (to == TO_UNIXTIME || to == TO_SECONDS) {
        *out = seconds;
        return true;
    }
    const int64_t per = to == TO_MILLIS ? 1000 : to == TO_MICROS ? 1000000 : NANOS;
    return !__builtin_mul_overflow(seconds, per, out) && !__builtin_add_overflow(*out, m->nano / (NANOS / per), out);
}

static const char *const time_formats[] = {"%H:%M:%S%.f", "%H:%M:%S", "%H:%M"};

static pennon_status convert_text(const struct run_call *r, const struct text_rows *rows, int64_t i, int64_t *out,
                                  pennon_error *err)
{
    const enum target to = (enum target)r->node->fn->option;
    const struct bytes text = text_row(&rows[0], datum_row(&r->args[0], i));
    struct moment m;
    for (size_t k = 1; k < r->n; k++) {
        if (moment_parse(text, text_row(&rows[k], datum_row(&r->args[k], i)), &m) && target_value(&m, to, out)) return PENNON_OK;
    }
    for (size_t k = 0; k < ARRAY_LEN(time_formats) && r->n == 1; k++) {
        if (moment_parse(text, bytes_str(time_formats[k]), &m) && target_value(&m, to, out)) return PENNON_OK;
    }
    return run_fault(r, err, "'%.*s' does not fit the format", (int)min_u64(text.size, 100), (const char *)text.data);
}

static pennon_status run_formats(struct run_call *r, pennon_error *err)
{
    struct text_rows *rows = arena_calloc(r->scratch, r->n, sizeof *rows, err);
    void *to = NULL;
    if (rows == NULL) return err->code;
    for (size_t k = 0; k < r->n; k++) rows[k] = text_rows_of(&r->args[k].view);
    TRY_RETURN(run_values(r, arrow_type_width(&r->node->type), &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t v = 0;
        if (!run_valid(r, i)) continue;
        TRY_RETURN(convert_text(r, rows, i, &v, err));
        store_integer(r, to, i, v);
    }
    return PENNON_OK;
}

static int64_t saturate(double v)
{
    if (v != v) return 0;
    return v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

/* The value of a row of a number or a cast point in time. */
static bool convert_number(const struct run_call *r, int64_t i, int64_t *out)
{
    const struct datum *d = &r->args[0];
    const enum target to = (enum target)r->node->fn->option;
    const enum arrow_id id = d->view.type.id;
    const int64_t row = datum_row(d, i);
    if (id == ARROW_FLOAT64) {
        *out = saturate(array_view_double(&d->view, row) * 1e9);
        return true;
    }
    if (id == ARROW_DECIMAL128) {
        const struct wide v = wide_load(array_view_fixed(&d->view, row), 16);
        *out = (int64_t)v.word[0];
        return v.word[1] == (*out < 0 ? UINT64_MAX : 0);
    }
    *out = array_view_int(&d->view, row);
    if (id == ARROW_INT64 && to == TO_TIMESTAMP) return !__builtin_mul_overflow(*out, NANOS, out);
    if (to == TO_DATE) return *out >= INT32_MIN && *out <= INT32_MAX;
    if (to == TO_TIME && id == ARROW_TIMESTAMP) *out = floor_mod(*out, DAY_SECONDS * NANOS);
    return true;
}

static pennon_status run_convert(struct run_call *r, pennon_error *err)
{
    void *to = NULL;
    if (arrow_id_is_text(r->args[0].view.type.id)) return run_formats(r, err);
    TRY_RETURN(run_values(r, arrow_type_width(&r->node->type), &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t v = 0;
        if (!run_valid(r, i)) continue;
        if (!convert_number(r, i, &v)) return run_fault(r, err, "a value does not fit the result");
        store_integer(r, to, i, v);
    }
    return PENNON_OK;
}

static pennon_status bind_from_unixtime(struct bind_call *b, pennon_error *err)
{
    char format[128] = "tss:";
    struct bytes zone;
    TRY_RETURN(bind_integer(b, 0, err));
    if (b->n > 1) {
        if (!bind_constant_text(b, 1, &zone) || zone.size > 100) return bind_refuse(b, 1, "a constant text that names a zone", err);
        (void)snprintf(format, sizeof format, "tss:%.*s", (int)zone.size, (const char *)zone.data);
        TRY_RETURN(bind_as(b, 1, "u", err));
    }
    return bind_result(b, format, err);
}

static pennon_status run_from_unixtime(struct run_call *r, pennon_error *err)
{
    int64_t *to = NULL;
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (run_valid(r, i)) to[i] = array_view_int(&r->args[0].view, datum_row(&r->args[0], i));
    }
    return PENNON_OK;
}

static pennon_status bind_local_time(struct bind_call *b, pennon_error *err)
{
    static const char *const formats[] = {"tss:", "tsm:", "tsu:", "tsn:"};
    struct arrow_type t;
    TRY_RETURN(bind_type(b, 0, &t, err));
    if (t.id != ARROW_TIMESTAMP) return bind_refuse(b, 0, "a timestamp", err);
    return bind_result(b, formats[t.unit], err);
}

static pennon_status run_local_time(struct run_call *r, pennon_error *err)
{
    struct source s;
    int64_t *to = NULL;
    TRY_RETURN(source_open(r, 0, &s, err));
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (!run_valid(r, i)) continue;
        const int64_t v = array_view_int(&s.d->view, datum_row(s.d, i));
        const int64_t east = s.has_zone ? zone_offset(&s.zone, floor_div(v, s.per_second)) * s.per_second : 0;
        if (__builtin_add_overflow(v, east, &to[i])) return out_of_range(r, err);
    }
    return PENNON_OK;
}

/* ---- making ---- */

static pennon_status bind_make(struct bind_call *b, pennon_error *err)
{
    for (size_t i = 0; i < b->n; i++) {
        struct arrow_type t;
        TRY_RETURN(bind_type(b, i, &t, err));
        if (!arrow_id_is_integer(t.id) && !arrow_id_is_text(t.id) && t.id != ARROW_NULL)
            return bind_refuse(b, i, "an integer", err);
        TRY_RETURN(bind_as(b, i, "i", err));
    }
    return bind_result(b, b->fn->option == TO_DATE ? "tdD" : "tts", err);
}

static bool make_value(enum target to, int64_t a, int64_t b, int64_t c, int64_t *out)
{
    if (to == TO_DATE) {
        if (a < -262143 || a > 262142 || b < 1 || b > 12 || c < 1 || c > civil_month_days(a, (int32_t)b)) return false;
        *out = civil_days(a, (int32_t)b, (int32_t)c);
        return true;
    }
    *out = a * 3600 + b * 60 + c;
    return a >= 0 && a < 24 && b >= 0 && b < 60 && c >= 0 && c < 60;
}

static pennon_status run_make(struct run_call *r, pennon_error *err)
{
    int32_t *to = NULL;
    TRY_RETURN(run_values(r, sizeof *to, &to, err));
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t v[3], made;
        if (!run_valid(r, i)) continue;
        for (size_t k = 0; k < 3; k++) v[k] = array_view_int(&r->args[k].view, datum_row(&r->args[k], i));
        if (!make_value((enum target)r->node->fn->option, v[0], v[1], v[2], &made)) {
            return run_fault(r, err, "%" PRId64 ", %" PRId64 ", %" PRId64 " is out of range", v[0], v[1], v[2]);
        }
        to[i] = (int32_t)made;
    }
    return PENNON_OK;
}

/* ---- now ---- */

enum { NOW_TIMESTAMP, NOW_DATE, NOW_TIME };

static pennon_status bind_now(struct bind_call *b, pennon_error *err)
{
    static const char *const formats[] = {"tsn:", "tdD", "ttn"};
    if (b->e->bound_at == 0) b->e->bound_at = clock_wall_ns();
    TRY_RETURN(bind_result(b, formats[b->fn->option], err));
    int64_t *state = mem_alloc(b->e->mem, sizeof *state, err);
    if (state == NULL) return err->code;
    const int64_t day = DAY_SECONDS * NANOS, now = b->e->bound_at;
    *state = b->fn->option == NOW_TIMESTAMP ? now : b->fn->option == NOW_DATE ? floor_div(now, day) : floor_mod(now, day);
    b->state = state;
    return PENNON_OK;
}

static pennon_status run_now(struct run_call *r, pennon_error *err)
{
    void *to = NULL;
    TRY_RETURN(run_values(r, arrow_type_width(&r->node->type), &to, err));
    for (int64_t i = 0; i < r->rows; i++) store_integer(r, to, i, *(const int64_t *)r->node->state);
    return PENNON_OK;
}

/* ---- to_char ---- */

static pennon_status bind_to_char(struct bind_call *b, pennon_error *err)
{
    struct arrow_type t;
    TRY_RETURN(bind_instant(b, 0, true, &t, err));
    TRY_RETURN(bind_text(b, 1, false, err));
    return bind_result(b, "u", err);
}

static pennon_status run_to_char(struct run_call *r, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct source s;
    struct text_out out = {0};
    const struct text_rows formats = text_rows_of(&r->args[1].view);
    TRY(source_open(r, 0, &s, err));
    TRY(text_out_begin(&out, r, err));
    for (int64_t i = 0; i < r->rows; i++) {
        if (run_valid(r, i)) {
            const struct bytes format = text_row(&formats, datum_row(&r->args[1], i));
            struct moment m;
            bool ok;
            if (!source_moment(&s, i, &m)) {
                st = out_of_range(r, err);
                goto done;
            }
            TRY(moment_put(&m, format, &out, &ok, err));
            if (!ok) {
                st = run_fault(r, err, "the format '%.*s' does not fit", (int)min_u64(format.size, 100), (const char *)format.data);
                goto done;
            }
        }
        text_out_end_row(&out);
    }
    text_out_finish(&out);
done:
    text_out_abandon(&out);
    return st;
}

#define CONVERT(name, most, to)                                             \
    {                                                                       \
        name, 1, most, FUNCTION_STRICT, bind_convert, run_convert, NULL, to \
    }
#define NOW(name, which)                                                  \
    {                                                                     \
        name, 0, 0, FUNCTION_STRICT, bind_now, run_now, free_state, which \
    }

const struct function functions_date[] = {
    NOW("current_date", NOW_DATE),
    NOW("current_time", NOW_TIME),
    NOW("current_timestamp", NOW_TIMESTAMP),
    {"date_bin", 2, 3, FUNCTION_STRICT, bind_date_bin, run_date_bin, free_state, 0},
    {"date_format", 2, 2, FUNCTION_STRICT, bind_to_char, run_to_char, NULL, 0},
    {"date_part", 2, 2, FUNCTION_STRICT, bind_date_part, run_date_part, free_state, 0},
    {"date_trunc", 2, 2, FUNCTION_STRICT, bind_date_trunc, run_date_trunc, free_state, 0},
    {"datepart", 2, 2, FUNCTION_STRICT, bind_date_part, run_date_part, free_state, 0},
    {"datetrunc", 2, 2, FUNCTION_STRICT, bind_date_trunc, run_date_trunc, free_state, 0},
    {"from_unixtime", 1, 2, FUNCTION_STRICT, bind_from_unixtime, run_from_unixtime, NULL, 0},
    {"make_date", 3, 3, FUNCTION_STRICT, bind_make, run_make, NULL, TO_DATE},
    {"make_time", 3, 3, FUNCTION_STRICT, bind_make, run_make, NULL, TO_TIME},
    NOW("now", NOW_TIMESTAMP),
    {"to_char", 2, 2, FUNCTION_STRICT, bind_to_char, run_to_char, NULL, 0},
    CONVERT("to_date", 255, TO_DATE),
    {"to_local_time", 1, 1, FUNCTION_STRICT, bind_local_time, run_local_time, NULL, 0},
    CONVERT("to_time", 255, TO_TIME),
    CONVERT("to_timestamp", 255, TO_TIMESTAMP),
    CONVERT("to_timestamp_micros", 255, TO_MICROS),
    CONVERT("to_timestamp_millis", 255, TO_MILLIS),
    CONVERT("to_timestamp_nanos", 255, TO_NANOS),
    CONVERT("to_timestamp_seconds", 255, TO_SECONDS),
    CONVERT("to_unixtime", 255, TO_UNIXTIME),
    NOW("today", NOW_DATE),
    {NULL, 0, 0, 0, NULL, NULL, NULL, 0},
};
