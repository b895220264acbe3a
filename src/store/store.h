/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/store offers inside the library: stores with the running call, URIs, and the stores that tests wrap.
 *
 * Store objects are reference counted and thread safe. A wait for reads is interrupted every 10 ms to look at the cancel token and
 * the deadline; buffers of a read in flight stay in use until its completion came, so a cancelled wait still collects it. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/base.h"
#include "pennon/store.h"

/* ---- URIs ---- */

/* Split a dataset or file URI into the store's root and a path below it, so that one store serves a table and its branches.
 *   "/a/b/t.lance", "t.lance", "~/t", "file:///a/b"  -> local store, root "/", path "a/b/t.lance" (absolute, normalised)
 *   "memory://x/t"                                    -> memory store of the runtime, path "x/t"
 * A trailing slash is dropped; ".." is resolved textually; percent escapes are decoded for URLs only. A Windows drive letter is no
 * scheme. `path` is allocated in c->mem. INVALID_ARGUMENT (empty, NUL), NOT_SUPPORTED names the scheme. */
pennon_status store_resolve(const struct call *c, const char *uri, pennon_store **store, char **path, pennon_error *err) CHECKED;
/* Join with one '/'; in m. */
char *store_join(struct mem *m, const char *base, const char *name, pennon_error *err) CHECKED;
/* Absolute URI of a path of this store, for errors and base paths: "/a/b" for local, "memory://x/t". In m. */
char *store_uri(struct mem *m, const pennon_store *store, const char *path, pennon_error *err) CHECKED;
/* Do both stores hold the same objects? */
bool store_same(const pennon_store *a, const pennon_store *b);

/* Fill the places of an error that are still unknown; the file as store_uri has it. Returns err->code. */
pennon_status store_error(const pennon_store *store, const char *path, int64_t column, int64_t page, int64_t offset,
                          pennon_error *err);

/* ---- calls; errors carry the URI of the path in err->file ---- */

pennon_status store_head(const struct call *c, pennon_store *s, const char *path, pennon_object_info *out,
                         pennon_error *err) CHECKED;
pennon_status store_read_ranges(const struct call *c, pennon_store *s, const char *path, size_t n, const pennon_range *ranges,
                                pennon_error *err) CHECKED;
/* The whole object as a mapping, where it is a local file of exactly this size; *out NULL where it is not, or the system does not map it. Bytes of the
 * mapping are gone (SIGBUS) when somebody truncates the file: only for callers that were told so. `m` holds the block. */
pennon_status store_map(pennon_store *s, const char *path, uint64_t size, struct mem *m, struct block **out,
                        pennon_error *err) CHECKED;
/* Whole object, at most `max` bytes (more is OVER_BUDGET). */
pennon_status store_get(const struct call *c, pennon_store *s, const char *path, uint64_t max, struct block **out,
                        pennon_error *err) CHECKED;
/* The last min(want, size) bytes in one or two requests; *size is the object's. `known_size` 0 = not known. */
pennon_status store_get_tail(const struct call *c, pennon_store *s, const char *path, uint64_t known_size, size_t want,
                             struct block **out, uint64_t *size, pennon_error *err) CHECKED;
pennon_status store_put(const struct call *c, pennon_store *s, const char *path, struct bytes body, uint32_t flags,
                        pennon_error *err) CHECKED;
pennon_status store_list(const struct call *c, pennon_store *s, const char *prefix, bool recursive, pennon_list_fn fn, void *ctx,
                         pennon_error *err) CHECKED;
pennon_status store_delete(const struct call *c, pennon_store *s, const char *path, pennon_error *err) CHECKED;
/* With full durability: what was removed from the folder of the path stays removed after a power loss. */
pennon_status store_sync_removals(const struct call *c, pennon_store *s, const char *path, pennon_error *err) CHECKED;
pennon_status store_copy(const struct call *c, pennon_store *s, const char *from, const char *to, pennon_error *err) CHECKED;
/* Where objects lie in folders: remove the empty ones below `path` and at it, then those above it whose paths have more than `keep` bytes. Best effort;
 * objects stay. */
void store_remove_empty_folders(pennon_store *s, const char *path, size_t keep);
bool store_is_ordered(const pennon_store *s);
/* Is the object the last change of its folder? false = not known. Asks the store. */
bool store_is_last_change(pennon_store *s, const char *path);
uint32_t store_block_size(const pennon_store *s);
uint32_t store_parallel_reads(const pennon_store *s);

/* ---- reads in flight ---- */

