/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Formats with % for points in time.
 *
 *   %Y %C %y %G %g    year, century, year of the century, the same of ISO weeks        %m %b %h %B   month
 *   %d %e %j          day of the month (zeros, blanks), of the year                    %a %A %w %u   day of the week
 *   %U %W %V          week by Sundays, by Mondays, ISO                                 %q            quarter
 *   %H %k %I %l       hour of 24 (zeros, blanks), of 12                                %P %p         am, AM
 *   %M %S             minute, second            %f %3f %6f %9f %.f %.3f %.6f %.9f      fraction
 *   %z %:z %::z %:::z %Z   offset               %s                                     seconds since 1970
 *   %D %F %x %v %T %X %R %r %c %+   several of these; %t %n %%
 *
 * "-", "_" and "0" behind the % ask for no, blank and zero padding. When reading, blanks in the format stand for any number of blanks.
 * Source: spec expressions 7; forms asked of official. */
#include "expr/time_format.h"

static const char *const month_names[] = {"January", "February", "March",     "April",   "May",      "June",
                                          "July",    "August",   "September", "October", "November", "December"};
static const char *const day_names[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};

struct moment moment_of(int64_t local_seconds, int32_t nano)
{
    struct moment m = {.days = floor_div(local_seconds, DAY_SECONDS), .nano = nano, .has_date = true, .has_time = true};
    m.second = (int32_t)floor_mod(local_seconds, DAY_SECONDS);
    m.date = civil_of_days(m.days);
    return m;
}

int32_t moment_year_day(const struct moment *m) { return (int32_t)(m->days - civil_days(m->date.year, 1, 1)) + 1; }

int32_t moment_weekday(const struct moment *m) { return (int32_t)floor_mod(m->days + 4, 7); /* 1970 began on a Thursday */ }

int32_t moment_iso_week(const struct moment *m, int64_t *year)
{
    /* The week belongs to the year that its Thursday is in. */
    const int64_t thursday = m->days - floor_mod(m->days + 3, 7) + 3;
    *year = civil_of_days(thursday).year;
    return (int32_t)((thursday - civil_days(*year, 1, 1)) / 7) + 1;
}

/* ---- writing ---- */

static pennon_status put_text(struct text_out *out, const char *text, size_t n, pennon_error *err)
{
    return text_out_put(out, bytes_of(text, n), err);
}

