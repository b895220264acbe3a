/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Accounted memory: the only place that calls the allocator.
 *
 * Small objects carry a 16-byte header with their size, so that free needs none. Buffers and blocks carry their size in their
 * struct. A charge goes up the chain of parents before the allocation, and back down after the free, so a peak is never
 * understated.
 */
#include "base/mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEADER 16u
#define ALIGN 64u
#define ARENA_CHUNK_MIN 4096u

/* Under a sanitizer every object is an allocation of its own, so that an overrun or a late use is seen. */
#if defined(__SANITIZE_ADDRESS__)
#define PLAIN_ALLOCATIONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIN_ALLOCATIONS 1
#endif
#endif
#ifndef PLAIN_ALLOCATIONS
#define PLAIN_ALLOCATIONS 0
#endif

/* Freed buffers that are kept for the next allocation of their size class: the C library gives large blocks back to the system, and every
 * batch of a scan would pay for fresh pages. Classes are eighths of powers of two. What is kept is not charged; RECYCLE_MAX bounds it. */
#define RECYCLE_MIN ((size_t)32 << 10)
#define RECYCLE_LARGEST ((size_t)16 << 20)
#define RECYCLE_MAX ((size_t)32 << 20)
#define RECYCLE_CLASSES 96u

struct kept_block {
    struct kept_block *next;
};

struct recycler {
    pthread_mutex_t lock;
    pid_t pid;
    struct kept_block *kept[RECYCLE_CLASSES];
    size_t bytes, most;
};

struct mem {
    struct mem *parent;
    struct mem *root;
    struct recycler recycler; /* of the root */
    pennon_allocator allocator;
    uint64_t limit;
    _Atomic(uint64_t) used;
    _Atomic(uint64_t) peak;
    _Atomic(uint32_t) refs;
};

struct arena_chunk {
    struct arena_chunk *next;
    size_t cap; /* bytes behind the header */
};

/* Large blocks are pages of their own, which go back to the system when they are freed. The C library soon stops doing so: it keeps what was freed in
 * an arena a thread, and a scan with few MiB in use came to hold many times that. */
#define PAGES_MIN ((size_t)32 << 10)

static bool has_own_pages(size_t size, size_t align) { return !PLAIN_ALLOCATIONS && align == ALIGN && size >= PAGES_MIN; }

static void *libc_alloc(void *ctx, size_t size, size_t align)
{
    UNUSED(ctx);
    if (has_own_pages(size, align)) {
        void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return pages == MAP_FAILED ? NULL : pages;
    }
    if (align <= 16) return malloc(size);
    void *p = NULL;
    return posix_memalign(&p, align, size) == 0 ? p : NULL;
}

static void libc_free(void *ctx, void *ptr, size_t size, size_t align)
{
    UNUSED(ctx);
    if (has_own_pages(size, align)) {
        (void)munmap(ptr, size);
    } else {
        free(ptr);
    }
}

char *text_dup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = malloc(n);
    if (copy) memcpy(copy, text, n);
    return copy;
}

char *text_join(const char *a, const char *b)
{
    size_t first = strlen(a), second = strlen(b) + 1;
    char *copy = malloc(first + second);
    if (copy) {
        memcpy(copy, a, first);
        memcpy(copy + first, b, second);
    }
    return copy;
}

void *bytes_dup(const void *bytes, size_t n)
{
    void *copy = malloc(n ? n : 1);
    if (copy && n) memcpy(copy, bytes, n);
    return copy;
}

void pennon_string_free(char *text) { free(text); }
void pennon_bytes_free(void *bytes) { free(bytes); }

/* ---- recycling ---- */

/* Size of the class that holds `size`, and its index. */
static size_t class_of(size_t size, unsigned *index)
{
    unsigned top = bit_width(size - 1) - 1; /* size <= 2 << top */
    size_t step = ((size_t)1 << top) / 8, base = (size_t)1 << top;
    size_t eighth = (size - base + step - 1) / step; /* 1..8 */
    *index = (top - 14) * 8 + (unsigned)eighth - 1;
    return base + eighth * step;
}

