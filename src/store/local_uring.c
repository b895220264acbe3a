/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Reads through io_uring: a ring is filled up to its depth, and refilled as completions come. A short read goes in again with what is
 * left of it, as often as it makes progress. After an error of the ring itself the ring is not used again, but everything in flight is
 * waited for: the kernel writes into the caller's buffers until then. */
#include "store/local_uring.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/mem.h"

#ifdef PENNON_HAVE_URING
#include <liburing.h>

#define RINGS_MAX 8u /* kept; as many as there are I/O threads */
#define READ_MOST ((uint64_t)1 << 30)

struct uring_ring {
    struct io_uring io;
    bool broken;
};

struct uring_rings {
    struct mem *mem;
    pthread_mutex_t lock;
    _Atomic(int32_t) pid;
    struct uring_ring *idle[RINGS_MAX];
    uint32_t n_idle;
    bool refused; /* the kernel has none for us */
};

struct uring_rings *uring_rings_new(struct mem *m, pennon_error *err)
{
    struct uring_rings *r = mem_calloc(m, 1, sizeof *r, err);
    if (!r) return NULL;
    r->mem = m;
    (void)pthread_mutex_init(&r->lock, NULL);
    atomic_init(&r->pid, (int32_t)getpid());
    return r;
}

static void ring_free(struct uring_rings *r, struct uring_ring *ring)
{
    io_uring_queue_exit(&ring->io);
    mem_free(r->mem, ring);
}

void uring_rings_free(struct uring_rings *r)
{
    if (!r) return;
    for (uint32_t i = 0; i < r->n_idle; i++) ring_free(r, r->idle[i]);
    (void)pthread_mutex_destroy(&r->lock);
    mem_free(r->mem, r);
}

/* A ring that a forked child inherits is the parent's: both would take completions from the same memory. */
static void lock_rings(struct uring_rings *r)
{
    if (LIKELY(!lock_in_process(&r->lock, &r->pid))) return;
    while (r->n_idle) ring_free(r, r->idle[--r->n_idle]); /* of the parent's rings this ends only our view */
}

struct uring_ring *uring_acquire(struct uring_rings *r)
{
    struct uring_ring *ring = NULL;
    pennon_error ignored;
    lock_rings(r);
    if (r->n_idle) ring = r->idle[--r->n_idle];
    const bool refused = r->refused;
    (void)pthread_mutex_unlock(&r->lock);
    if (ring || refused) return ring;
    pennon_error_init(&ignored);
    ring = mem_calloc(r->mem, 1, sizeof *ring, &ignored);
    pennon_error_clear(&ignored);
    if (ring && io_uring_queue_init(URING_DEPTH, &ring->io, 0) != 0) {
        mem_free(r->mem, ring);
        ring = NULL;
        /* Forbidden, unknown, or too many: the threads read, and no further call is spent on it. */
        lock_rings(r);
        r->refused = true;
        (void)pthread_mutex_unlock(&r->lock);
    }
    return ring;
}

void uring_release(struct uring_rings *r, struct uring_ring *ring)
{
    lock_rings(r);
    const bool keep = !ring->broken && r->n_idle < RINGS_MAX;
    if (keep) r->idle[r->n_idle++] = ring;
    (void)pthread_mutex_unlock(&r->lock);
    if (!keep) ring_free(r, ring);
}

/* Put range `i` into the ring; false when there is no place. */
static bool prepare(struct uring_ring *ring, int fd, const pennon_range *ranges, size_t i)
{
    struct io_uring_sqe *e = io_uring_get_sqe(&ring->io);
    if (!e) return false;
    const pennon_range *r = &ranges[i];
    io_uring_prep_read(e, fd, r->to, (unsigned)min_u64(r->size, READ_MOST), r->offset);
    e->user_data = i;
    return true;
}

/* What a completion says of its range; true when there is more to read of it. After an error, or at the end of the file, the rest is for
 * the plain way: trying again here could go on for ever. */
static bool complete(pennon_range *r, int32_t got)
{
    if (got <= 0) return false;
    ASSERT((uint64_t)got <= r->size);
    r->to = (uint8_t *)r->to + got;
    r->offset += (uint64_t)got;
    r->size -= (uint64_t)got;
    return r->size > 0;
}

void uring_read(struct uring_ring *ring, int fd, pennon_range *ranges, size_t n)
{
    size_t next = 0, prepared = 0, in_flight = 0;
    for (;;) {
        while (!ring->broken && next < n && prepared + in_flight < URING_DEPTH) {
            if (ranges[next].size && !prepare(ring, fd, ranges, next)) break;
            prepared += ranges[next++].size > 0;
        }
        if (prepared && !ring->broken) {
            const int sent = io_uring_submit(&ring->io);
            if (sent > 0) {
                prepared -= (size_t)sent;
                in_flight += (size_t)sent;
            } else if (sent != -EINTR && sent != -EAGAIN && sent != -EBUSY) {
                ring->broken = true;
            } else if (in_flight == 0) {
                ring->broken = true; /* nothing will free what the kernel lacks */
            }
        }
        if (in_flight == 0) break;
        struct io_uring_cqe *c = NULL;
        if (io_uring_wait_cqe(&ring->io, &c) != 0) continue; /* a signal */
        const size_t i = (size_t)c->user_data;
        const bool more = complete(&ranges[i], c->res);
        io_uring_cqe_seen(&ring->io, c);
        in_flight--;
        if (more && !ring->broken) prepared += prepare(ring, fd, ranges, i);
    }
}

#else

struct uring_rings {
    struct mem *mem;
};

struct uring_rings *uring_rings_new(struct mem *m, pennon_error *err)
{
    struct uring_rings *r = mem_calloc(m, 1, sizeof *r, err);
    if (r) r->mem = m;
    return r;
}

void uring_rings_free(struct uring_rings *r)
{
    if (r) mem_free(r->mem, r);
}

struct uring_ring *uring_acquire(struct uring_rings *r)
{
    UNUSED(r);
    return NULL;
}
void uring_release(struct uring_rings *r, struct uring_ring *ring)
{
    UNUSED(r);
    UNUSED(ring);
}
void uring_read(struct uring_ring *ring, int fd, pennon_range *ranges, size_t n)
{
    UNUSED(ring);
    UNUSED(fd);
    UNUSED(ranges);
    UNUSED(n);
}

#endif
