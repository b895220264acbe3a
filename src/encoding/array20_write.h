/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Writing the pages of version 2.0 files: one buffered stretch of a column becomes one page, or several where it is larger than a page may be.
 * Choices are official's. Everything here is pure: no I/O. Different columns may be written by different threads.
 * Source: spec file-format 13. */
#ifndef ENCODING_ARRAY20_WRITE_H
#define ENCODING_ARRAY20_WRITE_H

#include "encoding/page_write.h"

struct array20_column {
    const struct leaf_type *type;      /* NULL = the end offsets of a list */
    bool large;                        /* list: 8-byte offsets */
    enum page_compression compression; /* of text */
    bool has_level;
    int32_t level;
    bool binary;     /* text that is no utf8: no automatic dictionary */
    bool allow_loss; /* packed structs: nulls of children are dropped */
    uint64_t max_page_bytes;
    const struct call *call; /* whose cancel and deadline end the encoding; NULL = nobody's */
};

/* Slots [start, start + count) of one array, logical indices. Arrays are validated (FULL) and borrowed. */
struct array20_batch {
    const struct ArrowArray *array;
    uint64_t start;
    uint64_t count;
};

/* INVALID_ARGUMENT: nulls that would be lost. NOT_SUPPORTED: keys of a dictionary that cannot name the null item, packed children without a fixed
 * width. Page.length of page_bytes is in `length`. `out` is to be freed in any case. */
pennon_status array20_pages_write(struct mem *mem, const struct array20_column *column, const struct array20_batch *batches,
                                  size_t n_batches, struct page_set *out, pennon_error *err) CHECKED;
/* The page of a struct's header column: no buffers. */
pennon_status array20_header_write(struct mem *mem, uint64_t rows, struct page_set *out, pennon_error *err) CHECKED;

#endif
