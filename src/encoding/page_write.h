/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing the pages of 2.1 and 2.2 files: one buffered stretch of a leaf column becomes one page, or several where the level
 * budget says so. Choices follow official's, so that files have the same size.
 *
 *     page_options_init(&options);
 *     TRY(page_options_read(&options, pairs, n_pairs, false, version, err));      of the leaf's field
 *     TRY(page_options_read(&options, top_pairs, n_top_pairs, true, version, err)); of its top-level field
 *     TRY(column_pages_write(mem, &leaf, &options, version, batches, n, &pages, err));
 *     for each page: write the buffers, each 64-byte aligned; remember offsets, sizes, `length`, `first_row`, `layout`
 *     page_set_free(&pages);
 *
 * Everything here is pure: no I/O. Different columns may be written by different threads.
 * Source: spec file-format 6, 8, 9, 10, 18. */
#ifndef ENCODING_PAGE_WRITE_H
#define ENCODING_PAGE_WRITE_H

#include "encoding/levels.h"
#include "schema/schema.h"

/* ---- what the field's metadata asks for (section 10) ---- */

enum page_compression {
    PAGE_COMPRESSION_AUTO,
    PAGE_COMPRESSION_NONE,
    PAGE_COMPRESSION_FSST,
    PAGE_COMPRESSION_LZ4,
    PAGE_COMPRESSION_ZSTD
};
enum page_structure { PAGE_STRUCTURE_AUTO, PAGE_STRUCTURE_MINI_BLOCK, PAGE_STRUCTURE_FULL_ZIP };
enum page_bss { PAGE_BSS_AUTO, PAGE_BSS_OFF, PAGE_BSS_ON };

struct page_options {
    enum page_compression compression;
    int32_t compression_level; /* 0 = default */
    bool has_level;
    bool has_rle_threshold;
    double rle_threshold;
    enum page_bss bss;
    uint64_t chunk_size; /* bytes of a variable width chunk */
    uint64_t dict_divisor;
    double dict_size_ratio;
    enum page_compression dict_values_compression;
    int32_t dict_values_level;
    bool has_dict_values_level;
    enum page_structure structure;
    bool binary;             /* set by the caller for binary and large_binary: no automatic FSST */
    const struct call *call; /* set by the caller: whose cancel and deadline end the encoding; NULL = nobody's */
};

void page_options_init(struct page_options *o);
/* Take the keys out of a field's metadata. `top` reads lance-encoding:structural-encoding alone, else all the others. INVALID_ARGUMENT names
 * a key whose value official refuses; values that official ignores are ignored. */
pennon_status page_options_read(struct page_options *o, const struct field_pair *pairs, size_t n, bool top, uint32_t version,
                                pennon_error *err) CHECKED;

/* ---- a leaf column ---- */

/* The children of a packed struct have types in leaf_type.children; `options` per child may be NULL for defaults. */
struct leaf_column {
    const struct leaf_type *type;
    const struct layer_spec *specs; /* n_layers, leaf outward */
    uint32_t n_layers;
    const struct page_options *children; /* LEAF_PACKED: type->n_children entries, or NULL */
};

/* One batch of the column. Arrays are validated (FULL) and borrowed. LEAF_BLOB: two words a slot, position and size, in host order; nulls are ignored. */
struct column_batch {
    const struct ArrowArray *const *arrays; /* n_layers: arrays[i] belongs to specs[i]; the last is the top-level array */
    uint64_t first_row;                     /* slots of the top-level array that belong to the page */
    uint64_t n_rows;
};

/* ---- the result ---- */

#define PAGE_BUFFERS_MAX (LEAF_MAX_DIMS + 2u)

struct page_bytes {
    struct buf buffers[PAGE_BUFFERS_MAX];
    uint32_t n_buffers;
    struct buf layout;  /* PageLayout message */
    uint64_t length;    /* Page.length: rows, times the dimension of fixed size lists of struct */
    uint64_t first_row; /* counted from the first row of the first batch; add the rows written before for Page.priority */
    uint64_t n_rows;
};

struct page_set {
    struct mem *mem;
    struct page_bytes *pages;
    size_t n, cap;
};

/* Encode the batches (together at least one row) as one page, or as many as the level budget needs. `version` is STORAGE_2_1 or _2_2.
 * NOT_SUPPORTED names what the version or official's reader cannot hold: packed structs with variable children below 2.2, nulls inside packed
 * structs, blobs in 2.2 or in lists, one row with too many levels, values too large for a chunk that cannot be full-zip.
 * `out` is to be freed in any case. */
pennon_status column_pages_write(struct mem *mem, const struct leaf_column *column, const struct page_options *options,
                                 uint32_t version, const struct column_batch *batches, size_t n_batches, struct page_set *out,
                                 pennon_error *err) CHECKED;
/* One more page, with empty buffers. */
pennon_status page_set_add(struct page_set *s, struct page_bytes **out, pennon_error *err) CHECKED;
void page_set_free(struct page_set *s);

#endif
