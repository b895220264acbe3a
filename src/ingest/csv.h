/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Private to the CSV reader: the scanner of rows and the inference of types. */
#ifndef INGEST_CSV_H
#define INGEST_CSV_H

#include "ingest/ingest.h"

/* Most columns of a table. */
#define CSV_COLUMNS_MAX 100000u

struct csv_field {
    const uint8_t *data; /* in the window; without the quotes around */
    size_t size;
    bool quoted;
    bool doubled; /* holds doubled quotes */
};

struct csv_row {
    struct csv_field *fields; /* from mem */
    size_t n;
    size_t cap;
    size_t bytes;   /* of the row, with its line end */
    uint64_t lines; /* line ends in it */
    bool blank;     /* nothing but a line end */
};

enum csv_scan { CSV_ROW, CSV_MORE, CSV_END };

/* Cut one row off the front of the bytes, which are not moved. CSV_MORE: it does not end in them (never when `ended`). CSV_END: no
 * bytes. INVALID_ARGUMENT (without the line) for text behind a closing quote and quotes that are never closed. */
pennon_status csv_scan_row(const uint8_t *data, size_t size, bool ended, char delimiter, char quote, struct mem *mem,
                           struct csv_row *row, enum csv_scan *found, pennon_error *err) CHECKED;
/* The text of a field: the slice, or `scratch` with doubled quotes made single. */
pennon_status csv_field_text(const struct csv_field *f, char quote, struct buf *scratch, struct bytes *out,
                             pennon_error *err) CHECKED;
/* Without spaces at the ends. */
struct bytes csv_trim(struct bytes text);

/* What the values of a column seen so far could all be. */
struct csv_guess {
    unsigned could; /* CSV_COULD_ bits */
    bool any;       /* a value that is not null */
};

enum {
    CSV_COULD_BOOL = 1,
    CSV_COULD_INT = 2,
    CSV_COULD_DOUBLE = 4,
    CSV_COULD_DATE = 8,
    CSV_COULD_TIMESTAMP = 16, /* without zone; dates count */
    CSV_COULD_INSTANT = 32,   /* with zone */
    CSV_COULD_ALL = 63
};

void csv_guess_value(struct csv_guess *g, struct bytes text);
/* The format of the type that fits them all: text when none does or nothing was seen. */
const char *csv_guess_format(const struct csv_guess *g);

#endif
