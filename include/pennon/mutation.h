/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Changing rows of a dataset: delete, update, merge.
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

#include "pennon/transaction.h"

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

/* ---- merge: rows of a stream, the source, against those of the dataset, the target, by the values of key columns ---- */

/* What happens to a row of the target that has the keys of a row of the source. */
typedef enum pennon_matched {
    PENNON_MATCHED_NOTHING = 0,
    PENNON_MATCHED_UPDATE = 1,    /* it takes the values of the source */
    PENNON_MATCHED_UPDATE_IF = 2, /* the same where `matched_condition` is true */
    PENNON_MATCHED_FAIL = 3,      /* the whole call fails, and changes nothing */
    PENNON_MATCHED_DELETE = 4
} pennon_matched;

/* What happens to a row of the source that no row of the target has the keys of. */
typedef enum pennon_not_matched { PENNON_NOT_MATCHED_NOTHING = 0, PENNON_NOT_MATCHED_INSERT = 1 } pennon_not_matched;

/* What happens to a row of the target that no row of the source has the keys of. */
typedef enum pennon_by_source {
    PENNON_BY_SOURCE_KEEP = 0,
    PENNON_BY_SOURCE_DELETE = 1,
    PENNON_BY_SOURCE_DELETE_IF = 2 /* where `by_source_condition` is true */
} pennon_by_source;

/* What happens when several rows of the source would update one row of the target. */
typedef enum pennon_duplicates {
    PENNON_DUPLICATES_FAIL = 0,
    PENNON_DUPLICATES_FIRST_SEEN = 1 /* the first of them, in the order of the stream, does; the others are counted */
} pennon_duplicates;

typedef struct pennon_merge_options {
    size_t struct_size;
    const pennon_call *call; /* progress: rows of the target looked at, and of the source written, of all that will be */
    const pennon_names
        *on;              /* key columns, of the top level, in any case; NULL or none = the primary key that the schema declares */
    int32_t when_matched; /* PENNON_MATCHED_NOTHING */
    const char *matched_condition;   /* SQL over source.x and target.x; with UPDATE_IF alone */
    int32_t when_not_matched;        /* PENNON_NOT_MATCHED_NOTHING */
    int32_t by_source;               /* PENNON_BY_SOURCE_KEEP */
    const char *by_source_condition; /* SQL over the columns of the dataset; with DELETE_IF alone */
    int32_t duplicates;              /* PENNON_DUPLICATES_FAIL */
    bool use_index;                  /* true: an index of the key columns may be used to find rows */
    uint32_t conflict_retries;       /* 10: how often the work is begun again after a conflict */
    uint64_t retry_timeout_ms; /* 30000, from the start of the call: what is begun again ends then; the first attempt does not */
    uint32_t max_retries;      /* 20: how often one commit is rebased */
    const pennon_pairs *properties; /* of the transaction; NULL = none */
    bool skip_auto_cleanup;         /* whatever the dataset's config says */
} pennon_merge_options;

PENNON_EXPORT void pennon_merge_options_init(pennon_merge_options *options);

/* The caller sets struct_size. */
typedef struct pennon_merge_result {
    size_t struct_size;
    uint64_t rows_inserted;
    uint64_t rows_updated; /* without those that a condition kept as they were */
    uint64_t
        rows_deleted; /* by when_matched and by_source. A row that several source rows delete counts as often, unless the merge only deletes matched rows */
    uint64_t duplicates_skipped; /* source rows that were not the first, for each row of the target */
    uint64_t attempts;           /* 1 = no conflict */
    uint64_t bytes_written;      /* of data files */
    uint64_t files_written;      /* data files */
    uint64_t version;            /* that was made; 0 = none */
} pennon_merge_result;

/* Merge the rows of the stream, which is released on every path, into the dataset, in one new version. Rows that are updated or inserted are written to new
 * fragments; updated ones keep their row ids where those are stable, and the versions that they were created at.
 * Null equals nothing: a source row with a null among its keys is never matched. Every target row with the keys of a source row is matched by it. Several source
 * rows with keys that the target lacks are all inserted.
 * The source may have any order of columns, and lack some: updated rows keep what they have there, inserted ones get null. Types are those of the dataset.
 * A merge that inserts and updates nothing needs the key columns alone. The stream is read once; its rows are kept for attempts after a conflict, in memory or,
 * past a part of the call's budget, in a temporary file.
 * `result` may be NULL; it is filled on success.
 * INVALID_ARGUMENT: an option that is not one of its values, a condition without its option or the reverse, options that change nothing, no key or an unknown one, columns that the dataset
 * lacks or has with another type (kind SchemaMismatch), missing columns that are not nullable, expressions as pennon_dataset_update says, a match where FAIL is
 * asked, several source rows for one target row, a null for a column that has none. NOT_SUPPORTED: parts of a column as key, JSON as key, a dataset with blob columns, of
 * storage version 0.1, a source of 2^32 rows. CONFLICT, CONFLICT_FINAL, COMMIT_UNKNOWN as pennon_dataset_delete says. IO: the temporary file. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_merge(pennon_dataset *ds, struct ArrowArrayStream *stream,
                                                                const pennon_merge_options *options, pennon_merge_result *result,
                                                                pennon_error *err);
/* The same without the commit: the files are written, and `*out` is what pennon_dataset_commit makes visible, on the version that the dataset stands at.
 * `*affected` (free with pennon_bytes_free) are the addresses of the rows that it takes away, ascending, for pennon_commit_options.affected_rows: with them, changes to
 * other rows of the same fragments are no conflict. NULL and 0 where there are too many to list. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_merge_uncommitted(pennon_dataset *ds, struct ArrowArrayStream *stream,
                                                                            const pennon_merge_options *options,
                                                                            pennon_merge_result *result, pennon_transaction **out,
                                                                            uint64_t **affected, size_t *n_affected,
                                                                            pennon_error *err);
/* How a source of that schema (NULL = that of the dataset) would be merged, as text; free with pennon_string_free. The schema is borrowed. Fails as the merge itself where options, expressions or
 * columns do not fit. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_merge_explain(pennon_dataset *ds, const struct ArrowSchema *schema,
                                                                        const pennon_merge_options *options, bool verbose,
                                                                        char **out, pennon_error *err);
/* The same with what each step did: the merge runs, and its files are removed again. The stream is released on every path. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_merge_analyze(pennon_dataset *ds, struct ArrowArrayStream *stream,
                                                                        const pennon_merge_options *options, char **out,
                                                                        pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
