/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* A full-zip page: values one after the other, each behind a control word with its levels.
 *
 * | buffer | content                                                                                                 |
 * |--------|---------------------------------------------------------------------------------------------------------|
 * | 0      | per level position: control word; then if visible: fixed value, or if valid: length and bytes           |
 * | 1      | offsets of the rows in buffer 0 and its size, 1, 2, 4 or 8 bytes each; with lists or variable width only |
 *
 * The control word is rep << bits_def | def in 0, 1, 2 or 4 bytes; the bits are those of the highest levels present.
 *
 * Per-value compression: fixed values and lists of them are stored as they are, the bitmaps of lists whose items have nulls in
 * front of each row; text plain, FSST coded, or each value in a zstd frame of its own; packed structs with variable children as
 * rows of their children, each of which is compressed by the same rules.
 *
 * Source: spec file-format 6.2, 8.9, 8.11, 8.13, 9.3. */
#include "encoding/page_parts.h"

#define FRAME_MIN_LENGTH 32768u /* values above are worth a frame of their own */
#define FRAME_MIN_BYTES 32768u

/* Values ready to be zipped: fixed rows, or offsets and bytes. */
struct zip_values {
    const uint8_t *fixed;      /* n * width, when width > 0 */
    uint64_t width;            /* bytes; 0 = variable */
    struct leaf_in text;       /* variable */
    struct leaf_type type;     /* of the text, when it is rows of packed structs */
    struct buf bytes, offsets; /* owners */
    struct ce_message *ce;
};

static void zip_values_init(struct zip_values *v, struct mem *mem)
{
    memset(v, 0, sizeof *v);
    buf_init(&v->bytes, mem, BUF_NO_LIMIT);
    buf_init(&v->offsets, mem, BUF_NO_LIMIT);
}

static void zip_values_free(struct zip_values *v)
{
    buf_free(&v->bytes);
    buf_free(&v->offsets);
}

static bool has_item_nulls(const struct leaf_in *in)
{
    for (uint32_t k = 0; k < in->type->n_dims; k++) {
        if (in->item_validity[k]) return true;
    }
    return false;
}

const char *zip_obstacle(const struct page_writer *w, const struct leaf_in *in)
{
    const struct leaf_type *t = in->type;
    if (t->kind == LEAF_DICTIONARY || t->kind == LEAF_BLOB) return "dictionaries and blobs are never full-zip";
    if (t->kind == LEAF_BITS && t->n_dims > 0 && (leaf_bits(t) % 8 != 0 || has_item_nulls(in))) {
        return "lists of bool whose values are not whole bytes, or have nulls, are never full-zip";
    }
    if (t->kind != LEAF_PACKED) return NULL;
    bool variable = false;
    for (uint32_t c = 0; c < t->n_children; c++) {
        variable |= t->children[c].kind == LEAF_VARIABLE || t->children[c].n_dims > 0;
        if (t->children[c].kind == LEAF_BITS) return "packed struct with a child of bool";
    }
    if (!variable) return "packed structs of fixed children are never full-zip";
    return w->version < STORAGE_2_2 ? "packed structs with variable children need version 2.2" : NULL;
}

/* ---- per-value compression ---- */

/* Rows of lists whose items have nulls: the bitmaps of the row, then its items. */
static pennon_status nullable_lists(const struct leaf_in *in, struct zip_values *out, pennon_error *err)
{
    const struct leaf_type *t = in->type;
    const uint64_t data = leaf_bits(t) / 8;
    uint64_t row = data, items = 1;
    size_t size = 0;
    for (uint32_t k = 0; k < t->n_dims; k++) {
        items *= t->dims[k];
        if (in->item_validity[k]) row += bitmap_bytes(items);
    }
    if (in->n > SIZE_MAX || size_mul_overflows((size_t)in->n, (size_t)row, &size)) {
        return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " rows of %" PRIu64 " bytes in one page", in->n, row);
    }
    TRY_RETURN(buf_resize_zero(&out->bytes, size, err));
    uint8_t *to = out->bytes.data;
    for (uint64_t i = 0; i < in->n; i++) {
        items = 1;
        for (uint32_t k = 0; k < t->n_dims; k++) {
            items *= t->dims[k];
            if (!in->item_validity[k]) continue;
            bits_copy(to, 0, in->item_validity[k], in->item_bit[k] + i * items, items);
            to += bitmap_bytes(items);
        }
        memcpy(to, in->values + i * data, (size_t)data);
        to += data;
    }
    out->fixed = out->bytes.data;
    out->width = row;
    return PENNON_OK;
}

