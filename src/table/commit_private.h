/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Parts of a commit: the conflict rules, what a transaction becomes on top of others, the manifest that it makes. */
#ifndef TABLE_COMMIT_PRIVATE_H
#define TABLE_COMMIT_PRIVATE_H

#include "table/id_set.h"
#include "table/reuse_index.h"
#include "table/transaction.h"

/* ---- a transaction under way (rebase.c) ---- */

/* Fragment ids, ascending, each once. */
struct id_list {
    uint64_t *ids;
    size_t n, cap;
};
bool id_list_has(const struct id_list *l, uint64_t id);
/* At the end; id_list_sort makes it a list again. */
pennon_status id_list_add(struct mem *m, struct id_list *l, uint64_t id, pennon_error *err) CHECKED;
void id_list_sort(struct id_list *l);
pennon_status id_list_fill(struct mem *m, const uint64_t *ids, size_t n, struct id_list *out, pennon_error *err) CHECKED;

/* The transaction over all attempts, and what the versions in between ask of it. Not thread safe. */
struct rebase {
    const struct call *call;
    const struct transaction_options *options;
    struct snapshot *read;               /* borrowed: the version that the transaction was made from; NULL = there was no table */
    const struct transaction *t;         /* its present form: the caller's, or `copy` */
    struct transaction *copy;            /* NULL until something has to change */
    struct id_list touched;              /* fragments that it changes or removes */
    struct id_list merge;                /* of these, the ones whose deletion files changed meanwhile */
    struct reuse_content_message *reuse; /* of the reuse index, by others, in order; what they point to is in `scratch` */
    size_t n_reuse, cap_reuse;
    struct merged_generation_message *generations; /* of others, in `scratch` */
    size_t n_generations, cap_generations;
    char **written; /* paths of files that rebasing wrote, in call->mem */
    size_t n_written, cap_written;
    struct arena scratch;
};

pennon_status rebase_begin(struct rebase *r, const struct call *c, const struct transaction_options *o, struct snapshot *read,
                           const struct transaction *t, pennon_error *err) CHECKED;
void rebase_end(struct rebase *r); /* idempotent after rebase_begin, also a failed one */
/* Fragments that a transaction changes or removes. Free with mem_free(m, out->ids), also on failure. */
pennon_status touched_fragments(struct mem *m, const struct transaction *t, struct id_list *out, pennon_error *err) CHECKED;
/* Make `t` a copy that may be changed. */
pennon_status rebase_writable(struct rebase *r, struct transaction **out, pennon_error *err) CHECKED;
/* After the checks against every version up to `newest`: files are written, `t` gets its new form. CONFLICT: rows in common. */
pennon_status rebase_finish(struct rebase *r, struct snapshot *newest, pennon_error *err) CHECKED;
/* Best effort: the files that rebasing wrote, of a commit that did not land. */
void rebase_remove_files(struct rebase *r);

/* ---- conflict rules (conflict.c) ---- */

/* May `r->t` go on top of `theirs`, which is `after`, made on top of `before`? Notes in `r` what rebasing has to do. `theirs` NULL = the version has no
 * transaction. CONFLICT (kind RetryableCommitConflict), CONFLICT_FINAL (IncompatibleTransaction). */
pennon_status conflict_check(struct rebase *r, struct snapshot *before, struct snapshot *after, const struct transaction *theirs,
                             pennon_error *err) CHECKED;
/* Do fragments that were written for the schema `then` fit the schema `now`? */
bool fragments_still_fit(const struct fragment_message *f, size_t n, const struct schema *then, const struct schema *now);
/* Same lists of data files; sizes count only where both are known. */
bool same_files(const struct fragment_message *a, const struct fragment_message *b);
/* Does another file of `after` hold the field, or something below it, than in `before`? */
bool field_moved(const struct schema *s, int32_t id, const struct fragment_message *before, const struct fragment_message *after);
/* A conflict of the kind RetryableCommitConflict with the version. */
pennon_status conflict_retryable(const struct transaction *mine, uint32_t theirs, uint64_t version, pennon_error *err);

/* ---- checks that need no other version (validate.c) ---- */

/* INVALID_ARGUMENT (what is wrong in itself or with the table that was read), NOT_SUPPORTED. `read` NULL = there is no table. */
pennon_status transaction_validate(const struct transaction *t, const struct snapshot *read, pennon_error *err) CHECKED;
/* Writer flags that are not known here: NOT_SUPPORTED names them. */
pennon_status commit_check_writer_flags(const struct snapshot *current, pennon_error *err) CHECKED;

/* ---- the new manifest (manifest_build.c and its neighbours) ---- */

/* One manifest being put together. Everything that `out` points to lives in the arena, in `current`, in `source` or in the transaction. */
struct building {
    const struct call *call;
    const struct transaction_options *options;
    const struct transaction *t;
    struct snapshot *current; /* borrowed; NULL = a new table */
    struct snapshot *source;  /* borrowed: what fragments and indices are carried from; `current`, or the version to restore */
    uint64_t target;
    bool stable;                   /* the table has stable row ids */
    uint32_t version;              /* STORAGE_ of new files */
    uint64_t next_fragment;        /* id of the next new fragment */
    struct fragment_message *list; /* of the new version, in the arena */
    size_t n, cap;
    bool carries_bytes;        /* the source's fragments go over as bytes; `list` has the new ones alone */
    size_t n_sorted;           /* of these, carried ones in the order of their ids */
    struct schema *schema;     /* of the new version; borrowed */
    struct schema *new_schema; /* owned; NULL = the schema did not change */
    struct manifest_message out;
    struct bytes index_section; /* what is carried byte for byte; not used once `indices` is set */
    struct index_section_message indices;
    bool has_indices;     /* `indices` is set */
    bool indices_changed; /* else the bytes are carried as they are */
    struct arena arena;
};

