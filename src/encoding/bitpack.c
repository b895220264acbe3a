/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Bit packing in FastLanes order: kernels by CPU, random access to one value, and the inline and out-of-line forms.
 *
 * | form        | bytes                                                                          |
 * |-------------|--------------------------------------------------------------------------------|
 * | group       | 128 * W: 1024 values of T bits in W bits each (bitpack_kernel.h)               |
 * | inline      | one word of T bits holding W, then one group (padded with zeros to 1024 values) |
 * | out of line | whole groups, then a tail of t < 1024 values: a padded group, or t words raw   |
 *
 * The out-of-line tail is packed when that is smaller: W * (1024 - t) < (T - W) * t. The reader tells the two by the total
 * length; where both would have the same length it is raw, and the rule never packs then.
 *
 * Source: spec file-format 8.4, 8.5, 8.6. */
#define BITPACK_FORMS_NAME bitpack_forms_portable
#include "encoding/bitpack_kernel.h"

#include "encoding/codec.h"

static const struct bitpack_forms *forms_of(int level)
{
#if defined(__x86_64__)
    if (level >= CPU_AVX512) return &bitpack_forms_avx512;
    if (level >= CPU_AVX2) return &bitpack_forms_avx2;
#endif
    UNUSED(level);
    return &bitpack_forms_portable;
}

/* Little-endian words of a file to machine order, or back: a plain copy on most machines. */
static void words_copy(unsigned t_bits, const uint8_t *in, size_t n, uint8_t *out)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    const size_t size = t_bits / 8;
    for (size_t i = 0; i < n; i++) {
        for (size_t b = 0; b < size / 2 + size % 2; b++) {
            const uint8_t first = in[i * size + b];
            out[i * size + b] = in[i * size + size - 1 - b];
            out[i * size + size - 1 - b] = first;
        }
    }
#else
    if (n > 0 && in != out) memcpy(out, in, n * (t_bits / 8));
#endif
}

void bitunpack_1024_level(int level, unsigned t_bits, unsigned width, const void *in, void *out)
{
    ASSERT(t_bits >= 8 && t_bits <= 64 && (t_bits & (t_bits - 1)) == 0 && width <= t_bits);
    if (width == 0) {
        memset(out, 0, (size_t)128 * t_bits);
    } else {
        forms_of(level)->unpack(t_bits, width, in, out);
        words_copy(t_bits, out, BITPACK_GROUP, out);
    }
}

void bitpack_1024_level(int level, unsigned t_bits, unsigned width, const void *in, void *out)
{
    ASSERT(t_bits >= 8 && t_bits <= 64 && (t_bits & (t_bits - 1)) == 0 && width <= t_bits);
    if (width == 0) return;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    uint8_t words[BITPACK_GROUP * 8];
    words_copy(t_bits, in, BITPACK_GROUP, words);
    in = words;
#endif
    forms_of(level)->pack(t_bits, width, in, out);
}

void bitunpack_1024(unsigned t_bits, unsigned width, const void *in, void *out)
{
    bitunpack_1024_level(cpu_level(), t_bits, width, in, out);
}

void bitpack_1024(unsigned t_bits, unsigned width, const void *in, void *out)
{
    bitpack_1024_level(cpu_level(), t_bits, width, in, out);
}

/* ---- single words of any size ---- */

static uint64_t word_load_le(unsigned t_bits, const uint8_t *p)
{
    switch (t_bits) {
    case 8: return p[0];
    case 16: return load_u16(p);
    case 32: return load_u32(p);
    default: return load_u64(p);
    }
}

static void word_store_le(unsigned t_bits, uint8_t *p, uint64_t v)
{
    switch (t_bits) {
    case 8: p[0] = (uint8_t)v; break;
    case 16: store_u16(p, (uint16_t)v); break;
    case 32: store_u32(p, (uint32_t)v); break;
    default: store_u64(p, v); break;
    }
}

