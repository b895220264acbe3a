/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The running form of the public call part: what every operation below the public surface gets as its first argument. */
#ifndef BASE_CALL_H
#define BASE_CALL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"

struct pool;

/* What reads of a call add up, where somebody asks. */
struct call_counters {
    _Atomic(uint64_t) requests;
    _Atomic(uint64_t) bytes;
};

/* Immutable while the operation runs; shared by its tasks. Streams keep one of their own. */
struct call {
    pennon_runtime *runtime; /* retained */
    struct mem *mem;         /* budget of the call, retained */
    pennon_cancel *cancel;   /* retained, or NULL */
    int64_t deadline_ns;     /* monotonic clock; INT64_MAX = none */
    uint32_t threads;        /* >= 1 */
    int32_t durability;
    pennon_progress_fn progress;
    void *progress_ctx;
    struct call_counters *counters; /* borrowed from whoever runs the call; NULL = nobody counts */
};

/* Resolve the public part (NULL = defaults). INVALID_ARGUMENT names a bad field. Pair with call_end. */
pennon_status call_begin(struct call *c, const pennon_call *options, pennon_error *err) CHECKED;
/* A call that shares everything with `from` (for streams that outlive the caller's struct). */
void call_copy(struct call *c, const struct call *from);
void call_end(struct call *c);
/* CANCELLED or TIMEOUT; cheap enough for every few thousand values. */
pennon_status call_check(const struct call *c, pennon_error *err) CHECKED;
void call_progress(const struct call *c, uint64_t done, uint64_t total);
struct pool *call_pool(const struct call *c);
void call_log(const struct call *c, pennon_log_level level, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Reads an option struct that begins with size_t struct_size: copies the caller's bytes over `defaults`, refuses unknown
 * non-zero bytes with INVALID_ARGUMENT, leaves defaults for what an older caller does not know. `given` may be NULL. */
pennon_status options_read(void *defaults, size_t known, const void *given, const char *name, pennon_error *err) CHECKED;

/* ---- task pool: tasks run to their end and never wait for another task ---- */

typedef void (*task_fn)(void *arg);

/* Run `fn(arg)` on a thread of the pool. Threads start on first use. OUT_OF_MEMORY or IO when no thread can be had and
 * nothing was queued. */
pennon_status pool_submit(struct pool *p, task_fn fn, void *arg, pennon_error *err) CHECKED;
uint32_t pool_threads(const struct pool *p);
/* Run fn(arg, i) for i in [0, n), on the calling thread and up to `threads - 1` of the pool; returns when all have run. After
 * a failure the indices not yet begun are dropped, and the failure with the lowest index is the result. Safe to call from a
 * pool task: the caller works itself and never depends on another thread getting free. */
typedef pennon_status (*parallel_fn)(void *arg, size_t i, pennon_error *err);
pennon_status pool_parallel(struct pool *p, uint32_t threads, size_t n, parallel_fn fn, void *arg, pennon_error *err) CHECKED;

/* Lock in whichever process this is. True in a forked child that locks for the first time: the lock is a new one, and what it guards is as the
 * parent's threads left it, perhaps in the middle of a change. `pid` is getpid() of who made the lock. */
bool lock_in_process(pthread_mutex_t *lock, _Atomic(int32_t) *pid);

/* ---- time, random, uuid ---- */

int64_t clock_monotonic_ns(void);
int64_t clock_wall_ns(void); /* since 1970, UTC */
/* RFC 3339 in UTC, "2026-01-31T12:00:00.25Z" with no, 3, 6 or 9 digits behind the second; NUL. */
#define TIME_TEXT_BYTES 40
void time_text(int64_t ns, char out[TIME_TEXT_BYTES]);
bool time_parse(const char *text, int64_t *ns); /* untrusted; any offset; false = no such time, or out of range */
pennon_status random_bytes(void *out, size_t n, pennon_error *err) CHECKED;
/* RFC 4122 version 4. */
pennon_status uuid_new(uint8_t out[16], pennon_error *err) CHECKED;
void uuid_text(const uint8_t uuid[16], char out[37]); /* lower case with hyphens, NUL */
bool uuid_parse(const char *text, size_t n, uint8_t out[16]);

/* ---- general compression, bounded ---- */

/* Decompress exactly `out_size` bytes, else CORRUPT. The frame's own size word is never trusted for allocation. */
pennon_status zstd_decompress(struct bytes in, uint8_t *out, size_t out_size, pennon_error *err) CHECKED;
pennon_status lz4_block_decompress(struct bytes in, uint8_t *out, size_t out_size, pennon_error *err) CHECKED;
/* LZ4 frame format, as Arrow IPC uses it. */
pennon_status lz4_frame_decompress(struct bytes in, uint8_t *out, size_t out_size, pennon_error *err) CHECKED;
/* Append the compressed form to `out`. `level` 0 = the library's default. */
pennon_status zstd_compress(struct bytes in, int level, struct buf *out, pennon_error *err) CHECKED;
pennon_status lz4_block_compress(struct bytes in, struct buf *out, pennon_error *err) CHECKED;

/* ---- texts of floating point numbers, the same in every locale ---- */

#define REAL_TEXT_MAX 48u /* bytes of a text with its NUL, at most */
/* A finite number as printf's %.*g, or %.*e where `scientific`, writes it in the C locale; `digits` 0..17. The length. */
size_t real_print(double v, int digits, bool scientific, char *out);
/* Sign, digits with a point, exponent: all of the text, correctly rounded; too large ones are infinite. False: it is no such number. */
bool real_parse(struct bytes text, double *out);

/* ---- CPU features: the one door of SIMD ---- */

enum { CPU_PORTABLE = 0, CPU_NEON = 1, CPU_AVX2 = 2, CPU_AVX512 = 3 };
/* Best level of this machine, capped by the environment variable PENNON_CPU (portable, neon, avx2, avx512). */
int cpu_level(void);

#endif
