/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* CompressiveEncoding messages of the page writer, made in an arena.
 *
 * Source: spec file-format 3.4, 8. */
#include "encoding/page_parts.h"

#define CE_PART(ptr)                                    \
    do {                                                \
        (ptr) = arena_calloc(a, 1, sizeof *(ptr), err); \
        if (!(ptr)) return NULL;                        \
    } while (0)

struct ce_message *ce_new(struct arena *a, uint32_t which, pennon_error *err)
{
    struct ce_message *ce = arena_calloc(a, 1, sizeof *ce, err);
    if (ce) ce->which = which;
    return ce;
}

struct ce_message *ce_flat(struct arena *a, uint64_t bits, pennon_error *err)
{
    struct ce_message *ce = ce_new(a, CE_FLAT, err);
    if (!ce) return NULL;
    CE_PART(ce->flat);
    ce->flat->bits_per_value = bits;
    return ce;
}

struct ce_message *ce_variable(struct arena *a, uint64_t offset_bits, pennon_error *err)
{
    struct ce_message *ce = ce_new(a, CE_VARIABLE, err);
    if (!ce) return NULL;
    CE_PART(ce->variable);
    ce->variable->offsets = ce_flat(a, offset_bits, err);
    return ce->variable->offsets ? ce : NULL;
}

struct ce_message *ce_rle(struct arena *a, uint64_t bits, pennon_error *err)
{
    struct ce_message *ce = ce_new(a, CE_RLE, err);
    if (!ce) return NULL;
    CE_PART(ce->rle);
    ce->rle->values = ce_flat(a, bits, err);
    ce->rle->run_lengths = ce->rle->values ? ce_flat(a, 8, err) : NULL;
    return ce->rle->run_lengths ? ce : NULL;
}

struct ce_message *ce_inline(struct arena *a, uint64_t bits, pennon_error *err)
{
    struct ce_message *ce = ce_new(a, CE_INLINE_BITPACKING, err);
    if (!ce) return NULL;
    CE_PART(ce->inline_bitpacking);
    ce->inline_bitpacking->uncompressed_bits_per_value = bits;
    return ce;
}

struct ce_message *ce_outline(struct arena *a, uint64_t bits, uint64_t width, pennon_error *err)
{
    struct ce_message *ce = ce_new(a, CE_OUT_OF_LINE_BITPACKING, err);
    if (!ce) return NULL;
    CE_PART(ce->out_of_line);
    ce->out_of_line->uncompressed_bits_per_value = bits;
    ce->out_of_line->values = ce_flat(a, width, err);
    return ce->out_of_line->values ? ce : NULL;
}

struct ce_message *ce_fsst(struct arena *a, const uint8_t table[FSST_TABLE_SIZE], struct ce_message *values, pennon_error *err)
{
    struct ce_message *ce = ce_new(a, CE_FSST, err);
    if (!ce) return NULL;
    CE_PART(ce->fsst);
    uint8_t *copy = arena_alloc(a, FSST_TABLE_SIZE, err);
    if (!copy) return NULL;
    memcpy(copy, table, FSST_TABLE_SIZE);
    ce->fsst->symbol_table = bytes_of(copy, FSST_TABLE_SIZE);
    ce->fsst->values = values;
    return ce;
}

struct ce_message *ce_general(struct arena *a, enum general_scheme scheme, bool has_level, int32_t level, struct ce_message *values,
                              pennon_error *err)
{
    struct ce_message *ce = ce_new(a, CE_GENERAL, err);
    if (!ce) return NULL;
    CE_PART(ce->general);
    CE_PART(ce->general->compression);
    ce->general->compression->scheme = (uint32_t)scheme;
    ce->general->compression->has_level = has_level;
    ce->general->compression->level = level;
    ce->general->values = values;
    return ce;
}

struct ce_message *ce_fsl(struct arena *a, uint64_t items, bool has_validity, struct ce_message *values, pennon_error *err)
{
    struct ce_message *ce = ce_new(a, CE_FIXED_SIZE_LIST, err);
    if (!ce) return NULL;
    CE_PART(ce->fixed_size_list);
    ce->fixed_size_list->items_per_value = items;
    ce->fixed_size_list->has_validity = has_validity;
    ce->fixed_size_list->values = values;
    return ce;
}

struct ce_message *ce_fixed(struct arena *a, const struct leaf_in *in, pennon_error *err)
{
    const struct leaf_type *t = in->type;
    const uint64_t bits = t->kind == LEAF_BITS ? 1 : t->kind == LEAF_BLOB ? 128 : (uint64_t)t->width * 8;
    struct ce_message *ce = ce_flat(a, bits, err);
    for (uint32_t k = t->n_dims; ce && k-- > 0;) ce = ce_fsl(a, t->dims[k], in->item_validity[k] != NULL, ce, err);
    return ce;
}
