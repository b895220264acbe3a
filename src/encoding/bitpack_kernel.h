/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Template of the bit packing kernels: plain C loops of constant length that the compiler turns into the vectors of the flags
 * that the including file is compiled with. Include once for each word size, with
 *     KERNEL_T      the word type (uint8_t, uint16_t, uint32_t, uint64_t)
 *     KERNEL_BITS   its bits
 *     KERNEL_NAME(verb) the name of the function
 *
 * 1024 values are KERNEL_BITS rows of 1024 / KERNEL_BITS lanes, so a row is 128 bytes for every word size. Each lane is a
 * little-endian bit stream of its own, and the words of the lanes are interleaved: row r has its bits at
 * bit p mod T of word p div T, p = r * width. A row therefore reads one or two rows of packed words, with shifts that are the
 * same for all lanes.
 *
 * Source: spec file-format 8.4. */

#define KERNEL_LANES (1024 / KERNEL_BITS)

static ALWAYS_INLINE KERNEL_T KERNEL_NAME(load)(const uint8_t *p, size_t lane)
{
    KERNEL_T v;
    memcpy(&v, p + lane * sizeof v, sizeof v);
    return KERNEL_LE(v);
}

static ALWAYS_INLINE void KERNEL_NAME(store)(uint8_t *p, size_t lane, KERNEL_T v)
{
    memcpy(p + lane * sizeof v, &v, sizeof v);
}

/* Where row r starts among the values. */
static ALWAYS_INLINE size_t KERNEL_NAME(row_base)(unsigned r)
{
    return (size_t)bitpack_order[r / 8] * 16 + (size_t)(r % 8) * 128;
}

static void KERNEL_NAME(unpack)(unsigned width, const uint8_t *restrict in, uint8_t *restrict out)
{
    const KERNEL_T mask = (KERNEL_T)(UINT64_MAX >> (64 - width));
    unsigned bit = 0;
    for (unsigned r = 0; r < KERNEL_BITS; r++) {
        const uint8_t *words = in + (size_t)(bit / KERNEL_BITS) * 128;
        uint8_t *restrict row = out + KERNEL_NAME(row_base)(r) * sizeof(KERNEL_T);
        unsigned shift = bit % KERNEL_BITS;
        if (shift + width <= KERNEL_BITS) {
            for (size_t l = 0; l < KERNEL_LANES; l++) {
                KERNEL_T v = (KERNEL_T)(KERNEL_NAME(load)(words, l) >> shift);
                KERNEL_NAME(store)(row, l, (KERNEL_T)(v & mask));
            }
        } else {
            unsigned up = KERNEL_BITS - shift;
            for (size_t l = 0; l < KERNEL_LANES; l++) {
                KERNEL_T low = (KERNEL_T)(KERNEL_NAME(load)(words, l) >> shift);
                KERNEL_T high = (KERNEL_T)(KERNEL_NAME(load)(words + 128, l) << up);
                KERNEL_NAME(store)(row, l, (KERNEL_T)((low | high) & mask));
            }
        }
        bit += width;
    }
}

static void KERNEL_NAME(pack)(unsigned width, const uint8_t *restrict in, uint8_t *restrict out)
{
    const KERNEL_T mask = (KERNEL_T)(UINT64_MAX >> (64 - width));
    KERNEL_T word[KERNEL_LANES]; /* the packed row that is being filled */
    unsigned shift = 0;
    memset(word, 0, sizeof word);
    for (unsigned r = 0; r < KERNEL_BITS; r++) {
        const uint8_t *row = in + KERNEL_NAME(row_base)(r) * sizeof(KERNEL_T);
        for (size_t l = 0; l < KERNEL_LANES; l++) {
            KERNEL_T v;
            memcpy(&v, row + l * sizeof v, sizeof v);
            word[l] = (KERNEL_T)(word[l] | (KERNEL_T)((KERNEL_T)(v & mask) << shift));
        }
        shift += width;
        if (shift < KERNEL_BITS) continue;
        for (size_t l = 0; l < KERNEL_LANES; l++) {
            KERNEL_T le = KERNEL_LE(word[l]);
            memcpy(out + l * sizeof le, &le, sizeof le);
        }
        out += 128;
        shift -= KERNEL_BITS;
        memset(word, 0, sizeof word);
        if (shift == 0) continue;
        for (size_t l = 0; l < KERNEL_LANES; l++) {
            KERNEL_T v;
            memcpy(&v, row + l * sizeof v, sizeof v);
            word[l] = (KERNEL_T)((KERNEL_T)(v & mask) >> (width - shift));
        }
    }
}

#undef KERNEL_LANES
#undef KERNEL_T
#undef KERNEL_BITS
#undef KERNEL_NAME
#undef KERNEL_LE
