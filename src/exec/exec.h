/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* What src/exec offers: scans and takes over a snapshot.
 *
 * A column plan says what to read and how the result looks. A fragment is read by physical row ranges; batches are the unit of work and of
 * parallelism. Source: spec table-format 9, 13, 19, expressions 9-11. */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "file/file.h"
#include "table/table.h"

/* ---- opened data files, shared by the reads of a dataset ---- */

struct file_cache; /* reference counted, thread safe; keeps the most recently used readers */
struct file_cache *file_cache_new(struct mem *m, size_t max_files, pennon_error *err) CHECKED;
struct file_cache *file_cache_retain(struct file_cache *fc);
void file_cache_release(struct file_cache *fc);
/* A reader of the data file, retained. The footer's version must fit the manifest's. */
pennon_status file_cache_get(const struct call *c, struct file_cache *fc, struct snapshot *s, const struct data_file *f,
                             struct file_reader **out, pennon_error *err) CHECKED;
/* file_length_fn for fragment_physical_rows; ctx = the cache. */
pennon_status file_cache_length(void *ctx, const struct call *c, struct snapshot *s, const struct data_file *f, uint64_t *rows,
                                pennon_error *err);

/* ---- columns ---- */

enum system_column {
    SYSTEM_NONE,
    SYSTEM_ROW_ID,
    SYSTEM_ROW_ADDRESS,
    SYSTEM_ROW_OFFSET,
    SYSTEM_CREATED_AT,
    SYSTEM_LAST_UPDATED_AT,
    SYSTEM_PLACE, /* place of the fragment in the snapshot << 32 | physical offset; has no name that may be asked for */
    SYSTEM_COUNT
};
/* SYSTEM_NONE when the name is none of them. */
enum system_column system_column_of(const char *name);
const char *system_column_name(enum system_column s);

struct output_column {
    const char *name;
    enum system_column system;
    /* Path of child indices from the read schema's top: depth 1 = a whole top-level column. */
    uint32_t path[64];
    uint32_t depth;
    bool as_stored; /* JSON stays JSONB */
};

struct column_plan {
    struct mem *mem;
    struct arena arena;
    struct schema *read;           /* what is read, projected from the table's schema; may have no fields */
    struct ArrowSchema read_arrow; /* SCHEMA_VIEW_FILE of it */
    struct ArrowSchema arrow;      /* of the result */
    struct output_column *columns;
    size_t n_columns;
    enum blob_handling blobs;
    bool uses[SYSTEM_COUNT];
    bool plain;        /* the read columns are the result, in this order, nothing to convert */
    bool with_deleted; /* deleted rows are given too, their _rowid is null */
    bool map;          /* arrays may point into mapped files */
};
struct column_request {
    const char *const *columns;
    size_t n;
    bool all;                 /* instead of `columns` */
    const bool *as_stored;    /* per column: JSON as JSONB; NULL = as text everywhere */
    bool row_id, row_address; /* appended, unless they are among the columns */
    bool place;               /* SYSTEM_PLACE, appended as the last */
    bool with_deleted;
    bool map;
    bool allow_doubled;
    enum blob_handling blobs;
};
/* INVALID_ARGUMENT: unknown (with the nearest name), doubled. */
pennon_status column_plan_make(const struct snapshot *s, const struct column_request *r, struct mem *m, struct column_plan **out,
                               pennon_error *err) CHECKED;
/* `columns` NULL = all. INVALID_ARGUMENT: unknown (with the nearest name), doubled. */
pennon_status column_plan_new(const struct snapshot *s, const char *const *columns, size_t n, bool all, bool with_row_id,
                              bool with_row_address, enum blob_handling blobs, bool allow_doubled, struct mem *m,
                              struct column_plan **out, pennon_error *err) CHECKED;
void column_plan_free(struct column_plan *p);
/* Are bytes of blobs read, which lie elsewhere? */
bool column_plan_reads_blobs(const struct column_plan *p);

/* Rows of one fragment, by sorted physical ranges that do not overlap; deleted ones are left out. `out` has the plan's Arrow schema. `first_live` is
 * the number of live rows in the fragments before (for _rowoffset). */
pennon_status fragment_read(const struct call *c, struct file_cache *fc, struct snapshot *s, const struct fragment *f,
                            const struct column_plan *plan, const struct row_range *rows, size_t n, uint64_t first_live,
                            struct ArrowArray *out, pennon_error *err) CHECKED;
/* The same where the caller knows that none of the rows is deleted. */
pennon_status fragment_read_live(const struct call *c, struct file_cache *fc, struct snapshot *s, const struct fragment *f,
                                 const struct column_plan *plan, const struct row_range *rows, size_t n, uint64_t first_live,
                                 struct ArrowArray *out, pennon_error *err) CHECKED;
/* The data file that serves the field `id`, which owns a column, of a fragment that is loaded; NULL = none, all rows are null. */
const struct data_file *fragment_file_of(const struct fragment *f, int32_t id);
/* JSONB -> text, a new array in `m`. */
pennon_status json_array_text(struct mem *m, const struct ArrowArray *in, struct ArrowArray *out, pennon_error *err) CHECKED;

/* ---- scan ---- */

struct scan_plan;     /* exec/plan.h */
struct scan_counters; /* exec/plan.h */
struct scan_spec {
    uint64_t limit; /* UINT64_MAX = none */
    uint64_t offset;
    uint64_t batch_rows;  /* at most */
    uint64_t batch_bytes; /* fewer rows are read at once where they are larger than this, about; UINT64_MAX = never */
    uint32_t readahead;
    bool unordered;                          /* what is read first is given first; else the order of the fragments */
    const struct fragment *const *fragments; /* copied */
    size_t n_fragments;
    struct scan_counters *counters; /* borrowed, must outlive the stream; NULL = nobody counts */
};
/* A stream over the fragments. Takes `plan`, also on failure. Retains the snapshot and the cache; copies the call. */
pennon_status scan_open(const struct call *c, struct snapshot *s, struct file_cache *fc, struct scan_plan *plan,
                        const struct scan_spec *spec, struct ArrowArrayStream *out, pennon_error *err) CHECKED;

/* ---- take ---- */

/* Places (place of the fragment in the snapshot << 32 | physical offset) in request order, duplicates allowed; ADDRESS_NONE and rows that do not
 * exist are left out. `out` is one batch. */
pennon_status take_places(const struct call *c, struct snapshot *s, struct file_cache *fc, const struct column_plan *plan,
                          const uint64_t *places, size_t n, struct ArrowArray *out, pennon_error *err) CHECKED;
/* Addresses -> places, ADDRESS_NONE where there is no such fragment. `places` may be `addresses`. */
void resolve_addresses(const struct snapshot *s, const uint64_t *addresses, size_t n, uint64_t *places);
/* Logical offsets -> places. INVALID_ARGUMENT names an offset past the end. */
pennon_status resolve_offsets(const struct call *c, struct snapshot *s, struct file_cache *fc, const uint64_t *offsets, size_t n,
                              uint64_t *places, pennon_error *err) CHECKED;
/* Live rows of the snapshot. */
pennon_status count_live_rows(const struct call *c, struct snapshot *s, struct file_cache *fc, uint64_t *rows,
                              pennon_error *err) CHECKED;

#endif
