/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing: create, append to, or overwrite a dataset from an Arrow stream. Nothing is visible until the commit, and a call that fails
 * changes nothing. */
#ifndef PENNON_WRITE_H
#define PENNON_WRITE_H

#include "pennon/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PENNON_WRITE_CREATE = 0,   /* ALREADY_EXISTS when there is a dataset */
    PENNON_WRITE_APPEND = 1,   /* a missing dataset is created */
    PENNON_WRITE_OVERWRITE = 2 /* a missing dataset is created; old versions stay readable */
};

/* Pairs of texts. */
typedef struct pennon_pairs {
    size_t n;
    const char *const *keys;
    const char *const *values;
} pennon_pairs;

/* Places beside the dataset's own folder that its data files may lie in. */
typedef struct pennon_base {
    uint32_t id;          /* 0 = assign one */
    const char *name;     /* or NULL */
    const char *path;     /* absolute path or URI */
    bool is_dataset_root; /* data files lie in PATH/data, else in PATH */
} pennon_base;
typedef struct pennon_bases {
    size_t n;
    const pennon_base *items;
} pennon_bases;

/* What becomes of the URIs in a blob column (extension lance.blob.v2). */
enum {
    PENNON_EXTERNAL_BLOBS_IN_BASES =
        0, /* kept as references when they lie under a base path of the dataset that is no dataset itself, else INVALID_ARGUMENT */
    PENNON_EXTERNAL_BLOBS_ANYWHERE =
        1, /* kept as references; under no base as absolute URIs, which readers follow only when they are told to */
    PENNON_EXTERNAL_BLOBS_COPY = 2 /* their bytes are read and stored in the dataset */
};

/* A blob column is, up to version 2.1, large_binary with the field metadata lance-encoding:blob, and from 2.2 on the extension lance.blob.v2 over
 * struct<data: large_binary, uri: utf8> or struct<data, uri, position: uint64, size: uint64>. A row has data or a uri, with position and size for a part
 * of it; a row with neither is null. Where the bytes go is told by the field metadata lance-encoding:blob-inline-size-threshold (64 KiB: up to it in
 * the data file), -dedicated-size-threshold (4 MiB: over it in a file of their own) and -pack-file-size-threshold (1 GiB); they are the
 * dataset's on append. */

typedef struct pennon_write_options {
    size_t struct_size;
    const pennon_call *call; /* progress counts rows written */
    int32_t mode;
    /* "2.0", "2.1", "2.2", "stable", or NULL: 2.1 for a new dataset, else the dataset's. Another version than the dataset's is
     * INVALID_ARGUMENT on append. */
    const char *storage_version;
    uint64_t max_rows_per_file;        /* 0 = 1048576 */
    uint64_t max_bytes_per_file;       /* 0 = 90 GiB; checked after each batch */
    bool stable_row_ids;               /* new datasets */
    bool v1_manifest_names;            /* new datasets */
    bool allow_loss;                   /* 2.0 cannot hold nulls of structs: write them as structs of nulls */
    uint32_t max_retries;              /* of the commit; 20 */
    const pennon_pairs *properties;    /* of the transaction */
    const char *branch;                /* existing branch to write to; NULL = main */
    int32_t external_blobs;            /* PENNON_EXTERNAL_BLOBS_ */
    uint64_t blob_pack_bytes;          /* of a file of packed blobs at most; 0 = as the column's metadata says, or 1 GiB */
    const pennon_pairs *config;        /* create and overwrite: keys to set in the dataset's config */
    const pennon_bases *initial_bases; /* new datasets: base paths to register; ids are unique, 0 = the next free one */
    const pennon_names *
        target_bases; /* names, paths or ids of base paths (registered, or initial) that the data files go to in turn; NULL = the dataset itself */
} pennon_write_options;

PENNON_EXPORT void pennon_write_options_init(pennon_write_options *options);

/* Write the stream, which is consumed and released on every path. `out` (may be NULL) gets the dataset at the new version.
 * INVALID_ARGUMENT (kind SchemaMismatch for append), ALREADY_EXISTS, CONFLICT, CONFLICT_FINAL, COMMIT_UNKNOWN, NOT_SUPPORTED. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_write(const char *uri, struct ArrowArrayStream *data,
                                                        const pennon_write_options *options, pennon_dataset **out,
                                                        pennon_error *err);
/* Append to an opened dataset, whose cell moves to the new version. options->mode is not looked at. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_append(pennon_dataset *ds, struct ArrowArrayStream *data,
                                                                 const pennon_write_options *options, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
