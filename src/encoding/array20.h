/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Pages of version 2.0 files, trees of ArrayEncoding, and those of 0.1, as machines without I/O.
 *
 *     TRY(array20_open(mem, &desc, &type, &page, err));           parse and check; immutable and thread safe from then on
 *     TRY(array20_read_begin(page, mem, rows, n, &read, err));    rows of the page -> first ranges
 *     while (array20_read_wants(read, &ranges, &n), n) { fetch; TRY(array20_read_feed(read, bytes, err)); }
 *     TRY(array20_read_decode(read, &leaf, err));                 values and nulls appended to the leaf's result
 *
 * Text takes two rounds (end offsets, then bytes), everything else one; a dictionary's items are read beside its keys. Random access reads the
 * bytes of the wanted rows alone, except for compressed text, which is one frame.
 * Source: spec file-format 13, 15. */
#ifndef ENCODING_ARRAY20_H
#define ENCODING_ARRAY20_H

#include "encoding/page_read.h"

struct array20;
struct array20_read;

/* `type` NULL: the end offsets of a list. `type` is borrowed and must outlive the page; `desc` is copied, but for its layout, which must live as
 * long. CORRUPT; NOT_SUPPORTED names the encoding. */
pennon_status array20_open(struct mem *m, const struct page_desc *desc, const struct leaf_type *type, struct array20 **out,
                           pennon_error *err) CHECKED;

/* Bytes of a file that are in memory. */
struct array20_part {
    uint64_t at; /* in the file */
    struct bytes bytes;
};
/* The items of a dictionary of version 0.1: a page of their own, in a file of its own, which lies in memory as far as it is needed. */
struct array20_items {
    uint64_t position; /* as in array20_plain */
    uint64_t n;
    uint64_t file_size;
    const struct array20_part *parts;
    size_t n_parts;
};
/* A page of version 0.1: values at a position of the file. Text: rows + 1 offsets (i64) into the file; lists: rows + 1 offsets (i32 or i64) into the items
 * of the batch. */
struct array20_plain {
    uint64_t position;
    uint64_t rows;
    uint64_t file_size;
    bool empty_is_null;                /* text */
    bool large;                        /* lists: offsets of 8 bytes */
    uint64_t list_items;               /* lists: items of the batch */
    const struct array20_items *items; /* dictionary; its parts must outlive the page */
};
/* `type` as above. CORRUPT: the page does not lie in the file; NOT_SUPPORTED names what this version has no form for. */
pennon_status array20_open_plain(struct mem *m, const struct array20_plain *page, const struct leaf_type *type,
                                 struct array20 **out, pennon_error *err) CHECKED;
/* Bytes of the page without those of text; `offset` is where it lies. */
struct page_buffer array20_plain_place(const struct array20 *a);
void array20_free(struct array20 *a); /* NULL is allowed */
/* Was it opened as list offsets? */
bool array20_is_list(const struct array20 *a);
/* List offsets: items that the lists of the page hold. */
uint64_t array20_list_items(const struct array20 *a);
/* Are all rows the same, so that the page's bytes say nothing of their number? */
bool array20_is_uniform(const struct array20 *a);
/* Is a part of the page one compressed frame, which every read decompresses as a whole? */
bool array20_is_framed(const struct array20 *a);
/* "nullable(some, flat(32))"; for inspection. */
pennon_status array20_describe(const struct array20 *a, struct buf *out, pennon_error *err) CHECKED;

/* Sorted ranges that do not overlap, inside the page; borrowed until free. */
pennon_status array20_read_begin(const struct array20 *a, struct mem *m, const struct row_range *rows, size_t n,
                                 struct array20_read **out, pennon_error *err) CHECKED;
void array20_read_free(struct array20_read *r); /* NULL is allowed */
/* Ranges of the file that are wanted next, each inside a buffer of the page; *n = 0: ready to decode. */
void array20_read_wants(const struct array20_read *r, const struct page_buffer **ranges, size_t *n);
/* bytes[i] belongs to range i and is exactly as long; the bytes must live until free. */
pennon_status array20_read_feed(struct array20_read *r, const struct bytes *bytes, pennon_error *err) CHECKED;
/* Append all rows. `o` was made with the type of the page and at least one layer. */
pennon_status array20_read_decode(struct array20_read *r, struct leaf_out *o, pennon_error *err) CHECKED;
/* List offsets: append the lists to `l`, and the items that they hold to `items`: one range (counted from the first item of the page, perhaps
 * empty) for each row range. */
pennon_status array20_read_lists(struct array20_read *r, bool large, struct layer_out *l, struct row_range *items,
                                 pennon_error *err) CHECKED;

#endif
