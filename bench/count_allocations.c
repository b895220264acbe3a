/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Counts the calls for memory of a process that it is preloaded into (LD_PRELOAD); bench_allocations() tells the number so far.
 *
 * Both sides of bench/beside_official.py are counted by it. An allocator that a program brings along and that takes its memory from
 * mmap is not seen. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* glibc's own names behind the ones that are replaced here. */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t alignment, size_t n);

__attribute__((visibility("default"))) uint64_t bench_allocations(void);
__attribute__((visibility("default"))) void *malloc(size_t n);
__attribute__((visibility("default"))) void *calloc(size_t n, size_t size);
__attribute__((visibility("default"))) void *realloc(void *p, size_t n);
__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t n);
__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t n);
__attribute__((visibility("default"))) int posix_memalign(void **out, size_t alignment, size_t n);

static _Atomic uint64_t calls;

static void count(void) { atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed); }

uint64_t bench_allocations(void) { return atomic_load_explicit(&calls, memory_order_relaxed); }

void *malloc(size_t n)
{
    count();
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    count();
    return __libc_realloc(p, n);
}

void *memalign(size_t alignment, size_t n)
{
    count();
    return __libc_memalign(alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n) { return memalign(alignment, n); }

int posix_memalign(void **out, size_t alignment, size_t n)
{
    void *p = memalign(alignment, n);
    if (!p) return 12; /* ENOMEM */
    *out = p;
    return 0;
}
