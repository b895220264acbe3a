/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Reading the pages of 2.1 and later files: machines without I/O.
 *
 * A leaf column is a list of pages. For a set of rows the caller asks each page which bytes it needs, reads them, and has the
 * rows decoded into a `struct leaf_out`, which grows page by page and in the end becomes Arrow buffers without a copy:
 *
 *     page_open            parse the layout; no bytes of the file needed yet
 *     page_init_ranges     ranges that every use of the page needs (chunk words, repetition index, dictionary), perhaps none
 *     page_init            their bytes; the page keeps what it needs and is immutable and thread safe from then on
 *     page_plan            rows -> ranges
 *     page_decode          the bytes of the ranges -> values, levels and structure appended to a leaf_out
 *
 * Rows are top-level rows of the page (for FSL of struct: rows times dimension), as sorted ranges that do not overlap.
 * Everything that comes from the file is checked: CORRUPT, with a message that names the part.
 * Source: spec file-format 5, 6, 8, 12. */
#ifndef ENCODING_PAGE_READ_H
#define ENCODING_PAGE_READ_H

#include "arrow/arrow.h"
#include "encoding/codec.h"
#include "wire/messages.h"

/* ---- what a leaf holds ---- */

enum leaf_kind {
    LEAF_NULL,       /* no values */
    LEAF_BITS,       /* one bit a value */
    LEAF_FIXED,      /* `width` bytes a value */
    LEAF_VARIABLE,   /* text or binary; offsets of 8 bytes in the result when `large` */
    LEAF_DICTIONARY, /* Arrow dictionary: indices of `width` bytes, `value` describes the items */
    LEAF_PACKED,     /* struct in one column: children without levels of their own */
    LEAF_BLOB        /* blob v1: position and size, two u64 */
};

#define LEAF_MAX_DIMS 8u

struct leaf_type {
    enum leaf_kind kind;
    uint32_t width; /* bytes of a fixed item or a dictionary index */
    bool large;
    bool signed_keys; /* dictionary: the index type is signed */
    uint32_t n_dims;  /* fixed size list of LEAF_BITS or LEAF_FIXED items: dimensions, outermost first; 0 = no list */
    uint32_t dims[LEAF_MAX_DIMS];
    const struct leaf_type *value;    /* dictionary items */
    const struct leaf_type *children; /* packed struct */
    uint32_t n_children;
};

/* Items in one value: the product of the dimensions. */
uint64_t leaf_items(const struct leaf_type *t);

/* ---- structure above a leaf ---- */

enum layer_role {
    ROLE_ITEM, /* the leaf itself, a struct, a map's entries */
    ROLE_LIST, /* list, large list, map */
    ROLE_FSL   /* fixed size list of struct: `dimension` inner positions a value */
};

/* One ancestor of a leaf (or the leaf itself), from the leaf outward. */
struct layer_spec {
    enum layer_role role;
    bool large;         /* lists: 8-byte offsets */
    uint32_t dimension; /* ROLE_FSL */
};

#define LAYERS_MAX 64u

/* Validity and offsets of one layer, growing. */
struct layer_out {
    uint64_t length;
    uint64_t nulls;
    bool has_validity; /* `validity` holds `length` bits; made at the first null */
    struct buf validity;
    struct buf offsets; /* lists: length + 1 offsets, the first 0 */
    uint64_t items;     /* lists: the last offset */
};

/* ---- the growing result of one leaf ---- */

struct leaf_out {
    struct mem *mem;
    const struct leaf_type *type;
    uint64_t n;           /* values */
    struct buf values;    /* fixed: n * items * width bytes; bits: bitmap; dictionary: indices */
    struct block *mapped; /* fixed: reference; then the values are at mapped_at in it, and `values` is empty */
    const uint8_t *mapped_at;
    struct buf offsets;                      /* variable: n + 1 offsets of 4 or 8 bytes */
    struct buf data;                         /* variable: bytes */
    struct buf item_validity[LEAF_MAX_DIMS]; /* list k: a bit an item of list k; empty = all valid so far */
    bool has_item_validity[LEAF_MAX_DIMS];
    struct leaf_out *children; /* packed */
    /* Dictionary: the items of each page that gave indices, in order. Pages with equal items share one. */
    struct leaf_out **dictionaries;
    uint64_t *dictionary_ends; /* index of the first value behind those that use dictionary i */
    size_t n_dictionaries, cap_dictionaries, cap_ends;
    const struct layer_spec *specs; /* n_layers, borrowed; specs[0] is the leaf */
    struct layer_out *layers;
    uint32_t n_layers;
};

