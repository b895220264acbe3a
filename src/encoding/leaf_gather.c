/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The values of a page out of Arrow arrays: one stretch of one array is borrowed, several are put together in the arena.
 *
 * A range names logical slots of the leaf array of a batch. Slots of nested storage follow Arrow's rules: child slot of a struct is
 * offset + slot, of a fixed size list (offset + slot) * dimension, and the child's own offset is added when its buffers are read.
 *
 * Source: spec file-format 4.4, 5; the Arrow C data interface. */
#include "encoding/page_parts.h"

uint64_t leaf_bits(const struct leaf_type *t)
{
    switch (t->kind) {
    case LEAF_BITS: return leaf_items(t);
    case LEAF_FIXED: return leaf_items(t) * t->width * 8;
    case LEAF_DICTIONARY: return (uint64_t)t->width * 8;
    case LEAF_BLOB: return 128;
    default: return 0;
    }
}

uint64_t leaf_max_length(const struct leaf_in *in)
{
    ASSERT(in->type->kind == LEAF_VARIABLE);
    uint64_t most = 0;
    for (uint64_t i = 0; i < in->n; i++) most = max_u64(most, leaf_offset(in, i + 1) - leaf_offset(in, i));
    return most;
}

/* Items of list k in one value. */
static uint64_t items_of(const struct leaf_type *t, uint32_t k)
{
    uint64_t items = 1;
    for (uint32_t i = 0; i <= k; i++) items *= t->dims[i];
    return items;
}

pennon_status leaf_slice(struct arena *a, const struct leaf_in *in, uint64_t start, uint64_t n, struct leaf_in *out,
                         pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct leaf_type *t = in->type;
    struct leaf_in *children = NULL;
    ASSERT(range_inside(start, n, in->n));
    *out = *in;
    out->n = n;
    if (t->kind == LEAF_BITS) {
        out->bit += start * leaf_items(t);
    } else if (in->values) {
        out->values += start * (leaf_bits(t) / 8);
    }
    if (in->offsets) out->offsets += start * leaf_offset_width(in);
    for (uint32_t k = 0; k < t->n_dims; k++) out->item_bit[k] += start * items_of(t, k);
    if (in->children) {
        TRY_NEW(children, arena_calloc(a, t->n_children, sizeof *children, err));
        for (uint32_t i = 0; i < t->n_children; i++) TRY(leaf_slice(a, &in->children[i], start, n, &children[i], err));
        out->children = children;
    }
done:
    return st;
}

/* ---- parts of one type; each range has been turned into physical slots by the caller ---- */

/* A stretch of an array: physical slots of its buffers. */
struct stretch {
    const struct ArrowArray *array;
    uint64_t start;
    uint64_t count;
};

static const uint8_t *buffer_of(const struct ArrowArray *array, int64_t i)
{
    ASSERT(i < array->n_buffers);
    return array->buffers[i];
}

/* Fixed `width` bytes a slot out of buffer 1. */
static pennon_status fixed_gather(struct arena *a, const struct stretch *s, size_t n, uint64_t total, uint64_t width,
                                  const uint8_t **out, pennon_error *err)
{
    if (n == 1) {
        *out = buffer_of(s->array, 1) + s->start * width;
        return PENNON_OK;
    }
    size_t bytes = 0;
    if (total > SIZE_MAX || size_mul_overflows((size_t)total, (size_t)width, &bytes)) {
        return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " values of %" PRIu64 " bytes in one page", total, width);
    }
    uint8_t *to = arena_alloc(a, bytes, err);
    if (!to) return err->code;
    *out = to;
    for (size_t i = 0; i < n; i++) {
        const size_t part = (size_t)(s[i].count * width);
        if (part > 0) memcpy(to, buffer_of(s[i].array, 1) + s[i].start * width, part);
        to += part;
    }
    return PENNON_OK;
}

