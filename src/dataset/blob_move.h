/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Blobs of rows that are written again: from descriptors as a scan gives them to what a data file is written from. */
#ifndef DATASET_BLOB_MOVE_H
#define DATASET_BLOB_MOVE_H

#include "dataset/dataset.h"

struct blob_mover;

/* Does a column of the schema hold blobs? */
bool schema_holds_blobs(const struct schema *s);
/* Columns of blobs of the snapshot's schema, for batches of all its columns. The snapshot and the files have to outlive it. NOT_SUPPORTED names a column that
 * holds blobs in lists. */
pennon_status blob_mover_new(const struct call *c, struct snapshot *s, struct file_cache *files, struct blob_mover **out,
                             pennon_error *err) CHECKED;
void blob_mover_free(struct blob_mover *m); /* NULL is allowed */
/* Take a batch of the columns (as stored, BLOB_AS_DESCRIPTOR; `schema` is the batch's) whose rows have these addresses. Parts of the batch before must have been
 * written. Moves the batch, on failure too. */
pennon_status blob_mover_take(struct blob_mover *m, const struct ArrowSchema *schema, struct ArrowArray *batch,
                              const uint64_t *addresses, pennon_error *err) CHECKED;
/* The next rows as they are written (BLOB_AS_INPUT), with as many bytes as fit; *out is not set behind the last one. Blobs with many bytes are named
 * instead, which blob_mover_given reads. */
pennon_status blob_mover_next(struct blob_mover *m, struct ArrowArray *out, pennon_error *err) CHECKED;
/* A blob_given_fn; `ctx` is the mover. */
pennon_status blob_mover_given(void *ctx, const struct call *c, struct bytes name, struct blob_given *out,
                               pennon_error *err) CHECKED;
/* The sidecars of the data file at `path`, which belongs to no version. Best effort. */
void blob_sidecars_remove(const struct call *c, pennon_store *store, const char *path);

#endif
