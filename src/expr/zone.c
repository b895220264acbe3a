/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Time zones: fixed offsets, and names of the system's time zone database.
 *
 * A file of the database (TZif, RFC 8536), all integers big-endian:
 *   header       "TZif", version, 15 bytes, then six counts of 4 bytes: isut, isstd, leap, times, types, characters
 *   data         times (4 or 8 bytes each), one type a time (1 byte), types (offset 4, daylight 1, name 1), characters, leaps, isstd, isut
 * Version 2 has a second header and data with times of 8 bytes, and behind it a rule between line feeds for what comes after the last time,
 * such as "CET-1CEST,M3.5.0,M10.5.0/3". Files are read with checks like any other bytes from outside.
 *
 * Calendar: eras of 400 years that begin in March, so that the leap day is the last of a year. */
#include <stdio.h>

#include "expr/zone.h"

#define DAY INT64_C(86400)
#define ZONE_FOLDER "/usr/share/zoneinfo/"
#define ZONE_FILE_MAX ((size_t)1 << 16)
/* Instants far outside of any calendar count as these. */
#define INSTANT_MOST (INT64_C(1) << 55)

/* ------------------------------------------------------------------------------------------------------------- calendar */

int64_t civil_days(int64_t year, int32_t month, int32_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = floor_div(y, 400), yoe = y - era * 400;
    int64_t doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

struct civil civil_of_days(int64_t days)
{
    int64_t z = days + 719468, era = floor_div(z, 146097), doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int32_t month = (int32_t)(mp < 10 ? mp + 3 : mp - 9);
    return (struct civil){yoe + era * 400 + (month <= 2), month, (int32_t)(doy - (153 * mp + 2) / 5 + 1)};
}

int32_t civil_month_days(int64_t year, int32_t month)
{
    static const int32_t days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}

/* ---------------------------------------------------------------------------------------------------------------- rules */

/* "Mm.w.d/time": the w-th (5 = last) day d of the week (0 = Sunday) of month m, seconds after local midnight. */
struct zone_change {
    int32_t month, week, day;
    int64_t time;
};

struct zone_file {
    size_t n_times, n_types;
    int64_t *times;
    uint8_t *kinds;   /* type from times[i] on */
    int64_t *offsets; /* of each type */
    bool has_rule, has_summer;
    int64_t standard, summer; /* offsets of the rule */
    struct zone_change begin, end;
};

struct reader {
    const uint8_t *at, *end;
};

static bool take_char(struct reader *r, char c)
{
    if (r->at == r->end || *r->at != (uint8_t)c) return false;
    r->at++;
    return true;
}

static bool take_digits(struct reader *r, int64_t most, int64_t *out)
{
    const uint8_t *start = r->at;
    *out = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        *out = *out * 10 + (*r->at - '0');
        if (*out > most) return false;
    }
    return r->at > start;
}

/* [+-]hh[:mm[:ss]] in seconds. */
static bool take_clock(struct reader *r, int64_t *out)
{
    int64_t part = 0, unit = 3600;
    bool negative = take_char(r, '-');
    if (!negative) (void)take_char(r, '+');
    *out = 0;
    do {
        if (!take_digits(r, 1000, &part)) return false;
        *out += part * unit;
        unit /= 60;
    } while (unit > 0 && take_char(r, ':'));
    if (negative) *out = -*out;
    return true;
}

/* Letters, or anything between < and >. */
static bool take_name(struct reader *r)
{
    const uint8_t *start = r->at;
    if (take_char(r, '<')) {
        while (r->at < r->end && *r->at != '>') r->at++;
        return take_char(r, '>');
    }
    while (r->at < r->end && ((*r->at | 0x20) >= 'a' && (*r->at | 0x20) <= 'z')) r->at++;
    return r->at > start;
}

static bool take_change(struct reader *r, struct zone_change *out)
{
    int64_t month = 0, week = 0, day = 0;
    if (!take_char(r, ',') || !take_char(r, 'M')) return false;
    if (!take_digits(r, 12, &month) || !take_char(r, '.') || !take_digits(r, 5, &week) || !take_char(r, '.')) return false;
    if (!take_digits(r, 6, &day) || month < 1 || week < 1) return false;
    *out = (struct zone_change){(int32_t)month, (int32_t)week, (int32_t)day, 7200};
    return !take_char(r, '/') || take_clock(r, &out->time);
}

/* The rule behind the last time. What it cannot express in this form is left to the last offset. */
static void read_rule(struct reader r, struct zone_file *f)
{
    int64_t west = 0;
    if (!take_name(&r) || !take_clock(&r, &west)) return;
    f->standard = -west;
    f->summer = f->standard + 3600;
    if (r.at == r.end) {
        f->has_rule = true;
        return;
    }
    if (!take_name(&r)) return;
    if (r.at < r.end && *r.at != ',') {
        if (!take_clock(&r, &west)) return;
        f->summer = -west;
    }
    f->has_summer = take_change(&r, &f->begin) && take_change(&r, &f->end);
    f->has_rule = f->has_summer;
}