/* Bits out of buffer `index` (0 validity, 1 values); a missing validity bitmap is all ones. */
static pennon_status bits_gather(struct arena *a, const struct stretch *s, size_t n, uint64_t total, int64_t index,
                                 const uint8_t **out, uint64_t *bit, pennon_error *err)
{
    if (n == 1 && buffer_of(s->array, index)) {
        *out = buffer_of(s->array, index);
        *bit = s->start;
        return PENNON_OK;
    }
    uint8_t *to = arena_calloc(a, (size_t)bitmap_bytes(total) + 1, 1, err);
    if (!to) return err->code;
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *from = buffer_of(s[i].array, index);
        if (from) {
            bits_copy(to, at, from, s[i].start, s[i].count);
        } else {
            bits_fill(to, at, s[i].count, true);
        }
        at += s[i].count;
    }
    *out = to;
    *bit = 0;
    return PENNON_OK;
}

/* Nulls among the slots, which the array may have or not. */
static uint64_t nulls_count(const struct stretch *s, size_t n)
{
    uint64_t nulls = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *validity = buffer_of(s[i].array, 0);
        if (validity && s[i].array->null_count != 0) nulls += s[i].count - bits_count(validity, s[i].start, s[i].count);
    }
    return nulls;
}

static uint64_t array_offset(const struct ArrowArray *array, bool large, uint64_t slot)
{
    const uint8_t *p = buffer_of(array, 1);
    int32_t v32;
    int64_t v64;
    if (large) {
        memcpy(&v64, p + slot * 8, 8);
        return (uint64_t)v64;
    }
    memcpy(&v32, p + slot * 4, 4);
    return (uint64_t)v32;
}

static void offset_store(uint8_t *p, bool large, uint64_t i, uint64_t v)
{
    const uint32_t v32 = (uint32_t)v;
    memcpy(p + i * (large ? 8 : 4), large ? (const void *)&v : (const void *)&v32, large ? 8 : 4);
}

static pennon_status variable_gather(struct arena *a, const struct stretch *s, size_t n, struct leaf_in *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const bool large = out->type->large;
    uint64_t size = 0, at = 0, filled = 0;
    uint8_t *offsets = NULL, *data = NULL;
    static const uint8_t no_offset[8] = {0};
    if (n == 1 && buffer_of(s->array, 1)) {
        out->offsets = buffer_of(s->array, 1) + s->start * (large ? 8 : 4);
        out->data = buffer_of(s->array, 2) ? buffer_of(s->array, 2) : no_offset;
        return PENNON_OK;
    }
    for (size_t i = 0; i < n; i++) {
        if (s[i].count == 0) continue;
        size += array_offset(s[i].array, large, s[i].start + s[i].count) - array_offset(s[i].array, large, s[i].start);
    }
    if (!large && size > INT32_MAX) FAIL(PENNON_OVER_BUDGET, "%" PRIu64 " bytes of text in one page", size);
    TRY_NEW(offsets, arena_alloc(a, (size_t)(out->n + 1) * (large ? 8 : 4), err));
    TRY_NEW(data, arena_alloc(a, (size_t)size + 1, err));
    offset_store(offsets, large, 0, 0);
    for (size_t i = 0; i < n; i++) {
        if (s[i].count == 0) continue;
        const uint64_t first = array_offset(s[i].array, large, s[i].start);
        const uint64_t last = array_offset(s[i].array, large, s[i].start + s[i].count);
        for (uint64_t k = 1; k <= s[i].count; k++) {
            offset_store(offsets, large, filled + k, at + array_offset(s[i].array, large, s[i].start + k) - first);
        }
        if (last > first) memcpy(data + at, buffer_of(s[i].array, 2) + first, (size_t)(last - first));
        at += last - first;
        filled += s[i].count;
    }
    ASSERT(filled == out->n && at == size);
    out->offsets = offsets;
    out->data = data;
done:
    return st;
}

/* Go down the fixed size lists: afterwards the stretches are those of the innermost items. */
static pennon_status dims_gather(struct arena *a, struct stretch *s, size_t n, struct leaf_in *out, pennon_error *err)
{
    const struct leaf_type *t = out->type;
    for (uint32_t k = 0; k < t->n_dims; k++) {
        for (size_t i = 0; i < n; i++) {
            ASSERT(s[i].array->n_children == 1);
            const struct ArrowArray *child = s[i].array->children[0];
            s[i] = (struct stretch){child, (uint64_t)child->offset + s[i].start * t->dims[k], s[i].count * t->dims[k]};
        }
        if (nulls_count(s, n) == 0) continue;
        TRY_RETURN(bits_gather(a, s, n, out->n * items_of(t, k), 0, &out->item_validity[k], &out->item_bit[k], err));
    }
    return PENNON_OK;
}

