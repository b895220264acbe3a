/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/dataset offers inside the library: the dataset cell, and the frame of public calls. */
#ifndef DATASET_DATASET_H
#define DATASET_DATASET_H

#include <pthread.h>
#include <stdatomic.h>

#include "exec/exec.h"
#include "pennon/dataset.h"
#include "pennon/scan.h"
#include "pennon/write.h"

struct pennon_dataset {
    pennon_runtime *runtime; /* retained */
    struct mem *mem;         /* of the runtime, retained */
    pthread_mutex_t lock;    /* guards snapshot and files */
    struct snapshot *snapshot;
    struct file_cache *files;      /* belongs to the snapshot's table; new after an overwrite too, since paths are unique */
    struct external_rule external; /* texts owned by the arena */
    struct arena arena;
    _Atomic(uint32_t) refs;
};

/* A dataset over a snapshot, which is taken on success. */
pennon_status dataset_new(const struct call *c, struct snapshot *s, const struct external_rule *external, pennon_dataset **out,
                          pennon_error *err) CHECKED;
/* The snapshot and the files of the cell, retained for the caller. */
void dataset_get(pennon_dataset *ds, struct snapshot **s, struct file_cache **files);
/* Move the cell forward; takes the snapshot. A version that is not newer leaves it. */
void dataset_move(pennon_dataset *ds, struct snapshot *s);

/* The frame of a public call: local error, running call. `handle` NULL is INVALID_ARGUMENT naming `what`. */
struct api {
    struct call c;
    pennon_error local;
    pennon_error *err; /* = &local */
};
pennon_status api_begin(struct api *a, const pennon_call *call, const void *handle, const char *what) CHECKED;
pennon_status api_end(struct api *a, pennon_status st, pennon_error *err);

/* pennon_write at a location: the stream is not released here. */
pennon_status dataset_write(struct call *c, const struct table_location *at, struct ArrowArrayStream *data,
                            const pennon_write_options *o, struct snapshot **out, pennon_error *err) CHECKED;

/* Append to the version of the cell, which moves. *version (may be NULL) is the one that holds the rows. The stream is not released here. */
pennon_status dataset_append_stream(struct call *c, pennon_dataset *ds, struct ArrowArrayStream *data,
                                    const pennon_write_options *o, uint64_t *version, pennon_error *err) CHECKED;

/* One-batch stream; moves both. */
pennon_status stream_of_batch(const struct call *c, struct ArrowSchema *schema, struct ArrowArray *batch,
                              struct ArrowArrayStream *out, pennon_error *err) CHECKED;
/* Rows of a PENNON_TAKE_ selector -> places (exec.h), ADDRESS_NONE where there is no such row. */
pennon_status resolve_selector(const struct call *c, struct snapshot *s, struct file_cache *fc, int32_t selector,
                               const uint64_t *rows, size_t n, uint64_t *places, pennon_error *err) CHECKED;
/* BLOB_ value of a PENNON_BLOBS_ option. */
pennon_status blob_option(int32_t value, enum blob_handling *out, pennon_error *err) CHECKED;
/* STORAGE_ value of a version text ("2.0", "2.1", "2.2", "stable"); INVALID_ARGUMENT, or NOT_SUPPORTED by name. */
pennon_status storage_version_of(const char *text, uint32_t *out, pennon_error *err) CHECKED;

/* Frame of a verify call: options, the size of `counts` (may be NULL) which is emptied, the running call. */
pennon_status verify_begin(struct api *a, const pennon_verify_options *given, pennon_verify_options *o,
                           pennon_verify_counts *counts, const void *handle, const char *what) CHECKED;
/* As many bytes as the caller's struct has. `to` NULL: nothing. */
void verify_counts_out(const pennon_verify_counts *from, pennon_verify_counts *to);

/* Leave the text to the caller (pennon_string_free). */
pennon_status text_out(struct buf *b, char **out, pennon_error *err) CHECKED;

#endif
