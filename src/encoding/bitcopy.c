/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Ranges of bits at any position: copy, fill, count, and to and from one byte a value. Least significant bit first, as Arrow.
 *
 * All work is done in words of up to 64 bits: the few bits before a byte border of the destination first, then whole words,
 * then the rest. Reads never leave the bytes that hold the bits of the range.
 *
 * Source: the Arrow columnar format; spec file-format 4.4. */
#include "encoding/codec.h"

/* n (1..64) bits from `bit` on. */
static uint64_t bits_load(const uint8_t *p, uint64_t bit, unsigned n)
{
    ASSERT(n >= 1 && n <= 64);
    const uint8_t *at = p + (bit >> 3);
    const unsigned shift = (unsigned)(bit & 7);
    const unsigned bytes = (shift + n + 7) / 8;
    uint8_t raw[16] = {0};
    if (LIKELY(bytes == 8)) {
        memcpy(raw, at, 8);
    } else {
        memcpy(raw, at, bytes);
    }
    uint64_t v = load_u64(raw) >> shift;
    if (bytes > 8) v |= (uint64_t)raw[8] << (64 - shift);
    return n == 64 ? v : v & ((UINT64_C(1) << n) - 1);
}

/* Store n (1..8) bits that lie within one byte. */
static void byte_store(uint8_t *p, unsigned shift, unsigned n, uint64_t v)
{
    ASSERT(shift + n <= 8);
    const unsigned mask = ((1u << n) - 1) << shift;
    *p = (uint8_t)((*p & ~mask) | (((unsigned)v << shift) & mask));
}

/* Bits up to the next byte border of the destination, at most n. */
static unsigned bits_to_border(uint64_t bit, uint64_t n)
{
    const unsigned used = (unsigned)(bit & 7);
    return used == 0 ? 0 : (unsigned)min_u64(8 - used, n);
}

/* Store the last n (0..63) bits of a range that begins at a byte border. */
static void tail_store(uint8_t *p, unsigned n, uint64_t v)
{
    for (; n >= 8; n -= 8) {
        *p++ = (uint8_t)v;
        v >>= 8;
    }
    if (n > 0) byte_store(p, 0, n, v);
}

void bits_copy(uint8_t *dst, uint64_t dst_bit, const uint8_t *src, uint64_t src_bit, uint64_t n)
{
    const unsigned head = bits_to_border(dst_bit, n);
    if (head > 0) {
        byte_store(dst + (dst_bit >> 3), (unsigned)(dst_bit & 7), head, bits_load(src, src_bit, head));
        dst_bit += head;
        src_bit += head;
        n -= head;
    }
    uint8_t *to = dst + (dst_bit >> 3);
    if ((src_bit & 7) == 0 && n >= 8) {
        const uint64_t bytes = n / 8;
        memcpy(to, src + (src_bit >> 3), (size_t)bytes);
        to += bytes;
        src_bit += bytes * 8;
        n -= bytes * 8;
    }
    for (; n >= 64; n -= 64) {
        store_u64(to, bits_load(src, src_bit, 64));
        to += 8;
        src_bit += 64;
    }
    if (n > 0) tail_store(to, (unsigned)n, bits_load(src, src_bit, (unsigned)n));
}

void bits_fill(uint8_t *dst, uint64_t dst_bit, uint64_t n, bool value)
{
    const uint64_t pattern = value ? UINT64_MAX : 0;
    const unsigned head = bits_to_border(dst_bit, n);
    if (head > 0) {
        byte_store(dst + (dst_bit >> 3), (unsigned)(dst_bit & 7), head, pattern);
        dst_bit += head;
        n -= head;
    }
    uint8_t *to = dst + (dst_bit >> 3);
    if (n >= 8) memset(to, (int)(pattern & 0xFF), (size_t)(n / 8));
    if (n % 8 != 0) byte_store(to + n / 8, 0, (unsigned)(n % 8), pattern);
}

