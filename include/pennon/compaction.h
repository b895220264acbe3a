/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Compaction: many small fragments become few large ones, and rows that were deleted leave the files.
 *
 *     pennon_compaction_metrics m = {.struct_size = sizeof m};
 *     st = pennon_dataset_compact(ds, NULL, &m, &err);
 *     printf("%llu fragments became %llu\n", (unsigned long long)m.fragments_removed, (unsigned long long)m.fragments_added);
 *
 * Neighbours that are small, or that have many deleted rows, are written anew in their order, behind fragments that are left alone; row ids, where they are
 * stable, and the versions that rows were made and changed at stay with the rows. Old versions keep the old files, until cleanup removes them.
 *
 * In parts, for engines that spread the work: a plan says which fragments belong together, each of its tasks is executed anywhere and gives a result, and the
 * results are committed at one place, all at once or some at a time. Plan, tasks and results are texts in JSON, the ones of pylance's lance.optimize: what one
 * library plans the other may execute and commit.
 *
 * Whoever deletes or updates rows of the fragments meanwhile wins: the commit of the compaction is then a CONFLICT, and nothing has changed. Appends do
 * not disturb it.
 * The calls may be made by several threads at once, on one handle too. */
#ifndef PENNON_COMPACTION_H
#define PENNON_COMPACTION_H

#include "pennon/write.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the rows get into the new files. */
enum {
    PENNON_COMPACT_AUTO = 0,             /* as reencode */
    PENNON_COMPACT_REENCODE = 1,         /* rows are read and written */
    PENNON_COMPACT_TRY_BINARY_COPY = 2,  /* pages are copied as they are where that can be, else rows are read and written */
    PENNON_COMPACT_FORCE_BINARY_COPY = 3 /* the same, else NOT_SUPPORTED */
};

/* Members that the caller gives; the others come from the dataset's config (keys "lance.compaction." and the name of the member), or are the defaults below. */
enum {
    PENNON_COMPACT_SET_TARGET_ROWS = 1u << 0,
    PENNON_COMPACT_SET_MAX_ROWS_PER_GROUP = 1u << 1,
    PENNON_COMPACT_SET_MAX_BYTES = 1u << 2,
    PENNON_COMPACT_SET_MATERIALIZE_DELETIONS = 1u << 3,
    PENNON_COMPACT_SET_THRESHOLD = 1u << 4,
    PENNON_COMPACT_SET_NUM_THREADS = 1u << 5,
    PENNON_COMPACT_SET_BATCH_SIZE = 1u << 6,
    PENNON_COMPACT_SET_IO_BUFFER_SIZE = 1u << 7,
    PENNON_COMPACT_SET_DEFER_INDEX_REMAP = 1u << 8,
    PENNON_COMPACT_SET_MODE = 1u << 9,
    PENNON_COMPACT_SET_COPY_BYTES = 1u << 10,
    PENNON_COMPACT_SET_MAX_SOURCE_FRAGMENTS = 1u << 11
};

typedef struct pennon_compaction_options {
    size_t struct_size;
    const pennon_call
        *call;    /* progress: rows written, of those that are to be; called by one thread at a time, not always the same */
    uint32_t set; /* PENNON_COMPACT_SET_ bits */
    int32_t compaction_mode; /* PENNON_COMPACT_; AUTO */
    /* Fragments with fewer rows, deleted ones too, join their neighbours; new ones get so many rows at most. 1048576 */
    uint64_t target_rows_per_fragment;
    uint64_t max_rows_per_group; /* 1024; has no meaning in the formats that are written here, and is carried in plans */
    uint64_t max_bytes_per_file; /* PENNON_NONE = 90 GiB */
    bool materialize_deletions;  /* true: fragments of which more than the threshold is deleted are written anew, also alone */
    float materialize_deletions_threshold; /* 0.1; of 1 and more: never */
    uint64_t num_threads; /* tasks side by side, as far as threads and memory of the call allow; PENNON_NONE = as many as these */
    uint64_t batch_size;  /* rows that are read at once at most; PENNON_NONE = 8192 */
    uint64_t io_buffer_size; /* carried in plans; the memory of the call bounds what is read ahead. PENNON_NONE */
    bool defer_index_remap; /* false; true: indices stay as they are, and a list of the rows that moved is kept for their readers */
    uint64_t binary_copy_read_batch_bytes; /* that are copied at once; 16 MiB */
    uint64_t max_source_fragments;         /* the plan ends before the task that would pass it; PENNON_NONE */
    bool
        allow_loss; /* version 2.0: structs that are null for a column that is missing become structs of nulls, else INVALID_ARGUMENT */
    const pennon_pairs *properties; /* of the transaction; NULL = none */
    bool skip_auto_cleanup;         /* whatever the dataset's config says */
    uint32_t max_retries;           /* 20: attempts after the first of each commit, when others commit too */
} pennon_compaction_options;

