/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Single data files, without a table: read, take, inspect, write. */
#ifndef PENNON_FILE_H
#define PENNON_FILE_H

#include "pennon/dataset.h"
#include "pennon/store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_file pennon_file;
typedef struct pennon_file_writer pennon_file_writer;

typedef struct pennon_file_options {
    size_t struct_size;
    const pennon_call *call;
    const pennon_names *columns; /* top-level names or dotted paths of structs, in the order of the result; NULL = all */
    uint64_t batch_rows;         /* 0 = 8192 */
    int32_t blobs;               /* PENNON_BLOBS_; external blobs are NOT_SUPPORTED as bytes: their rule is the dataset's */
} pennon_file_options;

PENNON_EXPORT void pennon_file_options_init(pennon_file_options *options);

/* Open the data file at `uri`. NOT_FOUND, CORRUPT, NOT_SUPPORTED. One reference; thread safe. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_open(const char *uri, const pennon_file_options *options, pennon_file **out,
                                                            pennon_error *err);
PENNON_EXPORT void pennon_file_free(pennon_file *file); /* NULL is allowed */
PENNON_EXPORT uint64_t pennon_file_rows(const pennon_file *file);
/* Arrow schema of the file's own columns; JSON columns as the file holds them. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_schema(pennon_file *file, struct ArrowSchema *out, pennon_error *err);
/* Version, schema, columns, pages, encodings, buffers as JSON; free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_info_json(pennon_file *file, const pennon_call *call, char **out,
                                                                 pennon_error *err);
/* Rows [start, end) as a stream; end PENNON_NONE = all that follow. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_read(pennon_file *file, uint64_t start, uint64_t end,
                                                            const pennon_file_options *options, struct ArrowArrayStream *out,
                                                            pennon_error *err);
/* The rows in the order asked for, one batch. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_take(pennon_file *file, size_t n, const uint64_t *rows,
                                                            const pennon_file_options *options, struct ArrowArrayStream *out,
                                                            pennon_error *err);
/* Bytes of a global buffer; free with pennon_bytes_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_global_buffer(pennon_file *file, const pennon_call *call, uint32_t index,
                                                                     void **out, size_t *size, pennon_error *err);
/* As pennon_dataset_verify, of one file. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_verify(pennon_file *file, const pennon_verify_options *options,
                                                              pennon_verify_counts *counts, pennon_error *err);

typedef struct pennon_file_writer_options {
    size_t struct_size;
    const pennon_call *call;
    const char *version; /* "2.0", "2.1", "2.2"; NULL = 2.1 */
    uint64_t page_bytes; /* buffered bytes of a column that make a page; 0 = 2 MiB */
} pennon_file_writer_options;

PENNON_EXPORT void pennon_file_writer_options_init(pennon_file_writer_options *options);

/* A file at `uri` for batches of `schema` (a struct; only read during the call). With blob columns of version 2.2 the name has to end in ".lance": larger
 * values go into files in a folder of that name without the end, which belong to the file. Not thread safe. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_writer_open(const char *uri, const struct ArrowSchema *schema,
                                                                   const pennon_file_writer_options *options,
                                                                   pennon_file_writer **out, pennon_error *err);
/* Moves the batch. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_writer_write(pennon_file_writer *writer, struct ArrowArray *batch,
                                                                    pennon_error *err);
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_writer_add_buffer(pennon_file_writer *writer, const void *bytes, size_t size,
                                                                         uint32_t *index, pennon_error *err);
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_writer_add_metadata(pennon_file_writer *writer, const char *key,
                                                                           const char *value, pennon_error *err);
/* End the file and make it visible; the writer is gone, also on failure. `rows` may be NULL. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_file_writer_finish(pennon_file_writer *writer, uint64_t *rows, pennon_error *err);
PENNON_EXPORT void pennon_file_writer_abort(pennon_file_writer *writer); /* NULL is allowed; nothing stays at the path */

#ifdef __cplusplus
}
#endif
#endif