static bool recycles(size_t size, size_t align)
{
    return !PLAIN_ALLOCATIONS && align == ALIGN && size >= RECYCLE_MIN && size <= RECYCLE_LARGEST;
}

/* False in a forked child when a thread of the parent held the lock: nobody will free it, and nothing is recycled any more. */
static bool recycle_lock(struct recycler *r)
{
    if (LIKELY(pthread_mutex_trylock(&r->lock) == 0)) return true;
    return r->pid == getpid() && pthread_mutex_lock(&r->lock) == 0;
}

static void *recycle_take(struct mem *root, unsigned index, size_t size)
{
    struct recycler *r = &root->recycler;
    if (!recycle_lock(r)) return NULL;
    struct kept_block *b = r->kept[index];
    if (b) {
        r->kept[index] = b->next;
        r->bytes -= size;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return b;
}

/* False when enough is kept already. */
static bool recycle_give(struct mem *root, void *p, unsigned index, size_t size)
{
    struct recycler *r = &root->recycler;
    if (!recycle_lock(r)) return false;
    bool keep = r->bytes + size <= r->most;
    if (keep) {
        struct kept_block *b = p;
        b->next = r->kept[index];
        r->kept[index] = b;
        r->bytes += size;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return keep;
}

static void recycle_drop(struct mem *m)
{
    for (unsigned i = 0; i < RECYCLE_CLASSES; i++) {
        size_t base = (size_t)1 << (i / 8 + 14), size = base + (i % 8 + 1) * (base / 8);
        while (m->recycler.kept[i]) {
            struct kept_block *b = m->recycler.kept[i];
            m->recycler.kept[i] = b->next;
            m->allocator.free(m->allocator.ctx, b, size, ALIGN);
        }
    }
    (void)pthread_mutex_destroy(&m->recycler.lock);
}

/* ---- accounting ---- */

struct mem *mem_new(struct mem *parent, uint64_t limit, const pennon_allocator *allocator, pennon_error *err)
{
    static const pennon_allocator libc_allocator = {libc_alloc, libc_free, NULL};
    const pennon_allocator *use = allocator ? allocator : parent ? &parent->allocator : &libc_allocator;
    struct mem *m = use->alloc(use->ctx, sizeof *m, 16);
    if (!m) {
        (void)error_set(err, PENNON_OUT_OF_MEMORY, "no memory for a budget");
        return NULL;
    }
    m->parent = parent ? mem_retain(parent) : NULL;
    m->root = parent ? parent->root : m;
    memset(&m->recycler, 0, sizeof m->recycler);
    if (!parent) (void)pthread_mutex_init(&m->recycler.lock, NULL);
    m->recycler.pid = getpid();
    m->recycler.most = RECYCLE_MAX;
    m->allocator = *use;
    m->limit = limit;
    atomic_init(&m->used, 0);
    atomic_init(&m->peak, 0);
    atomic_init(&m->refs, 1);
    return m;
}

void mem_keep(struct mem *m, uint64_t bytes) { m->root->recycler.most = (size_t)min_u64(bytes, RECYCLE_MAX); }

struct mem *mem_retain(struct mem *m)
{
    atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
    return m;
}

void mem_release(struct mem *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
    struct mem *parent = m->parent;
    pennon_allocator allocator = m->allocator;
    if (m->root == m) recycle_drop(m);
    allocator.free(allocator.ctx, m, sizeof *m, 16);
    mem_release(parent);
}

uint64_t mem_used(const struct mem *m) { return atomic_load_explicit(&m->used, memory_order_relaxed); }
uint64_t mem_peak(const struct mem *m) { return atomic_load_explicit(&m->peak, memory_order_relaxed); }

uint64_t mem_limit(const struct mem *m)
{
    uint64_t least = m->limit;
    for (const struct mem *p = m->parent; p; p = p->parent) least = min_u64(least, p->limit);
    return least;
}

uint64_t mem_available(const struct mem *m)
{
    uint64_t least = UINT64_MAX;
    for (const struct mem *p = m; p; p = p->parent) {
        uint64_t used = mem_used(p);
        least = min_u64(least, used < p->limit ? p->limit - used : 0);
    }
    return least;
}

static void uncharge(struct mem *m, const struct mem *stop, uint64_t n)
{
    for (; m != stop; m = m->parent) atomic_fetch_sub_explicit(&m->used, n, memory_order_relaxed);
}

static pennon_status charge(struct mem *m, uint64_t n, pennon_error *err)
{
    for (struct mem *p = m; p; p = p->parent) {
        uint64_t now = atomic_fetch_add_explicit(&p->used, n, memory_order_relaxed) + n;
        if (UNLIKELY(now > p->limit || now < n)) {
            uncharge(m, p->parent, n);
            return error_set(err, PENNON_OVER_BUDGET,
                             "%" PRIu64 " bytes do not fit the memory budget: %" PRIu64 " of %" PRIu64 " in use", n, now - n,
                             p->limit);
        }
        uint64_t peak = atomic_load_explicit(&p->peak, memory_order_relaxed);
        while (now > peak &&
               !atomic_compare_exchange_weak_explicit(&p->peak, &peak, now, memory_order_relaxed, memory_order_relaxed)) {
        }
    }
    return PENNON_OK;
}

/* Fresh pages that will all be written are asked for at once: a fault a page costs more than writing the page. Where the system does not know how, each
 * page comes at its fault. */
static void populate(const struct mem *m, void *p, size_t size, size_t align)
{
#ifdef MADV_POPULATE_WRITE
    if (m->allocator.alloc == libc_alloc && has_own_pages(size, align)) (void)madvise(p, size, MADV_POPULATE_WRITE);
#else
    UNUSED(m);
    UNUSED(p);
    UNUSED(size);
    UNUSED(align);
#endif
}

/* `filled`: all of the bytes will be written. */
static void *take(struct mem *m, size_t size, size_t align, bool filled, pennon_error *err)
{
    if (charge(m, size, err) != PENNON_OK) return NULL;
    void *p;
    if (recycles(size, align)) {
        unsigned index;
        size_t whole = class_of(size, &index);
        p = recycle_take(m->root, index, whole);
        if (!p) {
            p = m->allocator.alloc(m->allocator.ctx, whole, align);
            if (p && filled) populate(m, p, size, align);
        }
    } else {
        p = m->allocator.alloc(m->allocator.ctx, size, align);
        if (p && filled) populate(m, p, size, align);
    }
    if (UNLIKELY(!p)) {
        uncharge(m, NULL, size);
        (void)error_set(err, PENNON_OUT_OF_MEMORY, "the allocator has no %zu bytes", size);
    }
    return p;
}

static void give(struct mem *m, void *p, size_t size, size_t align)
{
    unsigned index;
    size_t whole = size;
    bool kept = false;
    if (recycles(size, align)) {
        whole = class_of(size, &index);
        kept = recycle_give(m->root, p, index, whole);
    }
    if (!kept) m->allocator.free(m->allocator.ctx, p, whole, align);
    uncharge(m, NULL, size);
}

/* ---- objects ---- */

void *mem_alloc(struct mem *m, size_t size, pennon_error *err)
{
    size_t total;
    if (size_add_overflows(size, HEADER, &total)) {
        (void)error_set(err, PENNON_OVER_BUDGET, "%zu bytes do not fit the memory budget", size);
        return NULL;
    }
    uint8_t *p = take(m, total, 16, false, err);
    if (!p) return NULL;
    memcpy(p, &total, sizeof total);
    return p + HEADER;
}

static size_t total_of(const void *ptr)
{
    size_t total;
    memcpy(&total, (const uint8_t *)ptr - HEADER, sizeof total);
    return total;
}

void *mem_calloc(struct mem *m, size_t n, size_t size, pennon_error *err)
{
    size_t bytes;
    if (size_mul_overflows(n, size, &bytes)) {
        (void)error_set(err, PENNON_OVER_BUDGET, "%zu objects of %zu bytes do not fit the memory budget", n, size);
        return NULL;
    }
    void *p = mem_alloc(m, bytes, err);
    if (p) memset(p, 0, bytes);
    return p;
}

void *mem_realloc(struct mem *m, void *ptr, size_t size, pennon_error *err)
{
    void *p = mem_alloc(m, size, err);
    if (p && ptr) {
        size_t old = total_of(ptr) - HEADER;
        memcpy(p, ptr, old < size ? old : size);
        mem_free(m, ptr);
    }
    return p;
}

void mem_free(struct mem *m, void *ptr)
{
    if (ptr) give(m, (uint8_t *)ptr - HEADER, total_of(ptr), 16);
}

char *mem_strndup(struct mem *m, const char *text, size_t n, pennon_error *err)
{
    size_t total;
    if (size_add_overflows(n, 1, &total)) total = SIZE_MAX;
    char *p = mem_alloc(m, total, err);
    if (!p) return NULL;
    if (n) memcpy(p, text, n);
    p[n] = '\0';
    return p;
}

char *mem_strdup(struct mem *m, const char *text, pennon_error *err) { return mem_strndup(m, text, strlen(text), err); }

char *mem_printf(struct mem *m, pennon_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        (void)error_set(err, PENNON_INTERNAL, "a text could not be formatted");
        return NULL;
    }
    char *p = mem_alloc(m, (size_t)n + 1, err);
    if (!p) return NULL;
    va_start(args, fmt);
    (void)vsnprintf(p, (size_t)n + 1, fmt, args);
    va_end(args);
    return p;
}

pennon_status mem_grow(struct mem *m, void *items, size_t *cap, size_t n, size_t elem, size_t max, pennon_error *err)
{
    if (n < *cap) return PENNON_OK;
    if (n >= max) return error_set(err, PENNON_INVALID_ARGUMENT, "more than %zu elements", max);
    size_t want = *cap < 4 ? 8 : *cap * 2;
    if (want > max) want = max;
    if (want <= n) want = n + 1;
    size_t bytes;
    if (size_mul_overflows(want, elem, &bytes)) return error_set(err, PENNON_OVER_BUDGET, "%zu elements of %zu bytes", want, elem);
    void *old;
    memcpy(&old, items, sizeof old);
    uint8_t *p = mem_realloc(m, old, bytes, err);
    if (!p) return err->code;
    memset(p + *cap * elem, 0, bytes - *cap * elem);
    memcpy(items, &p, sizeof p);
    *cap = want;
    return PENNON_OK;
}

/* ---- buf ---- */

void buf_init(struct buf *b, struct mem *m, size_t max) { *b = (struct buf){.max = max, .mem = m}; }

void buf_free(struct buf *b)
{
    if (b->data) give(b->mem, b->data, b->cap + BUF_SLACK, ALIGN);
    b->data = NULL;
    b->size = b->cap = 0;
}

/* Move the bytes to an allocation of exactly `cap`, all of which is about to be `filled` or perhaps not. */
static pennon_status buf_set_cap(struct buf *b, size_t cap, bool filled, pennon_error *err)
{
    size_t total;
    if (cap > b->max) {
        return error_set(err, PENNON_OVER_BUDGET, "a buffer of %zu bytes is over its limit of %zu", cap, b->max);
    }
    if (size_add_overflows(cap, BUF_SLACK, &total)) return error_set(err, PENNON_OVER_BUDGET, "a buffer of %zu bytes", cap);
    uint8_t *p = take(b->mem, total, ALIGN, filled, err);
    if (!p) return err->code;
    if (b->size) memcpy(p, b->data, b->size);
    memset(p + cap, 0, BUF_SLACK);
    size_t size = b->size;
    buf_free(b);
    b->data = p;
    b->size = size;
    b->cap = cap;
    return PENNON_OK;
}

static pennon_status reserve(struct buf *b, size_t cap, bool filled, pennon_error *err)
{
    if (cap <= b->cap) return PENNON_OK;
    const size_t rounded = (size_t)round_up(cap, ALIGN);
    return buf_set_cap(b, rounded <= b->max ? rounded : cap, filled, err);
}

pennon_status buf_reserve(struct buf *b, size_t cap, pennon_error *err) { return reserve(b, cap, true, err); }

pennon_status buf_grow(struct buf *b, size_t extra, pennon_error *err)
{
    size_t need;
    if (size_add_overflows(b->size, extra, &need)) return error_set(err, PENNON_OVER_BUDGET, "a buffer grows by %zu bytes", extra);
    if (need <= b->cap) return PENNON_OK;
    size_t twice = b->cap > b->max / 2 ? b->max : b->cap * 2;
    return reserve(b, need > twice ? need : twice, need >= twice, err);
}

pennon_status buf_resize(struct buf *b, size_t size, pennon_error *err)
{
    if (size > b->size) TRY_RETURN(buf_grow(b, size - b->size, err));
    b->size = size;
    return PENNON_OK;
}

pennon_status buf_resize_zero(struct buf *b, size_t size, pennon_error *err)
{
    size_t old = b->size;
    TRY_RETURN(buf_resize(b, size, err));
    if (size > old) memset(b->data + old, 0, size - old);
    return PENNON_OK;
}

pennon_status buf_append(struct buf *b, const void *bytes, size_t n, pennon_error *err)
{
    TRY_RETURN(buf_grow(b, n, err));
    if (n) memcpy(b->data + b->size, bytes, n);
    b->size += n;
    return PENNON_OK;
}

pennon_status buf_append_zero(struct buf *b, size_t n, pennon_error *err)
{
    TRY_RETURN(buf_grow(b, n, err));
    if (n) memset(b->data + b->size, 0, n);
    b->size += n;
    return PENNON_OK;
}

pennon_status buf_append_byte(struct buf *b, uint8_t byte, pennon_error *err)
{
    TRY_RETURN(buf_grow(b, 1, err));
    b->data[b->size++] = byte;
    return PENNON_OK;
}

pennon_status buf_printf(struct buf *b, pennon_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) return error_set(err, PENNON_INTERNAL, "a text could not be formatted");
    TRY_RETURN(buf_grow(b, (size_t)n + 1, err));
    va_start(args, fmt);
    (void)vsnprintf((char *)b->data + b->size, (size_t)n + 1, fmt, args);
    va_end(args);
    b->size += (size_t)n;
    return PENNON_OK;
}

