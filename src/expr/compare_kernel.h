/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Comparing values of 1, 2, 4 or 8 bytes, 64 rows to a word; compiled once for each instruction set (the file that includes this says
 * COMPARE_FORMS_NAME).
 *
 * Floats are compared as integers: turning over the bits below the sign of negative ones makes their signed order the IEEE total order.
 * A block of 64 rows first gives 64 bytes of all ones or zeros, in loops without branches that the compiler turns into vectors, then
 * these become one word. Values may have any alignment. */
#include "expr/compare_forms.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef int8_t at_i8 __attribute__((may_alias));
typedef uint8_t at_u8 __attribute__((may_alias));
typedef int16_t at_i16 __attribute__((aligned(1), may_alias));
typedef uint16_t at_u16 __attribute__((aligned(1), may_alias));
typedef int32_t at_i32 __attribute__((aligned(1), may_alias));
typedef uint32_t at_u32 __attribute__((aligned(1), may_alias));
typedef int64_t at_i64 __attribute__((aligned(1), may_alias));
typedef uint64_t at_u64 __attribute__((aligned(1), may_alias));

/* Bit i = byte i is not zero; the bytes are 0 or 0xff. */
static ALWAYS_INLINE uint64_t gather_bits(const uint8_t *hit)
{
#if defined(__AVX2__)
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)(const void *)hit));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(hit + 32)));
    return (uint64_t)high << 32 | low;
#elif defined(__SSE2__)
    uint64_t word = 0;
    for (int i = 0; i < 4; i++) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(hit + 16 * i));
        word |= (uint64_t)(uint16_t)_mm_movemask_epi8(v) << (16 * i);
    }
    return word;
#else
    uint64_t word = 0;
    for (int i = 0; i < 8; i++) {
        /* One bit of each byte; the product brings them together in the top byte. */
        uint64_t bytes = load_u64(hit + 8 * i) & UINT64_C(0x0101010101010101);
        word |= (bytes * UINT64_C(0x0102040810204080)) >> 56 << (8 * i);
    }
    return word;
#endif
}

#define KEY_PLAIN(T, x) (x)
#define KEY_FLOAT16(T, x) ((int16_t)((x) ^ (int16_t)((uint16_t)((x) >> 15) >> 1)))
#define KEY_FLOAT32(T, x) ((int32_t)((x) ^ (int32_t)((uint32_t)((x) >> 31) >> 1)))
#define KEY_FLOAT64(T, x) ((int64_t)((x) ^ (int64_t)((uint64_t)((x) >> 63) >> 1)))

#define COMPARE_LITERAL(NAME, T, AT, KEY, OP)                                                \
    static void NAME(const uint8_t *values, const uint8_t *literal, uint64_t *out, size_t n) \
    {                                                                                        \
        const AT *a = (const AT *)(const void *)values;                                      \
        T raw;                                                                               \
        memcpy(&raw, literal, sizeof raw);                                                   \
        const T b = KEY(T, raw);                                                             \
        uint8_t hit[64];                                                                     \
        for (size_t w = 0; w < n / 64; w++, a += 64) {                                       \
            for (int j = 0; j < 64; j++) hit[j] = (uint8_t)(KEY(T, a[j]) OP b ? 0xff : 0);   \
            out[w] = gather_bits(hit);                                                       \
        }                                                                                    \
        if (n % 64 != 0) {                                                                   \
            uint64_t word = 0;                                                               \
            for (size_t j = 0; j < n % 64; j++) word |= (uint64_t)(KEY(T, a[j]) OP b) << j;  \
            out[n / 64] = word;                                                              \
        }                                                                                    \
    }
#define COMPARE_PAIR(NAME, T, AT, KEY, OP)                                                             \
    static void NAME(const uint8_t *values, const uint8_t *others, uint64_t *out, size_t n)            \
    {                                                                                                  \
        const AT *a = (const AT *)(const void *)values;                                                \
        const AT *b = (const AT *)(const void *)others;                                                \
        uint8_t hit[64];                                                                               \
        for (size_t w = 0; w < n / 64; w++, a += 64, b += 64) {                                        \
            for (int j = 0; j < 64; j++) hit[j] = (uint8_t)(KEY(T, a[j]) OP KEY(T, b[j]) ? 0xff : 0);  \
            out[w] = gather_bits(hit);                                                                 \
        }                                                                                              \
        if (n % 64 != 0) {                                                                             \
            uint64_t word = 0;                                                                         \
            for (size_t j = 0; j < n % 64; j++) word |= (uint64_t)(KEY(T, a[j]) OP KEY(T, b[j])) << j; \
            out[n / 64] = word;                                                                        \
        }                                                                                              \
    }

