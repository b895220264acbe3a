/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Changing the columns of a dataset: add, drop, rename, other types, values joined by a key.
 *
 *     const char *names[] = {"total"}, *values[] = {"price * count"};
 *     st = pennon_dataset_add_columns_sql(ds, 1, names, values, NULL, NULL, &err);
 *     st = pennon_dataset_drop_columns(ds, 1, names, NULL, NULL, &err);
 *
 * A call reads the version of the cell, makes one new version, and moves the cell to it. Rows keep their places, ids and deletions. New values go into one
 * more data file beside those of each fragment, which are not rewritten; drop, rename and columns of nulls change the schema alone. A call that fails
 * removes the files it wrote. New columns get field ids that no column had before.
 *
 * What wrote values is not put on top of what others wrote meanwhile: then the call fails with CONFLICT of kind RetryableCommitConflict, and is to be made again.
 * Drops and renames go on top of other writers' rows.
 *
 * Fragment by fragment: with `fragments` and `uncommitted` in the options nothing is committed. The result is a transaction that holds those fragments
 * with their new files, and the schema; who has those of all fragments commits them as one Merge.
 * The calls may be made by several threads at once, on one handle too. */
#ifndef PENNON_EVOLUTION_H
#define PENNON_EVOLUTION_H

#include "pennon/transaction.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_evolution_options {
    size_t struct_size;
    const pennon_call *call;        /* progress: rows written, of those that the table has */
    uint64_t batch_rows;            /* rows at most that are computed at once; 0 = 1024 for functions, else as many as fit well */
    const pennon_pairs *properties; /* of the transaction; NULL = none */
    uint32_t max_retries;           /* 20: of the commit, when others commit meanwhile what does not conflict */
    bool skip_auto_cleanup;         /* whatever the dataset's config says */
    const pennon_ids *fragments;    /* only these fragments, by id; needs `uncommitted`. NULL = all */
    pennon_transaction **
        uncommitted; /* not NULL: nothing is committed, and *uncommitted gets what would be, one reference. The files that it names are the
                                       * caller's */
} pennon_evolution_options;

PENNON_EXPORT void pennon_evolution_options_init(pennon_evolution_options *options);

/* The caller sets struct_size. */
typedef struct pennon_evolution_result {
    size_t struct_size;
    uint64_t fields_added; /* at any depth; one that gets another type counts here and below */
    uint64_t fields_dropped;
    uint64_t rows_written; /* into new data files, deleted ones included */
    uint64_t files_written;
    uint64_t bytes_written; /* of data files, those beside them not counted */
    uint64_t version;       /* that was made; 0 when nothing was committed */
} pennon_evolution_result;

/* In all calls `options` and `result` may be NULL; `result` is filled on success. Their errors:
 * INVALID_ARGUMENT names what cannot be; CONFLICT of kind RetryableCommitConflict, CONFLICT_FINAL: see above; COMMIT_UNKNOWN: the version may be there;
 * NOT_SUPPORTED: a dataset of storage version 0.1, types that its storage version cannot hold, writer features that are not known here. */

/* ---- add ---- */

/* Columns with the values of SQL expressions over the columns of the dataset: names[i] gets expressions[i], of its type. Where every expression is
 * CAST(NULL AS type) nothing is written. INVALID_ARGUMENT: n is 0, a name that is there ("already exists") or is one of a system column or has a dot, an
 * expression that does not parse or cannot be computed for some row. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_add_columns_sql(pennon_dataset *ds, size_t n, const char *const *names,
                                                                          const char *const *expressions,
                                                                          const pennon_evolution_options *options,
                                                                          pennon_evolution_result *result, pennon_error *err);
/* Columns of nulls, those of `schema` (a struct; borrowed), which must all be nullable. From storage version 2.2 on a struct column that is there gets the parts that it lacks.
 * Nothing is written. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_add_columns_null(pennon_dataset *ds, const struct ArrowSchema *schema,
                                                                           const pennon_evolution_options *options,
                                                                           pennon_evolution_result *result, pennon_error *err);
/* Columns of a stream, which has one row for every live row of the dataset, in their order; its batches may be of any size. Consumed on every
 * path. INVALID_ARGUMENT: too few rows, or too many; a null in a column that is declared without. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_add_columns_stream(pennon_dataset *ds, struct ArrowArrayStream *data,
                                                                             const pennon_evolution_options *options,
                                                                             pennon_evolution_result *result, pennon_error *err);

/* A function that makes columns. It is called on the thread of the call, for one batch after the other, with no lock held; other calls of the library
 * may be made in it. A failure ends the call; its text is `*message`, which stays valid until the function is called again or the call returns (NULL = none). */
typedef struct pennon_column_function {
    size_t struct_size;
    void *ctx;
    /* `in`: `schema`'s columns (borrowed) of some rows, which may be moved; it is released afterwards. `out`: a struct of the declared columns for as many
     * rows; released by its reader. */
    pennon_status (*map)(void *ctx, const struct ArrowSchema *schema, struct ArrowArray *in, struct ArrowArray *out,
                         const char **message);
    /* Columns that it reads, in this order; "_rowid", "_rowaddr" and the other system columns may be among them. NULL = all of the table, and no system column. */
    const pennon_names *read_columns;
    /* NULL, or where results are kept until the call has succeeded, so that another call after a failure need not compute them again. */
    const struct pennon_checkpoint *checkpoint;
} pennon_column_function;

