/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* From the descriptors of blob columns to their bytes, and the check that the bytes are there. Private to src/file. */
#ifndef FILE_BLOB_READ_H
#define FILE_BLOB_READ_H

#include "file/file_private.h"

/* Replace the descriptors of every blob column in `batch`, a result of file_assemble, by large_binary arrays. CORRUPT: a range outside of its file, an
 * unknown kind, a sidecar that is missing; errors name the file. OVER_BUDGET when the values do not fit: ask for fewer rows. */
pennon_status blob_bytes_read(const struct call *c, struct file_reader *r, const struct file_projection *p,
                              struct ArrowArray *batch, pennon_error *err) CHECKED;

/* A blob v2 column as it is written (BLOB_AS_INPUT): `column` are the descriptors, `bytes` their values without external ones, which are moved. `out` may be a
 * part on failure, which the caller releases. */
pennon_status blob_input_make(const struct ArrowArray *column, size_t n_children, struct ArrowArray *bytes, struct mem *m,
                              struct ArrowArray *out, pennon_error *err) CHECKED;

/* What a walk over a file has said already. */
struct blob_check {
    const struct call *c;
    struct file_reader *r;
    const struct file_projection *p; /* BLOB_AS_DESCRIPTOR */
    finding_fn finding;
    void *ctx;
    uint32_t told[256]; /* sidecars that were reported */
    size_t n_told;
    bool told_external;
    uint64_t n_findings;
};
/* Check that what the descriptors of the batch name is there, without reading it. Faults go to `finding`, a sidecar once; fails only on I/O. */
pennon_status blob_check_batch(struct blob_check *k, const struct ArrowArray *batch, pennon_error *err) CHECKED;

#endif