pennon_status buf_terminate(struct buf *b, pennon_error *err)
{
    TRY_RETURN(buf_grow(b, 1, err));
    b->data[b->size] = '\0';
    return PENNON_OK;
}

void buf_move(struct buf *to, struct buf *from)
{
    ASSERT(!to->data);
    *to = *from;
    from->data = NULL;
    from->size = from->cap = 0;
}

/* ---- block ---- */

/* Allocation of a block: the bytes have an allocation of their own, so that a buf can be taken over without a copy. */
static struct block *block_wrap(struct mem *m, uint8_t *data, size_t size, size_t cap, pennon_error *err)
{
    struct block *b = mem_alloc(m, sizeof *b + sizeof cap, err);
    if (!b) return NULL;
    b->data = data;
    b->size = size;
    b->mem = mem_retain(m);
    atomic_init(&b->refs, 1);
    memcpy(b + 1, &cap, sizeof cap);
    return b;
}

struct block *block_new(struct mem *m, size_t size, pennon_error *err)
{
    struct buf b;
    buf_init(&b, m, BUF_NO_LIMIT);
    if (buf_set_cap(&b, size, true, err) != PENNON_OK) return NULL;
    b.size = size;
    struct block *out = block_from_buf(&b, err);
    buf_free(&b);
    return out;
}

