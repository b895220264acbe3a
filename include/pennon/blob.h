/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The values of blob columns one by one: handles that know where the bytes lie, reads of parts of them, and many at once.
 *
 *     const uint64_t rows[] = {7, 12};
 *     st = pennon_dataset_take_blobs(ds, "video", PENNON_TAKE_OFFSETS, 2, rows, NULL, &blobs, &err);
 *     st = pennon_blob_read_at(blobs, 0, 1 << 20, sizeof frame, frame, NULL, &got, &err);
 *     pennon_blobs_free(blobs);
 *
 * Taking reads descriptors alone. The handles are independent of the dataset, which may move on or be freed, and of each other. All calls may be made by
 * several threads at once. Bytes of external blobs are read where pennon_open_options.external_paths of the dataset lets them be read. */
#ifndef PENNON_BLOB_H
#define PENNON_BLOB_H

#include "pennon/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_blobs pennon_blobs;

/* Blobs of the column, a dotted path into structs also, in the rows of the selector (PENNON_TAKE_): in the order asked for, duplicates included. One
 * reference.
 * INVALID_ARGUMENT: no such column (kind FieldNotFound), one that holds no blobs, an offset past the end, a row id that is unknown or deleted, an address
 * in no fragment. NOT_SUPPORTED: a deleted row. CORRUPT: a descriptor that is none, bytes outside of their data file. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_take_blobs(pennon_dataset *ds, const char *column, int32_t selector,
                                                                     size_t n, const uint64_t *rows, const pennon_call *call,
                                                                     pennon_blobs **out, pennon_error *err);
PENNON_EXPORT void pennon_blobs_retain(pennon_blobs *blobs);
PENNON_EXPORT void pennon_blobs_free(pennon_blobs *blobs); /* gives a reference back; NULL is allowed */
PENNON_EXPORT size_t pennon_blobs_count(const pennon_blobs *blobs);

enum {
    PENNON_BLOB_INLINE = 0,    /* in the data file; every blob of a v1 column */
    PENNON_BLOB_PACKED = 1,    /* in a file beside it, with others */
    PENNON_BLOB_DEDICATED = 2, /* in a file of its own */
    PENNON_BLOB_EXTERNAL = 3   /* outside of the table's files */
};

/* The caller sets struct_size. */
typedef struct pennon_blob_info {
    size_t struct_size;
    bool is_null;      /* then what follows but for row_address is 0 */
    int32_t kind;      /* PENNON_BLOB_ */
    uint64_t size;     /* bytes; PENNON_NONE = all that the external object has, which was not asked yet */
    uint64_t position; /* of the first byte in its file */
    const char *
        uri; /* external blobs, as the table has it: a URI, or a path below one of its bases; else NULL. Lives as long as the list */
    uint64_t row_address; /* fragment << 32 | physical offset */
} pennon_blob_info;

/* What the descriptor says; reads nothing. INVALID_ARGUMENT: there is no blob `i`. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_blobs_info(const pennon_blobs *blobs, size_t i, pennon_blob_info *info,
                                                             pennon_error *err);
/* Bytes of blob `i`, 0 for a null; asks the store for an external one of unknown size. Whether the file has these bytes is checked: CORRUPT. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_blob_size(pennon_blobs *blobs, size_t i, const pennon_call *call, uint64_t *size,
                                                            pennon_error *err);
/* Bytes [offset, offset + n) of blob `i`, of which there may be fewer: *got of them, 0 at the end and past it. Reads no more than these.
 * CORRUPT: the file has not the bytes that it should have, with file and offset. NOT_FOUND: an external object that is not there. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_blob_read_at(pennon_blobs *blobs, size_t i, uint64_t offset, size_t n, void *to,
                                                               const pennon_call *call, size_t *got, pennon_error *err);

/* The list as a table: index: uint64, row_address: uint64, kind: utf8 (inline, packed, dedicated, external; null for a null), size: uint64 (null: a null, or
 * an external one whose size was not asked), position: uint64, uri: utf8. Reads nothing. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_blobs_list(pennon_blobs *blobs, const pennon_call *call,
                                                             struct ArrowArrayStream *out, pennon_error *err);

typedef struct pennon_blob_read_options {
    size_t struct_size;
    const pennon_call *call; /* progress: bytes read so far, of 0 */
    uint64_t batch_bytes;    /* of a batch at most, more only for a single blob; 0 = 16 MiB, less with a small budget */
} pennon_blob_read_options;
PENNON_EXPORT void pennon_blob_read_options_init(pennon_blob_read_options *options);

/* A part of a blob. */
typedef struct pennon_blob_range {
    size_t blob;     /* in the list */
    uint64_t offset; /* in the blob */
    uint64_t size;   /* INVALID_ARGUMENT where the blob ends before; PENNON_NONE = to its end. Of a null any range is null */
} pennon_blob_range;

/* The bytes of all blobs as a stream of {index: uint64 (place in the list), row_address: uint64, data: large_binary (null for null)} in the order of the list.
 * Reads of neighbours are joined, files are read side by side. One batch is in memory at a time; OVER_BUDGET says that a blob does not fit the budget:
 * read it in parts. The stream keeps the list. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_blobs_read(pennon_blobs *blobs, const pennon_blob_read_options *options,
                                                             struct ArrowArrayStream *out, pennon_error *err);
/* The same for parts, in the order of `ranges` (copied): index is the place in `ranges`. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_blobs_read_ranges(pennon_blobs *blobs, size_t n, const pennon_blob_range *ranges,
                                                                    const pennon_blob_read_options *options,
                                                                    struct ArrowArrayStream *out, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
