/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/file offers: one Lance data file, read and written.
 *
 * Reading: open (one or two requests), project, read rows into Arrow. A reader is reference counted and thread safe; it keeps parsed column
 * metadata and page maps for later reads. A read plans all bytes of all columns first, coalesces, and issues them together.
 * Source: spec file-format. */
#ifndef FILE_FILE_H
#define FILE_FILE_H

#include "encoding/page_read.h"
#include "schema/schema.h"
#include "store/store.h"

/* ---- reading ---- */

struct file_reader;

/* `known_size` 0 = ask the store; a wrong one is noticed and asked for again. CORRUPT, NOT_SUPPORTED (version by name), NOT_FOUND. Errors carry the
 * path and the offset. */
pennon_status file_reader_open(const struct call *c, pennon_store *store, const char *path, uint64_t known_size,
                               struct file_reader **out, pennon_error *err) CHECKED;
struct file_reader *file_reader_retain(struct file_reader *r);
void file_reader_release(struct file_reader *r); /* NULL is allowed */
/* Bytes that the reader holds now: metadata, the end of the file, open pages. */
uint64_t file_reader_memory(const struct file_reader *r);
uint64_t file_reader_rows(const struct file_reader *r);
uint32_t file_reader_version(const struct file_reader *r); /* STORAGE_ */
uint32_t file_reader_columns(const struct file_reader *r);
uint64_t file_reader_size(const struct file_reader *r);
/* Schema in the file itself (0.1 files need not have one: NOT_SUPPORTED); borrowed. */
pennon_status file_reader_schema(const struct call *c, struct file_reader *r, const struct schema **out, pennon_error *err) CHECKED;
/* Put the file into a failure. */
pennon_status file_reader_error(const struct file_reader *r, pennon_status st, pennon_error *err);
uint32_t file_reader_global_buffers(const struct file_reader *r);
pennon_status file_reader_global_buffer(const struct call *c, struct file_reader *r, uint32_t i, struct block **out,
                                        pennon_error *err) CHECKED;

/* Which column of the file holds a field: parallel arrays of ids and columns as in a manifest, or NULL: the order of the walk over the file's own
 * schema (schema_walk_columns). In 0.1 the first id says where the file's page table begins, and there are no columns. */
struct column_map {
    const int32_t *ids;
    const int32_t *columns; /* -1 = none; 0.1: NULL */
    size_t n;
};

/* The fields of `schema` to read; every leaf must have a column. Retains both. NOT_FOUND names a field without a column; CORRUPT: the column does not exist. */
struct file_projection;
pennon_status file_projection_new(struct file_reader *r, struct schema *schema, const struct column_map *map,
                                  enum blob_handling blobs, struct mem *m, struct file_projection **out, pennon_error *err) CHECKED;
/* Where an external blob lies: base id (0 = the URI stands alone) and URI as the descriptor has them, untrusted. The store is retained and the path is in
 * c->mem, both for the caller. An error when the table may not reach there. */
typedef pennon_status (*blob_locate_fn)(void *ctx, const struct call *c, uint32_t base_id, struct bytes uri, pennon_store **store,
                                        char **path, pennon_error *err);
/* How reads of the projection find external blobs; without it they are NOT_SUPPORTED. `ctx` must outlive the reads. */
void file_projection_external(struct file_projection *p, blob_locate_fn fn, void *ctx);
/* Values that lie in a local file as Arrow has them are not read but mapped: the arrays point into the file. What else is there is read as always. */
void file_projection_map(struct file_projection *p);
void file_projection_free(struct file_projection *p); /* NULL is allowed */
/* Arrow schema of the arrays (a struct, SCHEMA_VIEW_FILE); borrowed. */
const struct ArrowSchema *file_projection_arrow(const struct file_projection *p);

/* Rows of sorted ranges that do not overlap, one array (a struct without nulls). INVALID_ARGUMENT (range past the end; kind "OffsetOverflow": ask for
 * fewer rows). Blobs as bytes are read from the data file, its sidecars, and where external ones lie. Runs on up to c->threads. The array's memory is
 * charged to c->mem. */
pennon_status file_read(const struct call *c, struct file_reader *r, const struct file_projection *p, const struct row_range *rows,
                        size_t n, struct ArrowArray *out, pennon_error *err) CHECKED;
