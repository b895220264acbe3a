/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Flatbuffers, the little of them that Arrow's messages need: a bounded reader and a front-to-back writer. */
#ifndef ARROW_IPC_FLAT_H
#define ARROW_IPC_FLAT_H

#include "base/base.h"

/* ---- reading: positions are checked against the bytes at every step; failures are CORRUPT ---- */

struct flat_table {
    struct bytes all; /* the whole flatbuffer */
    uint32_t pos;     /* of the table */
    uint32_t vtable;  /* position of its vtable */
    uint16_t vsize;   /* bytes of the vtable, >= 4 */
    uint16_t size;    /* bytes of the table's own fields, >= 4 */
};

struct flat_vector {
    const uint8_t *items; /* n elements of the size asked for, inside the flatbuffer */
    uint32_t n;
};

pennon_status flat_root(struct bytes all, struct flat_table *out, pennon_error *err) CHECKED;
/* Scalars; `missing` is given when the field is absent. */
pennon_status flat_u8(const struct flat_table *t, unsigned field, uint8_t missing, uint8_t *out, pennon_error *err) CHECKED;
pennon_status flat_i16(const struct flat_table *t, unsigned field, int16_t missing, int16_t *out, pennon_error *err) CHECKED;
pennon_status flat_i32(const struct flat_table *t, unsigned field, int32_t missing, int32_t *out, pennon_error *err) CHECKED;
pennon_status flat_i64(const struct flat_table *t, unsigned field, int64_t missing, int64_t *out, pennon_error *err) CHECKED;
/* A table in a field; *present is false when the field is absent. */
pennon_status flat_child(const struct flat_table *t, unsigned field, struct flat_table *out, bool *present,
                         pennon_error *err) CHECKED;
/* Text or bytes; data NULL when absent. The NUL behind it is checked. */
pennon_status flat_text(const struct flat_table *t, unsigned field, struct bytes *out, pennon_error *err) CHECKED;
/* A vector of elements of `elem` bytes; n = 0 when absent. */
pennon_status flat_items(const struct flat_table *t, unsigned field, size_t elem, struct flat_vector *out,
                         pennon_error *err) CHECKED;
/* Element i of a vector of tables (flat_items with elem 4). */
pennon_status flat_item_table(const struct flat_table *t, const struct flat_vector *v, uint32_t i, struct flat_table *out,
                              pennon_error *err) CHECKED;

/* ---- writing: parents first, children behind them, so that offsets point forward ---- */

enum flat_kind { FLAT_ABSENT = 0, FLAT_U8, FLAT_I16, FLAT_I32, FLAT_I64, FLAT_OFFSET };

struct flat_field {
    enum flat_kind kind;
    int64_t value; /* scalars */
    size_t slot;   /* out: position of a FLAT_OFFSET field, for from_slot of what it points to */
};

/* Begin a flatbuffer in the empty `b`: room for the root offset, slot 0. */
pennon_status flat_begin(struct buf *b, pennon_error *err) CHECKED;
/* Write vtable and table with these fields (the index is the field number) at the end;
 * `from_slot` (0 for the root) is the slot that points here. */
pennon_status flat_put_table(struct buf *b, size_t from_slot, struct flat_field *fields, size_t n, pennon_error *err) CHECKED;
pennon_status flat_put_text(struct buf *b, size_t from_slot, struct bytes text, pennon_error *err) CHECKED;
/* A vector of n elements of `elem` bytes (1, 4 or 8 aligned by `align`), zeroed; *at is the position of the first. */
pennon_status flat_put_items(struct buf *b, size_t from_slot, size_t n, size_t elem, size_t align, size_t *at,
                             pennon_error *err) CHECKED;

#endif
