/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Bringing data in and out as CSV, JSON lines and Arrow IPC: readers give Arrow streams, writers take them.
 *
 *     pennon_source in = {sizeof in, .path = "rows.csv"};
 *     struct ArrowArrayStream stream;
 *     if (pennon_csv_open(&in, NULL, &stream, &err) == PENNON_OK) {
 *         st = pennon_write("rows.lance", &stream, NULL, NULL, &err);
 *     }
 *
 * Readers read ahead as far as types have to be inferred; errors in the rows come from the stream's get_next, with the line
 * (pennon_stream_error). A stream belongs to one thread at a time. */
#ifndef PENNON_INGEST_H
#define PENNON_INGEST_H

#include "pennon/arrow_abi.h"
#include "pennon/runtime.h"
#include "pennon/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where bytes come from: a path, or a callback. */
typedef struct pennon_source {
    size_t struct_size;
    const char *path; /* of a file; "-" = standard input; NULL = the callback */
    /* Put up to n bytes to `to`; returns their number, 0 at the end, or a negated errno value. */
    int64_t (*read)(void *ctx, void *to, size_t n);
    void (*close)(void *ctx); /* called once when nothing is read any more, on failure of the open too; may be NULL */
    void *ctx;
} pennon_source;

/* Where bytes go: a path, or a callback. A file is written under another name beside its place and put there when it is
 * complete; what is no regular file (a pipe, a terminal) is written directly. */
typedef struct pennon_sink {
    size_t struct_size;
    const char *path; /* "-" = standard output; NULL = the callback */
    /* Take all n bytes; 0, or an errno value. */
    int (*write)(void *ctx, const void *bytes, size_t n);
    void *ctx;
} pennon_sink;

/* ---- readers ---- */

typedef struct pennon_csv_options {
    size_t struct_size;
    const pennon_call *call;
    char delimiter;      /* ',' */
    char quote;          /* '"'; doubled inside of quotes; '\0' = nothing is quoted */
    bool header;         /* true: the first row holds the names; else they are f0, f1, … */
    bool infer;          /* true; else columns without a type of their own are text */
    uint64_t skip_lines; /* lines in front of the header that are left out; 0 */
    /* Types of columns as "name=type,name=type", for example "id=int32,when=timestamp[us],price=decimal128(10, 2)"; NULL = none.
     * Types are written as pyarrow prints them; those of nested types cannot be read from CSV. A name that is no column is an error. */
    const char *types;
    /* Spellings of null, n_nulls of them, when they are not quoted. NULL: the empty field everywhere, and NULL, null, NA, N/A, \N in
     * columns that are not text. */
    const char *const *nulls;
    size_t n_nulls;
    uint64_t infer_rows;    /* rows looked at to infer types, within the first MiB at most; 10000 */
    uint64_t batch_rows;    /* most rows of a batch; 65536 */
    uint64_t max_row_bytes; /* a longer row is an error; 64 MiB */
} pennon_csv_options;

PENNON_EXPORT void pennon_csv_options_init(pennon_csv_options *options);
/* Read CSV (RFC 4180: quotes, line ends inside of them, CRLF; UTF-8 with or without byte order mark). Inferred types are bool,
 * int64, double, date32, timestamp[us] (with UTC when the text has an offset) and string. Blank lines are skipped; in a table of one
 * column they are nulls. `source` is used up on every path. INVALID_ARGUMENT with line and column, IO, NOT_FOUND. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_csv_open(const pennon_source *source, const pennon_csv_options *options,
                                                           struct ArrowArrayStream *out, pennon_error *err);

typedef struct pennon_json_lines_options {
    size_t struct_size;
    const pennon_call *call;
    const char *types;      /* of top-level fields, as for CSV; nested types are allowed */
    bool ignore_unknown;    /* false: a field that the schema does not have is an error */
    uint64_t infer_rows;    /* 10000, within the first MiB at most */
    uint64_t batch_rows;    /* 65536 */
    uint64_t max_row_bytes; /* 64 MiB */
} pennon_json_lines_options;