/* At least `width` characters; pad is '0', ' ' or '-' for none. */
static pennon_status put_number(struct text_out *out, int64_t v, int width, char pad, pennon_error *err)
{
    uint8_t text[32];
    size_t at = sizeof text;
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    const size_t least = pad == '-' ? 0 : (size_t)width - (pad == '0' && v < 0);
    ASSERT(width < 16);
    do {
        text[--at] = (uint8_t)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    while (pad == '0' && sizeof text - at < least) text[--at] = '0';
    if (v < 0) text[--at] = '-';
    while (pad == ' ' && sizeof text - at < least) text[--at] = ' ';
    return text_out_put(out, bytes_of(text + at, sizeof text - at), err);
}

static pennon_status put_year(struct text_out *out, int64_t year, char pad, pennon_error *err)
{
    if (year > 9999) {
        TRY_RETURN(put_text(out, "+", 1, err));
    } else if (year < 0) {
        TRY_RETURN(put_text(out, "-", 1, err));
        year = -year;
    }
    return put_number(out, year, 4, pad, err);
}

static pennon_status put_name(struct text_out *out, const char *name, bool full, pennon_error *err)
{
    return put_text(out, name, full ? strlen(name) : 3, err);
}

static int32_t hour_of(const struct moment *m) { return m->second / 3600; }
static int32_t hour12_of(const struct moment *m) { return (hour_of(m) + 11) % 12 + 1; }

/* Fields of the date. *known: the letter is one. */
static pennon_status put_date_field(const struct moment *m, char letter, char pad, struct text_out *out, bool *known,
                                    pennon_error *err)
{
    const char zero = pad == 0 ? '0' : pad, blank = pad == 0 ? ' ' : pad;
    const bool iso = letter == 'G' || letter == 'g' || letter == 'V';
    const int32_t yday = letter == 'j' || letter == 'U' || letter == 'W' ? moment_year_day(m) : 1, wday = moment_weekday(m);
    int64_t iso_year = 0;
    const int32_t iso_week = iso ? moment_iso_week(m, &iso_year) : 0;
    *known = true;
    switch (letter) {
    case 'Y': return put_year(out, m->date.year, zero, err);
    case 'C': return put_number(out, floor_div(m->date.year, 100), 2, zero, err);
    case 'y': return put_number(out, floor_mod(m->date.year, 100), 2, zero, err);
    case 'G': return put_year(out, iso_year, zero, err);
    case 'g': return put_number(out, floor_mod(iso_year, 100), 2, zero, err);
    case 'm': return put_number(out, m->date.month, 2, zero, err);
    case 'q': return put_number(out, (m->date.month + 2) / 3, 1, zero, err);
    case 'b':
    case 'h': return put_name(out, month_names[m->date.month - 1], false, err);
    case 'B': return put_name(out, month_names[m->date.month - 1], true, err);
    case 'd': return put_number(out, m->date.day, 2, zero, err);
    case 'e': return put_number(out, m->date.day, 2, blank, err);
    case 'j': return put_number(out, yday, 3, zero, err);
    case 'a': return put_name(out, day_names[wday], false, err);
    case 'A': return put_name(out, day_names[wday], true, err);
    case 'w': return put_number(out, wday, 1, zero, err);
    case 'u': return put_number(out, (wday + 6) % 7 + 1, 1, zero, err);
    case 'U': return put_number(out, (yday - 1 + 7 - wday) / 7, 2, zero, err);
    case 'W': return put_number(out, (yday - 1 + 7 - (wday + 6) % 7) / 7, 2, zero, err);
    case 'V': return put_number(out, iso_week, 2, zero, err);
    default: *known = false; return PENNON_OK;
    }
}

static pennon_status put_time_field(const struct moment *m, char letter, char pad, struct text_out *out, bool *known,
                                    pennon_error *err)
{
    const char zero = pad == 0 ? '0' : pad, blank = pad == 0 ? ' ' : pad;
    *known = true;
    switch (letter) {
    case 'H': return put_number(out, hour_of(m), 2, zero, err);
    case 'k': return put_number(out, hour_of(m), 2, blank, err);
    case 'I': return put_number(out, hour12_of(m), 2, zero, err);
    case 'l': return put_number(out, hour12_of(m), 2, blank, err);
    case 'M': return put_number(out, m->second / 60 % 60, 2, zero, err);
    case 'S': return put_number(out, m->second % 60, 2, zero, err);
    case 'f': return put_number(out, m->nano, 9, zero, err);
    case 'P': return put_text(out, hour_of(m) < 12 ? "am" : "pm", 2, err);
    case 'p': return put_text(out, hour_of(m) < 12 ? "AM" : "PM", 2, err);
    default: *known = false; return PENNON_OK;
    }
}

/* The fraction with `digits` of 3, 6 or 9, or with as many as it has (0: none and no point). */
static pennon_status put_fraction(const struct moment *m, int digits, bool point, struct text_out *out, pennon_error *err)
{
    int32_t v = m->nano;
    if (digits == 0) {
        if (v == 0) return PENNON_OK;
        digits = v % 1000000 == 0 ? 3 : v % 1000 == 0 ? 6 : 9;
    }
    for (int k = digits; k < 9; k++) v /= 10;
    if (point) TRY_RETURN(put_text(out, ".", 1, err));
    return put_number(out, v, digits, '0', err);
}

/* %z with `colons`: 0 +hhmm, 1 +hh:mm, 2 +hh:mm:ss, 3 +hh. */
static pennon_status put_offset(const struct moment *m, int colons, struct text_out *out, pennon_error *err)
{
    const int64_t east = m->east < 0 ? -m->east : m->east;
    TRY_RETURN(put_text(out, m->east < 0 ? "-" : "+", 1, err));
    TRY_RETURN(put_number(out, east / 3600, 2, '0', err));
    if (colons == 3) return PENNON_OK;
    if (colons > 0) TRY_RETURN(put_text(out, ":", 1, err));
    TRY_RETURN(put_number(out, east / 60 % 60, 2, '0', err));
    if (colons < 2) return PENNON_OK;
    TRY_RETURN(put_text(out, ":", 1, err));
    return put_number(out, east % 60, 2, '0', err);
}

/* What stands for several fields; NULL: nothing. */
static const char *compound_of(char letter)
{
    switch (letter) {
    case 'D':
    case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'v': return "%e-%b-%Y";
    case 'T':
    case 'X': return "%H:%M:%S";
    case 'R': return "%H:%M";
    case 'r': return "%I:%M:%S %p";
    case 'c': return "%a %b %e %H:%M:%S %Y";
    case '+': return "%Y-%m-%dT%H:%M:%S%.f%:z";
    case 't': return "\t";
    case 'n': return "\n";
    default: return NULL;
    }
}

/* A field of the format behind its %. */
struct field {
    char pad;    /* 0 where nothing is said */
    char letter; /* 0: the format is wrong */
    bool point;  /* %.f */
    int digits;  /* of a fraction, 0 = none said */
    int colons;  /* of %z */
};

static struct field read_field(struct bytes format, size_t *at)
{
    struct field f = {0};
    size_t i = *at;
    if (i < format.size && strchr("-_0", format.data[i]) != NULL && format.data[i] != 0) {
        f.pad = format.data[i] == '_' ? ' ' : (char)format.data[i];
        i++;
    }
    if (i < format.size && format.data[i] == '.') {
        f.point = true;
        i++;
    }
    if (i < format.size && (format.data[i] == '3' || format.data[i] == '6' || format.data[i] == '9')) {
        f.digits = format.data[i] - '0';
        i++;
    }
    while (i < format.size && format.data[i] == ':' && f.colons < 3) {
        f.colons++;
        i++;
    }
    if (i < format.size && format.data[i] == '#') i++;
    if (i < format.size) f.letter = (char)format.data[i++];
    if ((f.point || f.digits > 0) && f.letter != 'f') f.letter = 0;
    if (f.colons > 0 && f.letter != 'z') f.letter = 0;
    *at = i;
    return f;
}

static pennon_status put_field(const struct moment *m, struct field f, struct text_out *out, bool *ok, pennon_error *err)
{
    bool known = false;
    const char *compound = compound_of(f.letter);
    if (compound != NULL) return moment_put(m, bytes_str(compound), out, ok, err);
    if (f.letter == '%') return put_text(out, "%", 1, err);
    if (f.letter == 'z' || f.letter == 'Z') {
        *ok = m->has_zone;
        return *ok ? put_offset(m, f.letter == 'Z' ? 1 : f.colons, out, err) : PENNON_OK;
    }
    if (f.letter == 's') {
        *ok = m->has_date && m->has_time;
        return *ok ? put_number(out, m->days * DAY_SECONDS + m->second - m->east, 1, '-', err) : PENNON_OK;
    }
    if (f.letter == 'f' && (f.point || f.digits > 0)) {
        *ok = m->has_time;
        return *ok ? put_fraction(m, f.digits, f.point, out, err) : PENNON_OK;
    }
    if (m->has_date) TRY_RETURN(put_date_field(m, f.letter, f.pad, out, &known, err));
    if (!known && m->has_time) TRY_RETURN(put_time_field(m, f.letter, f.pad, out, &known, err));
    *ok = known;
    return PENNON_OK;
}

pennon_status moment_put(const struct moment *m, struct bytes format, struct text_out *out, bool *ok, pennon_error *err)
{
    *ok = true;
    for (size_t i = 0; i < format.size && *ok;) {
        const uint8_t *next = memchr(format.data + i, '%', format.size - i);
        const size_t end = next == NULL ? format.size : (size_t)(next - format.data);
        TRY_RETURN(text_out_put(out, bytes_of(format.data + i, end - i), err));
        i = end;
        if (i < format.size) {
            i++;
            TRY_RETURN(put_field(m, read_field(format, &i), out, ok, err));
        }
    }
    return PENNON_OK;
}

/* ---- reading ---- */

/* Fields as read; -1 (or INT64_MIN) where not there. */
struct parsed {
    struct bytes text;
    size_t at;
    int64_t year, century, short_year;
    int32_t month, day, year_day;
    int32_t hour, hour12, minute, second, nano;
    int afternoon; /* 0, 1 */
    int64_t epoch;
    bool has_epoch, has_zone;
    int64_t east;
};

static void skip_space(struct parsed *p)
{
    while (p->at < p->text.size && strchr(" \t\n\r\v\f", p->text.data[p->at]) != NULL && p->text.data[p->at] != 0) p->at++;
}

/* One to `most` digits, blanks before them skipped. */
static bool read_digits(struct parsed *p, int most, int64_t least, int64_t greatest, int64_t *out)
{
    int64_t v = 0;
    int n = 0;
    skip_space(p);
    for (; n < most && p->at < p->text.size && p->text.data[p->at] >= '0' && p->text.data[p->at] <= '9'; n++, p->at++) {
        v = v * 10 + (p->text.data[p->at] - '0');
    }
    *out = v;
    return n > 0 && v >= least && v <= greatest;
}

static bool read_small(struct parsed *p, int most, int32_t least, int32_t greatest, int32_t *out)
{
    int64_t v;
    if (!read_digits(p, most, least, greatest, &v)) return false;
    *out = (int32_t)v;
    return true;
}

static bool read_signed(struct parsed *p, int most, int64_t *out)
{
    skip_space(p);
    const bool sign = p->at < p->text.size && (p->text.data[p->at] == '-' || p->text.data[p->at] == '+');
    const bool negative = sign && p->text.data[p->at] == '-';
    p->at += sign;
    if (!read_digits(p, sign ? 18 : most, 0, INT64_MAX, out)) return false;
    if (negative) *out = -*out;
    return true;
}

static bool same_letters(const uint8_t *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((a[i] | 0x20) != ((uint8_t)b[i] | 0x20)) return false;
    }
    return true;
}