/* Bytes that a read of these rows would ask for; for planning batches. 0 = not known. */
uint64_t file_read_estimate(struct file_reader *r, const struct file_projection *p, uint64_t rows);

/* ---- blobs one by one ---- */

enum blob_place { BLOB_IN_FILE, BLOB_IN_SIDECAR, BLOB_ELSEWHERE };
/* What the descriptor of a blob says; untrusted but for kind, place and id, which fit each other. */
struct blob_value {
    bool is_null;
    unsigned kind; /* of a v2 column; 0 for v1 */
    enum blob_place place;
    uint32_t id;           /* of the sidecar, not 0; elsewhere: of the base, 0 = the URI stands alone */
    uint64_t offset, size; /* elsewhere: size 0 = to the end */
    bool whole;            /* the sidecar is this value */
    struct bytes uri;      /* elsewhere; borrowed from the column */
};
/* Of a row of descriptors (BLOB_AS_DESCRIPTOR) of the blob field. CORRUPT, NOT_SUPPORTED: a kind that is none. */
pennon_status blob_value_at(const struct field *f, const struct ArrowArray *column, uint64_t row, struct blob_value *out,
                            pennon_error *err) CHECKED;
/* Path of sidecar `id` of the data file at `path`; in m. CORRUPT: the data file's name does not end in ".lance". */
char *blob_sidecar_path(struct mem *m, const char *path, uint32_t id, pennon_error *err) CHECKED;

/* ---- inspection ---- */

struct column_stats {
    uint32_t n_pages;
    uint64_t bytes; /* page buffers */
};
pennon_status file_column_stats(const struct call *c, struct file_reader *r, uint32_t column, struct column_stats *out,
                                pennon_error *err) CHECKED;
/* The whole file as a JSON text: version, rows, schema, columns, pages, encodings, buffers. */
pennon_status file_inspect_json(const struct call *c, struct file_reader *r, struct buf *out, pennon_error *err) CHECKED;
/* Walk every byte: structure, places, pages, values, sidecars of blobs. Calls `finding` for each fault (message, column, page, offset) and goes on; fails
 * only on I/O. Rows that no bytes tell apart (a page of one value) are looked at and not walked: the work is bounded by the bytes of the file. External
 * blobs are looked for through `external`, which may be NULL: then they are not looked for. Progress: rows of fields. Adds to *counts. */
typedef void (*finding_fn)(void *ctx, const pennon_error *finding);
struct file_verified {
    uint64_t pages;
    uint64_t rows;
    uint64_t bytes;
};
pennon_status file_verify(const struct call *c, struct file_reader *r, blob_locate_fn external, void *external_ctx,
                          finding_fn finding, void *ctx, struct file_verified *counts, pennon_error *err) CHECKED;
/* How the rows between two page ends are walked. SAME: no bytes tell them apart, each is like the first; FRAME: a read of any of them decompresses
 * all. */
enum stretch_kind { STRETCH_PLAIN, STRETCH_SAME, STRETCH_FRAME };
/* The stretch from row `at` to the next end of a page of the projection's columns. What cannot be told is PLAIN. */
pennon_status file_stretch(const struct call *c, struct file_reader *r, const struct file_projection *p, uint64_t at, uint64_t *end,
                           enum stretch_kind *kind, pennon_error *err) CHECKED;

/* ---- writing ---- */

struct file_writer;

/* An external blob in the data: the id of the base that it lies under (0 = none) and what the descriptor says, appended to `stored`: the path below the
 * base, or the whole URI. An error when the table may not refer to it. */
typedef pennon_status (*blob_reference_fn)(void *ctx, const struct call *c, struct bytes uri, uint32_t *base_id, struct buf *stored,
                                           pennon_error *err);

/* What stands for a blob v2 whose `uri` is a name of the caller's: bytes to copy, or a reference as the descriptor keeps it. */
struct blob_given {
    bool copy;
    pennon_store *store; /* copy: borrowed; the bytes are there */
    const char *path;
    uint64_t position, size;
    uint32_t base_id;
    struct bytes uri; /* else: kept with base id, position and size */
};
typedef pennon_status (*blob_given_fn)(void *ctx, const struct call *c, struct bytes name, struct blob_given *out,
                                       pennon_error *err);

