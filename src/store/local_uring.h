/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Many reads of one local file in flight through io_uring, where the library was built with it and the kernel allows it.
 *
 * The rings of a store are made when reads first need them and kept for the next. Thread-safe: a ring belongs to who acquired it.
 * Source: spec object-stores; io_uring(7). */
#ifndef STORE_LOCAL_URING_H
#define STORE_LOCAL_URING_H

#include "base/base.h"
#include "pennon/store.h"

#define URING_DEPTH 64u /* reads in flight of a ring */

struct uring_rings;
struct uring_ring;

struct uring_rings *uring_rings_new(struct mem *m, pennon_error *err);
void uring_rings_free(struct uring_rings *r); /* NULL is allowed; no ring may be out */

/* A ring of one's own, or NULL where there is none to be had: then read without. */
struct uring_ring *uring_acquire(struct uring_rings *r);
void uring_release(struct uring_rings *r, struct uring_ring *ring);

/* Read ranges of a file. Of each range, what could not be read (past the end, or for an error) stays in it, to be read or reported in the
 * plain way; a range that was read has size 0. No buffer is in use any more when this returns. */
void uring_read(struct uring_ring *ring, int fd, pennon_range *ranges, size_t n);

#endif
