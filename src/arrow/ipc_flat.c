/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Flatbuffers on the wire.
 *
 * thing  | bytes
 * -------|------------------------------------------------------------------------------------------
 * buffer | u32 offset of the root table, from the start
 * table  | i32 distance back to its vtable, then the fields where the vtable says
 * vtable | u16 bytes of the vtable, u16 bytes of the table, then per field u16 offset in the table (0 = absent)
 * vector | u32 number of elements, elements
 * text   | a vector of bytes with a NUL behind
 *
 * Fields that hold tables, vectors and texts hold a u32 distance forward from the field. Numbers are little-endian and aligned to
 * their size from the start of the buffer; the reader does not ask for the alignment.
 * Tables may be shared, which turns a small buffer into a huge tree: readers of trees count what they visit.
 * Source: the FlatBuffers binary format. */
#include "arrow/ipc_flat.h"

/* Largest flatbuffer: offsets are 32 bits. */
#define FLAT_MAX ((size_t)INT32_MAX)

static pennon_status table_at(struct bytes all, uint64_t pos, struct flat_table *out, pennon_error *err)
{
    int64_t vtable = 0;
    CHECK_FILE_RETURN(range_inside(pos, 4, all.size), "flatbuffer: a table at %" PRIu64 " outside of %zu bytes", pos, all.size);
    vtable = (int64_t)pos - (int32_t)load_u32(all.data + pos);
    CHECK_FILE_RETURN(vtable >= 0 && range_inside((uint64_t)vtable, 4, all.size), "flatbuffer: a vtable outside of the buffer");
    out->all = all;
    out->pos = (uint32_t)pos;
    out->vtable = (uint32_t)vtable;
    out->vsize = load_u16(all.data + vtable);
    out->size = load_u16(all.data + vtable + 2);
    CHECK_FILE_RETURN(out->vsize >= 4 && out->size >= 4 && range_inside((uint64_t)vtable, out->vsize, all.size) &&
                          range_inside(pos, out->size, all.size),
                      "flatbuffer: a table of %u bytes at %" PRIu64 " does not fit", (unsigned)out->size, pos);
    return PENNON_OK;
}

pennon_status flat_root(struct bytes all, struct flat_table *out, pennon_error *err)
{
    CHECK_FILE_RETURN(all.size >= 4 && all.size <= FLAT_MAX, "flatbuffer: %zu bytes", all.size);
    return table_at(all, load_u32(all.data), out, err);
}

/* Where `bytes` bytes of the field are; NULL when the field is absent. */
static pennon_status field_at(const struct flat_table *t, unsigned field, size_t bytes, const uint8_t **out, pennon_error *err)
{
    size_t entry = 4 + (size_t)field * 2;
    uint16_t offset = 0;
    *out = NULL;
    if (entry + 2 > t->vsize) return PENNON_OK;
    offset = load_u16(t->all.data + t->vtable + entry);
    if (offset == 0) return PENNON_OK;
    CHECK_FILE_RETURN(range_inside(offset, bytes, t->size), "flatbuffer: field %u lies outside of its table", field);
    *out = t->all.data + t->pos + offset;
    return PENNON_OK;
}

pennon_status flat_u8(const struct flat_table *t, unsigned field, uint8_t missing, uint8_t *out, pennon_error *err)
{
    const uint8_t *p = NULL;
    TRY_RETURN(field_at(t, field, 1, &p, err));
    *out = p == NULL ? missing : *p;
    return PENNON_OK;
}

pennon_status flat_i16(const struct flat_table *t, unsigned field, int16_t missing, int16_t *out, pennon_error *err)
{
    const uint8_t *p = NULL;
    TRY_RETURN(field_at(t, field, 2, &p, err));
    *out = p == NULL ? missing : (int16_t)load_u16(p);
    return PENNON_OK;
}