/* The blob_given_fn of rows that were read with BLOB_AS_INPUT: references to external blobs are kept as the old file has them. */
pennon_status blob_carried_given(void *ctx, const struct call *c, struct bytes name, struct blob_given *out, pennon_error *err);

struct file_writer_options {
    uint32_t version;                 /* STORAGE_2_0, 2_1, 2_2 */
    uint64_t page_bytes;              /* buffered Arrow bytes of a column that make a page; 0 = 2 MiB */
    uint64_t max_page_bytes;          /* 2.0: cut; 0 = 32 MiB */
    bool allow_loss;                  /* 2.0: nulls of structs are dropped, else INVALID_ARGUMENT */
    bool copy_external;               /* blob v2: the bytes of external blobs are read and written as any others */
    blob_reference_fn blob_reference; /* blob v2: references to external blobs; NULL = they are refused */
    void *blob_reference_ctx;
    blob_given_fn
        blob_given; /* blob v2: every URI is a name that it knows; before copy_external and blob_reference. NULL = URIs are URIs */
    void *blob_given_ctx;
    uint64_t pack_bytes; /* blob v2: of a pack file at most; 0 = as the column's metadata say, or 1 GiB */
};

/* `schema` has ids; its metadata and field metadata go into the file. Retains it. NOT_SUPPORTED names field and type that the version cannot hold. */
pennon_status file_writer_open(const struct call *c, pennon_store *store, const char *path, struct schema *schema,
                               const struct file_writer_options *o, struct file_writer **out, pennon_error *err) CHECKED;
/* A batch of the schema's Arrow form (SCHEMA_VIEW_FILE, BLOB_AS_INPUT, validated FULL), fields in the schema's order; moved, on failure too. Values are
 * checked against nullable = false. Values of blobs are written at once: v2 also into sidecars, files in a folder named as the data file without
 * ".lance", which a failure removes. INVALID_ARGUMENT names the column and value of a blob that is none. */
pennon_status file_writer_write(const struct call *c, struct file_writer *w, struct ArrowArray *batch, pennon_error *err) CHECKED;
pennon_status file_writer_add_buffer(const struct call *c, struct file_writer *w, struct bytes buffer, uint32_t *index,
                                     pennon_error *err) CHECKED;
/* Schema metadata; may come after batches. */
pennon_status file_writer_add_metadata(struct file_writer *w, struct bytes key, struct bytes value, pennon_error *err) CHECKED;
uint64_t file_writer_rows(const struct file_writer *w);
uint64_t file_writer_position(const struct file_writer *w); /* bytes written or certain to be */

struct written_file {
    uint64_t rows;
    uint64_t size;
    int32_t *fields; /* ids as DataFile.fields, in c->mem; free with mem_free */
    int32_t *columns;
    size_t n_fields;
    uint32_t n_sidecars; /* blob files beside it, ids 1 … n_sidecars */
};
/* Ends the file and makes it visible; frees `w`, also on failure. */
pennon_status file_writer_finish(const struct call *c, struct file_writer *w, struct written_file *out, pennon_error *err) CHECKED;
void file_writer_abort(struct file_writer *w); /* NULL is allowed */
/* A column of a file, whose pages go into another. */
struct page_source {
    struct file_reader *reader;
    uint32_t column;
};
/* Can the pages be copied: does nothing in the file belong to the column beside them? Loads the column. */
pennon_status file_column_copyable(const struct call *c, struct file_reader *r, uint32_t column, bool *out,
                                   pennon_error *err) CHECKED;
/* Columns of the writer's file, in the order of schema_walk_columns. */
uint32_t file_writer_columns(const struct file_writer *w);
/* `rows` rows behind those that are there: pages of files of the writer's version, a source for every column of the writer, each of which is copyable. Nothing
 * else is written by this writer, which has no blobs. `batch_bytes` are read at once, about. CORRUPT: pages of another number of rows. */
pennon_status file_writer_copy(const struct call *c, struct file_writer *w, const struct page_source *sources, uint64_t rows,
                               uint64_t batch_bytes, pennon_error *err) CHECKED;
/* Remove the sidecars 1 … n of the data file at `path`, best effort. */
void file_remove_sidecars(const struct call *c, pennon_store *store, const char *path, uint32_t n);

#endif