PENNON_EXPORT void pennon_json_lines_options_init(pennon_json_lines_options *options);
/* Read one JSON object a line (strict RFC 8259; objects may also follow one another on a line or span lines). Inferred types are bool,
 * int64, uint64, double, string, lists and structs; a field that is always null has type null. Missing fields are null. Integers
 * that 64 bits cannot hold, duplicate keys and nesting over 60 levels are refused. `source` is used up on every path. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_json_lines_open(const pennon_source *source,
                                                                  const pennon_json_lines_options *options,
                                                                  struct ArrowArrayStream *out, pennon_error *err);

typedef struct pennon_ipc_options {
    size_t struct_size;
    const pennon_call *call;
} pennon_ipc_options;

PENNON_EXPORT void pennon_ipc_options_init(pennon_ipc_options *options);
/* Read an Arrow IPC stream or file (Feather version 2). `source` is used up on every path. CORRUPT, NOT_SUPPORTED. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_ipc_open(const pennon_source *source, const pennon_ipc_options *options,
                                                           struct ArrowArrayStream *out, pennon_error *err);

enum {
    PENNON_FORMAT_AUTO = 0, /* told by the first bytes: IPC file or stream, JSON for '{', else CSV */
    PENNON_FORMAT_CSV = 1,
    PENNON_FORMAT_JSON_LINES = 2,
    PENNON_FORMAT_IPC = 3
};

typedef struct pennon_ingest_options {
    size_t struct_size;
    int32_t format;                /* PENNON_FORMAT_ */
    const pennon_csv_options *csv; /* NULL = defaults; so the others */
    const pennon_json_lines_options *json_lines;
    const pennon_ipc_options *ipc;
} pennon_ingest_options;

PENNON_EXPORT void pennon_ingest_options_init(pennon_ingest_options *options);
/* Read any of the three formats. `*format` (may be NULL) says which. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_ingest_open(const pennon_source *source, const pennon_ingest_options *options,
                                                              int32_t *format, struct ArrowArrayStream *out, pennon_error *err);

/* ---- writers: the stream is consumed and released on every path; progress of the call counts rows ---- */

enum { PENNON_BINARY_BASE64 = 0, PENNON_BINARY_HEX = 1 };

typedef struct pennon_csv_write_options {
    size_t struct_size;
    const pennon_call *call;
    char delimiter;        /* ',' */
    bool header;           /* true */
    bool quote_all;        /* false: only what needs quotes, and empty texts (which are not null) */
    const char *null_text; /* "" */
    int32_t binary;        /* PENNON_BINARY_BASE64 */
} pennon_csv_write_options;

PENNON_EXPORT void pennon_csv_write_options_init(pennon_csv_write_options *options);
/* Dates, times and timestamps are written as ISO 8601, durations as whole numbers of their unit, nested values as JSON text. Line ends are \n. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_csv_write(struct ArrowArrayStream *data, const pennon_sink *sink,
                                                            const pennon_csv_write_options *options, pennon_error *err);

typedef struct pennon_json_lines_write_options {
    size_t struct_size;
    const pennon_call *call;
    int32_t binary; /* PENNON_BINARY_BASE64 */
} pennon_json_lines_write_options;

PENNON_EXPORT void pennon_json_lines_write_options_init(pennon_json_lines_write_options *options);
/* One object a row, all types: maps with text keys as objects, other maps as lists of {"key", "value"}; decimals, dates and times as
 * texts; infinities and NaN as the texts "inf", "-inf" and "nan", since JSON has no numbers for them. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_json_lines_write(struct ArrowArrayStream *data, const pennon_sink *sink,
                                                                   const pennon_json_lines_write_options *options,
                                                                   pennon_error *err);

enum { PENNON_IPC_UNCOMPRESSED = 0, PENNON_IPC_ZSTD = 1 };

typedef struct pennon_ipc_write_options {
    size_t struct_size;
    const pennon_call *call;
    bool file;           /* false: the stream format */
    int32_t compression; /* PENNON_IPC_UNCOMPRESSED */
    int32_t level;       /* of zstd; 0 = its default */
} pennon_ipc_write_options;

PENNON_EXPORT void pennon_ipc_write_options_init(pennon_ipc_write_options *options);
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_ipc_write(struct ArrowArrayStream *data, const pennon_sink *sink,
                                                            const pennon_ipc_write_options *options, pennon_error *err);

typedef struct pennon_table_write_options {
    size_t struct_size;
    const pennon_call *call;
    uint64_t max_rows;   /* rows shown; a last line says that there are more; PENNON_NONE = all */
    uint32_t cell_width; /* columns of the screen that a cell may take, longer ones end in "…"; 60 */
    uint32_t width;      /* of the screen: columns that do not fit are left out and named in a last line; 0 = no limit */
    bool header;         /* true */
} pennon_table_write_options;

PENNON_EXPORT void pennon_table_write_options_init(pennon_table_write_options *options);
/* An aligned table for people: control characters are shown as escapes, nulls as "null", numbers to the right. The widths of columns
 * are those of the first 1000 rows. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_table_write(struct ArrowArrayStream *data, const pennon_sink *sink,
                                                              const pennon_table_write_options *options, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