pennon_status flat_i32(const struct flat_table *t, unsigned field, int32_t missing, int32_t *out, pennon_error *err)
{
    const uint8_t *p = NULL;
    TRY_RETURN(field_at(t, field, 4, &p, err));
    *out = p == NULL ? missing : (int32_t)load_u32(p);
    return PENNON_OK;
}

pennon_status flat_i64(const struct flat_table *t, unsigned field, int64_t missing, int64_t *out, pennon_error *err)
{
    const uint8_t *p = NULL;
    TRY_RETURN(field_at(t, field, 8, &p, err));
    *out = p == NULL ? missing : (int64_t)load_u64(p);
    return PENNON_OK;
}

/* Position that the offset at `p` points to. */
static uint64_t target_of(const struct flat_table *t, const uint8_t *p) { return (uint64_t)(p - t->all.data) + load_u32(p); }

pennon_status flat_child(const struct flat_table *t, unsigned field, struct flat_table *out, bool *present, pennon_error *err)
{
    const uint8_t *p = NULL;
    TRY_RETURN(field_at(t, field, 4, &p, err));
    *present = p != NULL;
    return p == NULL ? PENNON_OK : table_at(t->all, target_of(t, p), out, err);
}

pennon_status flat_items(const struct flat_table *t, unsigned field, size_t elem, struct flat_vector *out, pennon_error *err)
{
    const uint8_t *p = NULL;
    uint64_t pos = 0;
    out->items = NULL;
    out->n = 0;
    TRY_RETURN(field_at(t, field, 4, &p, err));
    if (p == NULL) return PENNON_OK;
    pos = target_of(t, p);
    CHECK_FILE_RETURN(range_inside(pos, 4, t->all.size), "flatbuffer: a vector outside of the buffer");
    out->n = load_u32(t->all.data + pos);
    CHECK_FILE_RETURN(range_inside(pos + 4, (uint64_t)out->n * elem, t->all.size),
                      "flatbuffer: a vector of %u elements does not fit", out->n);
    out->items = t->all.data + pos + 4;
    return PENNON_OK;
}

pennon_status flat_text(const struct flat_table *t, unsigned field, struct bytes *out, pennon_error *err)
{
    struct flat_vector v;
    TRY_RETURN(flat_items(t, field, 1, &v, err));
    *out = bytes_of(v.items, v.n);
    if (v.items == NULL) return PENNON_OK;
    CHECK_FILE_RETURN((size_t)(v.items - t->all.data) + v.n < t->all.size && v.items[v.n] == '\0',
                      "flatbuffer: a text without its NUL");
    return PENNON_OK;
}

pennon_status flat_item_table(const struct flat_table *t, const struct flat_vector *v, uint32_t i, struct flat_table *out,
                              pennon_error *err)
{
    ASSERT(i < v->n);
    return table_at(t->all, target_of(t, v->items + (size_t)i * 4), out, err);
}

/* ------------------------------------------------------------------------------------------------------------- writing */

static pennon_status align_to(struct buf *b, size_t align, pennon_error *err)
{
    size_t rest = b->size % align;
    return rest == 0 ? PENNON_OK : buf_append_zero(b, align - rest, err);
}

/* The offset at `slot` points to the end of the buffer. */
static void point_here(struct buf *b, size_t slot) { store_u32(b->data + slot, (uint32_t)(b->size - slot)); }

pennon_status flat_begin(struct buf *b, pennon_error *err)
{
    ASSERT(b->size == 0);
    return buf_append_zero(b, 4, err);
}

static size_t kind_size(enum flat_kind k)
{
    switch (k) {
    case FLAT_ABSENT: return 0;
    case FLAT_U8: return 1;
    case FLAT_I16: return 2;
    case FLAT_I32:
    case FLAT_OFFSET: return 4;
    case FLAT_I64: return 8;
    }
    return 0;
}

