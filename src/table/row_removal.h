/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Rows on their way out of a version: what deletes and updates put into their transactions. */
#ifndef TABLE_ROW_REMOVAL_H
#define TABLE_ROW_REMOVAL_H

#include "table/id_set.h"
#include "table/transaction.h"

/* A fragment whose deletion file is not written yet. */
struct leaving {
    const struct fragment *fragment;
    struct id_set rows;                 /* that go */
    struct deletion_file_message *made; /* in the arena */
    char *path;
    bool emptied;
};

/* Rows that are taken out of `read`, fragment by fragment. Not thread safe.
 * The lists are complete after row_removal_finish; messages point into the snapshot and the arena. */
struct row_removal {
    const struct call *call;
    struct snapshot *read; /* borrowed */
    struct arena *arena;   /* borrowed; of the transaction */
    file_length_fn length; /* rows of a data file, where the manifest does not say */
    void *length_ctx;
    const struct fragment *fragment; /* under way; NULL = none */
    struct id_set rows;              /* of it */
    struct leaving *pending;
    size_t n_pending, cap_pending, pending_ranges;
    struct fragment_message *updated;
    size_t n_updated, cap_updated;
    uint64_t *removed; /* ids of fragments that have no rows left */
    size_t n_removed, cap_removed;
    uint64_t *affected; /* addresses, ascending */
    size_t n_affected, cap_affected;
    bool knows_rows; /* `affected` has all rows; false: there are too many, and overlaps are to be conflicts */
    uint64_t n_rows; /* taken out */
    char **written;  /* paths of the deletion files, in call->mem */
    size_t n_written, cap_written;
};

void row_removal_begin(struct row_removal *r, const struct call *c, struct snapshot *read, struct arena *a, file_length_fn length,
                       void *length_ctx);
/* Live rows by address: of one fragment after the other, ascending in each. INTERNAL: a fragment that there is not, or that comes again. */
pennon_status row_removal_add(struct row_removal *r, const uint64_t *addresses, size_t n, pennon_error *err) CHECKED;
/* All live rows of the table; nothing else is added. */
pennon_status row_removal_add_all(struct row_removal *r, pennon_error *err) CHECKED;
pennon_status row_removal_finish(struct row_removal *r, pennon_error *err) CHECKED;
/* Best effort: the deletion files of a commit that did not land. */
void row_removal_remove_files(struct row_removal *r);
void row_removal_end(struct row_removal *r); /* idempotent */

#endif
