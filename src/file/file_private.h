/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside of the file reader. Private to src/file. */
#ifndef FILE_FILE_PRIVATE_H
#define FILE_FILE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "encoding/array20.h"
#include "file/file.h"

/* A page that is kept open while it is read, and after that while there is room. */
struct open_page {
    struct page *page; /* NULL = not opened */
    uint32_t users;    /* reads that use it now */
};

/* One column of the file: its metadata is parsed on first use, its pages are opened on first use. In 0.1 a column is a line of the page table, its pages
 * are the batches, only `pages` and `n_pages` are set, and a page's one buffer says where it begins (size 0: the type tells it). */
struct file_column {
    bool parsed;
    bool typed;            /* type and specs are set */
    struct leaf_type type; /* children and value types live in the reader's arena */
    struct layer_spec *specs;
    uint32_t n_specs;
    uint32_t dimension;    /* positions a row: product of FSL-of-struct dimensions */
    struct bytes encoding; /* ColumnEncoding message */
    size_t n_buffers;      /* of the column itself */
    size_t n_pages;
    struct page_desc *pages;
    uint64_t *starts;        /* n_pages + 1 first rows, in units of Page.length */
    struct open_page *open;  /* of 2.1 and later; guarded by the lock */
    struct array20 **arrays; /* the same for version 2.0 */
    uint64_t *item_starts;   /* 2.0, lists: n_pages + 1 first items; NULL = not known yet */
};

struct file_reader {
    struct mem *mem;
    struct mem *pages_mem; /* of open pages; a part of mem */
    pennon_store *store;
    char *path;
    uint64_t size;
    uint32_t version;
    uint64_t rows;
    uint32_t n_columns;
    uint32_t n_globals;
    struct page_buffer *column_places; /* CMO table */
    struct page_buffer *globals;       /* GBO table */
    struct block *tail;                /* the bytes [size - tail->size, size) */
    struct block *descriptor;          /* FileDescriptor bytes */
    struct block *mapping;             /* of the file; NULL = not asked for, or not possible; guarded by the lock */
    bool mapping_tried;
    struct file_column *columns;
    struct schema *schema; /* of the FileDescriptor, made on first use */
    struct arena arena;    /* guarded by lock */
    pthread_mutex_t lock;
    _Atomic(uint32_t) refs;
    struct legacy_file *legacy; /* 0.1, else NULL */
};

/* Errors of a file: add path, column, page, offset where unknown. */
pennon_status file_where(const struct file_reader *r, pennon_status st, int64_t column, int64_t page, int64_t offset,
                         pennon_error *err);

/* Bytes [offset, offset + size) as a view into the tail, or NULL data when they are not all there. */
struct bytes file_tail_view(const struct file_reader *r, uint64_t offset, uint64_t size);
/* Bytes of the file, which must lie in it, as a block: a copy of the tail, or a read. */
pennon_status file_read_bytes(const struct call *c, struct file_reader *r, uint64_t offset, uint64_t size, struct block **out,
                              pennon_error *err) CHECKED;
/* The mapping of the file, borrowed from the reader; NULL = it has none. */
pennon_status file_mapping(struct file_reader *r, struct block **out, pennon_error *err) CHECKED;
/* Parse the metadata of these columns; reads what is not in the tail in one request. */
pennon_status file_load_columns(const struct call *c, struct file_reader *r, const uint32_t *columns, size_t n,
                                pennon_error *err) CHECKED;

/* A node of a projection: a field and, below it, its children or its leaf. */
struct file_node {
    const struct field *field;
    uint32_t column;              /* leaves (and lists in 2.0); not in 0.1 */
    const struct leaf_type *type; /* leaves in 0.1: in the projection's arena */
    bool is_leaf;
    uint32_t leaf;  /* leaves: index; others: first leaf below */
    uint32_t layer; /* index of this field's layer in the specs of that leaf */
    struct file_node *children;
    uint32_t n_children;
};

struct file_projection {
    struct mem *mem;
    struct arena arena;
    struct file_reader *reader; /* retained */
    struct schema *schema;      /* retained */
    enum blob_handling blobs;
    int32_t first_id; /* 0.1: field id of the page table's first line; negative = as the file's own schema says */
    struct ArrowSchema arrow;
    struct ArrowSchema decoded; /* what pages give: the same with descriptors of blobs */
    bool has_blobs;
    blob_locate_fn external; /* NULL = external blobs are refused */
    void *external_ctx;
    bool map;                /* hand out parts of a mapping */
    bool no_external;        /* external blobs are taken for empty: a walk over the file's own bytes */
    struct file_node *nodes; /* top level */
    uint32_t n_nodes;
    uint32_t *leaf_columns; /* column of each leaf, in walk order */
    const struct file_node **leaf_nodes;
    uint32_t n_leaves;
};