/* A null of a packed child may only stand where the struct itself is null. */
static pennon_status packed_nulls_check(const struct stretch *s, size_t n, uint32_t child, const uint16_t *def, pennon_error *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *validity = buffer_of(s[i].array, 0);
        for (uint64_t k = 0; validity && k < s[i].count; k++) {
            if (!bit_get(validity, s[i].start + k) && (!def || def[at + k] == 0)) {
                return error_set(err, PENNON_NOT_SUPPORTED, "null in child %" PRIu32 " of a packed struct", child);
            }
        }
        at += s[i].count;
    }
    return PENNON_OK;
}

static pennon_status stretches_gather(struct arena *a, struct stretch *s, size_t n, const uint16_t *def, struct leaf_in *out,
                                      pennon_error *err);

static pennon_status packed_gather(struct arena *a, const struct stretch *s, size_t n, const uint16_t *def, struct leaf_in *out,
                                   pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const struct leaf_type *t = out->type;
    struct leaf_in *children = NULL;
    struct stretch *inner = NULL;
    TRY_NEW(children, arena_calloc(a, t->n_children, sizeof *children, err));
    TRY_NEW(inner, arena_calloc(a, n + 1, sizeof *inner, err));
    for (uint32_t c = 0; c < t->n_children; c++) {
        for (size_t i = 0; i < n; i++) {
            ASSERT(s[i].array->n_children == (int64_t)t->n_children);
            const struct ArrowArray *child = s[i].array->children[c];
            inner[i] = (struct stretch){child, (uint64_t)child->offset + s[i].start, s[i].count};
        }
        children[c] = (struct leaf_in){.type = &t->children[c], .n = out->n};
        if (nulls_count(inner, n) > 0) TRY(packed_nulls_check(inner, n, c, def, err));
        TRY(stretches_gather(a, inner, n, NULL, &children[c], err));
    }
    out->children = children;
done:
    return st;
}

static pennon_status stretches_gather(struct arena *a, struct stretch *s, size_t n, const uint16_t *def, struct leaf_in *out,
                                      pennon_error *err)
{
    const struct leaf_type *t = out->type;
    TRY_RETURN(dims_gather(a, s, n, out, err));
    const uint64_t items = out->n * leaf_items(t);
    switch (t->kind) {
    case LEAF_NULL: return PENNON_OK;
    case LEAF_BITS: return bits_gather(a, s, n, items, 1, &out->values, &out->bit, err);
    case LEAF_FIXED: return fixed_gather(a, s, n, items, t->width, &out->values, err);
    case LEAF_VARIABLE: return variable_gather(a, s, n, out, err);
    case LEAF_PACKED: return packed_gather(a, s, n, def, out, err);
    case LEAF_DICTIONARY:
    case LEAF_BLOB: break;
    }
    return error_set(err, PENNON_NOT_SUPPORTED, "dictionary inside a packed struct");
}

pennon_status leaf_gather(struct arena *a, const struct leaf_type *type, const struct ArrowArray *const *arrays, size_t n_arrays,
                          const struct level_range *ranges, size_t n_ranges, const uint16_t *def, struct leaf_in *out,
                          pennon_error *err)
{
    pennon_status st = PENNON_OK;
    struct stretch *s = NULL;
    *out = (struct leaf_in){.type = type};
    TRY_NEW(s, arena_calloc(a, n_ranges + 1, sizeof *s, err));
    for (size_t i = 0; i < n_ranges; i++) {
        ASSERT(ranges[i].chain < n_arrays);
        const struct ArrowArray *array = arrays[ranges[i].chain];
        s[i] = (struct stretch){array, (uint64_t)array->offset + ranges[i].start, ranges[i].count};
        out->n += ranges[i].count;
    }
    UNUSED(n_arrays);
    TRY(stretches_gather(a, s, n_ranges, def, out, err));
done:
    return st;
}
