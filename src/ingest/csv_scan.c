/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Cutting CSV into rows and fields, and guessing the types of columns.
 *
 * A field that begins with a quote goes to the next single one, whatever stands between; doubled quotes are one. Other fields go to the
 * next delimiter or line end, and a quote inside of them is a character like any other. Line ends are \n, \r\n and \r.
 * The end of an unquoted field is searched eight bytes at a time. */
#include "ingest/csv.h"

/* Each byte of the word that is zero gets its top bit (bytes above a true hit may get one too: the first is right). */
static uint64_t zero_bytes(uint64_t w) { return (w - 0x0101010101010101u) & ~w & 0x8080808080808080u; }

/* Position of the first delimiter or line end at or behind `at`, or `size`. */
static size_t field_end(const uint8_t *data, size_t at, size_t size, uint8_t delimiter)
{
    uint64_t ones = 0x0101010101010101u;
    for (; size - at >= 8; at += 8) {
        uint64_t w = load_u64(data + at);
        uint64_t hit = zero_bytes(w ^ ones * delimiter) | zero_bytes(w ^ ones * '\n') | zero_bytes(w ^ ones * '\r');
        if (hit != 0) return at + (size_t)(__builtin_ctzll(hit) / 8);
    }
    while (at < size && data[at] != delimiter && data[at] != '\n' && data[at] != '\r') at++;
    return at;
}

static uint64_t count_lines(const uint8_t *data, size_t size)
{
    uint64_t n = 0;
    const uint8_t *end = data + size;
    for (const uint8_t *p = data; p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++) n++;
    return n;
}

/* A quoted field whose quote is at *at; *at moves behind the closing one. False when it is not there. */
static bool quoted_field(const uint8_t *data, size_t *at, size_t size, bool ended, uint8_t quote, struct csv_field *f)
{
    size_t start = *at + 1;
    size_t from = start;
    f->quoted = true;
    f->doubled = false;
    for (;;) {
        const uint8_t *p = from < size ? memchr(data + from, quote, size - from) : NULL;
        if (p == NULL) return false;
        size_t end = (size_t)(p - data);
        /* The byte behind the quote decides: at the end of what is there only when nothing comes. */
        if (end + 1 == size && !ended) return false;
        if (end + 1 < size && data[end + 1] == quote) {
            f->doubled = true;
            from = end + 2;
            continue;
        }
        f->data = data + start;
        f->size = end - start;
        *at = end + 1;
        return true;
    }
}

static pennon_status add_field(struct csv_row *row, const struct csv_field *f, struct mem *mem, pennon_error *err)
{
    TRY_RETURN(mem_grow(mem, &row->fields, &row->cap, row->n, sizeof *row->fields, CSV_COLUMNS_MAX, err));
    row->fields[row->n++] = *f;
    return PENNON_OK;
}

pennon_status csv_scan_row(const uint8_t *data, size_t size, bool ended, char delimiter, char quote, struct mem *mem,
                           struct csv_row *row, enum csv_scan *found, pennon_error *err)
{
    size_t at = 0;
    row->n = 0;
    row->lines = 0;
    row->blank = false;
    *found = size == 0 && ended ? CSV_END : CSV_MORE;
    if (size == 0) return PENNON_OK;
    for (;;) {
        struct csv_field f = {data + at, 0, false, false};
        if (quote != '\0' && at < size && data[at] == (uint8_t)quote) {
            if (!quoted_field(data, &at, size, ended, (uint8_t)quote, &f)) {
                return ended ? error_set(err, PENNON_INVALID_ARGUMENT, "a quote is opened and never closed") : PENNON_OK;
            }
            row->lines += count_lines(f.data, f.size);
        } else {
            at = field_end(data, at, size, (uint8_t)delimiter);
            f.size = at - (size_t)(f.data - data);
        }
        if (at == size && !ended) return PENNON_OK;
        TRY_RETURN(add_field(row, &f, mem, err));
        if (at == size) break;
        if (data[at] == (uint8_t)delimiter) {
            at++;
            continue;
        }
        if (data[at] != '\n' && data[at] != '\r') return error_set(err, PENNON_INVALID_ARGUMENT, "text behind a closing quote");
        /* "\r\n" is one line end; whether there is a "\n" has to be seen. */
        if (data[at] == '\r' && at + 1 == size && !ended) return PENNON_OK;
        if (data[at] == '\r' && at + 1 < size && data[at + 1] == '\n') at++;
        at++;
        row->lines++;
        break;
    }
    row->bytes = at;
    row->blank = row->n == 1 && !row->fields[0].quoted && row->fields[0].size == 0;
    *found = CSV_ROW;
    return PENNON_OK;
}

