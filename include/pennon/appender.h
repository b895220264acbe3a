/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Group commit: many threads hand in rows, and rows that wait at the same time become one version.
 *
 * A commit costs the same for one row as for many. While one is under way the rows of other callers gather, and go together into the next
 * one. Each call returns when its rows are committed, and learns the version that holds them.
 *
 *     pennon_appender *a;
 *     st = pennon_appender_open(ds, &schema, NULL, &a, &err);
 *     st = pennon_appender_append(a, &batch, NULL, &version, &err);   // from any thread
 *     pennon_appender_free(a);
 */
#ifndef PENNON_APPENDER_H
#define PENNON_APPENDER_H

#include "pennon/write.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_appender pennon_appender;

typedef struct pennon_appender_options {
    size_t struct_size;
    const pennon_call
        *call;            /* of the commits: runtime, budget, threads, durability; its cancel token and time limit are not used */
    int64_t max_delay_ns; /* the first rows of a group wait this long for others; 0 = only while a commit is under way */
    uint64_t max_bytes;   /* rows of a group; 0 = 64 MiB. Ends the wait; one caller's rows are never split */
    uint32_t max_retries; /* of a commit; 20 */
} pennon_appender_options;

typedef struct pennon_appender_stats {
    size_t struct_size;
    uint64_t appends; /* calls that succeeded */
    uint64_t rows;
    uint64_t commits; /* versions made */
} pennon_appender_stats;

PENNON_EXPORT void pennon_appender_options_init(pennon_appender_options *options);

/* An appender to the dataset, which it retains; the dataset's handle moves with the commits. `schema` (a struct; copied) is that of every batch; it
 * has to fit the dataset's as for an append. INVALID_ARGUMENT (kind SchemaMismatch), NOT_SUPPORTED. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_appender_open(pennon_dataset *ds, const struct ArrowSchema *schema,
                                                                const pennon_appender_options *options, pennon_appender **out,
                                                                pennon_error *err);

/* Append the rows of `batch`, which is taken and released on every path. Returns when they are committed; *version (may be NULL) is the first version
 * that holds them. Thread safe; one of the waiting threads does the work of all. A fault in one caller's rows fails that caller alone.
 * `call` (may be NULL) gives the cancel token and the time limit of the wait: until the commit of the rows begins they end the call, and nothing was
 * appended; from then on the outcome is waited for.
 * CANCELLED, TIMEOUT, and what pennon_dataset_append gives: after COMMIT_UNKNOWN the rows may be there. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_appender_append(pennon_appender *appender, struct ArrowArray *batch,
                                                                  const pennon_call *call, uint64_t *version, pennon_error *err);

PENNON_EXPORT PENNON_CHECKED pennon_status pennon_appender_get_stats(pennon_appender *appender, pennon_appender_stats *out,
                                                                     pennon_error *err);
/* When no call is under way. NULL is allowed. */
PENNON_EXPORT void pennon_appender_free(pennon_appender *appender);

#ifdef __cplusplus
}
#endif
#endif
