/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Scans for programs with a loop of their own: no call here waits for data. Batches are read on the pool of the runtime and come by callback, or are
 * asked for until one is there.
 *
 *     st = pennon_async_scan_open(ds, &options, &scan, &err);
 *     st = pennon_async_scan_next(scan, on_batch, ctx, &err);              callback form: one call, one batch
 *
 *     st = pennon_async_scan_poll(scan, wake, ctx, &ready, &batch, &err);  poll form: `wake` says when to poll again
 *
 * A scan is used in one form at a time, and by one thread at a time but for cancel; callbacks come on threads of the pool. */
#ifndef PENNON_ASYNC_H
#define PENNON_ASYNC_H

#include "pennon/scan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_async_scan pennon_async_scan;

/* What became of a pennon_async_scan_next, on a thread of the pool and with no lock held. OK with a batch, which the callee takes and releases; OK with
 * batch->release NULL is the end; else `err` says what failed and is valid during the call. May call next and free. */
typedef void (*pennon_batch_fn)(void *ctx, pennon_status status, struct ArrowArray *batch, const pennon_error *err);
/* Poll again. Called once for each poll that was not ready, perhaps before that poll has returned, on a thread of the pool. It should only note the fact. */
typedef void (*pennon_wake_fn)(void *ctx);

/* Begin a scan over the version that the dataset holds now. What is wrong with the options is told here. Reads the schema and the plan, no data. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_async_scan_open(pennon_dataset *ds, const pennon_scan_options *options,
                                                                  pennon_async_scan **out, pennon_error *err);
/* Schema of the batches; returned to the caller, who releases it. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_async_scan_schema(pennon_async_scan *scan, struct ArrowSchema *out,
                                                                    pennon_error *err);
/* Ask for the next batch. `fn` is called once when this returns OK, and not at all else. INVALID_ARGUMENT while a batch is under way. After the end or a
 * failure it comes again. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_async_scan_next(pennon_async_scan *scan, pennon_batch_fn fn, void *ctx,
                                                                  pennon_error *err);
/* *ready: `batch` is the next one (moved to the caller), or the end where its release is NULL; a failure is returned and repeats. Not *ready: `wake` (the last
 * one given) is called when it is time to poll again. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_async_scan_poll(pennon_async_scan *scan, pennon_wake_fn wake, void *ctx,
                                                                  bool *ready, struct ArrowArray *batch, pennon_error *err);
/* Stop: what is under way ends soon with PENNON_CANCELLED. Any thread. It fires the token of the options' call where there is one. */
PENNON_EXPORT void pennon_async_scan_cancel(pennon_async_scan *scan);
/* Let go, without waiting: a callback that has begun goes on, none begins afterwards. NULL is allowed. */
PENNON_EXPORT void pennon_async_scan_free(pennon_async_scan *scan);

#ifdef __cplusplus
}
#endif
#endif