#define COMPARE_EQUAL(S)                                                 \
    COMPARE_LITERAL(literal_eq_##S, uint##S##_t, at_u##S, KEY_PLAIN, ==) \
    COMPARE_PAIR(pair_eq_##S, uint##S##_t, at_u##S, KEY_PLAIN, ==)
#define COMPARE_ORDER(S, NAME, T, AT, KEY)            \
    COMPARE_LITERAL(literal_lt_##NAME, T, AT, KEY, <) \
    COMPARE_LITERAL(literal_gt_##NAME, T, AT, KEY, >) \
    COMPARE_PAIR(pair_lt_##NAME, T, AT, KEY, <)

COMPARE_EQUAL(8)
COMPARE_EQUAL(16)
COMPARE_EQUAL(32)
COMPARE_EQUAL(64)
COMPARE_ORDER(8, i8, int8_t, at_i8, KEY_PLAIN)
COMPARE_ORDER(16, i16, int16_t, at_i16, KEY_PLAIN)
COMPARE_ORDER(32, i32, int32_t, at_i32, KEY_PLAIN)
COMPARE_ORDER(64, i64, int64_t, at_i64, KEY_PLAIN)
COMPARE_ORDER(8, u8, uint8_t, at_u8, KEY_PLAIN)
COMPARE_ORDER(16, u16, uint16_t, at_u16, KEY_PLAIN)
COMPARE_ORDER(32, u32, uint32_t, at_u32, KEY_PLAIN)
COMPARE_ORDER(64, u64, uint64_t, at_u64, KEY_PLAIN)
COMPARE_ORDER(16, f16, int16_t, at_i16, KEY_FLOAT16)
COMPARE_ORDER(32, f32, int32_t, at_i32, KEY_FLOAT32)
COMPARE_ORDER(64, f64, int64_t, at_i64, KEY_FLOAT64)

/* Bit i = the text that row i has in these offsets is `size` bytes long. */
#define COMPARE_SIZES(NAME, T, AT)                                                                     \
    static void NAME(const uint8_t *offsets, uint64_t size, uint64_t *out, size_t n)                   \
    {                                                                                                  \
        const AT *a = (const AT *)(const void *)offsets;                                               \
        const T want = (T)size;                                                                        \
        uint8_t hit[64];                                                                               \
        for (size_t w = 0; w < n / 64; w++, a += 64) {                                                 \
            for (int j = 0; j < 64; j++) hit[j] = (uint8_t)((T)(a[j + 1] - a[j]) == want ? 0xff : 0);  \
            out[w] = gather_bits(hit);                                                                 \
        }                                                                                              \
        if (n % 64 != 0) {                                                                             \
            uint64_t word = 0;                                                                         \
            for (size_t j = 0; j < n % 64; j++) word |= (uint64_t)((T)(a[j + 1] - a[j]) == want) << j; \
            out[n / 64] = word;                                                                        \
        }                                                                                              \
    }
COMPARE_SIZES(sizes_32, uint32_t, at_u32)
COMPARE_SIZES(sizes_64, uint64_t, at_u64)

/* Where a needle begins, 64 places a word. Its first, second and last bytes are compared with the bytes of all places, a vector at a time; of what
 * is left by that the rest is compared. Looks at no byte behind the text. */
static void find_places(const uint8_t *text, size_t n, const uint8_t *needle, size_t size, uint64_t *places)
{
    const size_t words = n / 64 + 1, second = size > 1;
    memset(places, 0, words * sizeof *places);
    for (size_t w = 0, at = 0; at + size <= n; w++, at += 64) {
        const uint8_t *p = text + at;
        uint64_t hits = 0;
        if (at + 64 + size <= n) {
            uint8_t hit[64];
            for (int j = 0; j < 64; j++) {
                const uint8_t one = p[j] == needle[0], two = p[(size_t)j + second] == needle[second];
                const uint8_t last = p[(size_t)j + size - 1] == needle[size - 1];
                hit[j] = (uint8_t)(0 - (one & two & last)); /* & runs in vectors, && does not */
            }
            hits = gather_bits(hit);
        } else {
            for (size_t j = 0; at + j + size <= n && j < 64; j++) hits |= (uint64_t)(p[j] == needle[0]) << j;
        }
        for (uint64_t left = size > 3 || at + 64 + size > n ? hits : 0; left != 0; left &= left - 1) {
            const unsigned j = (unsigned)__builtin_ctzll(left);
            if (memcmp(p + j, needle, size) != 0) hits &= ~(UINT64_C(1) << j);
        }
        places[w] = hits;
    }
}

const struct compare_forms COMPARE_FORMS_NAME = {
    .literal_eq = {literal_eq_8, literal_eq_16, literal_eq_32, literal_eq_64},
    .pair_eq = {pair_eq_8, pair_eq_16, pair_eq_32, pair_eq_64},
    .literal_lt = {{literal_lt_i8, literal_lt_i16, literal_lt_i32, literal_lt_i64},
                   {literal_lt_u8, literal_lt_u16, literal_lt_u32, literal_lt_u64},
                   {NULL, literal_lt_f16, literal_lt_f32, literal_lt_f64}},
    .literal_gt = {{literal_gt_i8, literal_gt_i16, literal_gt_i32, literal_gt_i64},
                   {literal_gt_u8, literal_gt_u16, literal_gt_u32, literal_gt_u64},
                   {NULL, literal_gt_f16, literal_gt_f32, literal_gt_f64}},
    .pair_lt = {{pair_lt_i8, pair_lt_i16, pair_lt_i32, pair_lt_i64},
                {pair_lt_u8, pair_lt_u16, pair_lt_u32, pair_lt_u64},
                {NULL, pair_lt_f16, pair_lt_f32, pair_lt_f64}},
    .sizes = {sizes_32, sizes_64},
    .find = find_places,
};
