/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Datasets: open a version, look at it, count, take rows, list what it holds.
 *
 *     pennon_dataset *ds;
 *     st = pennon_dataset_open("flights.lance", NULL, &ds, &err);
 *     uint64_t rows;
 *     st = pennon_dataset_count_rows(ds, NULL, &rows, &err);
 *     pennon_dataset_free(ds);
 *
 * A dataset is a cell over an immutable version; calls that commit move the cell to the version they made. Handles are reference
 * counted and thread safe. Streams keep what they need and outlive the dataset.
 * A listing is an Arrow stream with the schema documented at its function. */
#ifndef PENNON_DATASET_H
#define PENNON_DATASET_H

#include "pennon/arrow_abi.h"
#include "pennon/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_dataset pennon_dataset;

/* Texts; pass NULL for "absent" (all), n = 0 for "empty" (none). */
typedef struct pennon_names {
    size_t n;
    const char *const *items;
} pennon_names;
typedef struct pennon_ids {
    size_t n;
    const uint64_t *items;
} pennon_ids;

/* A column that is computed: `sql` over the columns of the table, or, where `sql` is NULL, the column `name` itself. `sql` may be just the name of a
 * column, whatever its case. */
typedef struct pennon_expression {
    const char *name; /* in the result */
    const char *sql;
} pennon_expression;
typedef struct pennon_expressions {
    size_t n;
    const pennon_expression *items;
} pennon_expressions;

/* May a table reach out of itself: base paths and external blobs. What is refused is INVALID_ARGUMENT of kind ExternalPathRefused. */
enum {
    PENNON_EXTERNAL_SAME_STORE = 0, /* base paths on the table's own store; external blobs in the table and under its base paths */
    PENNON_EXTERNAL_LIST = 1,       /* only below external_prefixes */
    PENNON_EXTERNAL_ALL = 2,
    PENNON_EXTERNAL_NONE = 3
};

typedef struct pennon_open_options {
    size_t struct_size;
    const pennon_call *call;
    uint64_t version;       /* PENNON_NONE = the latest */
    const char *tag;        /* excludes version and branch */
    const char *branch;     /* NULL = main */
    int64_t as_of_ns;       /* newest version whose time is before this (since 1970, UTC); INT64_MIN = not asked */
    int32_t external_paths; /* PENNON_EXTERNAL_ */
    const pennon_names *external_prefixes;
} pennon_open_options;

PENNON_EXPORT void pennon_open_options_init(pennon_open_options *options);

/* Open a version of the dataset at `uri`. NOT_FOUND (kinds DatasetNotFound, VersionNotFound, RefNotFound), NOT_SUPPORTED (a feature flag, by
 * name), CORRUPT. One reference. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_open(const char *uri, const pennon_open_options *options,
                                                               pennon_dataset **out, pennon_error *err);
PENNON_EXPORT void pennon_dataset_retain(pennon_dataset *ds);
PENNON_EXPORT void pennon_dataset_free(pennon_dataset *ds); /* NULL is allowed */

/* Version of the cell now. */
PENNON_EXPORT uint64_t pennon_dataset_version(const pennon_dataset *ds);
/* Number of the newest version of its branch, read from the store. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_latest_version(pennon_dataset *ds, const pennon_call *call,
                                                                         uint64_t *version, pennon_error *err);
/* Move the cell to the newest version. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_refresh(pennon_dataset *ds, const pennon_call *call, pennon_error *err);
/* A second handle at the same version that does not move with this one. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_snapshot(pennon_dataset *ds, pennon_dataset **out, pennon_error *err);

/* Arrow schema of a scan of all columns (a struct); returned to the caller, who releases it. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_schema(pennon_dataset *ds, struct ArrowSchema *out, pennon_error *err);

/* Facts as a JSON object: uri, version, timestamp, branch, storage_version, writer, reader_flags, writer_flags, rows, deleted_rows, fragments,
 * data_files, bytes, stable_row_ids, next_row_id, max_fragment_id, indices, base_paths, config, table_metadata, schema_metadata.
 * Free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_info_json(pennon_dataset *ds, const pennon_call *call, char **out,
                                                                    pennon_error *err);
/* Fields as a JSON array: name, id, type, logical_type, nullable, metadata, fields. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_schema_json(pennon_dataset *ds, char **out, pennon_error *err);

/* The type of a field as text ("timestamp[us, tz=UTC]", "list<item: int32>"); NULL without memory. Free with pennon_string_free. */
PENNON_EXPORT char *pennon_type_text(const struct ArrowSchema *schema);
/* The other way: `out` gets a field of the type that the text names, as it is printed, with the name `name`; nullable, returned to the caller, who
 * releases it. INVALID_ARGUMENT tells the place in the text. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_type_from_text(const char *text, const char *name, struct ArrowSchema *out,
                                                                 pennon_error *err);

/* Rows that are not deleted. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_count_rows(pennon_dataset *ds, const pennon_call *call, uint64_t *rows,
                                                                     pennon_error *err);

/* ---- take ---- */

enum {
    PENNON_TAKE_OFFSETS = 0,  /* positions among the live rows; one past the end is INVALID_ARGUMENT */
    PENNON_TAKE_ROW_IDS = 1,  /* unknown and deleted ones are left out */
    PENNON_TAKE_ADDRESSES = 2 /* fragment << 32 | physical offset; unknown and deleted ones are left out */
};

