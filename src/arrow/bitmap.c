/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Bitmaps at any bit offset: count, copy, fill, compare, and. Bits lie least significant first, as Arrow's.
 *
 * Everything runs over words of 64 bits that are put together from the bytes that hold them; no byte outside of the range of
 * bits is read or written, so that buffers of other programs need no slack behind their end. */
#include "arrow/bitmap.h"

/* The low n bits set; n <= 64. */
static uint64_t low_mask(uint64_t n) { return n >= 64 ? UINT64_MAX : ((uint64_t)1 << n) - 1; }

uint64_t bitmap_load(const uint8_t *bits, uint64_t offset, uint64_t n)
{
    const uint8_t *p = bits + (offset >> 3);
    unsigned shift = (unsigned)(offset & 7);
    uint64_t word = 0;
    ASSERT(n >= 1 && n <= 64);
    if (n == 64) {
        word = load_u64(p) >> shift;
        if (shift != 0) word |= (uint64_t)p[8] << (64 - shift);
        return word;
    }
    size_t bytes = (size_t)((shift + n + 7) / 8);
    for (size_t i = 0; i < bytes && i < 8; i++) word |= (uint64_t)p[i] << (8 * i);
    word >>= shift;
    if (bytes > 8) word |= (uint64_t)p[8] << (64 - shift);
    return word & low_mask(n);
}

/* Store the low n bits of `word` at bit `offset`; bits around them are kept. */
static void store_bits(uint8_t *bits, uint64_t offset, uint64_t n, uint64_t word)
{
    uint8_t *p = bits + (offset >> 3);
    unsigned shift = (unsigned)(offset & 7);
    if (shift == 0 && n == 64) {
        store_u64(p, word);
        return;
    }
    while (n > 0) {
        unsigned take = (unsigned)min_u64(8 - shift, n);
        uint8_t mask = (uint8_t)(low_mask(take) << shift);
        *p = (uint8_t)((*p & ~mask) | ((uint8_t)(word << shift) & mask));
        word >>= take;
        n -= take;
        shift = 0;
        p++;
    }
}

uint64_t bitmap_count(const uint8_t *bits, uint64_t offset, uint64_t n)
{
    uint64_t count = 0;
    /* Up to the first byte border, so that the words of the middle need no shifts. */
    uint64_t head = min_u64(n, (8 - (offset & 7)) & 7);
    if (head > 0) count += popcount_u64(bitmap_load(bits, offset, head));
    const uint8_t *p = bits + ((offset + head) >> 3);
    n -= head;
    for (; n >= 64; n -= 64, p += 8) count += popcount_u64(load_u64(p));
    if (n > 0) count += popcount_u64(bitmap_load(p, 0, n));
    return count;
}

void bitmap_copy(uint8_t *to, uint64_t to_offset, const uint8_t *from, uint64_t from_offset, uint64_t n)
{
    uint64_t head = min_u64(n, (8 - (to_offset & 7)) & 7);
    if (head > 0) {
        store_bits(to, to_offset, head, bitmap_load(from, from_offset, head));
        to_offset += head;
        from_offset += head;
        n -= head;
    }
    if ((from_offset & 7) == 0 && n >= 8) {
        size_t bytes = (size_t)(n / 8);
        memcpy(to + (to_offset >> 3), from + (from_offset >> 3), bytes);
        to_offset += bytes * 8;
        from_offset += bytes * 8;
        n -= bytes * 8;
    }
    for (; n >= 64; n -= 64, to_offset += 64, from_offset += 64) {
        store_u64(to + (to_offset >> 3), bitmap_load(from, from_offset, 64));
    }
    if (n > 0) store_bits(to, to_offset, n, bitmap_load(from, from_offset, n));
}

void bitmap_fill(uint8_t *bits, uint64_t offset, uint64_t n, bool value)
{
    uint64_t head = min_u64(n, (8 - (offset & 7)) & 7);
    uint64_t word = value ? UINT64_MAX : 0;
    store_bits(bits, offset, head, word);
    offset += head;
    n -= head;
    memset(bits + (offset >> 3), (int)(word & 0xff), (size_t)(n / 8));
    offset += n / 8 * 8;
    store_bits(bits, offset, n % 8, word);
}

bool bitmap_equal(const uint8_t *a, uint64_t a_offset, const uint8_t *b, uint64_t b_offset, uint64_t n)
{
    for (; n >= 64; n -= 64, a_offset += 64, b_offset += 64) {
        if (bitmap_load(a, a_offset, 64) != bitmap_load(b, b_offset, 64)) return false;
    }
    return n == 0 || bitmap_load(a, a_offset, n) == bitmap_load(b, b_offset, n);
}

void bitmap_and(uint8_t *to, const uint8_t *a, uint64_t a_offset, const uint8_t *b, uint64_t b_offset, uint64_t n)
{
    uint64_t at = 0;
    for (; n - at >= 64; at += 64) store_u64(to + at / 8, bitmap_load(a, a_offset + at, 64) & bitmap_load(b, b_offset + at, 64));
    if (at < n) store_bits(to, at, n - at, bitmap_load(a, a_offset + at, n - at) & bitmap_load(b, b_offset + at, n - at));
}

uint64_t bitmap_next(const uint8_t *bits, uint64_t offset, uint64_t at, uint64_t n, bool value)
{
    while (at < n) {
        uint64_t take = min_u64(64, n - at);
        uint64_t word = bitmap_load(bits, offset + at, take);
        if (!value) word = ~word & low_mask(take);
        if (word != 0) return at + (uint64_t)__builtin_ctzll(word);
        at += take;
    }
    return n;
}

/* ------------------------------------------------------------------------------------------------------------- UTF-8 */

/* Bytes of the well-formed sequence at p, or 0. Overlong forms, surrogates and values over U+10FFFF are not well-formed. */
static size_t utf8_sequence(const uint8_t *p, size_t n)
{
    uint8_t b = p[0];
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    size_t size = 0;
    if (b < 0x80) return 1;
    if (b >= 0xc2 && b <= 0xdf) {
        size = 2;
    } else if (b >= 0xe0 && b <= 0xef) {
        size = 3;
        if (b == 0xe0) low = 0xa0;
        if (b == 0xed) high = 0x9f;
    } else if (b >= 0xf0 && b <= 0xf4) {
        size = 4;
        if (b == 0xf0) low = 0x90;
        if (b == 0xf4) high = 0x8f;
    }
    if (size == 0 || size > n || p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
    }
    return size;
}

bool utf8_valid(const uint8_t *text, size_t n)
{
    size_t i = 0;
    while (i < n) {
        /* Runs of ASCII, many bytes at a time. */
        while (n - i >= 32) {
            uint64_t any = load_u64(text + i) | load_u64(text + i + 8) | load_u64(text + i + 16) | load_u64(text + i + 24);
            if ((any & 0x8080808080808080u) != 0) break;
            i += 32;
        }
        while (n - i >= 8 && (load_u64(text + i) & 0x8080808080808080u) == 0) i += 8;
        if (i == n) break;
        size_t size = utf8_sequence(text + i, n - i);
        if (size == 0) return false;
        i += size;
    }
    return true;
}
