/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Scans: read rows of a dataset as an Arrow stream: filtered, computed, ordered, limited, or summed up.
 *
 *     pennon_scan_options o;
 *     pennon_scan_options_init(&o);
 *     o.filter = "distance > 500 AND carrier = 'AA'";
 *     o.limit = 1000;
 *     st = pennon_scan(ds, &o, &stream, &err);
 *
 * Steps, in this order: filter, order, offset and limit, computed columns. Rows come in the order of the table unless order_by says otherwise. */
#ifndef PENNON_SCAN_H
#define PENNON_SCAN_H

#include "pennon/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One column of the order. */
typedef struct pennon_order {
    const char *column; /* of the table, also one that is not in the result; a dotted path into structs; a system column */
    bool descending;
    bool nulls_first; /* whatever the direction */
} pennon_order;
typedef struct pennon_orders {
    size_t n;
    const pennon_order *items;
} pennon_orders;

enum {
    PENNON_AGGREGATE_COUNT_ROWS = 0, /* no column */
    PENNON_AGGREGATE_COUNT = 1,      /* values that are not null */
    PENNON_AGGREGATE_SUM = 2,
    PENNON_AGGREGATE_AVG = 3,
    PENNON_AGGREGATE_MIN = 4,
    PENNON_AGGREGATE_MAX = 5
};
typedef struct pennon_aggregate {
    int32_t function;   /* PENNON_AGGREGATE_ */
    const char *column; /* NULL with PENNON_AGGREGATE_COUNT_ROWS */
    const char *alias;  /* name in the result; NULL = "count(Int64(1))", "sum(x)" */
} pennon_aggregate;
typedef struct pennon_aggregates {
    const pennon_names *group_by; /* columns of the table, the first of the result; NULL = one row for all */
    size_t n;
    const pennon_aggregate *items;
} pennon_aggregates;

/* When columns are read that the filter does not need: early = together with those of the filter, late = for the rows that pass. The result is the
 * same. */
enum {
    PENNON_MATERIALIZE_HEURISTIC = 0, /* as many rows pass, measured while the scan runs */
    PENNON_MATERIALIZE_EARLY = 1,
    PENNON_MATERIALIZE_LATE = 2,
    PENNON_MATERIALIZE_EARLY_EXCEPT = 3 /* only late_columns late */
};

/* What a scan did. */
typedef struct pennon_scan_stats {
    size_t struct_size;
    uint64_t bytes_read;   /* from the store */
    uint64_t requests;     /* reads begun */
    uint64_t rows_scanned; /* rows that the filter looked at, or that were read without one */
    uint64_t rows;         /* of the result */
    uint64_t batches;      /* of the result */
    uint64_t nanoseconds;  /* spent in getting batches */
} pennon_scan_stats;
/* Called once, at the end of the stream or when it is released before, on the thread that does so. `stats` is valid during the call. */
typedef void (*pennon_scan_stats_fn)(void *ctx, const pennon_scan_stats *stats);

typedef struct pennon_scan_options {
    size_t struct_size;
    const pennon_call *call;
    /* Columns in the order of the result; dotted paths give flat columns of that name; back-ticks quote names with dots. System columns:
     * _rowid, _rowaddr, _rowoffset, _row_created_at_version, _row_last_updated_at_version (uint64). NULL = all, or none where `expressions` are
     * given; empty = none. Unknown names are INVALID_ARGUMENT and suggest the nearest; doubled ones are INVALID_ARGUMENT. */
    const pennon_names *columns;
    uint64_t limit;              /* rows at most; PENNON_NONE = no limit, 0 gives none */
    uint64_t offset;             /* rows to skip first */
    uint64_t batch_rows;         /* rows of a batch at most; 0 = 8192, fewer where these are over 8 MiB */
    uint64_t batch_bytes;        /* bytes of a batch, about; 0 = no target; overrides batch_rows */
    const pennon_ids *fragments; /* only these, in this order; unknown ones are NOT_FOUND. NULL = all */
    bool unordered; /* batches come as they are read; limit and offset then count rows in that order under a filter. Without effect
                                    beside order_by and aggregates */
    bool strict_batches;   /* every batch but the last has exactly batch_rows rows */
    bool with_row_id;      /* append _rowid */
    bool with_row_address; /* append _rowaddr */
    int32_t blobs;         /* PENNON_BLOBS_ */
    uint32_t readahead;    /* batches that may be in work at once; 0 = twice the threads */
    /* Only rows for which this SQL expression is true. NULL = all. Columns are found by name whatever the case, exact ones first; system columns may
     * be named. INVALID_ARGUMENT of kinds FilterSyntax, FieldNotFound, FunctionNotFound, TypeMismatch. */
    const char *filter;
    const void *substrait_filter; /* bytes of a Substrait ExtendedExpression, in place of `filter` or beside it. NULL = none */
    size_t substrait_filter_size;
    const pennon_expressions *expressions; /* behind `columns`, before the row id; NULL = none */
    const pennon_orders *order_by;         /* the first counts most; NULL or empty = order of the table */
    /* The result is the aggregates, a row a group in order of first appearance. Columns, expressions, limit, offset, order_by, with_row_id and
     * with_row_address are refused beside it. */
    const pennon_aggregates *aggregates;
    int32_t materialize; /* PENNON_MATERIALIZE_ */
    const pennon_names *late_columns;
    bool
        include_deleted_rows; /* deleted rows too, marked by a null _rowid; needs with_row_id, refuses limit and offset without a filter */
    pennon_scan_stats_fn stats; /* may be NULL */
    void *stats_ctx;
    /* Batches may point into data files instead of holding copies, where these are local files and hold values as Arrow does: vectors and other values of
     * fixed width from 128 bytes on, without nulls, not compressed. What is not so is read as always, and the rows are the same. Mapped bytes are not read
     * ahead of their use and count in no budget. A mapping lives as long as a batch that points into it; who truncates or overwrites a file meanwhile, which
     * neither Pennon nor official Lance does, ends this process with SIGBUS or changes the values: only for files that nobody else touches. */
    bool mapped;
} pennon_scan_options;

PENNON_EXPORT void pennon_scan_options_init(pennon_scan_options *options);

/* A stream over the version that the dataset holds now. The stream is self-contained; it is not thread safe. What is wrong with the options is told
 * here; faults of values (division by zero, a cast that fails) come with the batch. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_scan(pennon_dataset *ds, const pennon_scan_options *options,
                                                       struct ArrowArrayStream *out, pennon_error *err);

/* Rows that a scan with these options gives, without reading more than the filter needs: nothing without one. Limit, offset, aggregates are refused;
 * columns, expressions and the order do not matter. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_scan_count(pennon_dataset *ds, const pennon_scan_options *options, uint64_t *rows,
                                                             pennon_error *err);

/* The plan as text for people, a node a line, its input below it, indented. With `analyze` the scan is run, and the nodes tell rows, batches, time and
 * what was read. Free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_scan_explain(pennon_dataset *ds, const pennon_scan_options *options, bool analyze,
                                                               char **text, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
