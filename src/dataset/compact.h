/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Compaction inside the library: settings, plans, tasks, results, and the parts that make them.
 *
 *   settings -> plan: tasks of fragments -> execute: a result for each task -> commit
 *
 * Each of them has a form in JSON (compact_json.c), in which they go to other processes. */
#ifndef DATASET_COMPACT_H
#define DATASET_COMPACT_H

#include "dataset/transaction_handle.h"
#include "pennon/compaction.h"
#include "table/row_carry.h"

/* ---- settings (compact_settings.c) ---- */

/* The options of a plan, all of them settled. Numbers that are not given are PENNON_NONE. */
struct compact_settings {
    uint64_t target_rows;
    uint64_t rows_per_group;
    uint64_t max_bytes;
    bool materialize;
    float threshold;
    uint64_t threads;
    uint64_t batch_rows;
    uint64_t io_buffer;
    bool defer;
    int32_t mode;                        /* PENNON_COMPACT_ */
    bool binary_copy, binary_copy_force; /* what the mode was called before it had a name */
    uint64_t copy_bytes;
    uint64_t max_sources;
};

void compact_settings_init(struct compact_settings *s);
/* Defaults, over them the config of the table, over it what the caller set. INVALID_ARGUMENT names the key or the member. */
pennon_status compact_settings_make(const struct call *c, const struct snapshot *s, const pennon_compaction_options *o,
                                    struct compact_settings *out, pennon_error *err) CHECKED;
/* A mode that is none of PENNON_COMPACT_AUTO. */
int32_t compact_mode(const struct compact_settings *s);
/* Config's and pylance's name of a mode, in any case; INVALID_ARGUMENT. */
pennon_status compact_mode_parse(struct bytes text, int32_t *out, pennon_error *err) CHECKED;

/* ---- plans (compact_plan.c) ---- */

struct compact_task {
    struct fragment_message *fragments;
    size_t n;
};

struct compact_plan {
    struct compact_settings settings;
    uint64_t read_version;
    struct compact_task *tasks;
    size_t n;
};

/* A fragment as the planner sees it. */
struct plan_fragment {
    uint64_t physical, deleted;
    uint64_t covered; /* a number for the set of index segments that cover it: equal sets have equal numbers */
};
/* Fragments [first, first + n) that become one task. */
struct plan_bin {
    size_t first, n;
};
/* The tasks of fragments in the order of their ids; a function of its arguments alone. Bins are in c->mem, free with mem_free. */
pennon_status compact_bins(struct mem *m, const struct plan_fragment *f, size_t n, const struct compact_settings *s,
                           struct plan_bin **out, size_t *n_bins, pennon_error *err) CHECKED;
/* Messages are those of the snapshot, which has to outlive the plan; the rest is in the arena. */
pennon_status compact_plan_make(const struct call *c, struct snapshot *s, struct file_cache *files,
                                const struct compact_settings *settings, struct arena *a, struct compact_plan *out,
                                pennon_error *err) CHECKED;

/* ---- results (compact_execute.c) ---- */

struct compact_counts {
    uint64_t fragments_removed, fragments_added, files_removed, files_added;
};

struct compact_result {
    struct compact_counts counts;
    struct fragment_message *old_fragments, *new_fragments;
    size_t n_old, n_new;
    uint64_t read_version;
    bool has_addresses;
    struct bytes addresses; /* Roaring treemap of the live rows of the old fragments; without stable row ids */
};

/* Rows written by tasks that run side by side; the callback of the call gets the sum. */
struct compact_progress {
    const struct call *call;
    uint64_t total;
    _Atomic(uint64_t) done;
    atomic_flag busy;
};

/* Write the new files of a task, whose fragments are those of `s`. What the result points to is in the arena, and in `s`. On failure no file is left.
 * `progress` may be NULL. INVALID_ARGUMENT: a fragment that `s` has not. */
pennon_status compact_execute(struct call *c, struct snapshot *s, struct file_cache *files, const struct compact_settings *settings,
                              const struct compact_task *task, bool allow_loss, struct compact_progress *progress, struct arena *a,
                              struct compact_result *out, pennon_error *err) CHECKED;
/* The same by copying pages (compact_copy.c): `out` has the fragments that were written, also on failure. *why = what stands in the way, then nothing is
 * written; NULL = it was done. */