static void put_scalar(uint8_t *at, enum flat_kind kind, int64_t value)
{
    switch (kind) {
    case FLAT_U8: *at = (uint8_t)value; break;
    case FLAT_I16: store_u16(at, (uint16_t)value); break;
    case FLAT_I32: store_u32(at, (uint32_t)value); break;
    case FLAT_I64: store_u64(at, (uint64_t)value); break;
    case FLAT_ABSENT:
    case FLAT_OFFSET: break;
    }
}

/* Largest fields first behind the 4 bytes of the vtable distance: with the table at 4 modulo 8 nothing needs padding but the end. */
pennon_status flat_put_table(struct buf *b, size_t from_slot, struct flat_field *fields, size_t n, pennon_error *err)
{
    static const enum flat_kind by_size[] = {FLAT_I64, FLAT_I32, FLAT_OFFSET, FLAT_I16, FLAT_U8};
    size_t vtable_size = 4 + 2 * n;
    size_t vtable = 0;
    size_t table = 0;
    size_t size = 4;

    for (size_t i = 0; i < n; i++) size += kind_size(fields[i].kind);
    size = (size_t)round_up(size, 4);
    if (b->size > FLAT_MAX - 64 - vtable_size - size) return error_set(err, PENNON_INVALID_ARGUMENT, "flatbuffer: over 2 GiB");
    TRY_RETURN(align_to(b, 2, err));
    /* Pad in front of the vtable so that the table behind it begins at 4 modulo 8. */
    while ((b->size + vtable_size) % 8 != 4) TRY_RETURN(buf_append_zero(b, 2, err));
    vtable = b->size;
    table = vtable + vtable_size;
    TRY_RETURN(buf_append_zero(b, vtable_size, err));
    point_here(b, from_slot);
    TRY_RETURN(buf_append_zero(b, size, err));
    store_u16(b->data + vtable, (uint16_t)vtable_size);
    store_u16(b->data + vtable + 2, (uint16_t)size);
    store_u32(b->data + table, (uint32_t)vtable_size);
    size = 4;
    for (size_t k = 0; k < ARRAY_LEN(by_size); k++) {
        for (size_t i = 0; i < n; i++) {
            if (fields[i].kind != by_size[k]) continue;
            store_u16(b->data + vtable + 4 + 2 * i, (uint16_t)size);
            put_scalar(b->data + table + size, fields[i].kind, fields[i].value);
            fields[i].slot = table + size;
            size += kind_size(fields[i].kind);
        }
    }
    return PENNON_OK;
}

pennon_status flat_put_text(struct buf *b, size_t from_slot, struct bytes text, pennon_error *err)
{
    uint8_t prefix[4];
    if (text.size > FLAT_MAX || b->size > FLAT_MAX - 16 - text.size)
        return error_set(err, PENNON_INVALID_ARGUMENT, "flatbuffer: over 2 GiB");
    TRY_RETURN(align_to(b, 4, err));
    point_here(b, from_slot);
    store_u32(prefix, (uint32_t)text.size);
    TRY_RETURN(buf_append(b, prefix, 4, err));
    TRY_RETURN(buf_append(b, text.data, text.size, err));
    return buf_append_byte(b, 0, err);
}

pennon_status flat_put_items(struct buf *b, size_t from_slot, size_t n, size_t elem, size_t align, size_t *at, pennon_error *err)
{
    if (n > FLAT_MAX / elem || b->size > FLAT_MAX - 16 - n * elem)
        return error_set(err, PENNON_INVALID_ARGUMENT, "flatbuffer: over 2 GiB");
    TRY_RETURN(align_to(b, 4, err));
    /* The elements are aligned, the number stands right before them. */
    while ((b->size + 4) % align != 0) TRY_RETURN(buf_append_zero(b, 4, err));
    point_here(b, from_slot);
    TRY_RETURN(buf_append_zero(b, 4 + n * elem, err));
    *at = b->size - n * elem;
    store_u32(b->data + *at - 4, (uint32_t)n);
    return PENNON_OK;
}