/* How blob columns are given. */
enum {
    PENNON_BLOBS_DESCRIPTIONS = 0, /* struct<position, size> (v1), struct<kind, position, size, blob_id, blob_uri> (v2) */
    PENNON_BLOBS_BYTES = 1         /* large_binary; external blobs as external_paths lets them be read */
};

typedef struct pennon_take_options {
    size_t struct_size;
    const pennon_call *call;
    const pennon_names *columns; /* NULL = all, or none where expressions are given; as in pennon_scan_options */
    bool with_row_id;
    bool with_row_address;
    int32_t blobs;
    const pennon_expressions *expressions; /* behind `columns`, before the row id; NULL = none */
} pennon_take_options;

PENNON_EXPORT void pennon_take_options_init(pennon_take_options *options);

/* The rows in the order asked for, duplicates included, as a stream of one batch (of none for no rows). */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_take(pennon_dataset *ds, int32_t selector, size_t n, const uint64_t *rows,
                                                               const pennon_take_options *options, struct ArrowArrayStream *out,
                                                               pennon_error *err);
/* Half-open ranges of offsets, a batch each. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_take_ranges(pennon_dataset *ds, size_t n, const uint64_t (*ranges)[2],
                                                                      const pennon_take_options *options,
                                                                      struct ArrowArrayStream *out, pennon_error *err);

/* `n` different live rows (all, where there are fewer), each choice as likely as any other, in the order of the table. The same seed on the same version
 * gives the same rows. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_sample(pennon_dataset *ds, uint64_t n, uint64_t seed,
                                                                 const pennon_take_options *options, struct ArrowArrayStream *out,
                                                                 pennon_error *err);

/* ---- listings ---- */

/* version: uint64, timestamp: timestamp[ns, UTC], rows: uint64, fragments: uint64, data_files: uint64, bytes: uint64, writer: utf8, operation: utf8,
 * message: utf8 (of the commit), physical_rows: uint64 (deleted ones too), deleted_rows: uint64, deletion_files: uint64. Ascending. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_versions(pennon_dataset *ds, const pennon_call *call,
                                                                   struct ArrowArrayStream *out, pennon_error *err);
/* fragment: uint64, physical_rows: uint64, deleted_rows: uint64, rows: uint64, data_files: uint64, bytes: uint64, deletion_file: utf8, paths: list<utf8>. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_fragments(pennon_dataset *ds, const pennon_call *call,
                                                                    struct ArrowArrayStream *out, pennon_error *err);
/* tag: utf8, branch: utf8 (null = main), version: uint64, created, updated: timestamp[ns, UTC] (null = not known), manifest_size: uint64, metadata: utf8 (a
 * JSON object of texts). Version descending, then name. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_tags(pennon_dataset *ds, const pennon_call *call,
                                                               struct ArrowArrayStream *out, pennon_error *err);
/* branch: utf8, parent: utf8 (null = main), version: uint64 (of the parent, where it forks), created: timestamp[ns, UTC], manifest_size: uint64, metadata: utf8
 * (JSON), identifier: utf8 (the way from main: version:id, joined by ':'). By name. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_branches(pennon_dataset *ds, const pennon_call *call,
                                                                   struct ArrowArrayStream *out, pennon_error *err);
/* field: int32, name: utf8, bytes: uint64. Page bytes of each column that owns some, over all fragments. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_data_stats(pennon_dataset *ds, const pennon_call *call,
                                                                     struct ArrowArrayStream *out, pennon_error *err);

/* ---- verify ---- */

/* One fault. `finding` is valid during the call: message, uri, version, file, column, page, offset. */
typedef void (*pennon_finding_fn)(void *ctx, const pennon_error *finding);

enum {
    PENNON_VERIFY_VERSION = 0, /* the version of the handle */
    PENNON_VERIFY_BRANCH = 1,  /* every version of its branch */
    PENNON_VERIFY_ALL = 2      /* every version of every branch, and the tags */
};

typedef struct pennon_verify_options {
    size_t struct_size;
    const pennon_call *call;   /* progress: bytes of data files, the total grows with each version */
    int32_t scope;             /* PENNON_VERIFY_; of a single data file not used */
    pennon_finding_fn finding; /* may be NULL */
    void *ctx;
} pennon_verify_options;

PENNON_EXPORT void pennon_verify_options_init(pennon_verify_options *options);

/* What was looked at; what several versions share counts once. The caller sets struct_size. */
typedef struct pennon_verify_counts {
    size_t struct_size;
    uint64_t findings;
    uint64_t branches; /* with main */
    uint64_t tags;
    uint64_t versions;
    uint64_t fragments;
    uint64_t data_files;
    uint64_t deletion_files;
    uint64_t pages;
    uint64_t rows;  /* of data files, deleted ones too */
    uint64_t bytes; /* of data files */
} pennon_verify_counts;

/* Walk every byte: manifests, transactions, tags and branches, data files with their pages and values, UTF-8, deletion files, row ids, counts, index
 * folders. Each fault goes to `finding` once and does not stop the walk. The work is bounded by the bytes there are. `counts` (may be NULL) is filled on
 * failure too. Fails only on what is no fault of the data (I/O, cancel, budget). */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_verify(pennon_dataset *ds, const pennon_verify_options *options,
                                                                 pennon_verify_counts *counts, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