/* Bytes of the manifest of version `target` on top of `current` (NULL = a new table). `txn_name` "" = no file is written, `txn` = the bytes for the
 * section. INVALID_ARGUMENT, NOT_SUPPORTED, CONFLICT (kind CommitConflict: a fragment to rewrite is gone), and what reading gives. */
pennon_status manifest_build(const struct call *c, const struct transaction *t, const struct transaction_options *o,
                             struct snapshot *current, uint64_t target, const char *txn_name, struct bytes txn, struct block **out,
                             pennon_error *err) CHECKED;
/* A fragment of the new version by its id, or NULL. */
struct fragment_message *building_find(const struct building *b, uint64_t id);
/* Moves the bytes of a buf into the arena. */
pennon_status building_keep(struct building *b, struct buf *from, struct bytes *out, pennon_error *err) CHECKED;

/* Row ids and row versions (manifest_rows.c); only with stable row ids. */
pennon_status rows_number(struct building *b, struct fragment_message *f, pennon_error *err) CHECKED;
pennon_status rows_stamp_created(struct building *b, struct fragment_message *f, pennon_error *err) CHECKED;
pennon_status rows_stamp_updated(struct building *b, struct fragment_message *f, pennon_error *err) CHECKED;
/* The new fragments of an Update: created_at of the places that their rows come from. Row ids from `fresh` on were given out just now. */
pennon_status rows_inherit(struct building *b, struct fragment_message *list, size_t n, uint64_t fresh, pennon_error *err) CHECKED;
/* last_updated of the rows that an Update rewrote in place. */
pennon_status rows_stamp_offsets(struct building *b, pennon_error *err) CHECKED;

/* The list of indices (manifest_indices.c). */
pennon_status indices_load(struct building *b, pennon_error *err) CHECKED; /* decodes on first use */
/* Drops indices of fields that are gone, empty ones of several segments and empty vector indices. */
pennon_status indices_retain(struct building *b, pennon_error *err) CHECKED;
pennon_status indices_create(struct building *b, pennon_error *err) CHECKED;
pennon_status indices_rewrite(struct building *b, const struct rewrite_message *r, pennon_error *err) CHECKED;
/* Takes the fragments out of the bitmap of every index over one of the fields. */
pennon_status indices_prune(struct building *b, const uint32_t *fields, size_t n_fields, const struct id_list *fragments,
                            pennon_error *err) CHECKED;
/* Takes fragments out of the bitmaps of indices whose columns another file holds than in `current`. */
pennon_status indices_prune_moved(struct building *b, pennon_error *err) CHECKED;
/* A clone: where index files lie. */
pennon_status indices_rebase(struct building *b, bool shallow, uint32_t base, pennon_error *err) CHECKED;
/* An Update that moved whole rows: new fragments follow where all the old ones were indexed. */
pennon_status indices_follow(struct building *b, const struct update_message *u, const struct fragment_message *new_fragments,
                             size_t n, pennon_error *err) CHECKED;
pennon_status indices_merge_generations(struct building *b, const struct merged_generation_message *list, size_t n,
                                        pennon_error *err) CHECKED;
/* The entry of the MemWAL index for a version: generations are merged into those of `old` (NULL = none), the higher one of each shard stays. */
pennon_status index_wal_entry(struct mem *m, struct arena *a, const struct index_metadata_message *old,
                              const struct merged_generation_message *list, size_t n, uint64_t version,
                              struct index_metadata_message *out, pennon_error *err) CHECKED;
/* A new random uuid and the time of now for an entry. */
pennon_status index_entry_renew(struct arena *a, struct index_metadata_message *entry, pennon_error *err) CHECKED;
/* The bytes of a set as the bitmap of an entry, in the arena. */
pennon_status index_set_bitmap(struct arena *a, const struct id_set *set, struct index_metadata_message *entry,
                               pennon_error *err) CHECKED;
pennon_status index_section_encode(struct building *b, struct bytes *out, pennon_error *err) CHECKED;

/* ---- the maps (manifest_config.c) ---- */

pennon_status config_apply(struct building *b, const struct update_config_message *c, pennon_error *err) CHECKED;
pennon_status config_upsert(struct building *b, const struct map_entry *set, size_t n, pennon_error *err) CHECKED;

/* ---- deletion files (deletion_write.c) ---- */

/* Writes the rows as the deletion file of a fragment and fills `out`; `path` (in c->mem) gets its place, also on failure where one was begun. An array up to 5000 rows,
 * else a bitmap, as official chooses for new ones. */
pennon_status deletion_file_write(const struct call *c, const struct table_location *at, uint64_t fragment, uint64_t read_version,
                                  const struct id_set *rows, struct deletion_file_message *out, char **path,
                                  pennon_error *err) CHECKED;

#endif
