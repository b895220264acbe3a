/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Template of the bit packing kernels: plain C loops of constant length that the compiler turns into the vectors of the flags
 * that the including file is compiled with. The includer defines BITPACK_FORMS_NAME, the table that it gives out.
 *
 * 1024 values of T bits are T rows of 1024 / T lanes, so a row is 128 bytes for every T. Each lane is a little-endian bit stream
 * of its own, and the words of the lanes are interleaved: row r has its bits at bit p mod T of word p div T, p = r * width. A row
 * therefore reads one or two rows of packed words, with shifts that are the same for all lanes.
 *
 * Rows are worked on as sixteen words of 64 bits whatever T is. A shift then moves bits across the border of narrower lanes; the
 * masks, repeated for each lane, drop them. One loop serves all T, and no machine lacks the instruction (x86 has no shift of bytes).
 *
 * Source: spec file-format 8.4. */
#include "encoding/bitpack_forms.h"

#define ROW_WORDS 16u
#define ROW_BYTES 128u

/* `mask` (T bits) in each lane of a word. */
static uint64_t lanes_repeat(unsigned t_bits, uint64_t mask)
{
    for (unsigned bits = t_bits; bits < 64; bits *= 2) mask |= mask << bits;
    return mask;
}

static ALWAYS_INLINE size_t row_base(unsigned t_bits, unsigned r)
{
    return ((size_t)bitpack_order[r / 8] * 16 + (size_t)(r % 8) * 128) * (t_bits / 8);
}

static void kernel_unpack(unsigned t_bits, unsigned width, const uint8_t *restrict in, uint8_t *restrict out)
{
    const uint64_t all = UINT64_MAX >> (64 - t_bits);
    const uint64_t mask = UINT64_MAX >> (64 - width);
    unsigned bit = 0;
    for (unsigned r = 0; r < t_bits; r++) {
        const uint8_t *words = in + (size_t)(bit / t_bits) * ROW_BYTES;
        uint8_t *restrict row = out + row_base(t_bits, r);
        const unsigned shift = bit % t_bits;
        const uint64_t keep = lanes_repeat(t_bits, mask & (all >> shift));
        if (shift + width <= t_bits) {
            for (size_t i = 0; i < ROW_WORDS; i++) store_u64(row + 8 * i, (load_u64(words + 8 * i) >> shift) & keep);
        } else {
            const unsigned up = t_bits - shift;
            const uint64_t keep_up = lanes_repeat(t_bits, mask & (all << up));
            for (size_t i = 0; i < ROW_WORDS; i++) {
                const uint64_t low = (load_u64(words + 8 * i) >> shift) & keep;
                const uint64_t high = (load_u64(words + ROW_BYTES + 8 * i) << up) & keep_up;
                store_u64(row + 8 * i, low | high);
            }
        }
        bit += width;
    }
}

static void kernel_pack(unsigned t_bits, unsigned width, const uint8_t *restrict in, uint8_t *restrict out)
{
    const uint64_t all = UINT64_MAX >> (64 - t_bits);
    const uint64_t mask = UINT64_MAX >> (64 - width);
    uint64_t word[ROW_WORDS] = {0}; /* the packed row that is being filled */
    unsigned shift = 0;
    for (unsigned r = 0; r < t_bits; r++) {
        const uint8_t *row = in + row_base(t_bits, r);
        const uint64_t keep = lanes_repeat(t_bits, mask & (all >> shift));
        for (size_t i = 0; i < ROW_WORDS; i++) word[i] |= (load_u64(row + 8 * i) & keep) << shift;
        shift += width;
        if (shift < t_bits) continue;
        for (size_t i = 0; i < ROW_WORDS; i++) store_u64(out + 8 * i, word[i]);
        out += ROW_BYTES;
        shift -= t_bits;
        /* The bits that did not fit begin the next row; none when the row was filled exactly. */
        const unsigned down = width - shift;
        const uint64_t rest = shift == 0 ? 0 : lanes_repeat(t_bits, mask & ~(UINT64_MAX >> (64 - down)));
        for (size_t i = 0; i < ROW_WORDS; i++) word[i] = rest == 0 ? 0 : (load_u64(row + 8 * i) & rest) >> down;
    }
}

const struct bitpack_forms BITPACK_FORMS_NAME = {kernel_unpack, kernel_pack};
