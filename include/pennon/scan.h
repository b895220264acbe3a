/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Scans: read columns of a dataset as an Arrow stream.
 *
 *     pennon_scan_options o;
 *     pennon_scan_options_init(&o);
 *     o.limit = 1000;
 *     st = pennon_scan(ds, &o, &stream, &err);
 */
#ifndef PENNON_SCAN_H
#define PENNON_SCAN_H

#include "pennon/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_scan_options {
    size_t struct_size;
    const pennon_call *call;
    /* Columns in the order of the result; dotted paths give flat columns of that name; back-ticks quote names with dots. System columns:
     * _rowid, _rowaddr, _rowoffset, _row_created_at_version, _row_last_updated_at_version (uint64). NULL = all; empty = none. Unknown names
     * are INVALID_ARGUMENT and suggest the nearest; doubled ones are INVALID_ARGUMENT. */
    const pennon_names *columns;
    uint64_t limit;              /* rows at most; PENNON_NONE = no limit, 0 gives none */
    uint64_t offset;             /* rows to skip first */
    uint64_t batch_rows;         /* rows of a batch at most; 0 = 8192, fewer where these are over 8 MiB */
    uint64_t batch_bytes;        /* bytes of a batch, about; 0 = no target; overrides batch_rows */
    const pennon_ids *fragments; /* only these, in this order; unknown ones are NOT_FOUND. NULL = all */
    bool unordered;              /* batches may come in any order */
    bool strict_batches;         /* every batch but the last has exactly batch_rows rows */
    bool with_row_id;            /* append _rowid */
    bool with_row_address;       /* append _rowaddr */
    int32_t blobs;               /* PENNON_BLOBS_ */
    uint32_t readahead;          /* batches that may be in work at once; 0 = twice the threads */
} pennon_scan_options;

PENNON_EXPORT void pennon_scan_options_init(pennon_scan_options *options);

/* A stream over the version that the dataset holds now. The stream is self-contained; it is not thread safe. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_scan(pennon_dataset *ds, const pennon_scan_options *options,
                                                       struct ArrowArrayStream *out, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