static pennon_status fixed_values(const struct page_writer *w, const struct leaf_in *in, struct zip_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct leaf_type *t = in->type;
    if (t->kind == LEAF_BITS && t->n_dims == 0) {
        /* A byte a value. */
        TRY(buf_resize(&out->bytes, (size_t)in->n, err));
        bits_to_bytes(out->bytes.data, in->values, in->bit, in->n);
        out->fixed = out->bytes.data;
        out->width = 1;
        TRY_NEW(out->ce, ce_flat(w->arena, 8, err));
        goto done;
    }
    if (has_item_nulls(in)) {
        TRY(nullable_lists(in, out, err));
    } else if (t->kind == LEAF_BITS) {
        TRY(buf_resize_zero(&out->bytes, (size_t)bitmap_bytes(in->n * leaf_bits(t)), err));
        bits_copy(out->bytes.data, 0, in->values, in->bit, in->n * leaf_bits(t));
        out->fixed = out->bytes.data;
        out->width = leaf_bits(t) / 8;
    } else {
        out->fixed = in->values;
        out->width = leaf_bits(t) / 8;
    }
    TRY_NEW(out->ce, ce_fixed(w->arena, in, err));
done:
    return st;
}

/* Each value in a zstd frame of its own, whatever the configured scheme: official does so. */
static pennon_status framed_text(const struct page_writer *w, const struct leaf_in *in, struct zip_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const unsigned width = leaf_offset_width(in);
    TRY(buf_resize(&out->offsets, (size_t)(in->n + 1) * width, err));
    for (uint64_t i = 0; i <= in->n; i++) {
        const uint64_t at = out->bytes.size;
        const uint32_t at32 = (uint32_t)at;
        if (width == 4 && at > UINT32_MAX) FAIL(PENNON_OVER_BUDGET, "more than 4 GiB of compressed text in one page");
        memcpy(out->offsets.data + i * width, width == 8 ? (const void *)&at : (const void *)&at32, width);
        TRY(writer_check(w, err));
        if (i < in->n) TRY(general_encode(GENERAL_ZSTD, 0, leaf_bytes(in, i), &out->bytes, err));
    }
    out->text = *in;
    out->text.offsets = out->offsets.data;
    out->text.data = out->bytes.data;
    TRY_NEW(out->ce, ce_variable(w->arena, (uint64_t)width * 8, err));
    TRY_NEW(out->ce, ce_general(w->arena, GENERAL_ZSTD, true, 0, out->ce, err));
done:
    return st;
}

static pennon_status text_values(const struct page_writer *w, const struct leaf_in *in, struct zip_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct page_options *o = w->options;
    const uint64_t size = leaf_offset(in, in->n) - leaf_offset(in, 0) + (in->n + 1) * leaf_offset_width(in);
    const bool scheme = o->compression == PAGE_COMPRESSION_LZ4 || o->compression == PAGE_COMPRESSION_ZSTD;
    uint8_t table[FSST_TABLE_SIZE];
    if (o->compression != PAGE_COMPRESSION_NONE && size >= FRAME_MIN_BYTES && (scheme || leaf_max_length(in) > FRAME_MIN_LENGTH)) {
        return framed_text(w, in, out, err);
    }
    TRY_NEW(out->ce, ce_variable(w->arena, (uint64_t)leaf_offset_width(in) * 8, err));
    out->text = *in;
    if (fsst_is_wanted(w, in)) {
        TRY(fsst_encode_leaf(w, in, &out->bytes, &out->offsets, &out->text, table, err));
        TRY_NEW(out->ce, ce_fsst(w->arena, table, out->ce, err));
    }
done:
    return st;
}

static pennon_status values_compress(const struct page_writer *w, const struct leaf_in *in, struct zip_values *out,
                                     pennon_error *err)
{
    return in->type->kind == LEAF_VARIABLE ? text_values(w, in, out, err) : fixed_values(w, in, out, err);
}

/* ---- packed structs with variable children ---- */

static pennon_status row_append(const struct zip_values *children, uint32_t n, uint64_t i, struct buf *out, pennon_error *err)
{
    for (uint32_t c = 0; c < n; c++) {
        const struct zip_values *v = &children[c];
        if (v->width > 0) {
            TRY_RETURN(buf_append(out, v->fixed + i * v->width, (size_t)v->width, err));
            continue;
        }
        const struct bytes value = leaf_bytes(&v->text, i);
        uint8_t length[8];
        store_u64(length, value.size);
        TRY_RETURN(buf_append(out, length, leaf_offset_width(&v->text), err));
        TRY_RETURN(buf_append(out, value.data, value.size, err));
    }
    return PENNON_OK;
}