PENNON_EXPORT void pennon_compaction_options_init(pennon_compaction_options *options);

/* The caller sets struct_size. */
typedef struct pennon_compaction_metrics {
    size_t struct_size;
    uint64_t fragments_removed, fragments_added;
    uint64_t files_removed, files_added; /* data files and deletion files */
    uint64_t version;                    /* of the dataset afterwards */
} pennon_compaction_metrics;

/* Plan, execute all tasks, commit. Where there is nothing to do no version is made, and all counts are 0; else two are, the first of which reserves
 * fragment ids. `metrics` may be NULL; it is filled on success.
 * INVALID_ARGUMENT: a value in the config that is none (it names the key), a mode that is none. NOT_SUPPORTED: a dataset of storage version 0.1, an index over
 * rows that would move (it names the index; with defer_index_remap it is no hindrance), a forced binary copy that cannot be. CONFLICT (kind
 * RetryableCommitConflict): others changed rows of the fragments. CONFLICT_FINAL: the dataset became another one meanwhile. COMMIT_UNKNOWN: the version may be
 * there. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_compact(pennon_dataset *ds, const pennon_compaction_options *options,
                                                                  pennon_compaction_metrics *metrics, pennon_error *err);

/* The plan for the version of the handle: {"tasks": [{"fragments": [...]}], "read_version": n, "options": {...}}. A task for execution is
 * {"task": one of the tasks, "read_version": n, "options": {...}}. *out: free with pennon_string_free. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_compact_plan_json(pennon_dataset *ds,
                                                                            const pennon_compaction_options *options, char **out,
                                                                            pennon_error *err);

/* The same plan as a table, a row for each task: struct<task: uint64, fragments: list<item: uint64>, rows: uint64, deleted_rows: uint64, files: uint64,
 * bytes: uint64>; rows are those that are not deleted, files and bytes those of the data files, as far as the version knows them. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_compact_plan(pennon_dataset *ds, const pennon_compaction_options *options,
                                                                       struct ArrowArrayStream *out, pennon_error *err);

/* Write the new files of a task, read from the version that it was planned for. *out is the result: {"metrics": {...}, "new_fragments": [...], "read_version": n,
 * "original_fragments": [...], "row_addrs": null or [...]}; free with pennon_string_free. The files belong to nobody until a result with them is
 * committed. Of `options` (may be NULL) the call and allow_loss count, the rest is in the task.
 * INVALID_ARGUMENT: no such text, or the version has no such fragments. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_compact_execute_json(pennon_dataset *ds, const char *task_json,
                                                                       const pennon_compaction_options *options, char **out,
                                                                       pennon_error *err);

/* Commit results, an array of them as JSON. The handle moves to the version that is made. Of `options` (may be NULL) the call, defer_index_remap, properties and
 * skip_auto_cleanup count. After a CONFLICT the new files of the results are removed; after COMMIT_UNKNOWN they stay.
 * Errors as of pennon_dataset_compact. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_dataset_compact_commit_json(pennon_dataset *ds, const char *results_json,
                                                                              const pennon_compaction_options *options,
                                                                              pennon_compaction_metrics *metrics,
                                                                              pennon_error *err);

/* Which text it is. */
enum { PENNON_COMPACT_TEXT_PLAN = 0, PENNON_COMPACT_TEXT_TASK = 1, PENNON_COMPACT_TEXT_RESULT = 2 };

/* Check a plan, a task or a result, and give it in the form that the calls above give: no spaces, keys in their order, no others.
 * *out: free with pennon_string_free. INVALID_ARGUMENT: it is none. */
PENNON_EXPORT PENNON_CHECKED pennon_status pennon_compact_text(int32_t kind, const char *json, char **out, pennon_error *err);

#ifdef __cplusplus
}
#endif
#endif
