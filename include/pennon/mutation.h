/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Changing rows of a dataset: delete, update.
 *
 *     pennon_delete_result result = {.struct_size = sizeof result};
 *     st = pennon_dataset_delete(ds, "distance < 0 OR carrier IS NULL", NULL, &result, &err);
 *     printf("%llu rows\n", (unsigned long long)result.rows_deleted);
 *
 * A call reads the version of the cell, makes one new version, and moves the cell to it. Rows that go are marked in deletion files beside the data; a
 * fragment that has none left is taken out. Where no row matches, a version is made all the same.
 * When another writer changed the same rows in between, the call begins again on the latest version, as often and as long as the options allow; then
 * it changes the rows that match there. Writers that changed other rows, or added some, are no reason to begin again.
 * The calls may be made by several threads at once, on one handle too. */
#ifndef PENNON_MUTATION_H
#define PENNON_MUTATION_H

#include "pennon/write.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_mutation_options {
    size_t struct_size;
    const pennon_call *call;   /* progress: rows found so far, of 0 */
    uint32_t conflict_retries; /* 10: how often the work is begun again after a conflict */
    uint64_t retry_timeout_ms; /* 30000, from the start of the call: what is begun again ends then; the first attempt does not */
    const pennon_pairs *properties; /* of the transaction; NULL = none */
    bool skip_auto_cleanup;         /* whatever the dataset's config says */
} pennon_mutation_options;

PENNON_EXPORT void pennon_mutation_options_init(pennon_mutation_options *options);

/* The caller sets struct_size. */
typedef struct pennon_delete_result {
    size_t struct_size;
    uint64_t rows_deleted;
    uint64_t fragments_changed; /* with a new deletion file */
    uint64_t fragments_removed; /* with no rows left */
    uint64_t attempts;          /* 1 = no conflict */
    uint64_t version;           /* that was made */
} pennon_delete_result;

/* Delete the rows for which `where`, SQL as in pennon_scan_options.filter, is true; where it is null they stay. "true" is for all rows. `result` may be NULL;
 * it is filled on success.
 * INVALID_ARGUMENT: `where` is NULL, empty or no such expression (kinds FilterSyntax, FieldNotFound, FunctionNotFound, TypeMismatch), a value that
 * cannot be computed. CONFLICT of kind TooMuchWriteContention: attempts or time are used up. CONFLICT_FINAL: the dataset became another one
 * meanwhile. COMMIT_UNKNOWN: the version may be there. NOT_SUPPORTED: writer features that are not known here. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_delete(pennon_dataset *ds, const char *where,
                                                                 const pennon_mutation_options *options,
                                                                 pennon_delete_result *result, pennon_error *err);

/* The caller sets struct_size. */
typedef struct pennon_update_result {
    size_t struct_size;
    uint64_t rows_updated;
    uint64_t fragments_changed; /* with a new deletion file: rows that were updated left them */
    uint64_t fragments_removed; /* with no rows left */
    uint64_t fragments_added;
    uint64_t attempts; /* 1 = no conflict */
    uint64_t version;  /* that was made */
} pennon_update_result;

/* Set columns[i] to the value of the SQL expression expressions[i] in the rows for which `where` is true (NULL: all rows). The expressions see the values
 * from before. A value of another type is cast to the column's; text becomes JSON in a JSON column. The rows are written to new fragments behind the
 * others, in their order; with stable row ids they keep their ids and the versions that they were created at. `result` may be NULL; it is filled on success.
 * Names are exact, of top-level columns. INVALID_ARGUMENT: no column, an unknown one (kind FieldNotFound, with the nearest name), one named twice, an
 * expression that cannot be computed or cast, a null for a column that has none, and what pennon_dataset_delete says of `where`. NOT_SUPPORTED: a dotted path; a column
 * that holds blobs (those of other columns move with their rows, but for blobs in lists); a dataset of storage version 0.1. CONFLICT, CONFLICT_FINAL, COMMIT_UNKNOWN as there. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_update(pennon_dataset *ds, const char *where, size_t n,
                                                                 const char *const *columns, const char *const *expressions,
                                                                 const pennon_mutation_options *options,
                                                                 pennon_update_result *result, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
