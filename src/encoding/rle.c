/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Run lengths: pairs of a value and a count of 1..255.
 *
 * | form       | bytes                                                                     |
 * |------------|---------------------------------------------------------------------------|
 * | mini-block | two buffers: values of T bits, lengths of 8 bits                          |
 * | block      | u64 size of the values in bytes, values, lengths                          |
 *
 * A run longer than 255 is several pairs. Mini-block chunks of official may overhang: their lengths sum to more than the chunk
 * holds, and the rest is ignored (8.7). Our chunks never do.
 *
 * Expansion writes whole 64-byte pieces of a repeated pattern while there is room behind the run, so short runs cost one
 * piece and no loop.
 *
 * Source: spec file-format 8.7, 9.6. */
#include "encoding/codec.h"

#define RUN_MAX 255u
#define PIECE 64u /* bytes written at once */

static ALWAYS_INLINE uint64_t pattern_load(unsigned width, const uint8_t *p)
{
    uint16_t v16;
    uint32_t v32;
    uint64_t v64;
    switch (width) {
    case 1: return p[0] * UINT64_C(0x0101010101010101);
    case 2: memcpy(&v16, p, 2); return v16 * UINT64_C(0x0001000100010001);
    case 4: memcpy(&v32, p, 4); return v32 * UINT64_C(0x0000000100000001);
    default: memcpy(&v64, p, 8); return v64;
    }
}

static ALWAYS_INLINE void piece_store(uint8_t *to, uint64_t pattern)
{
    uint64_t piece[PIECE / 8];
    for (unsigned i = 0; i < PIECE / 8; i++) piece[i] = pattern;
    memcpy(to, piece, PIECE);
}

/* Runs that were expanded into *room bytes at `out`; *room becomes what is left. Stops at the end of the room, at a zero
 * length, or (without clamp) at a run that goes past it. `width` is a constant in each caller. */
static ALWAYS_INLINE size_t runs_expand(unsigned width, const uint8_t *values, const uint8_t *lengths, size_t runs, bool clamp,
                                        uint8_t *out, size_t *room)
{
    size_t left = *room;
    size_t i = 0;
    for (; i < runs && left > 0; i++) {
        size_t bytes = (size_t)lengths[i] * width;
        const uint64_t pattern = pattern_load(width, values + i * width);
        if (UNLIKELY(bytes == 0)) break;
        if (UNLIKELY(bytes > left)) {
            if (!clamp) break;
            bytes = left;
        }
        if (LIKELY(bytes + PIECE <= left)) {
            for (size_t at = 0; at < bytes; at += PIECE) piece_store(out + at, pattern);
        } else {
            for (size_t at = 0; at < bytes; at += width) memcpy(out + at, values + i * width, width);
        }
        out += bytes;
        left -= bytes;
    }
    *room = left;
    return i;
}

pennon_status rle_expand(unsigned width, struct bytes values, struct bytes lengths, bool clamp, size_t n, void *out,
                         pennon_error *err)
{
    ASSERT(width == 1 || width == 2 || width == 4 || width == 8);
    const size_t runs = lengths.size;
    size_t room = 0;
    size_t done = 0;
    CHECK_FILE_RETURN(values.size % width == 0 && values.size / width == runs,
                      "run lengths: %zu bytes of %u byte values for %zu lengths", values.size, width, runs);
    CHECK_FILE_RETURN(!size_mul_overflows(n, width, &room), "run lengths: %zu values", n);
    switch (width) {
    case 1: done = runs_expand(1, values.data, lengths.data, runs, clamp, out, &room); break;
    case 2: done = runs_expand(2, values.data, lengths.data, runs, clamp, out, &room); break;
    case 4: done = runs_expand(4, values.data, lengths.data, runs, clamp, out, &room); break;
    default: done = runs_expand(8, values.data, lengths.data, runs, clamp, out, &room); break;
    }
    CHECK_FILE_RETURN(done == runs || lengths.data[done] != 0 || room == 0, "run lengths: zero length in run %zu", done);
    CHECK_FILE_RETURN(done == runs || clamp, "run lengths: more than %zu values", n);
    CHECK_FILE_RETURN(room == 0, "run lengths: %zu of %zu values missing", room / width, n);
    return PENNON_OK;
}

pennon_status rle_block_open(struct bytes in, struct bytes *values, struct bytes *lengths, pennon_error *err)
{
    CHECK_FILE_RETURN(in.size >= 8, "run length block of %zu bytes", in.size);
    const uint64_t size = load_u64(in.data);
    CHECK_FILE_RETURN(size <= in.size - 8, "run length block of %zu bytes with %" PRIu64 " bytes of values", in.size, size);
    *values = bytes_of(in.data + 8, (size_t)size);
    *lengths = bytes_of(in.data + 8 + size, in.size - 8 - (size_t)size);
    return PENNON_OK;
}

/* ---- writing ---- */

#define COUNT_BLOCK 128u /* changes of a block fit the smallest counter */

