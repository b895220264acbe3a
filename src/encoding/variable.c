/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Values of variable width: the block form (dictionaries) and the mini-block form (chunks).
 *
 * | form           | bytes                                                                             |
 * |----------------|-----------------------------------------------------------------------------------|
 * | block, 32 bits | u32 32, u32 start = 8 + 4(n+1), u32 offset[n+1], values; offsets count from start  |
 * | block, 64 bits | u64 64, u64 start = 16 + 8(n+1), u64 offset[n+1], values                           |
 * | obsolete block | u8 32, u32 n, u32 start, ... or u8 64, u64 n, u64 start, ...; told by bytes 1..3    |
 * | chunk          | offset[n+1] of 4 or 8 bytes, values; offsets count from the start of the chunk; the |
 * |                | whole is a multiple of the offset width                                            |
 *
 * Opening checks all offsets once, so that nothing behind it has to.
 *
 * Source: spec file-format 8.2, 8.3; trap 18. */
#include "encoding/codec.h"

#define CHUNK_FILL 0x48 /* official's padding byte */

/* n + 1 offsets never decrease. */
static bool offsets_ordered(const uint8_t *p, unsigned width, uint64_t n)
{
    bool bad = false;
    if (width == 4) {
        for (uint64_t i = 0; i < n; i++) bad |= load_u32(p + 4 * i) > load_u32(p + 4 * i + 4);
    } else {
        for (uint64_t i = 0; i < n; i++) bad |= load_u64(p + 8 * i) > load_u64(p + 8 * i + 8);
    }
    return !bad;
}

static pennon_status view_check(const struct variable_view *v, pennon_error *err)
{
    const uint64_t last = variable_offset(v, v->n);
    CHECK_FILE_RETURN(last <= v->base.size, "variable width values end at %" PRIu64 " of %zu bytes", last, v->base.size);
    CHECK_FILE_RETURN(offsets_ordered(v->offsets, v->offset_width, v->n), "offsets of variable width values decrease");
    return PENNON_OK;
}

/* True when n + 1 offsets of `width` bytes fit `size` bytes. */
static bool offsets_fit(uint64_t n, unsigned width, size_t size) { return n < size / width; }

pennon_status variable_chunk_open(struct bytes in, unsigned offset_width, uint64_t n, struct variable_view *out, pennon_error *err)
{
    ASSERT(offset_width == 4 || offset_width == 8);
    CHECK_FILE_RETURN(offsets_fit(n, offset_width, in.size), "%zu bytes for %" PRIu64 " variable width values", in.size, n);
    *out = (struct variable_view){in, in.data, offset_width, n};
    return view_check(out, err);
}

pennon_status variable_block_open(struct bytes in, uint64_t n, struct variable_view *out, pennon_error *err)
{
    CHECK_FILE_RETURN(in.size >= 9, "block of variable width values of %zu bytes", in.size);
    const bool obsolete = in.data[1] != 0 || in.data[2] != 0 || in.data[3] != 0;
    const unsigned bits = in.data[0];
    CHECK_FILE_RETURN(bits == 32 || bits == 64, "block of variable width values with %u bit offsets", bits);
    const unsigned width = bits / 8;
    const size_t head = obsolete ? 1 + 2 * (size_t)width : 2 * (size_t)width;
    CHECK_FILE_RETURN(in.size >= head, "block of variable width values of %zu bytes", in.size);
    const uint8_t *start_at = in.data + head - width;
    const uint64_t start = width == 4 ? load_u32(start_at) : load_u64(start_at);
    if (obsolete) {
        const uint64_t count = width == 4 ? load_u32(in.data + 1) : load_u64(in.data + 1);
        CHECK_FILE_RETURN(count == n, "block of %" PRIu64 " variable width values, expected %" PRIu64, count, n);
    }
    CHECK_FILE_RETURN(start >= head && start <= in.size, "variable width values start at %" PRIu64 " of %zu bytes", start, in.size);
    CHECK_FILE_RETURN(offsets_fit(n, width, (size_t)start - head),
                      "room for fewer than %" PRIu64 " offsets of variable width values", n);
    *out = (struct variable_view){bytes_of(in.data + start, in.size - (size_t)start), in.data + head, width, n};
    return view_check(out, err);
}

#define COPY_OFFSETS(load, from_size, type)                                            \
    do {                                                                               \
        for (uint64_t i = 0; i <= n; i++) {                                            \
            const type value = (type)((type)load(from + (from_size)*i) + (type)shift); \
            memcpy(to + i * sizeof value, &value, sizeof value);                       \
        }                                                                              \
    } while (0)