uint64_t bits_count(const uint8_t *src, uint64_t src_bit, uint64_t n)
{
    uint64_t count = 0;
    for (; n >= 64; n -= 64) {
        count += popcount_u64(bits_load(src, src_bit, 64));
        src_bit += 64;
    }
    return n == 0 ? count : count + popcount_u64(bits_load(src, src_bit, (unsigned)n));
}

uint64_t bits_run(const uint8_t *src, uint64_t src_bit, uint64_t n)
{
    ASSERT(n >= 1);
    const uint64_t flip = bit_get(src, src_bit) ? UINT64_MAX : 0; /* makes bits of the run zero */
    uint64_t run = 0;
    while (run < n) {
        const unsigned step = (unsigned)min_u64(64, n - run);
        uint64_t v = bits_load(src, src_bit + run, step) ^ flip;
        if (step < 64) v &= (UINT64_C(1) << step) - 1;
        if (v != 0) return run + (unsigned)__builtin_ctzll(v);
        run += step;
    }
    return n;
}

/* Eight bytes (each 0 or 1) to eight bits: the multiplication moves bit 0 of byte k to bit 56 + k. */
static ALWAYS_INLINE uint8_t eight_to_bits(uint64_t bytes) { return (uint8_t)((bytes * UINT64_C(0x0102040810204080)) >> 56); }

/* 1 in each byte that is not zero. */
static ALWAYS_INLINE uint64_t bytes_nonzero(uint64_t v)
{
    const uint64_t low = UINT64_C(0x7F7F7F7F7F7F7F7F);
    return ((((v & low) + low) | v) >> 7) & UINT64_C(0x0101010101010101);
}

void bits_from_bytes(uint8_t *dst, uint64_t dst_bit, const uint8_t *src, uint64_t n)
{
    for (unsigned head = bits_to_border(dst_bit, n); head > 0; head--, n--, src++, dst_bit++) {
        byte_store(dst + (dst_bit >> 3), (unsigned)(dst_bit & 7), 1, *src != 0);
    }
    uint8_t *to = dst + (dst_bit >> 3);
    for (; n >= 8; n -= 8, src += 8) *to++ = eight_to_bits(bytes_nonzero(load_u64(src)));
    for (unsigned i = 0; i < n; i++) byte_store(to, i, 1, src[i] != 0);
}

void bits_to_bytes(uint8_t *dst, const uint8_t *src, uint64_t src_bit, uint64_t n)
{
    for (; n >= 8; n -= 8, src_bit += 8, dst += 8) {
        /* Each byte gets the whole octet, keeps its own bit, and turns it into 0 or 1. */
        const uint64_t octet = bits_load(src, src_bit, 8) * UINT64_C(0x0101010101010101);
        store_u64(dst, bytes_nonzero(octet & UINT64_C(0x8040201008040201)));
    }
    for (uint64_t i = 0; i < n; i++) dst[i] = bit_get(src, src_bit + i);
}

void bits_from_levels(uint8_t *dst, uint64_t dst_bit, const uint16_t *levels, uint16_t limit, uint64_t n)
{
    for (unsigned head = bits_to_border(dst_bit, n); head > 0; head--, n--, levels++, dst_bit++) {
        byte_store(dst + (dst_bit >> 3), (unsigned)(dst_bit & 7), 1, *levels <= limit);
    }
    uint8_t *to = dst + (dst_bit >> 3);
    for (; n >= 64; n -= 64, levels += 64, to += 8) {
        uint8_t within[64]; /* a step of its own, so that the comparison runs in vectors */
        for (unsigned i = 0; i < 64; i++) within[i] = levels[i] <= limit;
        for (unsigned i = 0; i < 8; i++) to[i] = eight_to_bits(load_u64(within + 8 * i));
    }
    for (uint64_t i = 0; i < n; i++) byte_store(to + (i >> 3), (unsigned)(i & 7), 1, levels[i] <= limit);
}