#define COUNT_CHANGES(type)                                               \
    do {                                                                  \
        for (size_t i = 1; i < n; i += COUNT_BLOCK) {                     \
            const size_t end = n - i < COUNT_BLOCK ? n : i + COUNT_BLOCK; \
            type changes = 0;                                             \
            for (size_t k = i; k < end; k++) {                            \
                type a, b;                                                \
                memcpy(&a, p + (k - 1) * sizeof a, sizeof a);             \
                memcpy(&b, p + k * sizeof b, sizeof b);                   \
                changes = (type)(changes + (a != b));                     \
            }                                                             \
            runs += (size_t)changes;                                      \
        }                                                                 \
    } while (0)

size_t rle_count_runs(unsigned width, const void *values, size_t n)
{
    const uint8_t *p = values;
    size_t runs = 1;
    if (n == 0) return 0;
    switch (width) {
    case 1: COUNT_CHANGES(uint8_t); break;
    case 2: COUNT_CHANGES(uint16_t); break;
    case 4: COUNT_CHANGES(uint32_t); break;
    case 8: COUNT_CHANGES(uint64_t); break;
    default:
        for (size_t i = 1; i < n; i++) runs += memcmp(p + (i - 1) * width, p + i * width, width) != 0;
        break;
    }
    return runs;
}

/* Length of the run that begins at value i, at most `limit`. `width` is a constant in each caller. */
static ALWAYS_INLINE size_t run_length(unsigned width, const uint8_t *p, size_t i, size_t limit)
{
    const uint64_t v = pattern_load(width, p + i * width);
    size_t length = 1;
    while (length < limit && pattern_load(width, p + (i + length) * width) == v) length++;
    return length;
}

/* Values that the first `pairs` runs hold, at most `limit`. */
static ALWAYS_INLINE size_t pairs_hold(unsigned width, const uint8_t *p, size_t pairs, size_t limit)
{
    size_t taken = 0;
    /* A run that ends at 255 starts a new pair, as rle_encode writes it. */
    for (size_t pair = 0; pair < pairs && taken < limit; pair++) {
        const size_t room = limit - taken;
        taken += run_length(width, p, taken, room < RUN_MAX ? room : RUN_MAX);
    }
    return taken;
}

size_t rle_chunk_values(unsigned width, const void *in, size_t n, size_t max_bytes, size_t max_values)
{
    ASSERT(max_values >= 2 && max_bytes >= 2 * (size_t)(width + 1));
    const size_t limit = n < max_values ? n : max_values;
    const size_t pairs = max_bytes / (width + 1);
    size_t taken = 0;
    switch (width) {
    case 1: taken = pairs_hold(1, in, pairs, limit); break;
    case 2: taken = pairs_hold(2, in, pairs, limit); break;
    case 4: taken = pairs_hold(4, in, pairs, limit); break;
    default: taken = pairs_hold(8, in, pairs, limit); break;
    }
    if (taken == n) return n;
    ASSERT(taken >= 2);
    return (size_t)1 << (bit_width(taken) - 1);
}

/* Write the runs of n values; there is room for n pairs. Returns the number of pairs. */
static ALWAYS_INLINE size_t runs_write(unsigned width, const uint8_t *p, size_t n, uint8_t *values, uint8_t *lengths)
{
    size_t pairs = 0;
    for (size_t i = 0; i < n; pairs++) {
        const size_t length = run_length(width, p, i, n - i < RUN_MAX ? n - i : RUN_MAX);
        memcpy(values + pairs * width, p + i * width, width);
        lengths[pairs] = (uint8_t)length;
        i += length;
    }
    return pairs;
}

pennon_status rle_encode(unsigned width, const void *in, size_t n, struct buf *values, struct buf *lengths, pennon_error *err)
{
    ASSERT(width == 1 || width == 2 || width == 4 || width == 8);
    /* One pair a change of value, and one more for each 255 values of a long run. */
    const size_t most = rle_count_runs(width, in, n) + n / RUN_MAX;
    size_t pairs = 0;
    TRY_RETURN(buf_grow(values, most * width, err));
    TRY_RETURN(buf_grow(lengths, most, err));
    if (n == 0) return PENNON_OK;
    uint8_t *v = values->data + values->size, *l = lengths->data + lengths->size;
    switch (width) {
    case 1: pairs = runs_write(1, in, n, v, l); break;
    case 2: pairs = runs_write(2, in, n, v, l); break;
    case 4: pairs = runs_write(4, in, n, v, l); break;
    default: pairs = runs_write(8, in, n, v, l); break;
    }
    ASSERT(pairs <= most);
    values->size += pairs * width;
    lengths->size += pairs;
    return PENNON_OK;
}

pennon_status rle_block_encode(unsigned width, const void *in, size_t n, struct buf *out, pennon_error *err)
{
    pennon_status st = PENNON_OK;
    const size_t head = out->size;
    struct buf lengths;
    buf_init(&lengths, out->mem, BUF_NO_LIMIT);
    TRY(buf_append_zero(out, 8, err));
    TRY(rle_encode(width, in, n, out, &lengths, err));
    store_u64(out->data + head, out->size - head - 8);
    TRY(buf_append(out, lengths.data, lengths.size, err));
done:
    buf_free(&lengths);
    return st;
}