pennon_status variable_offsets_copy(const struct variable_view *v, uint64_t first, uint64_t n, uint64_t base, unsigned out_width,
                                    void *out, pennon_error *err)
{
    ASSERT(range_inside(first, n, v->n) && (out_width == 4 || out_width == 8));
    const uint64_t start = variable_offset(v, first);
    const uint64_t size = variable_offset(v, first + n) - start;
    const uint64_t most = out_width == 4 ? INT32_MAX : INT64_MAX;
    const uint64_t shift = base - start; /* wraps on purpose */
    const uint8_t *from = v->offsets + first * v->offset_width;
    uint8_t *to = out;
    if (base > most || size > most - base) {
        return error_set(err, PENNON_OVER_BUDGET, "%" PRIu64 " bytes of values do not fit %u bit offsets", base + size,
                         out_width * 8);
    }
    if (v->offset_width == 4 && out_width == 4) {
        COPY_OFFSETS(load_u32, 4, uint32_t);
    } else if (v->offset_width == 4) {
        COPY_OFFSETS(load_u32, 4, uint64_t);
    } else if (out_width == 4) {
        COPY_OFFSETS(load_u64, 8, uint32_t);
    } else {
        COPY_OFFSETS(load_u64, 8, uint64_t);
    }
    return PENNON_OK;
}

/* ---- writing ---- */

static uint64_t native_offset(unsigned width, const uint8_t *p, uint64_t i)
{
    uint32_t v32;
    uint64_t v64;
    if (width == 4) {
        memcpy(&v32, p + 4 * i, 4);
        return v32;
    }
    memcpy(&v64, p + 8 * i, 8);
    return v64;
}

/* Write n + 1 little-endian offsets that begin at `base`. */
static void offsets_write(unsigned width, const uint8_t *in, uint64_t n, uint64_t base, uint8_t *out)
{
    const uint64_t first = native_offset(width, in, 0);
    if (width == 4) {
        for (uint64_t i = 0; i <= n; i++) store_u32(out + 4 * i, (uint32_t)(native_offset(4, in, i) - first + base));
    } else {
        for (uint64_t i = 0; i <= n; i++) store_u64(out + 8 * i, native_offset(8, in, i) - first + base);
    }
}

/* Append `head` unset bytes, the offsets and the values. */
static pennon_status parts_append(unsigned width, const uint8_t *offsets, uint64_t n, uint64_t base, size_t head,
                                  const uint8_t *data, struct buf *out, pennon_error *err)
{
    ASSERT(width == 4 || width == 8);
    const uint64_t first = native_offset(width, offsets, 0);
    const uint64_t last = native_offset(width, offsets, n);
    ASSERT(last >= first);
    const size_t table = ((size_t)n + 1) * width;
    const size_t bytes = (size_t)(last - first);
    if (width == 4 && base + bytes > UINT32_MAX) {
        return error_set(err, PENNON_OVER_BUDGET, "%zu bytes of values do not fit 32 bit offsets", bytes);
    }
    TRY_RETURN(buf_grow(out, head + table + bytes, err));
    uint8_t *at = out->data + out->size + head;
    offsets_write(width, offsets, n, base, at);
    if (bytes > 0) memcpy(at + table, data + first, bytes);
    out->size += head + table + bytes;
    return PENNON_OK;
}

pennon_status variable_block_encode(unsigned offset_width, const void *offsets, uint64_t n, const uint8_t *data, struct buf *out,
                                    pennon_error *err)
{
    const size_t at = out->size;
    const size_t head = 2 * (size_t)offset_width;
    const uint64_t start = head + (n + 1) * offset_width;
    TRY_RETURN(parts_append(offset_width, offsets, n, 0, head, data, out, err));
    if (offset_width == 4) {
        store_u32(out->data + at, 32);
        store_u32(out->data + at + 4, (uint32_t)start);
    } else {
        store_u64(out->data + at, 64);
        store_u64(out->data + at + 8, start);
    }
    return PENNON_OK;
}

pennon_status variable_chunk_encode(unsigned offset_width, const void *offsets, uint64_t n, const uint8_t *data, struct buf *out,
                                    pennon_error *err)
{
    const size_t at = out->size;
    TRY_RETURN(parts_append(offset_width, offsets, n, (n + 1) * offset_width, 0, data, out, err));
    while ((out->size - at) % offset_width != 0) TRY_RETURN(buf_append_byte(out, CHUNK_FILL, err));
    return PENNON_OK;
}
