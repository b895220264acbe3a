/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside of the file writer. Private to src/file. */
#ifndef FILE_WRITER_PRIVATE_H
#define FILE_WRITER_PRIVATE_H

#include "encoding/array20_write.h"
#include "encoding/page_write.h"
#include "file/file_private.h"

#define WRITER_ALIGN 64u   /* of every buffer in a file */
#define WRITER_FILLER 0x48 /* bytes between buffers */

/* A page that stands in the file. */
struct written_page {
    uint64_t *offsets; /* n_buffers, in the writer's arena */
    uint64_t *sizes;
    uint32_t n_buffers;
    uint64_t length, priority;
    struct bytes layout;
};

/* A column that is being written. */
struct column_writer {
    const struct field *field;
    struct leaf_type type;
    struct layer_spec *specs;
    uint32_t n_specs, dimension;
    uint32_t *path; /* child indices from the batch down to the leaf, one an ancestor */
    uint32_t depth;
    struct page_options options;
    struct page_options *children; /* packed */
    uint64_t buffered;             /* Arrow bytes not yet in a stretch */
    uint64_t rows_cut;             /* rows in stretches or pages */
    uint64_t rows_done;            /* rows in pages */
    bool header;                   /* 2.0: of a struct */
    uint64_t header_rows;          /* of a header: all so far */
    struct written_page *pages;
    size_t n_pages, cap_pages;
};

/* Rows of a column that become pages on their own. Which rows these are depends on the input alone, not on when they are encoded. */
struct stretch {
    uint32_t column;
    uint64_t from, to; /* rows */
    uint64_t bytes;    /* of Arrow */
    struct page_set encoded;
};

/* A batch that some column still needs. Of the library's own a top-level column is released when all its rows are in pages: the others may wait for much
 * longer. */
struct held_batch {
    struct ArrowArray array;
    uint64_t whole_bytes; /* that go together, for foreign ones; 0 = column by column */
    uint64_t rows;
    uint64_t first_row;
};

/* Sidecars of the file: see blob_write.c. */
struct blob_files {
    char *folder;              /* NULL = no blob v2 column */
    uint32_t n_files;          /* ids used so far: 1 … n_files */
    struct store_writer *pack; /* open pack file, or NULL */
    uint32_t pack_id;
    uint64_t pack_size, pack_limit;
    uint64_t taken; /* bytes of values out of batches so far, v1 too */
};

struct file_writer {
    struct mem *mem;
    struct arena arena; /* written pages */
    struct schema *schema;
    struct ArrowSchema arrow; /* of the batches that are held: BLOB_AS_PLACE */
    pennon_store *store;      /* retained */
    struct call
        call; /* of the opening: its cancel and deadline end encodings; sidecars of a file that is given up are removed for it */
    struct blob_files blobs;
    bool has_blobs; /* of v2 */
    struct file_writer_options options;
    struct store_writer *out;
    char *path;
    struct column_writer *columns;
    uint32_t n_columns;
    int32_t *field_ids; /* of DataFile.fields */
    int32_t *field_columns;
    size_t n_field_ids, cap_ids, cap_columns;
    struct held_batch *held;
    size_t n_held, cap_held;
    struct stretch *stretches; /* not yet in pages, by their beginning in each column */
    size_t n_stretches, cap_stretches;
    uint64_t rows, buffered;
    uint64_t whole_bytes;        /* of the held batches */
    struct page_buffer *globals; /* user global buffers */
    size_t n_globals, cap_globals;
    struct map_entry *metadata; /* added ones */
    size_t n_metadata, cap_metadata;
};

/* Write bytes at the next multiple of 64; `at` gets their place. */
pennon_status writer_put_aligned(struct file_writer *w, struct bytes b, uint64_t *at, pennon_error *err) CHECKED;
/* Write the encoded pages and free them. */
pennon_status writer_put_pages(struct file_writer *w, struct stretch *s, pennon_error *err) CHECKED;
/* Offset `i` of a list or text, 4 or 8 bytes wide. */
uint64_t writer_offset_at(const struct ArrowArray *a, bool large, uint64_t i);
/* Slots of a child that the slots [start, start + count) of `a`, an array of field `f` (NULL = the batch), have. All are logical indices. */
void writer_child_slots(const struct field *f, const struct ArrowArray *a, uint64_t *start, uint64_t *count);
/* Rows of a batch that belong to a stretch, counted from the batch's first; false when there are none. */
bool writer_stretch_rows(const struct stretch *s, const struct held_batch *b, uint64_t *first, uint64_t *count);
const struct ArrowSchema *writer_column_schema(const struct file_writer *w, const struct column_writer *col);

/* ---- version 2.0: every field has a column ---- */

/* Refuse what the version cannot hold; type and options of the column. */
pennon_status v20_open_column(struct file_writer *w, struct column_writer *col, pennon_error *err) CHECKED;
/* Nulls of structs, which would be lost. */
pennon_status v20_check_batch(const struct file_writer *w, const struct ArrowArray *batch, pennon_error *err) CHECKED;
/* Arrow bytes that the column buffers for a batch. Counts the rows of a struct's header. */
uint64_t v20_batch_bytes(const struct file_writer *w, struct column_writer *col, const struct ArrowArray *top);
/* Mark the columns below a list that is due: pages of items are not shared by pages of lists. */
void v20_mark_due(const struct file_writer *w, bool *due);
pennon_status v20_encode_stretch(struct file_writer *w, struct stretch *s, pennon_error *err) CHECKED;
/* The pages of the structs' header columns, at the end. */
pennon_status v20_write_headers(struct file_writer *w, pennon_error *err) CHECKED;
bool v20_is_header(const struct column_writer *col);
/* Whether a column is of a field below that of another. */
bool v20_is_below(const struct file_writer *w, uint32_t column, uint32_t above);

#endif
