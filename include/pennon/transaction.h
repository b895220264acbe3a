/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Transactions: changes as objects that can be built in one process, sent as JSON or protobuf, and committed in another; and the commits that
 * are made of them: restore, config and metadata, base paths.
 *
 *     pennon_transaction *t;
 *     st = pennon_write_fragments("flights.lance", &stream, &write_options, &t, &err);   writes data files, commits nothing
 *     st = pennon_commit("flights.lance", t, NULL, NULL, &err);                          one atomic step
 *     pennon_transaction_free(t);
 *
 * A transaction is reference counted. It does not change after it is built, but for pennon_transaction_set_properties; then it may be used by
 * several threads. Files that it names belong to who wrote them until it is committed: a failed commit leaves them. */
#ifndef PENNON_TRANSACTION_H
#define PENNON_TRANSACTION_H

#include "pennon/write.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pennon_transaction pennon_transaction;

/* Property that holds the commit message. */
#define PENNON_COMMIT_MESSAGE "__lance_commit_message"

/* ---- build, read, write ---- */

/* From JSON, NUL-terminated: {"read_version": 3, "uuid": "…", "tag": "…", "properties": {…}, "operation": {"type": "Append", "fragments": […]}}. The types
 * are Append, Delete, Overwrite, CreateIndex, Rewrite, Merge, Restore, ReserveFragments, Update, Project, UpdateConfig, DataReplacement,
 * UpdateMemWalState, Clone, UpdateBases; their members are named as in the format's messages, bytes are base64, fragments look as pylance's
 * FragmentMetadata.to_json gives them. Without a uuid it gets a new one. INVALID_ARGUMENT names the key and where it stands. One reference. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_from_json(const char *json, pennon_transaction **out,
                                                                        pennon_error *err);
/* From the protobuf message, as official's transactions travel. CORRUPT. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_from_bytes(const void *bytes, size_t n, pennon_transaction **out,
                                                                         pennon_error *err);
/* Of fragments alone: one as JSON or an array of them, from pennon_write_fragments or pylance's write_fragments. `mode` is PENNON_WRITE_APPEND, on top of the
 * latest version, or PENNON_WRITE_OVERWRITE (PENNON_WRITE_CREATE is the same where there is no dataset), whose schema is read from the data
 * files. `branch` (NULL = main, or what the URI says) is the one to commit to. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_from_fragments(const char *uri, const char *json, int32_t mode,
                                                                             const pennon_call *call, const char *branch,
                                                                             pennon_transaction **out, pennon_error *err);
/* The transaction that made a version of the dataset's branch, PENNON_NONE = the cell's. *out is NULL when the version has none: old and foreign writers. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_transaction(pennon_dataset *ds, const pennon_call *call, uint64_t version,
                                                                      pennon_transaction **out, pennon_error *err);
PENNON_EXPORT void pennon_transaction_retain(pennon_transaction *t);
PENNON_EXPORT void pennon_transaction_free(pennon_transaction *t); /* NULL is allowed */

/* Free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_to_json(const pennon_transaction *t, char **out, pennon_error *err);
/* The protobuf message; free with pennon_bytes_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_to_bytes(const pennon_transaction *t, void **bytes, size_t *n,
                                                                       pennon_error *err);
/* The fragments that it adds (Append, Overwrite, Merge; new ones of Update and Rewrite), a JSON array as pylance reads them. Free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_fragments_json(const pennon_transaction *t, char **out,
                                                                             pennon_error *err);
/* The fragments of the dataset's version, a JSON array of the same form. Free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_fragments_json(pennon_dataset *ds, const pennon_call *call, char **out,
                                                                         pennon_error *err);
/* An Overwrite without fragments, whose JSON has a schema as transactions have it: the dataset's, or where `schema` is given (`ds` is not looked at then)
 * what a new table of that Arrow schema would get, ids from 0. NOT_SUPPORTED names a type and its field. One reference. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_from_schema(const struct ArrowSchema *schema, pennon_dataset *ds,
                                                                          pennon_transaction **out, pennon_error *err);
/* Arrow schema of the table that an Overwrite, Merge or Project makes, blob columns as they are written; returned to the caller, who releases it.
 * INVALID_ARGUMENT: another operation. CORRUPT: fields that make no schema. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_schema(const pennon_transaction *t, struct ArrowSchema *out,
                                                                     pennon_error *err);
/* Borrowed texts, valid as long as `t`; "Append", … */
PENNON_EXPORT const char *pennon_transaction_operation(const pennon_transaction *t);
PENNON_EXPORT const char *pennon_transaction_uuid(const pennon_transaction *t);
PENNON_EXPORT uint64_t pennon_transaction_read_version(const pennon_transaction *t);
/* Set properties: keys that are there get the new value, a NULL value removes the key. Before others see the transaction. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_transaction_set_properties(pennon_transaction *t, const pennon_pairs *pairs,
                                                                             pennon_error *err);

/* ---- write without commit ---- */