/* `type` and `specs` are borrowed and must outlive the result. n_layers >= 1, except for children and dictionary items: 0. */
pennon_status leaf_out_init(struct leaf_out *o, const struct leaf_type *type, const struct layer_spec *specs, uint32_t n_layers,
                            struct mem *mem, pennon_error *err) CHECKED;
void leaf_out_free(struct leaf_out *o);
/* The values as an Arrow array of `schema` (the leaf's Arrow type; for blobs struct<position, size>); validity from layer 0. The
 * buffers move out of `o`. For LEAF_DICTIONARY different page dictionaries become one. INVALID_ARGUMENT (kind "OffsetOverflow") when 32-bit offsets are
 * too small. */
pennon_status leaf_out_finish(struct leaf_out *o, const struct ArrowSchema *schema, struct ArrowArray *out,
                              pennon_error *err) CHECKED;

/* All values of an empty leaf_out lie in the block: n of them (rows without nulls), which takes no memory. `at` is aligned to the items. The reference is
 * the leaf's, on failure too. */
pennon_status leaf_out_map(struct leaf_out *o, struct block *block, const uint8_t *at, uint64_t n, pennon_error *err) CHECKED;

/* Append: used by the page kinds. */
pennon_status leaf_append_zero(struct leaf_out *o, uint64_t n, pennon_error *err) CHECKED; /* empty or zero values */
/* The same without touching item validity, which the caller has appended. */
pennon_status leaf_append_zero_values(struct leaf_out *o, uint64_t n, pennon_error *err) CHECKED;
pennon_status leaf_append_fixed(struct leaf_out *o, const uint8_t *values, uint64_t n,
                                pennon_error *err) CHECKED; /* FIXED, whole values */
pennon_status leaf_append_bits(struct leaf_out *o, const uint8_t *bits, uint64_t first, uint64_t n,
                               pennon_error *err) CHECKED; /* n values */
pennon_status leaf_append_variable(struct leaf_out *o, const struct variable_view *v, uint64_t first, uint64_t n,
                                   pennon_error *err) CHECKED;
pennon_status leaf_append_fsst(struct leaf_out *o, const struct fsst_decoder *d, const struct variable_view *v, uint64_t first,
                               uint64_t n, pennon_error *err) CHECKED; /* FSST codes */
pennon_status leaf_append_fsst_value(struct leaf_out *o, const struct fsst_decoder *d, struct bytes codes,
                                     pennon_error *err) CHECKED;                                   /* one value */
pennon_status leaf_append_text(struct leaf_out *o, struct bytes value, pennon_error *err) CHECKED; /* one variable value */
/* Repeat value `i` of `from` (same type) n times; gather values by index. */
pennon_status leaf_append_repeat(struct leaf_out *o, const struct leaf_out *from, uint64_t i, uint64_t n,
                                 pennon_error *err) CHECKED;
pennon_status leaf_append_gather(struct leaf_out *o, const struct leaf_out *from, unsigned index_width, const uint8_t *indices,
                                 uint64_t n, pennon_error *err) CHECKED;
/* The same from a bit position in items instead of values: n values of LEAF_BITS. */
pennon_status leaf_append_item_bits(struct leaf_out *o, const uint8_t *bits, uint64_t first_bit, uint64_t n,
                                    pennon_error *err) CHECKED;
/* Item validity of list `dim` for values [o->n, o->n + n): bits from `first`, or NULL = all valid. Call before the values. */
pennon_status leaf_append_item_validity(struct leaf_out *o, uint32_t dim, const uint8_t *bits, uint64_t first, uint64_t n,
                                        pennon_error *err) CHECKED;
/* The same with `first_bit` counted in items of that list; and for items that are all null. */
pennon_status leaf_append_item_validity_bits(struct leaf_out *o, uint32_t dim, const uint8_t *bits, uint64_t first_bit, uint64_t n,
                                             pennon_error *err) CHECKED;
pennon_status leaf_append_item_nulls(struct leaf_out *o, uint32_t dim, uint64_t n, pennon_error *err) CHECKED;
/* Put the items of a dictionary (taken: moved out of `items`) behind the last one, or share that when it is the same; the caller appends the keys and
 * then sets dictionary_ends[n_dictionaries - 1] to the number of values. */
pennon_status leaf_add_dictionary(struct leaf_out *o, struct leaf_out *items, pennon_error *err) CHECKED;

/* Append to a layer: n positions that are all valid or all null; n bits from `first`; for lists, n ends in items (INVALID_ARGUMENT with kind
 * "OffsetOverflow" past 32-bit offsets), which does not change `length` or `items`. */