struct block *block_from_buf(struct buf *b, pennon_error *err)
{
    if (!b->data && buf_set_cap(b, 0, true, err) != PENNON_OK) return NULL;
    struct block *out = block_wrap(b->mem, b->data, b->size, b->cap, err);
    if (!out) return NULL;
    b->data = NULL;
    b->size = b->cap = 0;
    return out;
}

/* Stands for the capacity of a mapping. */
#define CAP_MAPPED SIZE_MAX

struct block *block_from_mapping(struct mem *m, void *bytes, size_t size, pennon_error *err)
{
    ASSERT(bytes != NULL && size > 0);
    struct block *out = block_wrap(m, bytes, size, CAP_MAPPED, err);
    if (!out) (void)munmap(bytes, size);
    return out;
}

struct block *block_retain(struct block *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

void block_release(struct block *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
    size_t cap;
    memcpy(&cap, b + 1, sizeof cap);
    struct mem *m = b->mem;
    if (cap == CAP_MAPPED) {
        (void)munmap(b->data, b->size);
    } else {
        give(m, b->data, cap + BUF_SLACK, ALIGN);
    }
    mem_free(m, b);
    mem_release(m);
}

/* ---- arena ---- */

void arena_init(struct arena *a, struct mem *m) { *a = (struct arena){.mem = m}; }

void arena_reset(struct arena *a)
{
    while (a->chunk) {
        struct arena_chunk *next = a->chunk->next;
        mem_free(a->mem, a->chunk);
        a->chunk = next;
    }
    a->used = 0;
}

void *arena_alloc(struct arena *a, size_t size, pennon_error *err)
{
    size_t need, total;
    if (size > PTRDIFF_MAX) {
        (void)error_set(err, PENNON_OVER_BUDGET, "%zu bytes do not fit the memory budget", size);
        return NULL;
    }
    need = PLAIN_ALLOCATIONS ? size : (size_t)round_up(size, 16);
    if (PLAIN_ALLOCATIONS || !a->chunk || need > a->chunk->cap - a->used) {
        size_t cap = PLAIN_ALLOCATIONS                       ? need
                     : a->chunk && a->chunk->cap < 64 * 1024 ? a->chunk->cap * 2
                     : a->chunk                              ? a->chunk->cap
                                                             : ARENA_CHUNK_MIN;
        if (cap < need) cap = need;
        if (size_add_overflows(cap, sizeof(struct arena_chunk), &total)) total = SIZE_MAX;
        struct arena_chunk *c = mem_alloc(a->mem, total, err);
        if (!c) return NULL;
        c->next = a->chunk;
        c->cap = cap;
        a->chunk = c;
        a->used = 0;
    }
    uint8_t *p = (uint8_t *)(a->chunk + 1) + a->used;
    a->used += need;
    return p;
}

void *arena_calloc(struct arena *a, size_t n, size_t size, pennon_error *err)
{
    size_t bytes;
    if (size_mul_overflows(n, size, &bytes)) bytes = SIZE_MAX;
    void *p = arena_alloc(a, bytes, err);
    if (p) memset(p, 0, bytes);
    return p;
}

char *arena_strndup(struct arena *a, const char *text, size_t n, pennon_error *err)
{
    size_t total;
    if (size_add_overflows(n, 1, &total)) total = SIZE_MAX;
    char *p = arena_alloc(a, total, err);
    if (!p) return NULL;
    if (n) memcpy(p, text, n);
    p[n] = '\0';
    return p;
}
