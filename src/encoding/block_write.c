/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Block compression: the levels of a page and the items of its dictionary, as official chooses.
 *
 * Levels (u16): bit packing, inline up to 1024 levels of the page and out of line above; raw where packing one group gains nothing;
 * at 2.2 run lengths where they are smaller over all chunks of the page. One form serves all chunks.
 *
 * Dictionary items: fixed width of 1 to 8 bytes bit packed; at 2.2 the rest compressed with the configured scheme (lz4 unless said
 * otherwise); else raw. Never run lengths: official's reader does not take them here.
 *
 * Source: spec file-format 8.2, 8.5, 8.6, 8.7, 9.5, 6.1. */
#include "encoding/page_parts.h"

#define LEVEL_BITS 16u
#define RUN_MAX 255u

/* One group of at most 1024 values where packing gains nothing. */
static bool packing_is_useless(unsigned width, uint64_t n, uint64_t bytes)
{
    return n <= BITPACK_GROUP && (uint64_t)width * 128 >= bytes;
}

/* Form of the n levels of a page without run lengths. */
static enum block_form packed_form(unsigned width, uint64_t n)
{
    if (packing_is_useless(width, n, n * 2)) return BLOCK_FLAT;
    return n <= BITPACK_GROUP ? BLOCK_INLINE : BLOCK_OUTLINE;
}

/* Bytes of the n levels of a chunk in a form, padded as in the chunk. */
static uint64_t form_bytes(enum block_form form, unsigned width, const uint16_t *levels, uint64_t n)
{
    uint64_t size = 0;
    switch (form) {
    case BLOCK_RLE: size = 8 + (rle_count_runs(2, levels, (size_t)n) + n / RUN_MAX) * 3; break;
    case BLOCK_INLINE: size = n > 0 ? 2 + (uint64_t)bitpack_max_width(LEVEL_BITS, levels, (size_t)n) * 128 : 0; break;
    case BLOCK_OUTLINE: size = outline_bitpack_size(LEVEL_BITS, width, (size_t)n); break;
    case BLOCK_FLAT: size = n * 2; break;
    }
    return (size + 7) / 8 * 8;
}

/* Bytes of all chunks in a form. */
static uint64_t page_bytes_of(enum block_form form, unsigned width, const uint16_t *levels, const uint64_t *counts, size_t n_chunks)
{
    uint64_t total = 0;
    for (size_t c = 0; c < n_chunks; c++) {
        total += form_bytes(form, width, levels, counts[c]);
        levels += counts[c];
    }
    return total;
}

pennon_status level_block_choose(const struct page_writer *w, const uint16_t *levels, const uint64_t *counts, size_t n_chunks,
                                 struct level_block *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    uint64_t n = 0;
    for (size_t c = 0; c < n_chunks; c++) n += counts[c];
    const unsigned width = bitpack_max_width(LEVEL_BITS, levels, (size_t)n);
    *out = (struct level_block){.form = packed_form(width, n), .width = width};
    if (w->version >= STORAGE_2_2 &&
        page_bytes_of(BLOCK_RLE, 0, levels, counts, n_chunks) < page_bytes_of(out->form, width, levels, counts, n_chunks)) {
        out->form = BLOCK_RLE;
    }
    switch (out->form) {
    case BLOCK_RLE: TRY_NEW(out->ce, ce_rle(w->arena, LEVEL_BITS, err)); break;
    case BLOCK_INLINE: TRY_NEW(out->ce, ce_inline(w->arena, LEVEL_BITS, err)); break;
    case BLOCK_OUTLINE: TRY_NEW(out->ce, ce_outline(w->arena, LEVEL_BITS, width, err)); break;
    case BLOCK_FLAT: TRY_NEW(out->ce, ce_flat(w->arena, LEVEL_BITS, err)); break;
    }
done:
    return st;
}

pennon_status level_block_write(const struct level_block *b, const uint16_t *levels, uint64_t n, struct buf *out, pennon_error *err)
{
    switch (b->form) {
    case BLOCK_RLE: return rle_block_encode(2, levels, (size_t)n, out, err);
    case BLOCK_INLINE: return inline_bitpack_encode(LEVEL_BITS, levels, (size_t)n, out, err);
    case BLOCK_OUTLINE: return outline_bitpack_encode(LEVEL_BITS, b->width, levels, (size_t)n, out, err);
    case BLOCK_FLAT: break;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint8_t le[2];
        store_u16(le, levels[i]);
        TRY_RETURN(buf_append(out, le, 2, err));
    }
    return PENNON_OK;
}

