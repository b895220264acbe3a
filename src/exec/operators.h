/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Operators over streams: order, limit, aggregates. Each takes a stream and gives one; none knows of tables or files.
 * Source: spec expressions 10.2, 10.3, 12. */
#ifndef EXEC_OPERATORS_H
#define EXEC_OPERATORS_H

#include "arrow/arrow.h"

/* ---- order ---- */

struct sort_key {
    uint32_t column; /* child of the stream's schema */
    unsigned flags;  /* ARRAY_SORT_DESCENDING, ARRAY_SORT_NULLS_FIRST */
};
/* Stable order of all rows; floats in total order (-0.0 before 0.0, NaN last), texts and bytes by byte, false before true. Rows
 * [offset, offset + limit) of the result are given, in batches of `batch_rows`; limit UINT64_MAX = all. With a limit only offset + limit
 * rows are kept (top-k). NOT_SUPPORTED names a key column whose type has no order. Memory: the rows kept, about twice. `in` is moved, on failure
 * too; it is read on the first get_next. */
pennon_status sort_open(const struct call *c, struct ArrowArrayStream *in, const struct sort_key *keys, size_t n_keys,
                        uint64_t offset, uint64_t limit, uint64_t batch_rows, struct ArrowArrayStream *out,
                        pennon_error *err) CHECKED;
/* May this type be a sort key? */
bool sort_possible(const struct ArrowSchema *schema);

/* Rows [offset, offset + limit) of a stream; ends early, without reading on. `in` is moved, on failure too. */
pennon_status limit_open(const struct call *c, struct ArrowArrayStream *in, uint64_t offset, uint64_t limit,
                         struct ArrowArrayStream *out, pennon_error *err) CHECKED;

/* ---- aggregates ---- */

enum aggregate_kind { AGGREGATE_COUNT_ROWS, AGGREGATE_COUNT, AGGREGATE_SUM, AGGREGATE_AVG, AGGREGATE_MIN, AGGREGATE_MAX };
struct aggregate {
    enum aggregate_kind kind;
    uint32_t column;  /* child of the stream's schema; not used by AGGREGATE_COUNT_ROWS */
    const char *name; /* of the result column; copied */
};
/* One row a group, in order of first appearance (one row in all without group columns, also for no input). Group columns come first, under their names; null is a
 * group of its own; floats are told apart by their bits (NaN of one form are equal, -0.0 and 0.0 are not). Results: counts int64; sums of signed integers int64 (wrapping), of unsigned ones
 * uint64, of floats float64, of decimals a decimal of 10 more digits (at most the type's); avg float64, of decimals a decimal of 4 more digits and
 * 4 more places; min and max the column's type, floats in total order. Null and no rows: sum, avg, min, max are null. INVALID_ARGUMENT of kind
 * TypeMismatch names what cannot be summed or ordered. `in` is moved, on failure too. */
pennon_status aggregate_open(const struct call *c, struct ArrowArrayStream *in, const uint32_t *groups, size_t n_groups,
                             const struct aggregate *aggregates, size_t n, struct ArrowArrayStream *out, pennon_error *err) CHECKED;

#endif
