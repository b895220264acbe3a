/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the files of the page writer share: the dense values of a leaf, the levels of a page, compressed chunks, and the encoders
 * of each part. Private to page_*write*.c, leaf_gather.c, block_write.c, mini_values.c, dictionary_write.c.
 *
 *     leaf_gather        Arrow arrays and ranges -> struct leaf_in         (leaf_gather.c)
 *     dictionary_encode  values that repeat -> indices and items           (dictionary_write.c)
 *     mini_values_write  values -> chunks                                  (mini_values.c)
 *     block_*            levels and dictionaries as one buffer each        (block_write.c)
 *     mini_page_write    chunks and levels -> page                         (mini_page_write.c)
 *     zip_page_write     values and levels -> full-zip page                (zip_page_write.c)
 */
#ifndef ENCODING_PAGE_PARTS_H
#define ENCODING_PAGE_PARTS_H

#include "encoding/page_write.h"

#define CHUNK_VALUES_MAX 4096u
#define CHUNK_BYTES_MAX 8186u /* of values: 8 KiB less the head of a chunk */
#define NARROW_BYTES 256u     /* values below it are mini-block */
#define VALUE_BUFFERS_MAX (LEAF_MAX_DIMS + 1u)

/* What every encoder of one page gets. Everything in the arena lives until the page set is done. */
struct page_writer {
    struct mem *mem;
    struct arena *arena;
    const struct page_options *options;
    uint32_t version;
};

/* A loop over values looks at the call once in so many of them; one of a chunk of some KiB a round once in fewer. */
#define CHECK_VALUES 8192u
#define CHECK_CHUNKS 32u
/* CANCELLED or TIMEOUT. */
static inline pennon_status writer_check(const struct page_writer *w, pennon_error *err)
{
    const struct call *c = w->options ? w->options->call : NULL;
    return c ? call_check(c, err) : PENNON_OK;
}

/* ---- values ---- */

/* n values, dense, borrowed. Integers are in machine order. */
struct leaf_in {
    const struct leaf_type *type;
    uint64_t n;
    const uint8_t *values;  /* FIXED: n * items * width bytes; BITS: bitmap; DICTIONARY: indices; BLOB: n * 16 bytes */
    uint64_t bit;           /* BITS: of the first item in `values` */
    const uint8_t *offsets; /* VARIABLE: n + 1 of 4 or 8 (large) bytes, need not begin at 0 */
    const uint8_t *data;    /* VARIABLE: what the offsets are relative to */
    const uint8_t *item_validity[LEAF_MAX_DIMS]; /* list k: bits of its items; NULL = all valid */
    uint64_t item_bit[LEAF_MAX_DIMS];
    const struct leaf_in *children;   /* PACKED */
    const struct leaf_in *dictionary; /* DICTIONARY: the items */
};

static inline unsigned leaf_offset_width(const struct leaf_in *in) { return in->type->large ? 8 : 4; }
static inline uint64_t leaf_offset(const struct leaf_in *in, uint64_t i)
{
    uint32_t v32;
    uint64_t v64;
    if (in->type->large) {
        memcpy(&v64, in->offsets + 8 * i, 8);
        return v64;
    }
    memcpy(&v32, in->offsets + 4 * i, 4);
    return v32;
}
static inline struct bytes leaf_bytes(const struct leaf_in *in, uint64_t i) /* VARIABLE */
{
    const uint64_t start = leaf_offset(in, i);
    return bytes_of(in->data + start, (size_t)(leaf_offset(in, i + 1) - start));
}
/* Bits of one value of FIXED, BITS or BLOB, lists and all, without validity. */
uint64_t leaf_bits(const struct leaf_type *t);
/* Values [start, start + n) of `in`; children in the arena. */
pennon_status leaf_slice(struct arena *a, const struct leaf_in *in, uint64_t start, uint64_t n, struct leaf_in *out,
                         pennon_error *err) CHECKED;
/* Longest value of VARIABLE. */
uint64_t leaf_max_length(const struct leaf_in *in);

/* Arrays of the batches that ranges refer to. Not for dictionaries and blobs at the top. Packed children must not have nulls of their own
 * where `def` (a level a value, or NULL) is 0. */
pennon_status leaf_gather(struct arena *a, const struct leaf_type *type, const struct ArrowArray *const *arrays, size_t n_arrays,
                          const struct level_range *ranges, size_t n_ranges, const uint16_t *def, struct leaf_in *out,
                          pennon_error *err) CHECKED;

/* Dictionaries of batches made one. */
struct dictionary_group {
    size_t n_batches;         /* how many of the given batches it holds, at least 1 */
    struct leaf_in items;     /* no nulls */
    const uint32_t **maps;    /* per batch: old index -> new, DICTIONARY_NULL for a null item; NULL = the same */
    const uint8_t **validity; /* per batch: of the keys, null items included, indexed by physical slot; NULL = all valid */
};
#define DICTIONARY_NULL UINT32_MAX
/* Group the first batches whose dictionaries together fit the index width. */
pennon_status dictionary_group_make(struct arena *a, const struct leaf_type *type, const struct ArrowArray *const *arrays,
                                    size_t n_arrays, struct dictionary_group *out, pennon_error *err) CHECKED;