/* Write the stream's data files, which is consumed and released on every path, and give the transaction that would make them visible: Append
 * (mode APPEND and there is a dataset: with its schema, field ids and version) or Overwrite (a schema of its own). Options as pennon_write. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_write_fragments(const char *uri, struct ArrowArrayStream *data,
                                                                  const pennon_write_options *options, pennon_transaction **out,
                                                                  pennon_error *err);

/* ---- commit ---- */

typedef struct pennon_commit_options {
    size_t struct_size;
    const pennon_call *call;
    uint32_t max_retries;        /* 20; an Overwrite with 0 is strict: any version after the one read is a CONFLICT */
    bool detached;               /* a version that is never the latest and in no listing, on top of the version read */
    const char *storage_version; /* new datasets and overwrites; NULL = keep, or what the files have, or 2.1 */
    bool stable_row_ids;         /* new datasets */
    bool v1_manifest_names;      /* new datasets */
    bool skip_auto_cleanup;      /* whatever the dataset's config says */
    const pennon_ids
        *affected_rows; /* addresses that a Delete or Update touches, ascending; NULL = not known: overlaps are conflicts */
    const pennon_pairs *properties; /* put over those of the transaction that is built: restore, metadata, bases */
    const char *branch;             /* pennon_commit: existing branch; NULL = main, or what the URI says */
} pennon_commit_options;

PENNON_EXPORT void pennon_commit_options_init(pennon_commit_options *options);

/* Commit on top of the latest version at `uri`, rebasing over what others committed since t's read version as the conflict rules allow. `t` is not changed.
 * `out` (may be NULL) gets the dataset at the new version.
 * CONFLICT (kinds CommitConflict, RetryableCommitConflict): read again, build it again, commit. CONFLICT_FINAL (IncompatibleTransaction).
 * COMMIT_UNKNOWN: the reply was lost, the version may be there; keep the files. NOT_FOUND, ALREADY_EXISTS, INVALID_ARGUMENT, NOT_SUPPORTED. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_commit(const char *uri, const pennon_transaction *t,
                                                         const pennon_commit_options *options, pennon_dataset **out,
                                                         pennon_error *err);
/* The same to the branch of a dataset, whose cell moves to the new version. `version` (may be NULL) gets its number; a detached version leaves the cell. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_commit(pennon_dataset *ds, const pennon_transaction *t,
                                                                 const pennon_commit_options *options, uint64_t *version,
                                                                 pennon_error *err);
/* Several Appends as one version: all fragments in order, a uuid of its own, the lowest read version. `merged` (may be NULL) gets that transaction.
 * INVALID_ARGUMENT: none, or one that is no Append. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_commit_batch(const char *uri, size_t n, const pennon_transaction *const *t,
                                                               const pennon_commit_options *options, pennon_dataset **out,
                                                               pennon_transaction **merged, pennon_error *err);
/* A new latest version with the content of the cell's version. The cell moves to it. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_restore(pennon_dataset *ds, const pennon_commit_options *options,
                                                                  pennon_error *err);
/* Is there a newer version on its branch? */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_is_stale(pennon_dataset *ds, const pennon_call *call, bool *stale,
                                                                   pennon_error *err);

/* ---- config and metadata ---- */

enum {
    PENNON_METADATA_CONFIG = 0, /* settings of the engine, such as lance.auto_cleanup.interval */
    PENNON_METADATA_TABLE = 1,
    PENNON_METADATA_SCHEMA = 2, /* metadata of the Arrow schema */
    PENNON_METADATA_FIELD = 3   /* of one field */
};

typedef struct pennon_metadata_update {
    int32_t which;             /* PENNON_METADATA_ */
    const char *field;         /* FIELD: dotted path */
    const pennon_pairs *pairs; /* a NULL value removes the key; NULL = none */
    bool replace;              /* exactly these afterwards, instead of those that are there and these */
} pennon_metadata_update;

/* The map as a JSON object. `field` as above. Free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_metadata_json(pennon_dataset *ds, int32_t which, const char *field,
                                                                        char **out, pennon_error *err);
/* The value of one key as it is; NULL when it is not set. Free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_metadata_value(pennon_dataset *ds, int32_t which, const char *field,
                                                                         const char *key, char **out, pennon_error *err);
/* Several updates as one version (also when nothing changes). The cell moves to it. CONFLICT_FINAL: another commit changed the same keys. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_update_metadata(pennon_dataset *ds, size_t n,
                                                                          const pennon_metadata_update *updates,
                                                                          const pennon_commit_options *options, pennon_error *err);

/* ---- base paths ---- */

/* Register more base paths, as one version. Ids of 0 are assigned. INVALID_ARGUMENT: a name or path that is there already. The cell moves. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_add_bases(pennon_dataset *ds, const pennon_bases *bases,
                                                                    const pennon_commit_options *options, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