/* Local seconds since 1970 at which the change of a year happens. */
static int64_t change_time(const struct zone_change *c, int64_t year)
{
    int64_t first = civil_days(year, c->month, 1);
    int64_t day = first + floor_mod(c->day - (first + 4), 7) + 7 * (c->week - 1); /* day 0 was a Thursday */
    int64_t last = first + civil_month_days(year, c->month) - 1;
    while (day > last) day -= 7;
    return day * DAY + c->time;
}

static int64_t rule_offset(const struct zone_file *f, int64_t instant)
{
    if (!f->has_summer) return f->standard;
    int64_t year = civil_of_days(floor_div(instant + f->standard, DAY)).year;
    int64_t begin = change_time(&f->begin, year) - f->standard, end = change_time(&f->end, year) - f->summer;
    bool summer = begin < end ? instant >= begin && instant < end : instant >= begin || instant < end;
    return summer ? f->summer : f->standard;
}

/* ---------------------------------------------------------------------------------------------------------------- files */

static uint32_t big_u32(const uint8_t *p) { return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]; }

#define ZONE_HEADER 44u

struct zone_counts {
    size_t isut, isstd, leap, times, types, chars;
};

static bool read_counts(const struct reader *r, struct zone_counts *c)
{
    if ((size_t)(r->end - r->at) < ZONE_HEADER || memcmp(r->at, "TZif", 4) != 0) return false;
    const uint8_t *p = r->at + 20;
    *c = (struct zone_counts){big_u32(p), big_u32(p + 4), big_u32(p + 8), big_u32(p + 12), big_u32(p + 16), big_u32(p + 20)};
    return c->isut <= ZONE_FILE_MAX && c->isstd <= ZONE_FILE_MAX && c->leap <= ZONE_FILE_MAX && c->times <= ZONE_FILE_MAX &&
           c->types <= 256 && c->types > 0 && c->chars <= ZONE_FILE_MAX;
}

static size_t data_size(const struct zone_counts *c, size_t width)
{
    return c->times * (width + 1) + c->types * 6 + c->chars + c->leap * (width + 4) + c->isstd + c->isut;
}

static bool read_data(const struct reader *r, const struct zone_counts *c, struct arena *arena, struct zone_file *f,
                      pennon_error *err)
{
    const uint8_t *times = r->at, *kinds = times + c->times * 8, *types = kinds + c->times;
    f->times = arena_alloc(arena, (c->times + 1) * sizeof *f->times, err);
    f->kinds = arena_alloc(arena, c->times + 1, err);
    f->offsets = arena_alloc(arena, c->types * sizeof *f->offsets, err);
    if (f->times == NULL || f->kinds == NULL || f->offsets == NULL) return false;
    f->n_times = c->times;
    f->n_types = c->types;
    for (size_t i = 0; i < c->types; i++) f->offsets[i] = (int32_t)big_u32(types + 6 * i);
    for (size_t i = 0; i < c->times; i++) {
        f->times[i] = (int64_t)((uint64_t)big_u32(times + 8 * i) << 32 | big_u32(times + 8 * i + 4));
        f->kinds[i] = kinds[i] < c->types ? kinds[i] : 0;
    }
    return true;
}

/* False: not a file of the second version. With err filled where memory was missing. */
static bool read_zone(struct bytes file, struct arena *arena, struct zone_file *f, pennon_error *err)
{
    struct reader r = {file.data, file.data + file.size};
    struct zone_counts c;
    if (!read_counts(&r, &c) || file.data[4] < '2') return false;
    size_t skip = ZONE_HEADER + data_size(&c, 4);
    if ((size_t)(r.end - r.at) < skip) return false;
    r.at += skip;
    if (!read_counts(&r, &c)) return false;
    r.at += ZONE_HEADER;
    if ((size_t)(r.end - r.at) < data_size(&c, 8) || !read_data(&r, &c, arena, f, err)) return false;
    r.at += data_size(&c, 8);
    if (take_char(&r, '\n')) {
        struct reader rule = r;
        while (r.at < r.end && *r.at != '\n') r.at++;
        rule.end = r.at;
        read_rule(rule, f);
    }
    return true;
}

/* Names are of letters, digits and _+-/; no way out of the folder. */
static bool name_is_harmless(struct bytes name)
{
    if (name.size == 0 || name.size > 64 || name.data[0] == '/') return false;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i], low = c | 0x20;
        bool fine = (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '+' || c == '-' || c == '/';
        if (!fine) return false;
    }
    return true;
}

static pennon_status no_zone(struct bytes name, pennon_error *err)
{
    (void)error_set(err, PENNON_INVALID_ARGUMENT, "there is no time zone '%.*s'", (int)(name.size < 80 ? name.size : 80),
                    (const char *)name.data);
    return error_kind(err, "CastFailed");
}