/* Rows become text with 32-bit offsets, 64 when they are more than 4 GiB together. */
static pennon_status rows_build(const struct zip_values *children, const struct leaf_in *in, struct zip_values *out,
                                pennon_error *err)
{
    pennon_status st = PENNON_OK;
    TRY(buf_resize(&out->offsets, (size_t)(in->n + 1) * 8, err));
    for (uint64_t i = 0; i <= in->n; i++) {
        const uint64_t at = out->bytes.size;
        memcpy(out->offsets.data + i * 8, &at, 8);
        if (i < in->n) TRY(row_append(children, in->type->n_children, i, &out->bytes, err));
    }
    const bool large = out->bytes.size > UINT32_MAX;
    for (uint64_t i = 0; !large && i <= in->n; i++) {
        uint64_t at = 0;
        memcpy(&at, out->offsets.data + i * 8, 8);
        const uint32_t at32 = (uint32_t)at;
        memcpy(out->offsets.data + i * 4, &at32, 4);
    }
    out->type = (struct leaf_type){.kind = LEAF_VARIABLE, .large = large};
    out->text = (struct leaf_in){.type = &out->type, .n = in->n, .offsets = out->offsets.data, .data = out->bytes.data};
done:
    return st;
}

static pennon_status packed_values(const struct page_writer *w, const struct leaf_in *in, const struct page_options *options,
                                   struct zip_values *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const uint32_t n = in->type->n_children;
    struct page_options defaults;
    struct zip_values *children = NULL;
    struct ce_packed_field_message *fields = NULL;
    page_options_init(&defaults);
    TRY_NEW(children, mem_calloc(w->mem, n, sizeof *children, err));
    for (uint32_t c = 0; c < n; c++) zip_values_init(&children[c], w->mem);
    TRY_NEW(fields, arena_calloc(w->arena, n, sizeof *fields, err));
    for (uint32_t c = 0; c < n; c++) {
        const struct page_writer child = {w->mem, w->arena, options ? &options[c] : &defaults, w->version};
        const enum leaf_kind kind = in->children[c].type->kind;
        if (kind != LEAF_FIXED && kind != LEAF_VARIABLE) FAIL(PENNON_NOT_SUPPORTED, "packed struct with such a child");
        TRY(values_compress(&child, &in->children[c], &children[c], err));
        fields[c].value = children[c].ce;
        fields[c].which = children[c].width > 0 ? 2 : 3;
        fields[c].bits_per_value = children[c].width * 8;
        fields[c].bits_per_length = children[c].width > 0 ? 0 : (uint64_t)leaf_offset_width(&children[c].text) * 8;
    }
    TRY(rows_build(children, in, out, err));
    TRY_NEW(out->ce, ce_new(w->arena, CE_VARIABLE_PACKED_STRUCT, err));
    TRY_NEW(out->ce->variable_packed_struct, arena_calloc(w->arena, 1, sizeof *out->ce->variable_packed_struct, err));
    out->ce->variable_packed_struct->fields = fields;
    out->ce->variable_packed_struct->n_fields = n;
done:
    for (uint32_t c = 0; children && c < n; c++) zip_values_free(&children[c]);
    mem_free(w->mem, children);
    return st;
}

/* ---- zipping ---- */

struct zipper {
    const struct page_levels *levels;
    const struct zip_values *values;
    unsigned bits_rep, bits_def, control; /* bits, bits, bytes */
    uint16_t row_rep;                     /* repetition of a position that begins a row */
    uint64_t n_positions;
    struct buf data, index;
    unsigned index_width; /* 0 = no index */
};

static uint16_t highest(const uint16_t *levels, uint64_t n)
{
    uint16_t most = 0;
    for (uint64_t i = 0; levels && i < n; i++) most = levels[i] > most ? levels[i] : most;
    return most;
}

/* Bytes of an offset up to `most`. */
static unsigned index_width(uint64_t most)
{
    if (most <= UINT8_MAX) return 1;
    if (most <= UINT16_MAX) return 2;
    return most <= UINT32_MAX ? 4 : 8;
}

static pennon_status zipper_plan(struct zipper *z, uint64_t n_values, pennon_error *err)
{
    const struct page_levels *l = z->levels;
    const struct zip_values *v = z->values;
    const uint16_t max_rep = highest(l->rep, l->n_levels);
    z->bits_rep = bit_width(max_rep);
    z->bits_def = bit_width(highest(l->def, l->n_levels));
    const unsigned bits = z->bits_rep + z->bits_def;
    z->control = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
    z->row_rep = l->max_rep;
    z->n_positions = l->rep ? l->n_levels : n_values;
    /* An upper bound on the data; the width of the index follows from it. */
    uint64_t most = z->n_positions * z->control;
    if (v->width > 0) {
        most += n_values * v->width;
    } else {
        const unsigned width = leaf_offset_width(&v->text);
        most += leaf_offset(&v->text, n_values) - leaf_offset(&v->text, 0) + n_values * width;
    }
    if (l->rep || v->width == 0) z->index_width = index_width(most);
    if (z->n_positions > UINT32_MAX)
        return error_set(err, PENNON_NOT_SUPPORTED, "%" PRIu64 " positions in a full-zip page", z->n_positions);
    if (most > SIZE_MAX) return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " bytes in a page", most);
    return buf_reserve(&z->data, (size_t)most, err);
}