uint64_t bitunpack_one(unsigned t_bits, unsigned width, const void *in, unsigned index)
{
    ASSERT(index < BITPACK_GROUP && width <= t_bits);
    if (width == 0) return 0;
    const unsigned lanes = BITPACK_GROUP / t_bits;
    const unsigned in_row = index % 128;
    const unsigned lane = in_row % lanes;
    const unsigned row = bitpack_order[in_row / lanes * (lanes / 16)] * 8u + index / 128;
    const unsigned bit = row * width;
    const unsigned shift = bit % t_bits;
    const uint8_t *word = (const uint8_t *)in + (size_t)(bit / t_bits) * 128 + (size_t)lane * (t_bits / 8);
    const uint64_t mask = UINT64_MAX >> (64 - width);
    uint64_t v = word_load_le(t_bits, word) >> shift;
    if (shift + width > t_bits) v |= word_load_le(t_bits, word + 128) << (t_bits - shift);
    return v & mask;
}

#define OR_ALL(type)                                \
    do {                                            \
        type all = 0;                               \
        for (size_t i = 0; i < n; i++) {            \
            type v;                                 \
            memcpy(&v, p + i * sizeof v, sizeof v); \
            all = (type)(all | v);                  \
        }                                           \
        return bit_width(all);                      \
    } while (0)

unsigned bitpack_max_width(unsigned t_bits, const void *values, size_t n)
{
    const uint8_t *p = values;
    switch (t_bits) {
    case 8: OR_ALL(uint8_t);
    case 16: OR_ALL(uint16_t);
    case 32: OR_ALL(uint32_t);
    default: ASSERT(t_bits == 64); OR_ALL(uint64_t);
    }
}

/* Unpack the first n values of a group. */
static void unpack_partial(unsigned t_bits, unsigned width, const uint8_t *in, size_t n, uint8_t *out)
{
    ASSERT(n <= BITPACK_GROUP);
    if (n == BITPACK_GROUP) {
        bitunpack_1024(t_bits, width, in, out);
    } else if (n > 0) {
        uint64_t group[BITPACK_GROUP];
        bitunpack_1024(t_bits, width, in, group);
        memcpy(out, group, n * (t_bits / 8));
    }
}

/* Pack n values padded with zeros to a group; `out` gets 128 * width bytes. */
static void pack_partial(unsigned t_bits, unsigned width, const uint8_t *in, size_t n, uint8_t *out)
{
    ASSERT(n <= BITPACK_GROUP);
    if (n == BITPACK_GROUP) {
        bitpack_1024(t_bits, width, in, out);
    } else {
        uint64_t group[BITPACK_GROUP];
        const size_t used = n * (t_bits / 8);
        if (used > 0) memcpy(group, in, used);
        memset((uint8_t *)group + used, 0, (size_t)128 * t_bits - used);
        bitpack_1024(t_bits, width, group, out);
    }
}

/* ---- inline form ---- */

static pennon_status inline_check(unsigned t_bits, struct bytes in, unsigned *width, pennon_error *err)
{
    const size_t word = t_bits / 8;
    CHECK_FILE_RETURN(in.size >= word, "bit packed chunk of %zu bytes has no width", in.size);
    const uint64_t w = word_load_le(t_bits, in.data);
    CHECK_FILE_RETURN(w <= t_bits, "bit packed width %" PRIu64 " of %u bit values", w, t_bits);
    CHECK_FILE_RETURN(in.size == word + (size_t)w * 128, "bit packed chunk of width %" PRIu64 " has %zu bytes", w, in.size);
    *width = (unsigned)w;
    return PENNON_OK;
}

pennon_status inline_bitpack_decode(unsigned t_bits, struct bytes in, size_t n, void *out, pennon_error *err)
{
    unsigned width = 0;
    CHECK_FILE_RETURN(n <= BITPACK_GROUP, "bit packed chunk of %zu values", n);
    TRY_RETURN(inline_check(t_bits, in, &width, err));
    unpack_partial(t_bits, width, in.data + t_bits / 8, n, out);
    return PENNON_OK;
}