pennon_status compact_copy(struct call *c, struct snapshot *s, struct file_cache *files, const struct compact_settings *settings,
                           const struct fragment *const *list, size_t n, struct arena *a, struct append_message *out,
                           const char **why, pennon_error *err) CHECKED;
/* Best effort: the files of results that nobody commits. */
void compact_remove_files(const struct call *c, struct snapshot *s, const struct compact_result *results, size_t n);
/* NOT_SUPPORTED: what cannot be compacted here. */
pennon_status compact_check(const struct snapshot *s, pennon_error *err) CHECKED;

/* ---- where rows went (compact_moves.c) ---- */

/* From the addresses of rows before to those behind a compaction without stable row ids: what an index of addresses needs to be carried over. */
struct row_moves;
/* New fragments have their ids. CORRUPT: addresses that no treemap is, or that do not fit the fragments. Free with row_moves_free. */
pennon_status row_moves_new(struct mem *m, const struct compact_result *results, size_t n, struct row_moves **out,
                            pennon_error *err) CHECKED;
void row_moves_free(struct row_moves *r); /* NULL is allowed */
/* The new address of a row: `address` itself where its fragment was left alone, ADDRESS_NONE where the row is gone. O(log runs). */
uint64_t row_moves_find(const struct row_moves *r, uint64_t address);
/* Live rows in a treemap of addresses. CORRUPT. */
pennon_status row_addresses_count(struct mem *m, struct bytes treemap, uint64_t *out, pennon_error *err) CHECKED;

/* Carry an index over: write the files of a new one for `entry`, whose rows moved as `moves` says, and fill `out` (old_id, new_id, details, files). With
 * *dropped set the index has no rows left, and `out` is left out of the commit. An engine of indices comes with such a function; without one
 * a compaction under an index has to be deferred. */
typedef pennon_status (*index_remap_fn)(void *ctx, const struct call *c, struct snapshot *s,
                                        const struct index_metadata_message *entry, const struct row_moves *moves, struct arena *a,
                                        struct rewritten_index_message *out, bool *dropped, pennon_error *err);
struct index_remapper {
    index_remap_fn remap; /* NULL = there is none */
    void *ctx;
};

/* ---- commit (compact_commit.c) ---- */

struct compact_commit {
    bool defer;
    const pennon_pairs *properties;
    bool skip_auto_cleanup;
    uint32_t max_retries;
    bool own_files; /* of results that this call made: nobody else can have committed them */
    struct index_remapper remapper;
};

/* NOT_SUPPORTED names an index over one of the fragments that could not follow the rows. */
pennon_status compact_check_indices(const struct call *c, struct snapshot *s, const struct compact_commit *o,
                                    const struct compact_result *results, size_t n, pennon_error *err) CHECKED;
/* Reserve ids for the new fragments, then commit, on top of `s` or later. Results are brought into the order of their first fragments. Their files are removed
 * after a failure that is sure: own ones always then, others after a conflict where no version refers to them. */
pennon_status compact_commit(const struct call *c, struct snapshot *s, struct compact_result *results, size_t n,
                             const struct compact_commit *o, struct snapshot **out, pennon_error *err) CHECKED;

/* ---- texts (compact_json.c) ---- */

pennon_status compact_plan_to_json(const struct compact_plan *p, struct buf *out, pennon_error *err) CHECKED;
pennon_status compact_task_to_json(const struct compact_plan *p, size_t i, struct buf *out, pennon_error *err) CHECKED;
pennon_status compact_result_to_json(const struct compact_result *r, struct buf *out, pennon_error *err) CHECKED;
/* Texts that anybody may have written; what is read is in the arena. INVALID_ARGUMENT says where. Keys that are not known are passed over in all but
 * fragments, as newer releases add some. */
pennon_status compact_plan_from_json(struct bytes text, struct arena *a, struct compact_plan *out, pennon_error *err) CHECKED;
/* A plan of one task. */
pennon_status compact_task_from_json(struct bytes text, struct arena *a, struct compact_plan *out, pennon_error *err) CHECKED;
pennon_status compact_result_from_json(struct bytes text, struct arena *a, struct compact_result *out, pennon_error *err) CHECKED;
/* An array of results. */
pennon_status compact_results_from_json(struct bytes text, struct arena *a, struct compact_result **out, size_t *n,
                                        pennon_error *err) CHECKED;

#endif