pennon_status layer_append_run(struct layer_out *l, uint64_t n, bool valid, pennon_error *err) CHECKED;
pennon_status layer_append_bits(struct layer_out *l, const uint8_t *bits, uint64_t first, uint64_t n, pennon_error *err) CHECKED;
pennon_status layer_append_ends(struct layer_out *l, bool large, const uint64_t *ends, uint64_t n, pennon_error *err) CHECKED;

/* ---- levels -> structure ---- */

/* Kinds of the layers of one page, leaf outward, checked against the specs. */
struct layer_kinds {
    uint32_t n;
    uint8_t kind[LAYERS_MAX];         /* LAYER_ */
    uint16_t null_level[LAYERS_MAX];  /* 0 = none */
    uint16_t empty_level[LAYERS_MAX]; /* 0 = none */
    uint16_t max_visible;             /* highest level of a position that has a value slot */
    uint16_t max_rep;                 /* list layers */
    uint16_t max_def;
};
pennon_status layer_kinds_parse(const uint32_t *layers, size_t n, const struct layer_spec *specs, uint32_t n_specs,
                                struct layer_kinds *out, pennon_error *err) CHECKED;
/* Append the structure of n level positions; rep or def NULL = all zero. The arrays are scratch and are overwritten. Whole rows only.
 * CORRUPT: levels out of range, a row that does not start with max_rep. `values` gets the number of visible positions. */
pennon_status levels_unravel(const struct layer_kinds *kinds, uint16_t *rep, uint16_t *def, uint64_t n, struct leaf_out *o,
                             uint64_t *values, pennon_error *err) CHECKED;

/* ---- pages ---- */

struct page_buffer {
    uint64_t offset; /* in the file */
    uint64_t size;
};

struct page_desc {
    uint64_t rows; /* Page.length */
    uint64_t priority;
    const struct page_buffer *buffers; /* checked to lie in the file */
    uint32_t n_buffers;
    struct bytes layout; /* PageLayout message */
};

struct row_range {
    uint64_t start; /* first row */
    uint64_t end;   /* behind the last; start < end */
};

struct page;
/* Parse. `type` and `specs` are borrowed; `desc` is copied. NOT_SUPPORTED: sparse layout. The page is reference counted by its owner, not
 * here. */
pennon_status page_open(struct mem *mem, const struct page_desc *desc, const struct leaf_type *type, const struct layer_spec *specs,
                        uint32_t n_specs, struct page **out, pennon_error *err) CHECKED;
void page_free(struct page *p); /* NULL is allowed */

#define PAGE_INIT_MAX 4u
/* Ranges for page_init; *n = 0 when nothing is needed. `whole` says that the page will be scanned, which loads more. */
void page_init_ranges(const struct page *p, struct page_buffer out[PAGE_INIT_MAX], uint32_t *n);
/* One call, before any plan. `bytes[i]` belongs to range i; borrowed during the call. */
pennon_status page_init(struct page *p, const struct bytes *bytes, pennon_error *err) CHECKED;

/* The bytes that a set of rows needs. */
struct page_plan {
    struct mem *mem;
    const struct call *call; /* set by the caller: whose cancel and deadline end the decoding; NULL = nobody's */
    struct row_range *rows;  /* copied */
    size_t n_rows;
    uint64_t row_count;
    struct page_buffer *ranges; /* to read, sorted by offset */
    size_t n_ranges;
    uint32_t *parts; /* private to the page kind: per row range */
    size_t n_parts;
};
pennon_status page_plan(const struct page *p, struct mem *mem, const struct row_range *rows, size_t n, struct page_plan *out,
                        pennon_error *err) CHECKED;
void page_plan_free(struct page_plan *plan);
/* Decode all rows of the plan. `bytes[i]` belongs to plan->ranges[i] and is exactly as long. `o` was made with the page's type and specs; after a
 * failure it may only be freed. */
pennon_status page_decode(const struct page *p, const struct page_plan *plan, const struct bytes *bytes, struct leaf_out *o,
                          pennon_error *err) CHECKED;

/* Do the rows lie in the file as Arrow has them: values of fixed width side by side, uncompressed, without nulls? Then where. The page is initialised. */
bool page_flat_rows(const struct page *p, const struct row_range *rows, struct page_buffer *out);
/* Are all rows the same, so that the page's bytes say nothing of their number? Known once the page is open. */
bool page_is_uniform(const struct page *p);
/* What the page is, as text ("mini-block: fsst, levels rep+def, 12 chunks"); for inspection. */
pennon_status page_describe(const struct page *p, struct buf *out, pennon_error *err) CHECKED;

#endif
