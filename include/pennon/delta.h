/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What changed between two versions of a dataset: rows that came, changed or went, and the transactions that did it.
 *
 *     pennon_delta_options o;
 *     pennon_delta_options_init(&o);
 *     o.compared_against = 7;
 *     st = pennon_dataset_delta(ds, PENNON_DELTA_UPSERTED, &o, &stream, &err);
 *
 * The range is (begin, end]: what the version `begin` has is not part of it, what `end` did is. Rows are told apart by their stable row ids, which the dataset
 * needs (NOT_SUPPORTED). Rows that came or changed are read in the version of the handle: a row that changed again after `end` is then no row of the range;
 * open the dataset at `end` to see it. Rows that went are read in `begin`, so that version must still be there. */
#ifndef PENNON_DELTA_H
#define PENNON_DELTA_H

#include "pennon/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PENNON_DELTA_INSERTED = 0, /* created in the range */
    PENNON_DELTA_UPDATED = 1,  /* created before it, last changed in it */
    PENNON_DELTA_UPSERTED = 2, /* either */
    PENNON_DELTA_DELETED = 3   /* in `begin` and not in `end`, with the values that they had in `begin` */
};

/* The range is given in one of four forms; another combination is INVALID_ARGUMENT. */
typedef struct pennon_delta_options {
    size_t struct_size;
    const pennon_call *call;
    uint64_t compared_against; /* this version and the handle's, the lower one is `begin`; PENNON_NONE = not given */
    uint64_t begin_version;    /* with end_version; PENNON_NONE = not given; 0 is before the first */
    uint64_t end_version;
    int64_t begin_ns; /* since 1970, UTC: `begin` is the last version before; INT64_MIN = not given */
    int64_t end_ns;   /* `end` is the last version that is not after; INT64_MIN with begin_ns = the latest version */
    /* Of rows: */
    const pennon_names *columns; /* as in pennon_scan_options; NULL = all. The columns below follow in any case */
    const char *filter;          /* only rows for which this SQL is true; NULL = all */
    int32_t blobs;               /* PENNON_BLOBS_ */
    uint64_t batch_rows;         /* 0 = 8192 */
} pennon_delta_options;

PENNON_EXPORT void pennon_delta_options_init(pennon_delta_options *options);

/* The range in versions: *begin, *end. A range that ends before it begins is empty. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_delta_range(pennon_dataset *ds, const pennon_delta_options *options,
                                                                      uint64_t *begin, uint64_t *end, pennon_error *err);
/* Rows of PENNON_DELTA_ `kind`: the columns, then _rowid, _row_created_at_version, _row_last_updated_at_version (uint64). The stream is self-contained.
 * NOT_FOUND of kind VersionNotFound: a version that rows that went need, and that cleanup has removed. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_delta(pennon_dataset *ds, int32_t kind,
                                                                const pennon_delta_options *options, struct ArrowArrayStream *out,
                                                                pennon_error *err);

/* The caller sets struct_size. */
typedef struct pennon_delta_counts {
    size_t struct_size;
    uint64_t begin, end; /* versions */
    uint64_t inserted, updated, deleted;
} pennon_delta_counts;
/* Numbers of rows, without reading more than `filter` needs. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_delta_counts(pennon_dataset *ds, const pennon_delta_options *options,
                                                                       pennon_delta_counts *counts, pennon_error *err);

/* version: uint64, read_version: uint64, operation: utf8, uuid: utf8. Those of the range's versions, ascending; versions without a transaction are left
 * out. Any dataset. NOT_FOUND of kind VersionNotFound: a version of the range is gone. Of options of rows none matters. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_delta_transactions(pennon_dataset *ds,
                                                                             const pennon_delta_options *options,
                                                                             struct ArrowArrayStream *out, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
