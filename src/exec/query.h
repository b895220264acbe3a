/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The physical plan of a scan: the options, checked, as a chain of operators; opened as a stream, or shown as text.
 *
 *   read (filter, late columns, computed columns, limit) -> sort -> take by place -> aggregate -> batches of a size
 *
 * Steps that a scan does not need are left out. Source: spec expressions 9, 10.2, 12, 13. */
#ifndef EXEC_QUERY_H
#define EXEC_QUERY_H

#include "exec/operators.h"
#include "exec/plan.h"

struct query {
    struct mem *mem;
    struct arena arena;
    struct scan_plan *read;
    const struct fragment **fragments;
    size_t n_fragments;
    uint64_t limit, offset; /* of the read, or of the sort where there is one */
    uint64_t batch_rows, batch_bytes, rebatch_rows, rebatch_bytes;
    bool rebatch;
    bool unordered; /* of the read: nothing above it needs the order of the table */
    uint32_t readahead;
    /* order: keys are columns of the read */
    struct sort_key *keys;
    const char **key_names;
    size_t n_keys;
    struct scan_plan *take; /* columns that are taken by place after the sort; NULL = the sort has them all */
    size_t n_visible;       /* without `take`: columns of the read that are in the result, the first ones */
    /* aggregates over columns of the read */
    bool aggregates;
    uint32_t *groups;
    size_t n_groups;
    struct aggregate *items;
    size_t n_items;
    int32_t materialize;
};

/* Metrics of one operator that runs. */
struct meter {
    _Atomic(uint64_t) rows, batches, ns; /* with the operators below */
};
enum { METER_READ, METER_SORT, METER_TAKE, METER_AGGREGATE, METER_RESULT, METERS };
struct query_run {
    struct scan_counters counters;
    struct meter meters[METERS];
};

/* Check the options and plan. INVALID_ARGUMENT names what does not fit together. */
pennon_status query_new(const struct call *c, struct snapshot *s, struct file_cache *fc, const pennon_scan_options *o,
                        struct query **out, pennon_error *err) CHECKED;
void query_free(struct query *q); /* NULL is allowed */
/* The stream of the result; it does not need `q` any more. `run` is borrowed and outlives the stream; NULL = nobody asks. */
pennon_status query_open(const struct call *c, struct snapshot *s, struct file_cache *fc, struct query *q, struct query_run *run,
                         struct ArrowArrayStream *out, pennon_error *err) CHECKED;
/* The plan as text, appended; with `run` also what it did. */
pennon_status query_explain(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct query *q,
                            const struct query_run *run, struct buf *out, pennon_error *err) CHECKED;
/* Rows that the filter of the options keeps. */
pennon_status query_count(const struct call *c, struct snapshot *s, struct file_cache *fc, const pennon_scan_options *o,
                          uint64_t *rows, pennon_error *err) CHECKED;

#endif
