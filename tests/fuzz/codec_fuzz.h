/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What the fuzz targets of the codecs share: the fuzzer's bytes as a stream of parameters, and bounded memory.
 *
 * Large blocks are kept from run to run: ASan maps and unmaps each of them, and fresh pages would take a third of the time. A kept block is
 * poisoned, and so is what lies behind the bytes asked for, so that nothing is hidden. */
#ifndef TESTS_CODEC_FUZZ_H
#define TESTS_CODEC_FUZZ_H

#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(ASAN_POISON_MEMORY_REGION)
#include <sanitizer/asan_interface.h>
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#endif

#include "encoding/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline unsigned fuzz_byte(struct fuzz_input *in)
{
    if (in->left == 0) return 0;
    in->left--;
    return *in->at++;
}

static inline unsigned fuzz_u16(struct fuzz_input *in)
{
    const unsigned low = fuzz_byte(in);
    return low | fuzz_byte(in) << 8;
}

/* A copy of exactly n bytes, so that a read past the end is seen. Free with free(). */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) abort();
    if (n > 0) memcpy(copy, data, n);
    return copy;
}

#define FUZZ_KEPT_LEAST ((size_t)128 << 10) /* smaller blocks are quick in ASan itself */
#define FUZZ_KEPT_MOST ((size_t)8 << 20)

struct fuzz_kept {
    void *blocks[8]; /* of 128 KiB, 256 KiB, ...: one of each size, NULL = none */
};

static inline unsigned fuzz_kept_class(size_t size, size_t *cap)
{
    unsigned k = 0;
    for (*cap = FUZZ_KEPT_LEAST; *cap < size; *cap *= 2) k++;
    return k;
}

static inline void *fuzz_alloc(void *ctx, size_t size, size_t align)
{
    struct fuzz_kept *kept = ctx;
    void *p = NULL;
    size_t cap = size;
    if (size > FUZZ_KEPT_LEAST / 2 && size <= FUZZ_KEPT_MOST) {
        const unsigned k = fuzz_kept_class(size, &cap);
        p = kept->blocks[k];
        kept->blocks[k] = NULL;
    }
    if (!p && posix_memalign(&p, align < 64 ? 64 : align, cap) != 0) return NULL;
    ASAN_UNPOISON_MEMORY_REGION(p, size);
    ASAN_POISON_MEMORY_REGION((char *)p + size, cap - size);
    return p;
}

static inline void fuzz_free(void *ctx, void *ptr, size_t size, size_t align)
{
    struct fuzz_kept *kept = ctx;
    size_t cap = size;
    (void)align;
    if (size > FUZZ_KEPT_LEAST / 2 && size <= FUZZ_KEPT_MOST) {
        const unsigned k = fuzz_kept_class(size, &cap);
        if (!kept->blocks[k]) {
            kept->blocks[k] = ptr;
            ASAN_POISON_MEMORY_REGION(ptr, cap);
            return;
        }
    }
    ASAN_UNPOISON_MEMORY_REGION(ptr, cap);
    free(ptr);
}

/* Memory of one run: 64 MiB. */
static inline struct mem *fuzz_mem(pennon_error *err)
{
    static struct fuzz_kept kept;
    const pennon_allocator allocator = {.alloc = fuzz_alloc, .free = fuzz_free, .ctx = &kept};
    pennon_error_init(err);
    struct mem *mem = mem_new(NULL, 64u << 20, &allocator, err);
    if (!mem) abort();
    return mem;
}

/* What must hold whatever the input is. */
#define FUZZ_CHECK(cond)      \
    do {                      \
        if (!(cond)) abort(); \
    } while (0)

#endif