pennon_status inline_bitpack_one(unsigned t_bits, struct bytes in, size_t index, uint64_t *out, pennon_error *err)
{
    unsigned width = 0;
    CHECK_FILE_RETURN(index < BITPACK_GROUP, "value %zu of a bit packed chunk", index);
    TRY_RETURN(inline_check(t_bits, in, &width, err));
    *out = bitunpack_one(t_bits, width, in.data + t_bits / 8, (unsigned)index);
    return PENNON_OK;
}

pennon_status inline_bitpack_encode(unsigned t_bits, const void *values, size_t n, struct buf *out, pennon_error *err)
{
    ASSERT(n >= 1 && n <= BITPACK_GROUP);
    const unsigned width = bitpack_max_width(t_bits, values, n);
    const size_t word = t_bits / 8;
    const size_t at = out->size;
    TRY_RETURN(buf_grow(out, word + (size_t)width * 128, err));
    word_store_le(t_bits, out->data + at, width);
    pack_partial(t_bits, width, values, n, out->data + at + word);
    out->size = at + word + (size_t)width * 128;
    return PENNON_OK;
}

/* ---- out-of-line form ---- */

static bool outline_tail_packed(unsigned t_bits, unsigned width, size_t tail)
{
    return tail > 0 && (uint64_t)width * (BITPACK_GROUP - tail) < (uint64_t)(t_bits - width) * tail;
}

size_t outline_bitpack_size(unsigned t_bits, unsigned width, size_t n)
{
    const size_t tail = n % BITPACK_GROUP;
    const size_t group = (size_t)width * 128;
    const size_t tail_size = outline_tail_packed(t_bits, width, tail) ? group : tail * (t_bits / 8);
    return n / BITPACK_GROUP * group + tail_size;
}

pennon_status outline_bitpack_decode(unsigned t_bits, unsigned width, struct bytes in, size_t n, void *out, pennon_error *err)
{
    CHECK_FILE_RETURN(width <= t_bits, "bit packed width %u of %u bit values", width, t_bits);
    const size_t group = (size_t)width * 128;
    const size_t word = t_bits / 8;
    const size_t groups = n / BITPACK_GROUP;
    const size_t tail = n % BITPACK_GROUP;
    uint64_t whole = 0;
    CHECK_FILE_RETURN(!mul_overflows(groups, group, &whole) && whole <= in.size,
                      "bit packed buffer of %zu bytes is too short for %zu values of width %u", in.size, n, width);
    const size_t rest = in.size - (size_t)whole;
    const bool raw = rest == tail * word;
    CHECK_FILE_RETURN(raw || (tail > 0 && rest == group), "bit packed buffer of %zu bytes for %zu values of width %u", in.size, n,
                      width);
    const uint8_t *p = in.size > 0 ? in.data : (const uint8_t *)""; /* nothing is read at width 0 */
    uint8_t *to = out;
    for (size_t g = 0; g < groups; g++) {
        bitunpack_1024(t_bits, width, p, to);
        p += group;
        to += BITPACK_GROUP * word;
    }
    if (raw) {
        words_copy(t_bits, p, tail, to);
    } else {
        unpack_partial(t_bits, width, p, tail, to);
    }
    return PENNON_OK;
}

pennon_status outline_bitpack_encode(unsigned t_bits, unsigned width, const void *values, size_t n, struct buf *out,
                                     pennon_error *err)
{
    ASSERT(width <= t_bits);
    const size_t size = outline_bitpack_size(t_bits, width, n);
    const size_t group = (size_t)width * 128;
    const size_t word = t_bits / 8;
    const size_t tail = n % BITPACK_GROUP;
    if (size == 0) return PENNON_OK; /* no values, or all zero in whole groups */
    TRY_RETURN(buf_grow(out, size, err));
    const uint8_t *p = values;
    uint8_t *to = out->data + out->size;
    for (size_t g = 0; g < n / BITPACK_GROUP; g++) {
        bitpack_1024(t_bits, width, p, to);
        p += BITPACK_GROUP * word;
        to += group;
    }
    if (outline_tail_packed(t_bits, width, tail)) {
        pack_partial(t_bits, width, p, tail, to);
    } else {
        words_copy(t_bits, p, tail, to);
    }
    out->size += size;
    return PENNON_OK;
}