/* One group of ranges of one object. The caller owns `ranges` and their buffers until read_wait or read_collect returned. */
struct store_read;
pennon_status store_read_begin(const struct call *c, pennon_store *s, const char *path, size_t n, const pennon_range *ranges,
                               struct store_read **out, pennon_error *err) CHECKED;
bool store_read_ready(const struct store_read *r);
/* Wait for the end, free `r`, return its result. CANCELLED and TIMEOUT come only after the completion. */
pennon_status store_read_end(const struct call *c, struct store_read *r, pennon_error *err) CHECKED;

/* ---- writing front to back ---- */

struct store_writer;
pennon_status store_writer_open(const struct call *c, pennon_store *s, const char *path, struct store_writer **out,
                                pennon_error *err) CHECKED;
/* Small writes are gathered. */
pennon_status store_writer_write(struct store_writer *w, const void *bytes, size_t n, pennon_error *err) CHECKED;
uint64_t store_writer_position(const struct store_writer *w); /* bytes written so far */
/* Makes the object visible (with c->durability) and frees `w`, also on failure. */
pennon_status store_writer_finish(const struct call *c, struct store_writer *w, pennon_error *err) CHECKED;
void store_writer_abort(struct store_writer *w); /* NULL is allowed */

/* ---- coalescing: a pure function ---- */

/* Sort-free merge of n ranges that are sorted by offset: neighbours whose gap is at most `gap` share one request of at most
 * `max` bytes (a single longer range stays alone). Fills requests[0..*n_requests) and for each range the request it lies in;
 * arrays hold n elements. Overlapping ranges are allowed. */
struct span {
    uint64_t offset;
    uint64_t size;
};
void store_coalesce(const struct span *ranges, size_t n, uint64_t gap, uint64_t max, struct span *requests, size_t *n_requests,
                    uint32_t *request_of);

/* A part of an object, read into `to`. */
struct store_part {
    uint64_t offset;
    uint64_t size;
    uint8_t *to;
};
/* Read parts that ascend by offset and lie in the object: neighbours share a request, one that stands alone is read where it belongs. Memory beside: a
 * window of requests. */
pennon_status store_read_parts(const struct call *c, pennon_store *s, const char *path, const struct store_part *parts, size_t n,
                               pennon_error *err) CHECKED;

/* ---- counters ---- */

struct store_stats {
    uint64_t requests; /* reads started */
    uint64_t ranges;
    uint64_t bytes_read;
    uint64_t bytes_written;
};
void store_stats(const pennon_store *s, struct store_stats *out);

/* ---- the fault store: a wrapper for tests (src/store/fault.c) ---- */

enum fault_kind {
    FAULT_FAIL,       /* the call fails with IO and does nothing */
    FAULT_SHORT_READ, /* a read gives CORRUPT as if the object were shorter */
    FAULT_TORN_WRITE, /* a part of the bytes arrives, then the call fails */
    FAULT_LOST_REPLY, /* the call succeeds and reports IO */
    FAULT_DELAY,      /* the call is late by `delay_ms` */
    FAULT_POWER_LOSS, /* this and every later call fails; fault_crash then drops what was not synced */
    FAULT_ENOSPC,
    FAULT_EMFILE,
    FAULT_READ_ONLY,
    FAULT_LATE_LISTING /* the object that the call puts is in no listing until the next plan */
};
enum fault_call { FAULT_ON_ANY, FAULT_ON_READ, FAULT_ON_HEAD, FAULT_ON_PUT, FAULT_ON_LIST, FAULT_ON_REMOVE, FAULT_ON_WRITER };

struct fault_plan {
    enum fault_kind kind;
    enum fault_call on;
    uint64_t nth;   /* 0-based number of the matching call that is hit; UINT64_MAX = none */
    uint32_t times; /* calls hit from there on; 0 = once */
    uint32_t delay_ms;
    uint64_t seed; /* choice of what survives a power loss and of torn lengths */
};
/* Wraps an in-memory file system that knows what was synced. */
pennon_status fault_store_new(struct mem *m, pennon_store **out, pennon_error *err) CHECKED;
void fault_store_plan(pennon_store *s, const struct fault_plan *plan);
/* The clock that gives objects their times; 0 = the machine's. */
void fault_store_set_time(pennon_store *s, int64_t now_ns);
uint64_t fault_store_calls(const pennon_store *s); /* matching calls so far; for loops over every call */
/* After a power loss: unsynced objects, names and removals survive or vanish by the seed; then the store works again. */
void fault_store_restart(pennon_store *s, uint64_t seed);

#endif