/* The number of a name, of which three letters or all must be there. */
static bool read_name(struct parsed *p, const char *const *names, int32_t n, bool full, int32_t *out)
{
    for (int32_t k = 0; k < n; k++) {
        const size_t left = p->text.size - p->at, all = strlen(names[k]);
        if (left < 3 || !same_letters(p->text.data + p->at, names[k], 3)) continue;
        const bool whole = full && left >= all && same_letters(p->text.data + p->at, names[k], all);
        p->at += whole ? all : 3;
        *out = k;
        return true;
    }
    return false;
}

/* Digits behind a point as nanoseconds; those past the ninth say nothing. */
static bool read_fraction(struct parsed *p, int exact)
{
    int32_t v = 0;
    int n = 0;
    while (p->at < p->text.size && p->text.data[p->at] >= '0' && p->text.data[p->at] <= '9' && (exact == 0 || n < exact)) {
        if (n < 9) v = v * 10 + (p->text.data[p->at] - '0');
        n++;
        p->at++;
    }
    if (n == 0 || (exact > 0 && n != exact)) return false;
    for (int k = n; k < 9; k++) v *= 10;
    p->nano = v;
    return true;
}

/* "Z" or +hh:mm with or without the colon. */
static bool read_offset(struct parsed *p)
{
    int32_t hours, minutes = 0;
    skip_space(p);
    p->has_zone = true;
    if (p->at == p->text.size) return false;
    if ((p->text.data[p->at] | 0x20) == 'z') {
        p->at++;
        return true;
    }
    if (p->text.data[p->at] != '+' && p->text.data[p->at] != '-') return false;
    const int64_t sign = p->text.data[p->at++] == '-' ? -1 : 1;
    if (!read_small(p, 2, 0, 23, &hours)) return false;
    if (p->at < p->text.size && p->text.data[p->at] == ':') p->at++;
    if (!read_small(p, 2, 0, 59, &minutes)) return false;
    p->east = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool read_half(struct parsed *p)
{
    if (p->text.size - p->at < 2 || (p->text.data[p->at + 1] | 0x20) != 'm') return false;
    const int c = p->text.data[p->at] | 0x20;
    if (c != 'a' && c != 'p') return false;
    p->afternoon = c == 'p';
    p->at += 2;
    return true;
}

static bool read_format(struct parsed *p, struct bytes format);

static bool read_date_part(struct parsed *p, char letter, bool *known)
{
    int32_t ignored;
    *known = true;
    switch (letter) {
    case 'Y': return read_signed(p, 4, &p->year);
    case 'C': return read_digits(p, 2, 0, 99, &p->century);
    case 'y': return read_digits(p, 2, 0, 99, &p->short_year);
    case 'm': return read_small(p, 2, 1, 12, &p->month);
    case 'd':
    case 'e': return read_small(p, 2, 1, 31, &p->day);
    case 'j': return read_small(p, 3, 1, 366, &p->year_day);
    case 'b':
    case 'h':
    case 'B':
        if (!read_name(p, month_names, 12, letter == 'B', &p->month)) return false;
        p->month++;
        return true;
    case 'a':
    case 'A': return read_name(p, day_names, 7, letter == 'A', &ignored);
    default: *known = false; return false;
    }
}

static bool read_one(struct parsed *p, struct field f)
{
    bool known;
    const char *compound = compound_of(f.letter);
    if (f.letter == 'c' || f.letter == 't' || f.letter == 'n') {
        if (f.letter != 'c') {
            skip_space(p);
            return true;
        }
    }
    if (compound != NULL) return read_format(p, bytes_str(compound));
    const bool date = read_date_part(p, f.letter, &known);
    if (known) return date;
    switch (f.letter) {
    case 'H':
    case 'k': return read_small(p, 2, 0, 23, &p->hour);
    case 'I':
    case 'l': return read_small(p, 2, 1, 12, &p->hour12);
    case 'M': return read_small(p, 2, 0, 59, &p->minute);
    case 'S': return read_small(p, 2, 0, 60, &p->second);
    case 'P':
    case 'p': return read_half(p);
    case 'f':
        if (!f.point) return f.digits > 0 ? read_fraction(p, f.digits) : read_small(p, 9, 0, 999999999, &p->nano);
        if (p->at == p->text.size || p->text.data[p->at] != '.') return f.digits == 0;
        p->at++;
        return read_fraction(p, 0);
    case 'z': return read_offset(p);
    case 'Z':
        while (p->at < p->text.size && p->text.data[p->at] != ' ') p->at++;
        return true;
    case 's': p->has_epoch = true; return read_signed(p, 18, &p->epoch);
    case '%': return p->at < p->text.size && p->text.data[p->at++] == '%';
    default: return false;
    }
}

static bool read_format(struct parsed *p, struct bytes format)
{
    for (size_t i = 0; i < format.size;) {
        const uint8_t c = format.data[i++];
        if (c == '%') {
            if (!read_one(p, read_field(format, &i))) return false;
        } else if (c == ' ' || c == '\t' || c == '\n') {
            skip_space(p);
        } else if (p->at == p->text.size || p->text.data[p->at++] != c) {
            return false;
        }
    }
    return true;
}

/* The year of what was read; false: there is none. */
static bool year_of(const struct parsed *p, int64_t *out)
{
    if (p->year != INT64_MIN) {
        *out = p->year;
    } else if (p->short_year >= 0) {
        const int64_t century = p->century >= 0 ? p->century : p->short_year < 70 ? 20 : 19;
        *out = century * 100 + p->short_year;
    } else {
        return false;
    }
    return *out >= -262143 && *out <= 262142;
}

static bool date_of(const struct parsed *p, struct moment *out)
{
    int64_t year;
    if (!year_of(p, &year)) return true;
    if (p->month > 0 && p->day > 0) {
        if (p->day > civil_month_days(year, p->month)) return false;
        out->days = civil_days(year, p->month, p->day);
    } else if (p->year_day > 0) {
        out->days = civil_days(year, 1, 1) + p->year_day - 1;
        if (civil_of_days(out->days).year != year) return false;
    } else {
        return true;
    }
    out->date = civil_of_days(out->days);
    out->has_date = true;
    return true;
}

bool moment_parse(struct bytes text, struct bytes format, struct moment *out)
{
    struct parsed p = {
        .text = text, .year = INT64_MIN, .century = -1, .short_year = -1, .hour = -1, .hour12 = -1, .minute = -1, .afternoon = -1};
    memset(out, 0, sizeof *out);
    if (!read_format(&p, format) || p.at != text.size) return false;
    if (p.has_epoch) {
        if (p.epoch > INT64_MAX / NANOS || p.epoch < INT64_MIN / NANOS) return false;
        *out = moment_of(p.epoch, p.nano);
        return true;
    }
    if (!date_of(&p, out)) return false;
    if (p.hour12 > 0 && p.afternoon >= 0) p.hour = p.hour12 % 12 + 12 * p.afternoon;
    out->has_time = p.hour >= 0 && p.minute >= 0;
    if (out->has_time) out->second = p.hour * 3600 + p.minute * 60 + (p.second > 59 ? 59 : p.second);
    out->nano = p.nano;
    out->has_zone = p.has_zone;
    out->east = p.east;
    return true;
}
