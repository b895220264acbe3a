/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Private to src/arrow: what the IPC reader and writer share. Numbers are those of Arrow's Message.fbs, Schema.fbs and File.fbs. */
#ifndef ARROW_IPC_H
#define ARROW_IPC_H

#include "arrow/arrow_internal.h"
#include "arrow/ipc_flat.h"

#define IPC_MAGIC "ARROW1"
#define IPC_MAGIC_SIZE 6u
#define IPC_CONTINUATION UINT32_MAX
#define IPC_ALIGN 64u
#define IPC_V4 3
#define IPC_V5 4

enum { IPC_HEADER_SCHEMA = 1, IPC_HEADER_DICTIONARY = 2, IPC_HEADER_RECORD = 3 };
enum { IPC_CODEC_NONE = -1, IPC_CODEC_LZ4_FRAME = 0, IPC_CODEC_ZSTD = 1 };
/* Fields of the Message table. */
enum { IPC_MESSAGE_VERSION = 0, IPC_MESSAGE_HEADER_TYPE, IPC_MESSAGE_HEADER, IPC_MESSAGE_BODY_LENGTH, IPC_MESSAGE_FIELDS };
/* Fields of the RecordBatch table. */
enum { IPC_BATCH_LENGTH = 0, IPC_BATCH_NODES, IPC_BATCH_BUFFERS, IPC_BATCH_COMPRESSION, IPC_BATCH_VARIADIC, IPC_BATCH_FIELDS };
/* Fields of the DictionaryBatch table. */
enum { IPC_DICTIONARY_ID = 0, IPC_DICTIONARY_DATA, IPC_DICTIONARY_DELTA, IPC_DICTIONARY_FIELDS };
/* Fields of the Footer table. */
enum { IPC_FOOTER_VERSION = 0, IPC_FOOTER_SCHEMA, IPC_FOOTER_DICTIONARIES, IPC_FOOTER_RECORDS, IPC_FOOTER_FIELDS };
#define IPC_BLOCK_SIZE 24u /* of the footer: i64 offset, i32 metadata bytes, 4 of padding, i64 body bytes */

/* Ids of the dictionary fields of a schema in the order of a walk: a field, then the children of its dictionary or its own. */
struct ipc_ids {
    int64_t *items;
    size_t n;
    size_t cap;
    struct mem *mem;
};

/* A Schema table (not the message around it) into an owned struct schema; ids are appended. CORRUPT, NOT_SUPPORTED. */
pennon_status ipc_read_schema(const struct flat_table *table, struct mem *mem, struct ArrowSchema *out, struct ipc_ids *ids,
                              pennon_error *err) CHECKED;
/* The Schema table that `slot` points to; ids are numbered 0, 1, … in walk order. */
pennon_status ipc_write_schema(struct buf *b, size_t slot, const struct ArrowSchema *schema, pennon_error *err) CHECKED;
/* A whole schema message with its prefix; `position` is where it will stand in the file. */
pennon_status ipc_put_schema_message(const struct ArrowSchema *schema, uint64_t position, struct buf *out,
                                     pennon_error *err) CHECKED;
/* Put the prefix (continuation, size) in front of the flatbuffer `flat`, padded so that what follows `position + size` is aligned. */
pennon_status ipc_put_message(const struct buf *flat, uint64_t position, struct buf *out, pennon_error *err) CHECKED;

/* ---- reading bodies (ipc_body.c) ---- */

/* A dictionary that batches refer to; one per dictionary field in walk order. */
struct ipc_dictionary {
    int64_t id;
    const struct ArrowSchema *values; /* borrowed from the reader's schema */
    size_t first;                     /* the first field with this id: its array is the one in use */
    size_t below;                     /* dictionary fields inside the values */
    struct shared_array *array;       /* NULL until a batch brings it */
};

struct ipc_body {
    struct bytes bytes;
    struct block *owner; /* holds the bytes: buffers may point there; NULL = copy */
};

/* A RecordBatch table and its body as an array of `schema` (one column per child of the top struct, or one column for a
 * dictionary's values). The
 * dictionary fields below the schema are those of `all` from number `at` on. FULL valid. */
pennon_status ipc_load_batch(const struct flat_table *batch, const struct ipc_body *body, bool v4, const struct ArrowSchema *schema,
                             bool one_column, struct ipc_dictionary *all, size_t at, struct mem *mem, struct ArrowArray *out,
                             pennon_error *err) CHECKED;

/* Number of dictionary fields of a field and what is below it. */
size_t ipc_count_dictionaries(const struct ArrowSchema *schema);
/* The failure in err (of validation) as a property of the bytes. */
pennon_status ipc_as_corrupt(pennon_error *err);

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define IPC_HOST_BIG_ENDIAN 1
#else
#define IPC_HOST_BIG_ENDIAN 0
#endif

#endif