static pennon_status index_append(struct zipper *z, pennon_error *err)
{
    uint8_t le[8];
    store_u64(le, z->data.size);
    return buf_append(&z->index, le, z->index_width, err);
}

/* The value of visible position; `null` says whether it has one. */
static pennon_status value_append(struct zipper *z, uint64_t i, bool null, pennon_error *err)
{
    const struct zip_values *v = z->values;
    if (v->width > 0) return buf_append(&z->data, v->fixed + i * v->width, (size_t)v->width, err);
    if (null) return PENNON_OK;
    const struct bytes value = leaf_bytes(&v->text, i);
    uint8_t length[8];
    store_u64(length, value.size);
    TRY_RETURN(buf_append(&z->data, length, leaf_offset_width(&v->text), err));
    return buf_append(&z->data, value.data, value.size, err);
}

static pennon_status zip_all(const struct page_writer *w, struct zipper *z, pennon_error *err)
{
    const struct page_levels *l = z->levels;
    const struct zip_values *v = z->values;
    uint64_t value = 0;
    /* Without levels fixed values are the data as they stand. */
    if (z->control == 0 && z->index_width == 0) return buf_append(&z->data, v->fixed, (size_t)(l->n_values * v->width), err);
    for (uint64_t i = 0; i < z->n_positions; i++) {
        const uint16_t rep = l->rep ? l->rep[i] : 0;
        const uint16_t def = l->def ? l->def[i] : 0;
        uint8_t control[4];
        if (i % CHECK_CHUNKS == 0) TRY_RETURN(writer_check(w, err)); /* values may be large */
        if (z->index_width > 0 && rep == z->row_rep) TRY_RETURN(index_append(z, err));
        store_u32(control, (uint32_t)rep << z->bits_def | def);
        TRY_RETURN(buf_append(&z->data, control, z->control, err));
        if (l->rep && def > l->max_visible) continue;
        TRY_RETURN(value_append(z, value++, def != 0, err));
    }
    ASSERT(value == l->n_values);
    return z->index_width > 0 ? index_append(z, err) : PENNON_OK;
}

static pennon_status layout_write(const struct zipper *z, struct buf *out, pennon_error *err)
{
    const struct page_levels *l = z->levels;
    const struct zip_values *v = z->values;
    uint32_t layers[LAYERS_MAX];
    memcpy(layers, l->kinds, l->n_layers * sizeof *layers);
    struct full_zip_message zip = {
        .bits_rep = z->bits_rep,
        .bits_def = z->bits_def,
        .which = v->width > 0 ? 3 : 4,
        .bits_per_value = (uint32_t)(v->width * 8),
        .bits_per_offset = v->width > 0 ? 0 : leaf_offset_width(&v->text) * 8,
        .num_items = (uint32_t)z->n_positions,
        .num_visible_items = (uint32_t)l->n_values,
        .value_compression = v->ce,
        .layers = layers,
        .n_layers = l->n_layers,
    };
    const struct page_layout_message layout = {.which = LAYOUT_FULL_ZIP_PAGE, .full_zip = &zip};
    return wire_encode(&page_layout_table, &layout, out, err);
}

pennon_status zip_page_write(const struct page_writer *w, const struct leaf_in *in, const struct page_options *children,
                             const struct page_levels *levels, struct page_bytes *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct zip_values values;
    struct zipper z = {.levels = levels, .values = &values};
    zip_values_init(&values, w->mem);
    buf_init(&z.data, w->mem, BUF_NO_LIMIT);
    buf_init(&z.index, w->mem, BUF_NO_LIMIT);
    ASSERT(in->n == levels->n_values && out->n_buffers == 0 && !zip_obstacle(w, in));
    if (in->type->kind == LEAF_PACKED) {
        TRY(packed_values(w, in, children, &values, err));
    } else {
        TRY(values_compress(w, in, &values, err));
    }
    if (values.width > UINT32_MAX / 8) FAIL(PENNON_NOT_SUPPORTED, "values of %" PRIu64 " bytes", values.width);
    TRY(zipper_plan(&z, in->n, err));
    TRY(zip_all(w, &z, err));
    TRY(layout_write(&z, &out->layout, err));
    buf_move(&out->buffers[out->n_buffers++], &z.data);
    if (z.index_width > 0) buf_move(&out->buffers[out->n_buffers++], &z.index);
done:
    buf_free(&z.data);
    buf_free(&z.index);
    zip_values_free(&values);
    return st;
}