/* Dense indices of the values; a null has index 0. */
pennon_status dictionary_gather(struct arena *a, const struct leaf_type *type, const struct dictionary_group *group,
                                const struct ArrowArray *const *arrays, const struct level_range *ranges, size_t n_ranges,
                                uint64_t n, const uint16_t *def, struct leaf_in *out, pennon_error *err) CHECKED;

/* ---- levels of one page ---- */

struct page_levels {
    const uint16_t *rep, *def; /* n_levels, or NULL */
    uint64_t n_levels, n_values, n_valid, n_rows;
    uint64_t length; /* Page.length */
    const uint32_t *kinds;
    uint32_t n_layers;
    uint16_t max_rep, max_def, max_visible;
};

/* ---- encodings as messages, in the arena ---- */

struct ce_message *ce_new(struct arena *a, uint32_t which, pennon_error *err) CHECKED;
struct ce_message *ce_flat(struct arena *a, uint64_t bits, pennon_error *err) CHECKED;
struct ce_message *ce_variable(struct arena *a, uint64_t offset_bits, pennon_error *err) CHECKED;
struct ce_message *ce_rle(struct arena *a, uint64_t bits, pennon_error *err) CHECKED;
struct ce_message *ce_inline(struct arena *a, uint64_t bits, pennon_error *err) CHECKED;
struct ce_message *ce_outline(struct arena *a, uint64_t bits, uint64_t width, pennon_error *err) CHECKED;
struct ce_message *ce_fsst(struct arena *a, const uint8_t table[FSST_TABLE_SIZE], struct ce_message *values,
                           pennon_error *err) CHECKED;
struct ce_message *ce_general(struct arena *a, enum general_scheme scheme, bool has_level, int32_t level, struct ce_message *values,
                              pennon_error *err) CHECKED;
struct ce_message *ce_fsl(struct arena *a, uint64_t items, bool has_validity, struct ce_message *values, pennon_error *err) CHECKED;
/* FSL around Flat for a fixed type with its dimensions and item validity. */
struct ce_message *ce_fixed(struct arena *a, const struct leaf_in *in, pennon_error *err) CHECKED;

/* ---- block form: one self-contained buffer ---- */

enum block_form { BLOCK_FLAT, BLOCK_RLE, BLOCK_INLINE, BLOCK_OUTLINE };

/* How the levels of a page are compressed; chosen once, applied to each chunk. `counts`: levels of the n_chunks chunks. */
struct level_block {
    enum block_form form;
    unsigned width; /* BLOCK_OUTLINE */
    struct ce_message *ce;
};
pennon_status level_block_choose(const struct page_writer *w, const uint16_t *levels, const uint64_t *counts, size_t n_chunks,
                                 struct level_block *out, pennon_error *err) CHECKED;
pennon_status level_block_write(const struct level_block *b, const uint16_t *levels, uint64_t n, struct buf *out,
                                pennon_error *err) CHECKED;
/* Items of a dictionary. */
pennon_status dictionary_block_write(const struct page_writer *w, const struct leaf_in *items, struct buf *out,
                                     struct ce_message **ce, pennon_error *err) CHECKED;

/* ---- mini-block values ---- */

/* Values cut into chunks. The sizes of chunk c are sizes[c * n_buffers + b]; the chunks of a buffer are contiguous in it. */
struct mini_values {
    uint32_t n_buffers;
    struct bytes buffers[VALUE_BUFFERS_MAX];
    struct buf owned[VALUE_BUFFERS_MAX]; /* where the bytes are ours */
    uint64_t *sizes;
    uint64_t *counts; /* values of each chunk */
    size_t n_chunks;
    size_t cap_sizes, cap_counts;
    struct ce_message *ce;
};
void mini_values_init(struct mini_values *v, struct mem *mem);
void mini_values_free(struct mini_values *v, struct mem *mem);
/* n >= 1. Every chunk but the last holds a power of two of values, at least 2. */
pennon_status mini_values_write(const struct page_writer *w, const struct leaf_in *in, struct mini_values *out,
                                pennon_error *err) CHECKED;

/* Whether text is to be FSST compressed, and doing it: `out` has the codes, borrowed from the two buffers. */
bool fsst_is_wanted(const struct page_writer *w, const struct leaf_in *in);
pennon_status fsst_encode_leaf(const struct page_writer *w, const struct leaf_in *in, struct buf *codes, struct buf *offsets,
                               struct leaf_in *out, uint8_t table[FSST_TABLE_SIZE], pennon_error *err) CHECKED;

/* ---- pages ---- */

/* `items` is the page's dictionary or NULL. *fits = false (and the page untouched) when a chunk would be larger than the version allows. */
pennon_status mini_page_write(const struct page_writer *w, const struct leaf_in *in, const struct leaf_in *items,
                              const struct page_levels *levels, struct page_bytes *out, bool *fits, pennon_error *err) CHECKED;
/* Why the values cannot be full-zip, or NULL. */
const char *zip_obstacle(const struct page_writer *w, const struct leaf_in *in);
pennon_status zip_page_write(const struct page_writer *w, const struct leaf_in *in, const struct page_options *children,
                             const struct page_levels *levels, struct page_bytes *out, pennon_error *err) CHECKED;
/* Indices (32 bits) and items when that is small enough; else *found = false. */
pennon_status dictionary_encode(const struct page_writer *w, const struct leaf_in *in, struct leaf_in *indices,
                                struct leaf_in *items, bool *found, pennon_error *err) CHECKED;

#endif
