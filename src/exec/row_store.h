/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The rows of a stream, kept so that they can be read again and in any order: in memory up to a bound, the others in a temporary file.
 *
 * Rows are numbered from 0 in the order of the stream, and lie in chunks. Filling belongs to one thread; afterwards several may read. */
#ifndef EXEC_ROW_STORE_H
#define EXEC_ROW_STORE_H

#include "arrow/arrow.h"

struct row_chunk {
    uint64_t first, rows;
    uint64_t bytes;             /* of the values, about */
    struct shared_array *array; /* NULL: it is in the file */
    uint64_t at, size;          /* in the file */
};
struct row_store {
    struct call call;
    struct ArrowSchema schema; /* of the rows: that of the stream, views as plain types */
    bool has_views;
    uint64_t memory;    /* bound of what stays in memory, in bytes */
    uint64_t in_memory; /* bytes there */
    struct row_chunk *chunks;
    size_t n_chunks, cap_chunks;
    struct ArrowArray *small; /* few rows that wait to be joined */
    size_t n_small, cap_small;
    uint64_t small_rows, small_bytes;
    uint64_t rows, bytes;
    int file;      /* -1 = none */
    uint64_t size; /* of the file */
};

/* Read the whole stream, which is not released here. INVALID_ARGUMENT: its arrays are not valid, it has null rows; IO: the temporary file (in TMPDIR, or
 * /tmp). Free with row_store_free, also on failure. */
pennon_status row_store_fill(struct row_store *s, const struct call *c, struct ArrowArrayStream *in, uint64_t memory,
                             pennon_error *err) CHECKED;
/* The rows of a chunk, retained for the caller. */
pennon_status row_store_chunk(const struct row_store *s, size_t i, struct shared_array **out, pennon_error *err) CHECKED;
/* The chunk that has the row. */
size_t row_store_find(const struct row_store *s, uint64_t row);
void row_store_free(struct row_store *s); /* idempotent; zeroes are a store that was never filled */

#endif
