/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Parts of a commit: the transaction, the conflict rules, the manifest that it makes. */
#ifndef TABLE_COMMIT_PRIVATE_H
#define TABLE_COMMIT_PRIVATE_H

#include "table/table_private.h"

/* What one call of commit_fragments wants; the same over all attempts. */
struct commit {
    const struct call *call;
    enum commit_operation op;
    struct snapshot *read;       /* borrowed; NULL = create */
    const struct schema *schema; /* NULL = the table's */
    const struct fragment_message *fragments;
    size_t n;
    const struct commit_options *options;
    char uuid[37];
    uint64_t read_version;
    struct bytes transaction; /* encoded, in the arena */
    struct arena arena;
};

/* ---- commit_conflict.c ---- */

/* May mine go on top of `theirs`, a version after the one I read? *own = it is my own transaction. CONFLICT (kind RetryableCommitConflict),
 * CONFLICT_FINAL (IncompatibleTransaction), and what reading gives. */
pennon_status commit_check_conflict(const struct commit *m, const struct snapshot *theirs, bool *own, pennon_error *err) CHECKED;
/* Is the transaction of the version mine? A version without one is not. */
pennon_status commit_is_own(const struct commit *m, const struct snapshot *s, bool *own, pennon_error *err) CHECKED;

/* ---- commit_manifest.c ---- */

/* The bytes of the manifest of version `target` on top of `current` (NULL = a new table). `txn_name` "" = none is written. */
pennon_status commit_build_manifest(const struct commit *m, struct snapshot *current, uint64_t target, const char *txn_name,
                                    struct block **out, pennon_error *err) CHECKED;
/* Writer flags that are not known here: NOT_SUPPORTED names them. */
pennon_status commit_check_writer_flags(const struct snapshot *current, pennon_error *err) CHECKED;
/* What does not change from attempt to attempt: fragments complete, versions of files equal. INVALID_ARGUMENT. */
pennon_status commit_check_fragments(const struct commit *m, pennon_error *err) CHECKED;

#endif
