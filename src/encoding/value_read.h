/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Value encodings of one page, parsed once, and their decoding into a leaf_out. Private to src/encoding. */
#ifndef ENCODING_VALUE_READ_H
#define ENCODING_VALUE_READ_H

#include "encoding/page_read.h"

enum value_kind {
    VALUE_FLAT,     /* `bits` a value */
    VALUE_VARIABLE, /* offsets of `bits` (32, 64) */
    VALUE_INLINE,   /* bit packed words of `bits` */
    VALUE_RLE,
    VALUE_BSS,
    VALUE_FSST,            /* over `inner` VALUE_VARIABLE */
    VALUE_GENERAL,         /* over `inner` */
    VALUE_LIST,            /* FSL: validity flags a dimension, items flat in `inner` */
    VALUE_PACKED,          /* rows of fixed children */
    VALUE_VARIABLE_PACKED, /* rows of children with codecs of their own */
    VALUE_ZEROS            /* Constant without bits: all items null */
};

struct value_codec {
    enum value_kind kind;
    uint32_t bits;
    enum general_scheme scheme;
    struct fsst_decoder *fsst;
    struct value_codec *inner;
    bool has_validity[LEAF_MAX_DIMS]; /* VALUE_LIST: of the items of list d */
    uint32_t null_dim;                /* VALUE_LIST over VALUE_ZEROS: the list whose items are all null */
    struct value_codec *children;     /* VALUE_VARIABLE_PACKED; a child with `length_bits` is variable */
    uint32_t n_children;
    uint32_t length_bits; /* as a child: bits of the length prefix, 0 = fixed */
};

/* Reusable memory of one decode call. */
struct value_scratch {
    struct buf plain;   /* decompressed buffer */
    struct buf values;  /* a chunk of decoded words */
    struct buf indices; /* dictionary indices of a chunk */
};
void value_scratch_init(struct value_scratch *s, struct mem *mem);
void value_scratch_free(struct value_scratch *s);

/* Parse for values of `type`. `zip`: the per-value form, else the mini-block form. NOT_SUPPORTED or CORRUPT for what the form does not
 * allow. Everything lives in `a`. */
pennon_status value_codec_open(struct arena *a, const struct ce_message *ce, const struct leaf_type *type, bool zip,
                               struct value_codec *out, pennon_error *err) CHECKED;

/* Values of a chunk that are wanted: sorted slices that do not overlap, `total` values in all. */
struct chunk_slices {
    const struct row_range *items;
    size_t n;
    uint64_t total;
};
/* Mini-block: append the slices of a chunk of n values. */
pennon_status value_chunk_decode(const struct value_codec *c, const struct bytes *bufs, size_t n_bufs, uint64_t n,
                                 const struct chunk_slices *want, struct value_scratch *s, struct leaf_out *out,
                                 pennon_error *err) CHECKED;
/* Buffers that a chunk of this codec has. */
size_t value_chunk_buffers(const struct value_codec *c);

/* Full-zip: bytes of one fixed-width value; 0 when the codec is variable. */
uint64_t value_zip_width(const struct value_codec *c, const struct leaf_type *type);
/* Append one value; `in` has exactly value_zip_width bytes, or is the payload behind the length. */
pennon_status value_zip_decode(const struct value_codec *c, struct bytes in, struct value_scratch *s, struct leaf_out *out,
                               pennon_error *err) CHECKED;

/* Block form of n words of `t_bits` (8, 16, 32, 64, or any multiple of 8 for Flat). */
pennon_status block_decode_fixed(const struct ce_message *ce, struct bytes in, uint64_t n, unsigned t_bits, struct mem *mem,
                                 struct buf *out, pennon_error *err) CHECKED;
/* Block form of n dictionary items of `type` (LEAF_FIXED without lists, or LEAF_VARIABLE), appended to `out`. */
pennon_status block_decode_leaf(const struct ce_message *ce, struct bytes in, uint64_t n, struct leaf_out *out,
                                pennon_error *err) CHECKED;

/* Short text of an encoding: "general(zstd) over variable". */
pennon_status value_codec_describe(const struct value_codec *c, struct buf *out, pennon_error *err) CHECKED;

#endif
