/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Compiler extensions, checked arithmetic, and little-endian loads and stores: the only place for any of them. */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define CHECKED __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define UNUSED(x) ((void)(x))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NO_INLINE __attribute__((noinline))
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Beliefs about our own code; never about data from outside. Vanishes in release builds. */
#define ASSERT(cond) assert(cond)

/* True when the result does not fit; *out is then unspecified. */
static inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *out) { return __builtin_add_overflow(a, b, out); }
static inline bool mul_overflows(uint64_t a, uint64_t b, uint64_t *out) { return __builtin_mul_overflow(a, b, out); }
static inline bool size_add_overflows(size_t a, size_t b, size_t *out) { return __builtin_add_overflow(a, b, out); }
static inline bool size_mul_overflows(size_t a, size_t b, size_t *out) { return __builtin_mul_overflow(a, b, out); }

/* [offset, offset + size) lies inside [0, limit), without overflow. */
static inline bool range_inside(uint64_t offset, uint64_t size, uint64_t limit)
{
    return offset <= limit && size <= limit - offset;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t div_ceil(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
/* Round up to a multiple of `to`, a power of two. The caller knows that it fits. */
static inline uint64_t round_up(uint64_t n, uint64_t to) { return (n + (to - 1)) & ~(to - 1); }

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define TO_LE16(x) __builtin_bswap16(x)
#define TO_LE32(x) __builtin_bswap32(x)
#define TO_LE64(x) __builtin_bswap64(x)
#else
#define TO_LE16(x) (x)
#define TO_LE32(x) (x)
#define TO_LE64(x) (x)
#endif

/* clang-format off */
static inline uint16_t load_u16(const void *p) { uint16_t v; memcpy(&v, p, sizeof v); return TO_LE16(v); }
static inline uint32_t load_u32(const void *p) { uint32_t v; memcpy(&v, p, sizeof v); return TO_LE32(v); }
static inline uint64_t load_u64(const void *p) { uint64_t v; memcpy(&v, p, sizeof v); return TO_LE64(v); }
static inline void store_u16(void *p, uint16_t v) { v = TO_LE16(v); memcpy(p, &v, sizeof v); }
static inline void store_u32(void *p, uint32_t v) { v = TO_LE32(v); memcpy(p, &v, sizeof v); }
static inline void store_u64(void *p, uint64_t v) { v = TO_LE64(v); memcpy(p, &v, sizeof v); }
/* clang-format on */

/* Bitmaps: least significant bit first, as Arrow's. */
static inline bool bit_get(const uint8_t *bits, uint64_t i) { return (bits[i >> 3] >> (i & 7)) & 1; }
static inline void bit_set(uint8_t *bits, uint64_t i) { bits[i >> 3] = (uint8_t)(bits[i >> 3] | (1u << (i & 7))); }
static inline void bit_clear(uint8_t *bits, uint64_t i) { bits[i >> 3] = (uint8_t)(bits[i >> 3] & ~(1u << (i & 7))); }
static inline uint64_t bitmap_bytes(uint64_t n) { return n / 8 + (n % 8 != 0); }
/* Bits needed for the value: 0 for 0, 64 for the top bit set. */
static inline unsigned bit_width(uint64_t v) { return v == 0 ? 0u : 64u - (unsigned)__builtin_clzll(v); }
static inline unsigned popcount_u64(uint64_t v) { return (unsigned)__builtin_popcountll(v); }

#endif
