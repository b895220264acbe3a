/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/ingest is made of: sources and sinks of bytes, values from text and to text, and the readers and writers on top
 * of them. The public side is pennon/ingest.h. */
#ifndef INGEST_INGEST_H
#define INGEST_INGEST_H

#include "arrow/arrow.h"
#include "pennon/ingest.h"

/* ---- sources: bytes of a file or a callback (source.c) ---- */

struct byte_source {
    struct call call; /* of its own */
    bool has_call;
    pennon_source from; /* a copy; path is not kept */
    int fd;             /* >= 0: read from it */
    bool own_fd;
    bool ended;
    struct buf ahead; /* bytes that were peeked at */
    size_t ahead_at;
    char name[64]; /* for messages: the end of the path */
};

/* Open; `source` is used up on failure too. Close with byte_source_close. */
pennon_status byte_source_open(struct byte_source *s, const pennon_source *source, const pennon_call *call,
                               pennon_error *err) CHECKED;
void byte_source_close(struct byte_source *s);
/* Up to n bytes; *got = 0 only at the end. Checks the call. */
pennon_status byte_source_read(void *source, void *to, size_t n, size_t *got, pennon_error *err) CHECKED;
/* The next bytes without taking them, at most n; fewer only at the end. */
pennon_status byte_source_peek(struct byte_source *s, size_t n, struct bytes *out, pennon_error *err) CHECKED;

/* ---- a window on the text that rows are cut from ---- */

struct window {
    struct byte_source *source;
    struct buf bytes; /* [at, size) is unread */
    size_t at;
    bool ended;    /* nothing comes behind `bytes` */
    uint64_t line; /* of `at`, from 1 */
    size_t max_row;
};

void window_init(struct window *w, struct byte_source *source, struct mem *mem, size_t max_row);
void window_free(struct window *w);
/* Drop what is read and get more bytes behind the unread; `ended` when there are none. INVALID_ARGUMENT when a row would be longer
 * than max_row. */
pennon_status window_more(struct window *w, pennon_error *err) CHECKED;
/* Have at least n unread bytes or the end. */
pennon_status window_fill(struct window *w, size_t n, pennon_error *err) CHECKED;
static inline const uint8_t *window_data(const struct window *w) { return w->bytes.data + w->at; }
static inline size_t window_left(const struct window *w) { return w->bytes.size - w->at; }

/* ---- sinks (sink.c) ---- */

struct byte_sink {
    const struct call *call;
    pennon_sink to; /* a copy */
    int fd;         /* >= 0 */
    bool own_fd;
    char *path;      /* where the file goes */
    char *temporary; /* where it is written; NULL = directly */
    struct buf pending;
};

pennon_status byte_sink_open(struct byte_sink *s, const pennon_sink *sink, const struct call *call, pennon_error *err) CHECKED;
/* Write through at once. */
pennon_status byte_sink_write(void *sink, const void *bytes, size_t n, pennon_error *err) CHECKED;
/* Small pieces collect in `pending`, large ones are written behind it. */
pennon_status byte_sink_put(void *sink, const void *bytes, size_t n, pennon_error *err) CHECKED;
/* Write `pending` when it has grown to a good size, or all of it. */
pennon_status byte_sink_flush(struct byte_sink *s, bool all, pennon_error *err) CHECKED;
/* Everything is written: put the file in its place. */
pennon_status byte_sink_commit(struct byte_sink *s, pennon_error *err) CHECKED;
/* Close; a file that was not committed is removed. */
void byte_sink_close(struct byte_sink *s);

/* ---- types of columns as "name=type,…" (column_types.c) ---- */

struct column_type {
    char *name;
    struct ArrowSchema schema; /* named like the column, nullable */
};

struct column_types {
    struct mem *mem;
    struct column_type *items;
    size_t n;
    size_t cap;
};

/* `text` may be NULL. INVALID_ARGUMENT with the place. Free with column_types_free, on failure too. */
pennon_status column_types_parse(const char *text, struct mem *mem, struct column_types *out, pennon_error *err) CHECKED;
void column_types_free(struct column_types *t);
/* The type of a column, or NULL. */
const struct ArrowSchema *column_types_find(const struct column_types *t, struct bytes name);

/* ---- values of text (value_parse.c) ---- */

bool parse_int64(struct bytes text, int64_t *out);   /* digits with an optional minus; false when out of range */
bool parse_uint64(struct bytes text, uint64_t *out); /* digits */
/* Decimal notation, nan, inf, infinity with sign in any case. Correctly rounded, whatever the locale. */
bool parse_double(struct bytes text, double *out);
bool parse_bool(struct bytes text, bool *out); /* true, false in any case */
/* YYYY-MM-DD as days since 1970. */
bool parse_date(struct bytes text, int64_t *days);
/* HH:MM[:SS[.fraction]] in units since midnight; false when the unit cannot hold it. */
bool parse_time(struct bytes text, enum arrow_unit unit, int64_t *out);
/* Date, 'T' or space, time, zone (Z, +HH:MM, +HHMM, +HH); the time may be left out. *zoned says whether a zone was there. */
bool parse_timestamp(struct bytes text, enum arrow_unit unit, int64_t *out, bool *zoned);

