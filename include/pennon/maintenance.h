/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Maintenance: old versions and the files that nobody needs any more are removed.
 *
 *     pennon_cleanup_options o;
 *     pennon_cleanup_stats stats;
 *     pennon_cleanup_options_init(&o);
 *     o.keep_versions = 10;
 *     st = pennon_dataset_cleanup(ds, &o, &stats, NULL, &err);
 *
 * What stays: the latest version and those not older than the handle's; what a tag names and what branches start from; and every file that one of them,
 * or any version of another branch, refers to. Files that no version refers to stay for seven days, for a writer may be about to commit them. Names that
 * neither this library nor Lance gives are never removed, and nothing outside of the dataset's own folders is. A shallow clone elsewhere is not known to
 * the dataset that it was made of: cleaning that one breaks it.
 * Each branch is cleaned on a handle of its own. */
#ifndef PENNON_MAINTENANCE_H
#define PENNON_MAINTENANCE_H

#include "pennon/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which versions are old: every part that is given has to say so. With none given, those of 14 days and more. */
typedef struct pennon_cleanup_options {
    size_t struct_size;
    const pennon_call *call; /* progress counts manifests read (of 0), then files removed */
    int64_t older_than_ns;   /* age in nanoseconds, by the time in the version and by the store's; negative = not given */
    uint64_t keep_versions;  /* the newest so many stay; PENNON_NONE = not given. The latest stays also with 0 */
    uint64_t before_version; /* only versions below this number; PENNON_NONE = not given */
    const char *before_tag;  /* only versions below the one of this tag, which is on the same branch; NULL = not given */
    bool delete_unverified;  /* remove also young files that no version refers to: sure only when nobody writes */
    bool error_if_tagged;    /* when a tag stands on an old version, fail before anything is removed; else it stays */
    bool dry_run;            /* say what would happen; write and remove nothing */
    uint64_t delete_rate;    /* removals a second at most; 0 = no limit */
} pennon_cleanup_options;

PENNON_EXPORT void pennon_cleanup_options_init(pennon_cleanup_options *options);

/* What was removed, or in a dry run would be. */
typedef struct pennon_cleanup_stats {
    uint64_t bytes_removed; /* of all files, manifests included */
    uint64_t versions;
    uint64_t data_files; /* the files of their blobs included */
    uint64_t transaction_files;
    uint64_t index_files;
    uint64_t deletion_files;
    uint64_t temporary_files; /* left by writers that ended */
} pennon_cleanup_stats;

/* Clean the branch that the handle is on. `stats` (may be NULL) is filled also after a failure, with what is gone by then. `explain` (may be NULL) gets a
 * row for each file in the dataset's folders: struct<path: string, kind: string, bytes: uint64, action: string, reason: string>; kind is manifest, data,
 * blob, deletion, index, transaction, temporary or unknown, action is keep or delete.
 *
 * A call that ends early (IO, TIMEOUT, CANCELLED) leaves every version that is still listed whole; the next one goes on.
 * A dataset of which some version, tag or branch cannot be read is left alone: CORRUPT, NOT_SUPPORTED.
 * INVALID_ARGUMENT (kind Cleanup: tagged old versions, a tag of another branch), NOT_FOUND (kinds RefNotFound, DatasetNotFound). */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_cleanup(pennon_dataset *ds, const pennon_cleanup_options *options,
                                                                  pennon_cleanup_stats *stats, struct ArrowArrayStream *explain,
                                                                  pennon_error *err);

/* A duration as Lance's config keys have it: "14d", "1h 30m", "90 seconds", "0". INVALID_ARGUMENT. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_duration_parse(const char *text, int64_t *ns, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