/* Leaf type and layers of a field and its ancestors, in `a`. */
pennon_status leaf_type_of(struct arena *a, const struct field *f, struct leaf_type *out, pennon_error *err) CHECKED;
pennon_status layer_specs_of(struct arena *a, const struct field *leaf, struct layer_spec **specs, uint32_t *n, uint32_t *dimension,
                             pennon_error *err) CHECKED;
/* Leaf type of a type that has no children fields (list items, dictionary values, packed children). */
pennon_status leaf_type_of_arrow(struct arena *a, const struct ArrowSchema *schema, struct leaf_type *out,
                                 pennon_error *err) CHECKED;

/* The page of n that holds `row`, or pages without rows before it, by their first rows. */
size_t file_find_page(const uint64_t *starts, size_t n, uint64_t row);
/* Validity and offsets (n_buffers = 2) of a layer as an array with empty children. */
pennon_status file_layer_array(struct layer_out *l, size_t n_buffers, size_t n_children, struct mem *m, struct ArrowArray *out,
                               pennon_error *err) CHECKED;
/* The arrays of the leaves -> the struct of the projection. `leaves` are finished and freed by the caller. */
pennon_status file_assemble(const struct file_projection *p, struct leaf_out *leaves, uint64_t rows, struct mem *m,
                            struct ArrowArray *out, pennon_error *err) CHECKED;

/* Versions 2.0 and 0.1 (read20.c). */
pennon_status file_read_v20(const struct call *c, struct file_reader *r, const struct file_projection *p,
                            const struct row_range *rows, size_t n, struct ArrowArray *out, pennon_error *err) CHECKED;
uint64_t file_estimate_v20(struct file_reader *r, const struct file_projection *p, uint64_t rows);

/* ---- version 0.1 (legacy.c) ---- */

struct legacy_file;
/* `tail` holds the last bytes of the file; fills rows and legacy. */
pennon_status legacy_open(const struct call *c, struct file_reader *r, pennon_error *err) CHECKED;
void legacy_free(struct file_reader *r);
/* Does the file say its schema itself? */
bool legacy_has_schema(const struct file_reader *r);
/* The schema in the file, with the bytes of its dictionaries. NOT_SUPPORTED: it has none. */
pennon_status legacy_read_schema(const struct call *c, struct file_reader *r, struct schema **out, pennon_error *err) CHECKED;
/* First row of each batch: n + 1 of them. */
const uint64_t *legacy_starts(const struct file_reader *r);
/* A line of the page table that is wanted; as a list its pages have one offset more than rows. */
struct legacy_line {
    int32_t id; /* of the field */
    bool list;
    uint32_t line;                    /* the answer: which line it is */
    const struct file_column *column; /* and what is in it */
};
/* Find the lines of these fields and read those that are not there yet, in one request. `first_id`: of the table's first line; negative = as the file's
 * own schema says. The answers live as long as the reader. */
pennon_status legacy_find_lines(const struct call *c, struct file_reader *r, int32_t first_id, struct legacy_line *lines, size_t n,
                                pennon_error *err) CHECKED;
/* Open the first rows of one page for reading; `list_items`: items of the batch; `items` of dictionaries, else NULL. */
pennon_status legacy_open_page(struct file_reader *r, const struct file_column *col, const struct file_node *node, size_t page,
                               uint64_t rows, uint64_t list_items, const struct array20_items *items, struct array20 **out,
                               pennon_error *err) CHECKED;
/* Where the values of a dictionary field are: in the table's manifest, or in the file itself. `a` holds the parts. */
pennon_status legacy_dictionary(const struct call *c, struct file_reader *r, const struct schema *schema, const struct field *f,
                                struct arena *a, struct array20_items *out, pennon_error *err) CHECKED;

/* Folder of the sidecars of a data file; NULL with INVALID_ARGUMENT when the name does not end in ".lance". Path of one of them. In m. */
char *file_sidecar_folder(struct mem *m, const char *path, pennon_error *err) CHECKED;
char *file_sidecar_path(struct mem *m, const char *folder, uint32_t id, pennon_error *err) CHECKED;

/* ---- many byte ranges of the file ---- */

struct fetch {
    struct mem *mem;
    struct page_buffer *ranges; /* wanted; any order */
    size_t n, cap;
    struct bytes *bytes; /* after fetch_run: one a range */
    struct block **blocks;
    size_t n_blocks;
};
void fetch_init(struct fetch *f, struct mem *m);
void fetch_free(struct fetch *f);
pennon_status fetch_add(struct fetch *f, uint64_t offset, uint64_t size, pennon_error *err) CHECKED;
/* Sort, coalesce, read. */
pennon_status fetch_run(const struct call *c, struct file_reader *r, struct fetch *f, pennon_error *err) CHECKED;

#endif
