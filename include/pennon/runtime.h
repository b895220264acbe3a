/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* The runtime (what calls share), and the call part of every option struct: cancel token, deadline, memory budget, threads,
 * durability and progress.
 *
 * NULL stands for the default runtime, made on first use. Nothing starts a thread before the first call that needs one. */
#ifndef PENNON_RUNTIME_H
#define PENNON_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pennon/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "Not set" for unsigned 64-bit options where zero is a value like any other. */
#define PENNON_NONE UINT64_MAX

typedef struct pennon_runtime pennon_runtime;
typedef struct pennon_cancel pennon_cancel;
typedef struct pennon_budget pennon_budget;

/* Memory functions of the program. `size` of free is the size that was asked for. Alignment is a power of two of at most 64.
 * Called from any thread. */
typedef struct pennon_allocator {
    void *(*alloc)(void *ctx, size_t size, size_t align);
    void (*free)(void *ctx, void *ptr, size_t size, size_t align);
    void *ctx;
} pennon_allocator;

typedef enum pennon_log_level {
    PENNON_LOG_ERROR = 1,
    PENNON_LOG_WARN = 2,
    PENNON_LOG_INFO = 3,
    PENNON_LOG_DEBUG = 4
} pennon_log_level;

/* Called with no lock held, on whichever thread has something to say. `message` is valid during the call. */
typedef void (*pennon_log_fn)(void *ctx, pennon_log_level level, const char *message);

typedef struct pennon_runtime_options {
    size_t struct_size;
    uint32_t threads;                  /* pool size; 0 = the processors this process may use */
    uint64_t memory_limit;             /* bytes for all calls together; PENNON_NONE = a quarter of usable memory, at most 1 GiB */
    uint32_t max_open_files;           /* open files that the local store keeps; 0 = 128 */
    const pennon_allocator *allocator; /* copied; NULL = the C library */
    pennon_log_fn log;                 /* NULL = warnings are dropped */
    void *log_ctx;
    pennon_log_level log_level;
} pennon_runtime_options;

PENNON_EXPORT void pennon_runtime_options_init(pennon_runtime_options *options);

/* Make a runtime. `options` may be NULL. Returned with one reference; free with pennon_runtime_free.
 * Fails: INVALID_ARGUMENT, OUT_OF_MEMORY. Thread safe. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_runtime_new(const pennon_runtime_options *options, pennon_runtime **out,
                                                              pennon_error *err);
PENNON_EXPORT void pennon_runtime_retain(pennon_runtime *runtime);
/* Give a reference back; NULL is allowed. The pool stops when the last handle that uses the runtime is gone. */
PENNON_EXPORT void pennon_runtime_free(pennon_runtime *runtime);

/* A flag that stops calls. Fire from any thread, also from a signal handler; fired for good. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_cancel_new(pennon_cancel **out, pennon_error *err);
PENNON_EXPORT void pennon_cancel_fire(pennon_cancel *cancel);
PENNON_EXPORT void pennon_cancel_free(pennon_cancel *cancel); /* the token may still be in use by a stream; NULL is allowed */

/* A memory budget that several calls share, below the budget of the runtime. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_budget_new(pennon_runtime *runtime, uint64_t bytes, pennon_budget **out,
                                                             pennon_error *err);
PENNON_EXPORT uint64_t pennon_budget_used(const pennon_budget *budget); /* bytes now */
PENNON_EXPORT uint64_t pennon_budget_peak(const pennon_budget *budget); /* highest value of used */
PENNON_EXPORT void pennon_budget_free(pennon_budget *budget);

/* Progress of a long call: `done` of `total` (0 = unknown) in the unit that the verb documents. Called with no lock held, on
 * any thread, never twice at once for one call. */
typedef void (*pennon_progress_fn)(void *ctx, uint64_t done, uint64_t total);

enum {
    PENNON_DURABILITY_FULL = 0, /* data, manifest and directories are synced before the call returns */
    PENNON_DURABILITY_NONE = 1  /* the operating system writes when it likes */
};

/* The part that all option structs share. Fill with pennon_call_init; pass NULL for defaults. */
typedef struct pennon_call {
    size_t struct_size;
    pennon_runtime *runtime; /* NULL = default */
    pennon_cancel *cancel;   /* NULL = cannot be cancelled */
    pennon_budget *budget;   /* NULL = the runtime's */
    int64_t timeout_ms;      /* from the start of the call; negative = none */
    uint32_t threads;        /* threads this call may keep busy; 0 = the pool's */
    int32_t durability;      /* PENNON_DURABILITY_ */
    pennon_progress_fn progress;
    void *progress_ctx;
} pennon_call;

PENNON_EXPORT void pennon_call_init(pennon_call *call);

/* Version of the library, "0.1.0". */
PENNON_EXPORT const char *pennon_version(void);

/* Free a text or bytes that the library returned to the caller. NULL is allowed. */
PENNON_EXPORT void pennon_string_free(char *text);
PENNON_EXPORT void pennon_bytes_free(void *bytes);

#ifdef __cplusplus
}
#endif
#endif