pennon_status csv_field_text(const struct csv_field *f, char quote, struct buf *scratch, struct bytes *out, pennon_error *err)
{
    if (!f->doubled) {
        *out = bytes_of(f->data, f->size);
        return PENNON_OK;
    }
    scratch->size = 0;
    TRY_RETURN(buf_reserve(scratch, f->size, err));
    for (size_t i = 0; i < f->size; i++) {
        scratch->data[scratch->size++] = f->data[i];
        i += f->data[i] == (uint8_t)quote; /* the second of the two */
    }
    *out = bytes_of(scratch->data, scratch->size);
    return PENNON_OK;
}

struct bytes csv_trim(struct bytes text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) text = bytes_of(text.data + 1, text.size - 1);
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t')) text.size--;
    return text;
}

/* ----------------------------------------------------------------------------------------------------------- guessing */

/* Numbers that lose something as a number are texts: "007" its zeros, a whole number over 64 bits its digits. */
static unsigned guess_number(struct bytes text)
{
    int64_t i = 0;
    double d = 0;
    bool negative = text.data[0] == '-';
    struct bytes digits = negative ? bytes_of(text.data + 1, text.size - 1) : text;
    bool whole = digits.size > 0;
    if (digits.size > 1 && digits.data[0] == '0' && digits.data[1] >= '0' && digits.data[1] <= '9') return 0;
    for (size_t k = 0; k < digits.size && whole; k++) whole = digits.data[k] >= '0' && digits.data[k] <= '9';
    if (whole) return parse_int64(text, &i) ? CSV_COULD_INT | CSV_COULD_DOUBLE : 0;
    return parse_double(text, &d) ? CSV_COULD_DOUBLE : 0;
}

static unsigned guess_time(struct bytes text)
{
    int64_t v = 0;
    bool zoned = false;
    unsigned could = 0;
    if (text.size < 8) return 0;
    if (parse_date(text, &v) && v >= INT32_MIN && v <= INT32_MAX) could |= CSV_COULD_DATE;
    if (parse_timestamp(text, ARROW_MICRO, &v, &zoned)) could |= zoned ? CSV_COULD_INSTANT : CSV_COULD_TIMESTAMP;
    return could;
}

void csv_guess_value(struct csv_guess *g, struct bytes text)
{
    unsigned could = 0;
    bool truth = false;
    g->any = true;
    text = csv_trim(text);
    if (text.size > 0) {
        if ((g->could & (CSV_COULD_INT | CSV_COULD_DOUBLE)) != 0) could |= guess_number(text);
        if ((g->could & CSV_COULD_BOOL) != 0 && parse_bool(text, &truth)) could |= CSV_COULD_BOOL;
        if ((g->could & (CSV_COULD_DATE | CSV_COULD_TIMESTAMP | CSV_COULD_INSTANT)) != 0) could |= guess_time(text);
    }
    g->could &= could;
}

const char *csv_guess_format(const struct csv_guess *g)
{
    if (!g->any) return "u";
    if (g->could & CSV_COULD_BOOL) return "b";
    if (g->could & CSV_COULD_INT) return "l";
    if (g->could & CSV_COULD_DOUBLE) return "g";
    if (g->could & CSV_COULD_DATE) return "tdD";
    if (g->could & CSV_COULD_TIMESTAMP) return "tsu:";
    return g->could & CSV_COULD_INSTANT ? "tsu:UTC" : "u";
}
