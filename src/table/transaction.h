/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* One change of a table: built here, read back from a version, written to protobuf and JSON, and committed.
 *
 * A transaction owns everything that it points to. Operations are the messages of the format; forms that old writers used are brought into
 * the present one when they are read (Rewrite without groups, UpdateConfig of tags 1 to 4), so that nobody else looks at them.
 * Not thread safe while it is built; afterwards nothing changes it.
 * Source: spec commits 1, 2, 3, 4. */
#ifndef TABLE_TRANSACTION_H
#define TABLE_TRANSACTION_H

#include "table/table.h"

struct transaction {
    struct mem *mem;
    struct arena arena;
    uint64_t read_version; /* 0 = there was no table */
    char uuid[37];
    struct bytes tag; /* label of the version that it makes; empty = none */
    struct map_entry *properties;
    size_t n_properties;
    uint32_t
        which; /* OPERATION_; an operation that is not known here (DataOverlay, newer ones) keeps its tag, and its bytes in `raw` */
    union {
        struct append_message append;
        struct delete_message remove;
        struct overwrite_message overwrite;
        struct create_index_message create_index;
        struct rewrite_message rewrite;
        struct merge_message merge;
        struct restore_message restore;
        struct reserve_fragments_message reserve;
        struct update_message update;
        struct project_message project;
        struct update_config_message config;
        struct data_replacement_message replacement;
        struct update_mem_wal_message mem_wal;
        struct clone_message clone;
        struct update_bases_message bases;
    } op;
    struct bytes raw;     /* unknown operations only */
    struct bytes unknown; /* fields of the envelope */
    /* Rewrite: the new entry of the fragment reuse index, when remapping of the other indices is put off. Borrowed; not part of the bytes, as in official. */
    const struct index_metadata_message *reuse_index;
};

/* An empty one with a new uuid. `which` is known here. */
pennon_status transaction_new(struct mem *m, uint32_t which, uint64_t read_version, struct transaction **out,
                              pennon_error *err) CHECKED;
void transaction_free(struct transaction *t); /* NULL is allowed */
/* "Append", …; "unknown" */
const char *operation_name(uint32_t which);

/* Untrusted bytes, which are copied. CORRUPT: no message, no operation, a uuid that is no plain text of at most 36 bytes, both forms of UpdateConfig at
 * once (INVALID_ARGUMENT in official). */
pennon_status transaction_decode(struct mem *m, struct bytes in, struct transaction **out, pennon_error *err) CHECKED;
pennon_status transaction_encode(const struct transaction *t, struct buf *out, pennon_error *err) CHECKED;
/* By way of the bytes. */
pennon_status transaction_copy(const struct transaction *t, struct transaction **out, pennon_error *err) CHECKED;
/* JSON: {"read_version", "uuid", "tag", "properties": {…}, "operation": {"type": "Append", …}}; fields named as in the format's messages, bytes in base64,
 * defaults left out. The reverse refuses unknown keys by name (INVALID_ARGUMENT) and trusts nothing. */
pennon_status transaction_to_json(const struct transaction *t, struct buf *out, pennon_error *err) CHECKED;
pennon_status transaction_from_json(struct mem *m, struct bytes json, struct transaction **out, pennon_error *err) CHECKED;
/* A fragment alone, as writers hand it over (DataFragment as JSON). */
pennon_status fragment_to_json(const struct fragment_message *f, struct buf *out, pennon_error *err) CHECKED;

/* The transaction of a version: inside the manifest, else its file. NULL in *out = it has none. */
pennon_status snapshot_transaction(const struct call *c, const struct snapshot *s, struct transaction **out,
                                   pennon_error *err) CHECKED;

/* ---- commit (commit.c) ---- */

struct transaction_options {
    uint32_t max_retries;          /* 20; an Overwrite with 0 is strict: any version after the one read is a CONFLICT */
    bool detached;                 /* on `read` as it is, never the latest */
    bool v2_names, stable_row_ids; /* new tables */
    uint32_t storage_version;      /* new tables and overwrites; 0 = keep, or what the files have, or 2.1 */
    bool skip_auto_cleanup;
    bool knows_rows;               /* `affected_rows` is set */
    const uint64_t *affected_rows; /* addresses that a Delete or Update touches, ascending */
    size_t n_affected_rows;
    file_length_fn
        length; /* rows of a data file, for tables whose manifests lack row counts; NULL = such tables are NOT_SUPPORTED */
    void *length_ctx;
};
void transaction_options_init(struct transaction_options *o);

/* Commit on top of `read` (NULL = there is no table: Overwrite or Clone alone). `t->read_version` is that of `read`, or older, or 0 where the operation
 * allows it. Rebases and retries as the conflict rules allow; `t` itself is not changed. `out` (may be NULL) gets the new snapshot.
 * Files that the transaction names belong to the caller also on failure; after COMMIT_UNKNOWN they must stay. Its kinds: CommitStatusUnknown, nobody knows;
 * CommitNotDurable, the version is there and readable, but with full durability its name could not be synced.
 * CONFLICT (kinds CommitConflict, RetryableCommitConflict), CONFLICT_FINAL (IncompatibleTransaction), COMMIT_UNKNOWN, ALREADY_EXISTS,
 * INVALID_ARGUMENT (what validation refuses), NOT_SUPPORTED. */
pennon_status commit_transaction(const struct call *c, const struct table_location *at, struct snapshot *read,
                                 const struct transaction *t, const struct transaction_options *o, struct snapshot **out,
                                 pennon_error *err) CHECKED;
/* Sleep before attempt `attempt` + 1: one of 2^(attempt + 2) slots of `unit_ns` each, by chance. CANCELLED, TIMEOUT. */
pennon_status commit_pause(const struct call *c, uint32_t attempt, int64_t unit_ns, pennon_error *err) CHECKED;
/* Several Appends as one: all fragments, a new uuid, the lowest read version. */
pennon_status transaction_batch(struct mem *m, const struct transaction *const *parts, size_t n, struct transaction **out,
                                pennon_error *err) CHECKED;

#endif
