/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Accounted memory: every allocation of the library goes through a `struct mem`, which charges a budget and calls the
 * program's allocator. No other file calls malloc.
 *
 * A `struct mem` is reference counted and thread safe. Buffers keep a pointer to the mem that made them, so that a batch
 * which outlives its scan still gives its bytes back to the right budget. Budgets form a chain: call budget, runtime budget.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/error.h"
#include "pennon/runtime.h"

struct mem;

/* The bytes that may be in use; counts up the chain of parents. */
struct mem *mem_new(struct mem *parent, uint64_t limit, const pennon_allocator *allocator, pennon_error *err) CHECKED;
/* The root of m keeps at most `bytes` of freed buffers for later, which no budget counts. */
void mem_keep(struct mem *m, uint64_t bytes);
struct mem *mem_retain(struct mem *m);
void mem_release(struct mem *m);
uint64_t mem_used(const struct mem *m);
uint64_t mem_peak(const struct mem *m);
uint64_t mem_limit(const struct mem *m); /* of this mem and its parents, the least */
/* Bytes that could still be charged now. */
uint64_t mem_available(const struct mem *m);

/* Small and medium objects, aligned to 16. The size is remembered: free needs no size. mem_alloc(…, 0) gives a valid pointer.
 * NULL on failure, with OVER_BUDGET (the message says the bytes needed) or OUT_OF_MEMORY in err. */
void *mem_alloc(struct mem *m, size_t size, pennon_error *err) CHECKED;
void *mem_calloc(struct mem *m, size_t n, size_t size, pennon_error *err) CHECKED;       /* zeroed; n * size is overflow checked */
void *mem_realloc(struct mem *m, void *ptr, size_t size, pennon_error *err) CHECKED;     /* on failure `ptr` stays valid */
void mem_free(struct mem *m, void *ptr);                                                 /* NULL is allowed */
char *mem_strndup(struct mem *m, const char *text, size_t n, pennon_error *err) CHECKED; /* NUL-terminated copy */
char *mem_strdup(struct mem *m, const char *text, pennon_error *err) CHECKED;
char *mem_printf(struct mem *m, pennon_error *err, const char *fmt, ...) PRINTF_LIKE(3, 4) CHECKED;
/* Make room for element `n` (0-based) of a growable array of `elem`-byte elements: *items and *cap change. At most `max`
 * elements, else INVALID_ARGUMENT. New elements are zeroed. */
pennon_status mem_grow(struct mem *m, void *items, size_t *cap, size_t n, size_t elem, size_t max, pennon_error *err) CHECKED;

/* Texts that leave the library in pennon_string_free form (not accounted; C library heap). */
char *text_dup(const char *text);
char *text_join(const char *a, const char *b); /* one behind the other */
/* The same for bytes (pennon_bytes_free); NULL without memory. Never NULL for n = 0. */
void *bytes_dup(const void *bytes, size_t n);

/* ---- buf: growable bytes, 64-byte aligned, with a maximum ---- */

struct buf {
    uint8_t *data; /* NULL while cap is 0 */
    size_t size;   /* bytes in use */
    size_t cap;
    size_t max; /* growth past it is OVER_BUDGET */
    struct mem *mem;
};

#define BUF_NO_LIMIT ((size_t)PTRDIFF_MAX)

/* Every allocation of a buf has this many readable and writable bytes behind cap, so that kernels may run over by a vector. */
#define BUF_SLACK 64u

void buf_init(struct buf *b, struct mem *m, size_t max);                              /* no allocation; retains nothing */
void buf_free(struct buf *b);                                                         /* idempotent; ready for reuse */
pennon_status buf_reserve(struct buf *b, size_t cap, pennon_error *err) CHECKED;      /* capacity of at least `cap` */
pennon_status buf_grow(struct buf *b, size_t extra, pennon_error *err) CHECKED;       /* room for `extra` more, amortised */
pennon_status buf_resize(struct buf *b, size_t size, pennon_error *err) CHECKED;      /* new bytes are not set */
pennon_status buf_resize_zero(struct buf *b, size_t size, pennon_error *err) CHECKED; /* new bytes are zero */
pennon_status buf_append(struct buf *b, const void *bytes, size_t n, pennon_error *err) CHECKED;
pennon_status buf_append_zero(struct buf *b, size_t n, pennon_error *err) CHECKED;
pennon_status buf_append_byte(struct buf *b, uint8_t byte, pennon_error *err) CHECKED;
pennon_status buf_printf(struct buf *b, pennon_error *err, const char *fmt, ...) PRINTF_LIKE(3, 4) CHECKED; /* no NUL counted */
pennon_status buf_terminate(struct buf *b, pennon_error *err) CHECKED; /* a NUL behind `size`, not counted */
void buf_move(struct buf *to, struct buf *from);                       /* `to` must be empty */

/* Borrowed bytes. */
struct bytes {
    const uint8_t *data;
    size_t size;
};
static inline struct bytes bytes_of(const void *data, size_t size) { return (struct bytes){(const uint8_t *)data, size}; }
static inline struct bytes bytes_str(const char *text) { return bytes_of(text, strlen(text)); }
static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* ---- block: reference counted immutable bytes, shared between caches, pages and Arrow arrays ---- */

struct block {
    uint8_t *data; /* 64-byte aligned, BUF_SLACK writable bytes behind */
    size_t size;
    struct mem *mem;
    _Atomic(uint32_t) refs;
};

struct block *block_new(struct mem *m, size_t size, pennon_error *err) CHECKED; /* contents not set */
struct block *block_from_buf(struct buf *b, pennon_error *err) CHECKED;         /* takes the bytes; b is empty afterwards */
/* Takes a mapping (whole, as mmap gave it), which is unmapped with the last reference; on failure at once. Its bytes are not charged, there is no slack
 * behind them, and they are only read. */
struct block *block_from_mapping(struct mem *m, void *bytes, size_t size, pennon_error *err) CHECKED;
struct block *block_retain(struct block *b);
void block_release(struct block *b); /* NULL is allowed */

/* ---- arena: many small objects that die together ---- */

struct arena_chunk;
struct arena {
    struct mem *mem;
    struct arena_chunk *chunk;
    size_t used; /* in the newest chunk */
};

void arena_init(struct arena *a, struct mem *m);
void arena_reset(struct arena *a);                                          /* everything is freed; ready for reuse */
void *arena_alloc(struct arena *a, size_t size, pennon_error *err) CHECKED; /* aligned to 16, not zeroed */
void *arena_calloc(struct arena *a, size_t n, size_t size, pennon_error *err) CHECKED;
char *arena_strndup(struct arena *a, const char *text, size_t n, pennon_error *err) CHECKED;

#endif