/* Append a text as a value of the builder's type: any type without children but intervals. INVALID_ARGUMENT (without place)
 * when it is none, NOT_SUPPORTED for types that texts cannot give. */
pennon_status append_text_value(struct builder *b, const struct arrow_type *type, struct bytes text, struct buf *scratch,
                                pennon_error *err) CHECKED;
/* Types that append_text_value takes. */
bool type_has_text(const struct arrow_type *type);

/* ---- values to text (value_text.c) ---- */

/* Longest text of the numbers and times below, with NUL. */
#define VALUE_TEXT_MAX 192
size_t format_int64(int64_t v, char *out);
size_t format_uint64(uint64_t v, char *out);
/* The shortest text that reads back as the same number, with ".0" when it is whole: "0.1", "1e+300", "nan", "inf", "-inf". */
size_t format_double(double v, char *out);
size_t format_float(float v, char *out);
size_t format_half(double v, char *out);
size_t format_date(int64_t days, char *out);
size_t format_time(int64_t v, enum arrow_unit unit, char *out);
size_t format_timestamp(int64_t v, enum arrow_unit unit, bool zoned, char *out);
pennon_status put_hex(struct bytes in, struct buf *out, pennon_error *err) CHECKED;

/* How a value of a type without children stands in text and JSON. */
enum text_kind {
    TEXT_PLAIN,  /* append_value_text gives it: not text, not binary, not nested */
    TEXT_STRING, /* utf8 of any layout */
    TEXT_BINARY,
    TEXT_NESTED
};
enum text_kind text_kind_of(const struct arrow_type *type);
/* Row i, which is not null, of a TEXT_PLAIN type; returns its length. `out` has VALUE_TEXT_MAX bytes. */
size_t format_value(const struct array_view *v, int64_t i, char *out);

/* ---- JSON (json_write.c, json_scan.c) ---- */

/* Append row i of a deep view as a JSON value. `binary` is PENNON_BINARY_. */
pennon_status json_put_value(struct buf *out, const struct array_view *deep, int64_t i, int32_t binary, pennon_error *err) CHECKED;
pennon_status json_put_string(struct buf *out, struct bytes text, pennon_error *err) CHECKED;

#define JSON_MAX_DEPTH 60

/* A strict scanner over bytes; every function moves `at` behind what it took. */
struct json_scan {
    const uint8_t *data;
    size_t at;
    size_t size;
    const char *problem; /* out: what is wrong at `at`; NULL while all is well */
    struct buf *scratch; /* unescaped texts */
};

/* Every one of these is false at a problem, or with a failed *st. */
bool json_space(struct json_scan *s, uint8_t *next);                 /* skip white space; the character that follows, not taken */
bool json_take(struct json_scan *s, uint8_t c, const char *problem); /* white space, then exactly c */
bool json_literal(struct json_scan *s, const char *word);
/* A text: a slice of the data, or of scratch when it has escapes (valid until the next text). UTF-8 is checked. */
bool json_take_text(struct json_scan *s, struct bytes *out, pennon_status *st, pennon_error *err);
/* The number as text; *whole says that it has neither point nor exponent. */
bool json_number(struct json_scan *s, struct bytes *out, bool *whole);
bool json_skip(struct json_scan *s, unsigned depth, pennon_status *st, pennon_error *err); /* any value, checked */
bool json_fail(struct json_scan *s, const char *problem);

/* ---- readers on an open source, which they take over, on failure too ---- */

pennon_status csv_reader_open(struct byte_source *source, const pennon_csv_options *options, struct ArrowArrayStream *out,
                              pennon_error *err) CHECKED;
pennon_status json_lines_reader_open(struct byte_source *source, const pennon_json_lines_options *options,
                                     struct ArrowArrayStream *out, pennon_error *err) CHECKED;
pennon_status ipc_source_open(struct byte_source *source, struct ArrowArrayStream *out, pennon_error *err) CHECKED;
/* A source in memory of its own, for readers that keep it. Frees it (and closes it) when `fn` fails to take it. */
struct byte_source *byte_source_new(const pennon_source *source, const pennon_call *call, pennon_error *err) CHECKED;
void byte_source_delete(void *source);

/* ---- what the writers share (sink.c): pull the stream batch by batch ---- */

struct write_job {
    struct call call;
    struct byte_sink sink;
    struct ArrowArrayStream *data; /* released at the end */
    struct ArrowSchema schema;
    uint64_t rows; /* written so far */
};

/* Begin: call, schema, sink. Pair with write_job_end, on failure too. */
pennon_status write_job_begin(struct write_job *j, struct ArrowArrayStream *data, const pennon_sink *sink, const pennon_call *call,
                              pennon_error *err) CHECKED;
/* The next batch, validated; release NULL at the end. */
pennon_status write_job_next(struct write_job *j, struct ArrowArray *batch, pennon_error *err) CHECKED;
/* Count rows of a batch that is written, flush, tell progress. */
pennon_status write_job_wrote(struct write_job *j, int64_t rows, pennon_error *err) CHECKED;
/* Close everything; with PENNON_OK the sink is committed first. Returns the final status. */
pennon_status write_job_end(struct write_job *j, pennon_status st, pennon_error *err) CHECKED;

#endif
