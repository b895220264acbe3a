/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Inside of a page: shared by the page kinds. Private to src/encoding. */
#ifndef ENCODING_PAGE_PRIVATE_H
#define ENCODING_PAGE_PRIVATE_H

#include "encoding/value_read.h"

/* Decoding looks at the call once in so many chunks of a mini-block page, or rows of a full-zip page, which may be large. */
#define CHECK_CHUNKS 32u
#define CHECK_ROWS 256u

enum page_kind { PAGE_MINI, PAGE_ZIP, PAGE_CONSTANT };

/* Chunk map of a mini-block page. */
struct mini_page {
    const struct ce_message *rep, *def; /* NULL = none */
    const struct ce_message *dictionary;
    struct value_codec codec;    /* of the values, or of the dictionary indices */
    struct leaf_type index_type; /* of the indices, when there is a dictionary */
    struct leaf_out *items;      /* dictionary items, after init */
    uint64_t n_dictionary;
    uint64_t n_items; /* values in the page */
    size_t n_buffers; /* value buffers of a chunk */
    bool large, has_rep_index;
    size_t n_chunks;
    uint64_t *offsets; /* n_chunks + 1 byte offsets in buffer 1 */
    uint64_t *values;  /* n_chunks + 1: first value of each chunk */
    uint64_t *rows;    /* lists: n_chunks + 1: first row that starts in each chunk */
    uint8_t *flags;    /* lists: CHUNK_ */
};
enum { CHUNK_TRAILER = 1, CHUNK_ENDS = 2 };

struct zip_page {
    uint32_t bits_rep, bits_def;
    uint32_t control;     /* bytes of the control word: 0, 1, 2, 4 */
    uint32_t length_size; /* bytes of a length; 0 = fixed width */
    uint64_t value_size;  /* fixed width */
    struct value_codec codec;
    bool has_index;
    unsigned index_width;
    uint8_t *index; /* rows + 1 entries, after init */
    uint64_t n_items, n_visible;
};

/* Places in the levels of a constant page, every LEVEL_STRIDE rows. */
#define LEVEL_STRIDE 1024u
struct constant_page {
    const struct constant_layout_message *message;
    bool has_value;
    struct leaf_out *value; /* one value */
    uint64_t n_levels;
    struct buf rep, def; /* u16, empty = none */
    uint64_t *starts;    /* lists: level position of row k * LEVEL_STRIDE, and the end */
    size_t n_starts;
};

struct page {
    struct mem *mem;
    struct arena arena;
    const struct leaf_type *type;
    const struct layer_spec *specs;
    uint32_t n_specs;
    uint64_t rows, priority;
    struct page_buffer *buffers;
    uint32_t n_buffers;
    enum page_kind kind;
    bool blob;  /* mini-block of descriptors below a blob layout */
    bool ready; /* page_init was called */
    struct layer_kinds kinds;
    struct layer_kinds blob_kinds; /* of the outer layers */
    struct mini_page mini;
    struct zip_page zip;
    struct constant_page constant;
};

/* Levels of the rows decoded so far, u16 each; empty = all zero. */
struct level_sink {
    struct buf rep, def;
    uint64_t n;
};
void level_sink_init(struct level_sink *s, struct mem *mem);
void level_sink_free(struct level_sink *s);

pennon_status mini_open(struct page *p, const struct mini_block_message *m, pennon_error *err) CHECKED;
void mini_init_ranges(const struct page *p, struct page_buffer *out, uint32_t *n);
pennon_status mini_init(struct page *p, const struct bytes *bytes, pennon_error *err) CHECKED;
pennon_status mini_plan(const struct page *p, struct page_plan *plan, pennon_error *err) CHECKED;
pennon_status mini_decode(const struct page *p, const struct page_plan *plan, const struct bytes *bytes, struct leaf_out *o,
                          struct level_sink *levels, pennon_error *err) CHECKED;
void mini_free(struct page *p);

pennon_status zip_open(struct page *p, const struct full_zip_message *m, pennon_error *err) CHECKED;
void zip_init_ranges(const struct page *p, struct page_buffer *out, uint32_t *n);
pennon_status zip_init(struct page *p, const struct bytes *bytes, pennon_error *err) CHECKED;
pennon_status zip_plan(const struct page *p, struct page_plan *plan, pennon_error *err) CHECKED;
bool zip_flat_rows(const struct page *p, const struct row_range *rows, struct page_buffer *out);
pennon_status zip_decode(const struct page *p, const struct page_plan *plan, const struct bytes *bytes, struct leaf_out *o,
                         struct level_sink *levels, pennon_error *err) CHECKED;

pennon_status constant_open(struct page *p, const struct constant_layout_message *m, pennon_error *err) CHECKED;
void constant_init_ranges(const struct page *p, struct page_buffer *out, uint32_t *n);
pennon_status constant_init(struct page *p, const struct bytes *bytes, pennon_error *err) CHECKED;
pennon_status constant_decode(const struct page *p, const struct page_plan *plan, struct leaf_out *o, struct level_sink *levels,
                              pennon_error *err) CHECKED;
void constant_free(struct page *p);

/* Append a range to the plan, joined with the last one where they touch or overlap. */
pennon_status plan_add_range(struct page_plan *plan, uint64_t offset, uint64_t size, size_t *cap, pennon_error *err) CHECKED;

#endif