/* ---- dictionary items ---- */

static enum general_scheme dictionary_scheme(const struct page_writer *w)
{
    if (w->version < STORAGE_2_2) return GENERAL_NONE;
    switch (w->options->dict_values_compression) {
    case PAGE_COMPRESSION_NONE: return GENERAL_NONE;
    case PAGE_COMPRESSION_ZSTD: return GENERAL_ZSTD;
    default: return GENERAL_LZ4;
    }
}

/* Frame `plain` when the version and the options ask for it, and put the encoding around `inner`. */
static pennon_status block_frame(const struct page_writer *w, struct bytes plain, struct ce_message *inner, struct buf *out,
                                 struct ce_message **ce, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct page_options *o = w->options;
    const enum general_scheme scheme = dictionary_scheme(w);
    *ce = inner;
    if (scheme != GENERAL_NONE)
        TRY_NEW(*ce, ce_general(w->arena, scheme, o->has_dict_values_level, o->dict_values_level, inner, err));
    TRY(general_encode(scheme, o->dict_values_level, plain, out, err));
done:
    return st;
}

static pennon_status variable_block(const struct page_writer *w, const struct leaf_in *items, struct buf *out,
                                    struct ce_message **ce, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ce_message *inner = NULL;
    struct buf plain;
    buf_init(&plain, w->mem, BUF_NO_LIMIT);
    TRY_NEW(inner, ce_variable(w->arena, (uint64_t)leaf_offset_width(items) * 8, err));
    TRY(variable_block_encode(leaf_offset_width(items), items->offsets, items->n, items->data, &plain, err));
    TRY(block_frame(w, bytes_of(plain.data, plain.size), inner, out, ce, err));
done:
    buf_free(&plain);
    return st;
}

pennon_status dictionary_block_write(const struct page_writer *w, const struct leaf_in *items, struct buf *out,
                                     struct ce_message **ce, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct ce_message *inner = NULL;
    struct buf bits;
    buf_init(&bits, w->mem, BUF_NO_LIMIT);
    const struct leaf_type *t = items->type;
    if (t->kind == LEAF_VARIABLE) {
        TRY(variable_block(w, items, out, ce, err));
        goto done;
    }
    ASSERT((t->kind == LEAF_FIXED || t->kind == LEAF_BITS) && t->n_dims == 0);
    const uint64_t size = t->kind == LEAF_BITS ? bitmap_bytes(items->n) : items->n * t->width;
    const bool word = t->kind == LEAF_FIXED && (t->width == 1 || t->width == 2 || t->width == 4 || t->width == 8);
    const unsigned t_bits = t->width * 8;
    const unsigned width = word ? bitpack_max_width(t_bits, items->values, (size_t)items->n) : 0;
    if (t->kind == LEAF_BITS) {
        TRY(buf_resize_zero(&bits, (size_t)size, err));
        if (size > 0) bits_copy(bits.data, 0, items->values, items->bit, items->n);
        TRY_NEW(inner, ce_flat(w->arena, 1, err));
        TRY(block_frame(w, bytes_of(bits.data, bits.size), inner, out, ce, err));
    } else if (!word || packing_is_useless(width, items->n, size)) {
        TRY_NEW(inner, ce_flat(w->arena, t_bits, err));
        TRY(block_frame(w, bytes_of(items->values, (size_t)size), inner, out, ce, err));
    } else if (items->n <= BITPACK_GROUP) {
        TRY_NEW(*ce, ce_inline(w->arena, t_bits, err));
        TRY(inline_bitpack_encode(t_bits, items->values, (size_t)items->n, out, err));
    } else {
        TRY_NEW(*ce, ce_outline(w->arena, t_bits, width, err));
        TRY(outline_bitpack_encode(t_bits, width, items->values, (size_t)items->n, out, err));
    }
done:
    buf_free(&bits);
    return st;
}