/* Functions as above. A batch is known by the id of its fragment and its number there, with the same batch_rows the same rows. What was kept is used if
 * it still fits the dataset: as many rows, the same data files; else it is computed anew. */
typedef struct pennon_checkpoint {
    size_t struct_size;
    void *ctx;
    /* Leave out->release NULL when there is none. */
    pennon_status (*get_batch)(void *ctx, uint64_t fragment, uint64_t batch, struct ArrowArray *out, const char **message);
    /* `schema` (borrowed) is the declared one; `values` may be moved, and is released afterwards. */
    pennon_status (*put_batch)(void *ctx, uint64_t fragment, uint64_t batch, const struct ArrowSchema *schema,
                               struct ArrowArray *values, const char **message);
    /* A finished fragment is a text. *json stays valid until the next call; NULL = there is none. The data file that it names is not removed when the call
     * fails later. */
    pennon_status (*get_fragment)(void *ctx, uint64_t fragment, const char **json, const char **message);
    pennon_status (*put_fragment)(void *ctx, uint64_t fragment, const char *json, const char **message);
} pennon_checkpoint;

/* Columns of a function. `schema` (a struct; borrowed) declares them. INVALID_ARGUMENT: what it gives is not of that schema, or of another number
 * of rows than it got. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_add_columns_udf(pennon_dataset *ds, const struct ArrowSchema *schema,
                                                                          const pennon_column_function *function,
                                                                          const pennon_evolution_options *options,
                                                                          pennon_evolution_result *result, pennon_error *err);

/* ---- values by key ---- */

/* The columns of a stream beside those of the rows with the same key: a row of the dataset gets the values of the row of the stream whose `right_on` equals
 * its `left_on` (a top-level column, "_rowid" or "_rowaddr"), and nulls where there is none. Of several rows the last one counts; null is a key like any other.
 * The columns but the key are new ones. The stream is held in memory, and consumed on every path. INVALID_ARGUMENT: keys of different types, a column that
 * both have, no row in the stream, nulls where the storage version cannot hold them or the column is declared without. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_join_columns(pennon_dataset *ds, struct ArrowArrayStream *data,
                                                                       const char *left_on, const char *right_on,
                                                                       const pennon_evolution_options *options,
                                                                       pennon_evolution_result *result, pennon_error *err);
/* The same for columns that are there: rows with a key in the stream get its values, the others keep theirs. `data` has the key and columns of the dataset with their types.
 * The columns are written anew whole, and the files that had them do so no longer. An Update; indices on the columns no longer cover the
 * fragments. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_update_columns(pennon_dataset *ds, struct ArrowArrayStream *data,
                                                                         const char *left_on, const char *right_on,
                                                                         const pennon_evolution_options *options,
                                                                         pennon_evolution_result *result, pennon_error *err);

/* ---- drop, alter ---- */

/* Take columns out of the schema; "a.b" a part of a struct, `` `a.b` `` a name with a dot. Up to storage version 2.1 a part of a list takes all of the list
 * with it. Their bytes stay in the files until those are rewritten; indices on them vanish. INVALID_ARGUMENT: an unknown name, none, or all. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_drop_columns(pennon_dataset *ds, size_t n, const char *const *names,
                                                                       const pennon_evolution_options *options,
                                                                       pennon_evolution_result *result, pennon_error *err);

/* Keep the columns alone that are named, in the order of their names; "a.b" keeps a part of a struct, and the others of `a` go. Nothing is written, as with a
 * drop. INVALID_ARGUMENT: an unknown name, none, one that is named twice. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_project(pennon_dataset *ds, size_t n, const char *const *names,
                                                                  const pennon_evolution_options *options,
                                                                  pennon_evolution_result *result, pennon_error *err);

enum { PENNON_NULLABLE_KEEP = 0, PENNON_NULLABLE_YES = 1, PENNON_NULLABLE_NO = 2 };

typedef struct pennon_alteration {
    const char *path;                    /* as for drop; items of lists are named like parts of structs */
    const char *rename;                  /* its last part's new name, or NULL */
    int32_t nullable;                    /* PENNON_NULLABLE_ */
    const struct ArrowSchema *data_type; /* borrowed; NULL = keeps its type. Its name and nullability do not count */
} pennon_alteration;

/* Several changes as one version. To be not nullable a column must have no null, for which it is read. Types change within one family: integers, floats, dates and
 * times, utf8 and large_utf8, binary and large_binary, decimals, and lists of what can be changed; a value that does not fit is an error. A column of another
 * type is a new field with the old place and name: its values are written anew, its metadata are gone. INVALID_ARGUMENT: an unknown path, nothing to do, names that repeat, a
 * null, a type of another family, an index on a column that gets another type (drop it first). */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_alter_columns(pennon_dataset *ds, size_t n,
                                                                        const pennon_alteration *alterations,
                                                                        const pennon_evolution_options *options,
                                                                        pennon_evolution_result *result, pennon_error *err);

/* ---- rows of one fragment ---- */

/* Delete the rows of one fragment for which `where` is true, without a commit: *out is a Delete with the fragment and its new deletion file, or its id where no row is
 * left, or neither where none matched; one reference. Deletes of several fragments are committed as one. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_fragment_delete(pennon_dataset *ds, uint64_t fragment, const char *where,
                                                                  const pennon_call *call, pennon_transaction **out,
                                                                  pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