/* The file is read into memory of its own; only what is made of it stays in the arena. */
static pennon_status load_zone(struct bytes name, struct arena *arena, struct zone *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    char path[sizeof ZONE_FOLDER + 64];
    struct buf bytes;
    struct zone_file *file = NULL;
    FILE *f = NULL;
    buf_init(&bytes, arena->mem, BUF_NO_LIMIT);
    if (!name_is_harmless(name)) return no_zone(name, err);
    (void)snprintf(path, sizeof path, "%s%.*s", ZONE_FOLDER, (int)name.size, (const char *)name.data); /* checked: it fits */
    f = fopen(path, "rbe");
    if (f == NULL) return no_zone(name, err);
    TRY(buf_resize(&bytes, ZONE_FILE_MAX, err));
    bytes.size = fread(bytes.data, 1, ZONE_FILE_MAX, f);
    TRY_NEW(file, arena_calloc(arena, 1, sizeof *file, err));
    pennon_error_clear(err);
    if (!read_zone(bytes_of(bytes.data, bytes.size), arena, file, err)) {
        st = err->code != PENNON_OK ? err->code : no_zone(name, err);
        goto done;
    }
    out->named = true;
    out->file = file;
done:
    (void)fclose(f);
    buf_free(&bytes);
    return st;
}

/* ±hh, ±hhmm, ±hh:mm */
static bool fixed_offset(struct bytes name, int64_t *east)
{
    const uint8_t *p = name.data;
    int64_t digits[4];
    size_t n = 0;
    if (name.size < 3 || name.size > 6 || (p[0] != '+' && p[0] != '-')) return false;
    for (size_t i = 1; i < name.size; i++) {
        if (p[i] == ':' && i == 3 && name.size == 6) continue;
        if (p[i] < '0' || p[i] > '9' || n == 4) return false;
        digits[n++] = p[i] - '0';
    }
    if (n != 2 && n != 4) return false;
    int64_t hours = digits[0] * 10 + digits[1], minutes = n == 4 ? digits[2] * 10 + digits[3] : 0;
    if (hours > 23 || minutes > 59) return false;
    *east = (hours * 3600 + minutes * 60) * (p[0] == '-' ? -1 : 1);
    return true;
}

pennon_status zone_find(struct bytes name, struct arena *arena, struct zone *out, pennon_error *err)
{
    *out = (struct zone){.named = false};
    if (name.size == 0 || bytes_equal(name, bytes_str("UTC")) || bytes_equal(name, bytes_str("utc"))) return PENNON_OK;
    if (fixed_offset(name, &out->east)) return PENNON_OK;
    return load_zone(name, arena, out, err);
}

struct zone_known {
    struct zone_known *next;
    struct bytes name;
    struct zone zone;
};

const struct zone *zone_cached(struct zone_cache *cache, struct bytes name)
{
    struct zone found;
    struct zone_known *known = cache->first;
    pennon_error ignored;
    for (; known != NULL; known = known->next) {
        if (bytes_equal(known->name, name)) return &known->zone;
    }
    pennon_error_init(&ignored);
    if (zone_find(name, cache->arena, &found, &ignored) == PENNON_OK) {
        known = arena_calloc(cache->arena, 1, sizeof *known + name.size, &ignored);
        if (known != NULL) {
            memcpy(known + 1, name.data, name.size);
            *known = (struct zone_known){cache->first, bytes_of(known + 1, name.size), found};
            cache->first = known;
        }
    }
    pennon_error_clear(&ignored);
    return known != NULL ? &known->zone : NULL;
}

int64_t zone_offset(const struct zone *z, int64_t instant)
{
    const struct zone_file *f = z->file;
    if (!z->named) return z->east;
    if (instant > INSTANT_MOST) instant = INSTANT_MOST;
    if (instant < -INSTANT_MOST) instant = -INSTANT_MOST;
    if (f->n_times == 0 || instant < f->times[0]) return f->n_times == 0 && f->has_rule ? rule_offset(f, instant) : f->offsets[0];
    if (instant >= f->times[f->n_times - 1] && f->has_rule) return rule_offset(f, instant);
    size_t low = 0, high = f->n_times; /* times[low] <= instant < times[high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (f->times[middle] <= instant) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return f->offsets[f->kinds[low]];
}

int64_t zone_offset_local(const struct zone *z, int64_t local)
{
    if (!z->named) return z->east;
    if (local > INSTANT_MOST) local = INSTANT_MOST;
    if (local < -INSTANT_MOST) local = -INSTANT_MOST;
    /* Around a change the offset of a day before and that of a day after are the candidates. */
    int64_t before = zone_offset(z, local - DAY), after = zone_offset(z, local + DAY);
    if (zone_offset(z, local - before) == before) return before;
    if (zone_offset(z, local - after) == after) return after;
    return before;
}

bool zone_local_unique(const struct zone *z, int64_t local)
{
    if (!z->named) return true;
    if (local > INSTANT_MOST || local < -INSTANT_MOST) return false;
    int64_t before = zone_offset(z, local - DAY), after = zone_offset(z, local + DAY);
    bool by_before = zone_offset(z, local - before) == before, by_after = zone_offset(z, local - after) == after;
    return before == after ? by_before : by_before != by_after;
}
